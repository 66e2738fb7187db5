//! Sends a file of events: one task a space, calls in the order of the file.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tollgate_client::{ApiKey, Client, Outcome};
use tollgate_domain::identity::EventId;
use tollgate_domain::ports::Clock;
use tollgate_domain::space::SpaceId;
use tollgate_stores::clock::SystemClock;

use crate::input::{Line, lines};
use crate::output::note;

/// Lines that may wait for one space's task.
const WAITING: usize = 1_000;
/// Bad lines that are told; the rest is counted.
const TOLD_LINES: usize = 20;

/// Whose key sends which line.
pub(crate) enum KeyRing {
    /// One key for every line; lines must not name a space, since nothing could check it against the key.
    One(ApiKey),
    /// One key a space; every line must name its space.
    BySpace(BTreeMap<SpaceId, ApiKey>),
}

/// How many lines ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SendCounts {
    /// Sent.
    pub(crate) lines: u64,
    /// Durably queued.
    pub(crate) queued: u64,
    /// Refused by the plan's gate.
    pub(crate) quota_exceeded: u64,
    /// Refused for what they are.
    pub(crate) refused: u64,
    /// Not sent, or not known to be queued: send the file again.
    pub(crate) unavailable: u64,
}

/// Told after each call that needs no repeat: the space and how many of its lines it carried.
pub(crate) type Progress = Arc<dyn Fn(Option<&SpaceId>, usize) + Send + Sync>;

/// Checks every line and counts them a space; tells what is wrong, if anything is, before anything is sent.
pub(crate) fn check(path: &Path, keys: &KeyRing) -> anyhow::Result<BTreeMap<Option<SpaceId>, u64>> {
    let mut counts = BTreeMap::new();
    let mut bad = 0;
    for line in lines(path, SystemClock.now())? {
        match line? {
            Ok(line) => {
                keys.key_for(&line)?;
                *counts.entry(line.space).or_default() += 1;
            }
            Err(line) => {
                bad += 1;
                if bad <= TOLD_LINES {
                    line.problems.iter().for_each(|problem| note(format!("line {}: {problem}", line.number)));
                }
            }
        }
    }
    if bad > 0 {
        bail!("{bad} line(s) of {} are not events: mend them; nothing was sent", path.display());
    }
    Ok(counts)
}

/// Sends the lines of a checked file, from each space's `skip`-th line on.
pub(crate) async fn send(
    path: &Path,
    url: &str,
    keys: &KeyRing,
    batch: usize,
    skip: &BTreeMap<SpaceId, u64>,
    progress: Progress,
) -> anyhow::Result<SendCounts> {
    let mut senders: BTreeMap<Option<SpaceId>, mpsc::Sender<Line>> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    let mut seen: BTreeMap<SpaceId, u64> = BTreeMap::new();
    for line in lines(path, SystemClock.now())? {
        // Checked before: only a file that changed in between can fail here, and what was sent stays harmless.
        let line = line?.map_err(|bad| anyhow::anyhow!("line {} changed after it was checked", bad.number))?;
        if let Some(space) = &line.space {
            let seen = seen.entry(space.clone()).or_default();
            *seen += 1;
            if *seen <= skip.get(space).copied().unwrap_or_default() {
                continue;
            }
        }
        if !senders.contains_key(&line.space) {
            let client = Client::builder(url, keys.key_for(&line)?).build()?;
            let (sender, receiver) = mpsc::channel(WAITING);
            tasks.spawn(send_space(client, line.space.clone(), receiver, batch, Arc::clone(&progress)));
            senders.insert(line.space.clone(), sender);
        }
        if let Some(sender) = senders.get(&line.space)
            && sender.send(line).await.is_err()
        {
            break; // the task failed; its error is told below
        }
    }
    drop(senders);
    let mut total = SendCounts::default();
    while let Some(counts) = tasks.join_next().await {
        total.add(counts.context("a sender failed")?);
    }
    Ok(total)
}

/// Sends one space's lines, call after call, so that they reach the queue in the order of the file. After a call that
/// found no answer nothing more is sent: what is known to be queued stays a beginning of the file.
async fn send_space(
    client: Client,
    space: Option<SpaceId>,
    mut lines: mpsc::Receiver<Line>,
    batch: usize,
    progress: Progress,
) -> SendCounts {
    let mut counts = SendCounts::default();
    let mut call = NextCall::default();
    while let Some(line) = lines.recv().await {
        if counts.unavailable > 0 {
            counts.count_unsent(1);
            continue;
        }
        // A repeat of an id goes in a call of its own: within one call the front door folds or refuses it, and the
        // ledger would never hear of a conflict.
        if call.lines.len() >= batch || call.ids.contains(&line.id) {
            call.send(&client, space.as_ref(), &mut counts, &progress).await;
        }
        call.ids.insert(line.id.clone());
        call.lines.push(line);
    }
    call.send(&client, space.as_ref(), &mut counts, &progress).await;
    counts
}

/// The call that is being filled.
#[derive(Default)]
struct NextCall {
    ids: HashSet<EventId>,
    lines: Vec<Line>,
}

impl NextCall {
    async fn send(&mut self, client: &Client, space: Option<&SpaceId>, counts: &mut SendCounts, progress: &Progress) {
        self.ids.clear();
        let mut lines = std::mem::take(&mut self.lines);
        if counts.unavailable > 0 {
            counts.count_unsent(lines.len());
            return;
        }
        let total = lines.len();
        // A call is taken whole or not at all: those that only another line held back go again without it.
        while !lines.is_empty() {
            let events: Vec<Value> = lines.iter().map(|line| line.event.clone()).collect();
            let outcomes = client.record_json_batch(&events).await;
            let (held_back, settled): (Vec<_>, Vec<_>) =
                lines.into_iter().zip(outcomes).partition(|(_, outcome)| matches!(outcome, Outcome::HeldBack));
            let nobody_is_to_blame = settled.is_empty();
            for (line, outcome) in settled.iter().chain(held_back.iter().filter(|_| nobody_is_to_blame)) {
                counts.count(line.number, outcome);
            }
            lines = held_back.into_iter().filter(|_| !nobody_is_to_blame).map(|(line, _)| line).collect();
        }
        if counts.unavailable == 0 {
            progress(space, total);
        }
    }
}

impl SendCounts {
    fn count(&mut self, number: usize, outcome: &Outcome) {
        self.lines += 1;
        let (place, told) = match outcome {
            Outcome::Queued { .. } => (&mut self.queued, None),
            Outcome::QuotaExceeded { quota } => {
                let until = quota.resets_at.as_deref().map(|at| format!(" until {at}")).unwrap_or_default();
                (&mut self.quota_exceeded, Some(format!("the plan {} takes no more events{until}", quota.plan)))
            }
            Outcome::Unavailable { reason, .. } => (&mut self.unavailable, Some(reason.clone())),
            Outcome::Invalid { problems } | Outcome::Conflict { problems } => {
                let told = problems.iter().map(|p| format!("{}: {}; {}", p.field, p.problem, p.mend));
                (&mut self.refused, Some(told.collect::<Vec<_>>().join("; ")))
            }
            Outcome::Unauthorized { code, detail } => (&mut self.refused, Some(format!("{code}: {detail}"))),
            Outcome::Refused { status, detail, .. } => (&mut self.refused, Some(format!("status {status}: {detail}"))),
            _ => (&mut self.refused, Some("not taken".to_owned())),
        };
        *place += 1;
        if let Some(told) = told.filter(|_| *place <= TOLD_LINES as u64) {
            note(format!("line {number}: {told}"));
        }
    }

    /// Lines behind a call that found no answer.
    fn count_unsent(&mut self, lines: usize) {
        self.lines += lines as u64;
        self.unavailable += lines as u64;
    }

    fn add(&mut self, other: Self) {
        self.lines += other.lines;
        self.queued += other.queued;
        self.quota_exceeded += other.quota_exceeded;
        self.refused += other.refused;
        self.unavailable += other.unavailable;
    }
}

impl KeyRing {
    /// The keys in a file: one JSON object, `{"space": "tollgate_sk_..."}`.
    pub(crate) fn from_file(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read(path).with_context(|| format!("the key file {} cannot be read", path.display()))?;
        let named: BTreeMap<SpaceId, String> = serde_json::from_slice(&text).map_err(|_| {
            anyhow::anyhow!("the key file {} is not one JSON object of space names and keys", path.display())
        })?;
        let keys = named.into_iter().map(|(space, key)| match ApiKey::parse(&key) {
            Ok(key) => Ok((space, key)),
            Err(problem) => bail!("the key file {}: the key of {space} {problem}", path.display()),
        });
        keys.collect::<anyhow::Result<_>>().map(Self::BySpace)
    }

    fn key_for(&self, line: &Line) -> anyhow::Result<&ApiKey> {
        match (self, &line.space) {
            (Self::One(key), None) => Ok(key),
            (Self::One(_), Some(space)) => bail!(
                "a line names the space {space}, and the space comes from the API key alone: \
                 leave `space` out of the lines, or give one key a space with --key-file"
            ),
            (Self::BySpace(keys), Some(space)) => {
                keys.get(space).with_context(|| format!("the key file has no key for the space {space}"))
            }
            (Self::BySpace(_), None) => bail!("a line names no space, so no key of the key file is its own"),
        }
    }
}

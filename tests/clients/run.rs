//! One run: everybody records and waits, then the ledger is read and everybody's answers are held against it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures_util::{StreamExt as _, stream};
use tollgate_client::{Client, Recorded, RetryPolicy, UsageEvent};
use tollgate_domain::envelope::Envelope;
use tollgate_domain::key::{ApiKey, KEY_BYTES, KeyRecord, Scope};
use tollgate_domain::ledger::EventKey;
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::ports::Clock;
use tollgate_domain::space::SpaceId;
use tollgate_stores::clock::SystemClock;

use super::agree::disagreement;
use crate::auditor::{Finding, Kind, audit};
use crate::faults::Relay;
use crate::live::{Engines, FrontDoor, FrontDoorSettings, Program, Queues, WorkerSettings, snapshot};
use crate::sent::{Sent, by_key};
use crate::tenants::Tenants;
use crate::traffic::{Random, Traffic};

/// Clients, each with a connection pool of its own.
const CLIENTS: usize = 8;
/// Events that one client records and waits for at once.
const AT_ONCE: usize = 6;
const WORKERS: usize = 2;
/// Front doors, by what their gates do: with one that only observes, the worker has to reject.
const GATES: [&str; 2] = ["enforce", "observe"];
/// Of 100 answers, how many are lost.
const LOST_PERCENT: usize = 10;
/// Time for one event's end to be known.
const PATIENCE: Duration = Duration::from_mins(3);
const DRAIN: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(200);
const TELL_EVERY: Duration = Duration::from_secs(10);
/// Little in work, since the emulator answers one call after the other.
const WORKER_SETTINGS: [(&str, &str); 3] =
    [("TOLLGATE_RECEIVE_WAIT_S", "1"), ("TOLLGATE_MAX_IN_WORK", "30"), ("RUST_LOG", "warn")];

/// How many events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Seconds: what every `cargo test` runs.
    Test,
    /// Ten thousand.
    Ci,
}

impl Size {
    /// Distinct events, and spaces.
    fn bounds(self) -> (usize, usize) {
        match self {
            Self::Test => (300, 10),
            Self::Ci => (10_000, 20),
        }
    }
}

/// What a run came to.
#[derive(Debug, Clone)]
pub struct Report {
    /// Distinct events.
    pub events: usize,
    /// Events recorded: duplicates and conflicting payloads included.
    pub recorded: usize,
    /// Answers that were lost on the way.
    pub lost_answers: u64,
    /// How often each outcome was told.
    pub told: BTreeMap<&'static str, usize>,
    /// Outcomes that the ledger does not bear out.
    pub disagreements: Vec<String>,
    /// What the auditor found.
    pub findings: Vec<Finding>,
    /// How long it took.
    pub took: Duration,
}

impl Report {
    /// Findings of one kind.
    pub fn count(&self, kind: Kind) -> usize {
        self.findings.iter().filter(|finding| finding.kind == kind).count()
    }
}

/// Runs the clients; an error is a run that could not be judged.
pub async fn run(
    size: Size,
    seed: u64,
    engines: &Engines,
    program: &Program,
    progress: &dyn Fn(&str),
) -> anyhow::Result<Report> {
    let start = Instant::now();
    let (events, spaces) = size.bounds();
    let tenants = Tenants::new("clients", spaces, events)?;
    tenants.register(engines).await?;
    let keys = keys_of(engines, &tenants.spaces, seed).await?;
    // Pinned, so that a run over a month's end is as any other.
    let accepted_at = SystemClock.now();
    let month = PeriodMonth::of(accepted_at);
    let envelopes = Traffic {
        seed,
        spaces: tenants.spaces.clone(),
        distinct: events,
        duplicates_percent: 10,
        conflicts_percent: 1,
        accepted_at,
    }
    .envelopes();

    let queues = Queues::create(engines).await?;
    let folder = engines.stack.state_dir.join("clients");
    let internal_spaces: Vec<SpaceId> = tenants.plans.policy.internal_spaces.iter().cloned().collect();
    let (mut doors, mut relays) = (Vec::new(), Vec::new());
    for (gate, seed) in GATES.into_iter().zip(seed..) {
        let settings = FrontDoorSettings {
            arguments: ["--pin-month", &month.to_string(), "--gate", gate].map(str::to_owned).to_vec(),
            variables: vec![("TOLLGATE_RATE_PER_KEY", "0".to_owned()), ("RUST_LOG", "warn".to_owned())],
            internal_spaces: internal_spaces.clone(),
            ..FrontDoorSettings::default()
        };
        let log = folder.join(format!("front-door-{gate}.log"));
        let door = FrontDoor::start(engines, program, &queues, &settings, &log).await?;
        let upstream = door.url.strip_prefix("http://").context("the front door's address is no plain URL")?;
        relays.push(Relay::losing(upstream, seed, LOST_PERCENT).await?);
        doors.push(door);
    }
    let settings = WorkerSettings {
        variables: WORKER_SETTINGS.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
        internal_spaces,
        database: engines.config.clickhouse.database.clone(),
    };
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        let log = folder.join(format!("worker-{number}.log"));
        workers.push(program.start_worker(engines, &queues, &engines.endpoints(), &settings, &log)?);
    }

    progress(&format!("clients: seed {seed}: {CLIENTS} clients record {} events", envelopes.len()));
    let told = record_all(&envelopes, &keys, &relays, progress).await?;
    until_empty(&queues).await?;
    doors.iter_mut().try_for_each(FrontDoor::check)?;
    for worker in &mut workers {
        ensure!(worker.try_wait()?.is_none(), "a worker ended by itself; see {}", folder.display());
        worker.kill().await?;
    }

    let snapshot = snapshot(engines, &queues, &tenants.spaces.iter().cloned().collect::<BTreeSet<_>>()).await?;
    queues.delete().await?;
    let mut disagreements = Vec::new();
    let mut sent = Vec::new();
    for (envelope, told) in &told {
        let key = EventKey { space: envelope.space.clone(), id: envelope.event.id() };
        let item = snapshot.ledger.get(&key);
        disagreements.extend(disagreement(&envelope.event, told, item).map(|what| format!("{key}: {what}")));
        // What heard 402 was queued only if an attempt before it lost its answer: the ledger tells.
        let knows = |fingerprint| {
            item.is_some_and(|item| item.fingerprint == fingerprint || item.conflicts.contains(&fingerprint))
        };
        if !matches!(told, Recorded::QuotaExceeded { .. }) || knows(envelope.event.fingerprint()) {
            sent.push(Sent::from(*envelope));
        }
    }
    disagreements.extend(winners(&told));
    Ok(Report {
        events: by_key(&sent).len(),
        recorded: envelopes.len(),
        lost_answers: relays.iter().map(Relay::struck).sum(),
        told: count(told.iter().map(|(_, told)| told)),
        disagreements,
        findings: audit(&sent, &tenants.plans, &snapshot),
        took: start.elapsed(),
    })
}

async fn keys_of(engines: &Engines, spaces: &[SpaceId], seed: u64) -> anyhow::Result<BTreeMap<SpaceId, ApiKey>> {
    let mut random = Random::new(seed ^ SystemClock.now().get().cast_unsigned());
    let mut keys = BTreeMap::new();
    for space in spaces {
        let key = ApiKey::from_random([(); KEY_BYTES].map(|()| random.number().to_le_bytes()[0]));
        let record = KeyRecord {
            space: space.clone(),
            scopes: [Scope::Ingest, Scope::Read].into(),
            created_at: SystemClock.now(),
            revoked_at: None,
            last_used_at: None,
            label: "clients".to_owned(),
        };
        engines.stores.keys.create(&key.hash(), &record).await?;
        keys.insert(space.clone(), key);
    }
    Ok(keys)
}

/// Records everything, each client its share; what each was told.
async fn record_all<'e>(
    envelopes: &'e [Envelope],
    keys: &BTreeMap<SpaceId, ApiKey>,
    relays: &[Relay],
    progress: &dyn Fn(&str),
) -> anyhow::Result<Vec<(&'e Envelope, Recorded)>> {
    // An answer is lost in one of ten calls: sixteen attempts all lose theirs once in 10^16.
    let retry = RetryPolicy { max_attempts: 16, max_elapsed: PATIENCE, ..RetryPolicy::default() };
    let mut streams = Vec::new();
    for (client, relay) in (0..CLIENTS).zip(relays.iter().cycle()) {
        let mut by_space = BTreeMap::new();
        for (space, key) in keys {
            by_space.insert(space.clone(), Client::builder(&relay.url, key).retry(retry.clone()).build()?);
        }
        let share = envelopes.iter().skip(client).step_by(CLIENTS);
        let record = move |envelope: &'e Envelope| {
            let sdk = by_space.get(&envelope.space).cloned();
            async move {
                let sdk = sdk.context("a space without a key")?;
                let event = UsageEvent::from_json(&envelope.event.canonical_json())?;
                anyhow::Ok((envelope, sdk.record_and_wait(&event, PATIENCE).await))
            }
        };
        streams.push(stream::iter(share).map(record).buffer_unordered(AT_ONCE));
    }
    let mut all = stream::select_all(streams);
    let (mut told, mut told_at) = (Vec::with_capacity(envelopes.len()), Instant::now());
    while let Some(one) = all.next().await {
        told.push(one?);
        if told_at.elapsed() > TELL_EVERY {
            told_at = Instant::now();
            progress(&format!(
                "clients: {} of {} came to their end, {} answers lost",
                told.len(),
                envelopes.len(),
                relays.iter().map(Relay::struck).sum::<u64>()
            ));
        }
    }
    Ok(told)
}

/// Each event that was inserted is told *inserted* once, and *duplicate* to everybody else.
fn winners(told: &[(&Envelope, Recorded)]) -> Vec<String> {
    let mut by_winner: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, told) in told {
        match told {
            Recorded::Inserted { status } => {
                *by_winner.entry(status.submission_id.as_deref().unwrap_or_default()).or_default() += 1;
            }
            Recorded::Duplicate { by, .. } => {
                by_winner.entry(by).or_default();
            }
            _ => {}
        }
    }
    let wrong = by_winner.into_iter().filter(|(_, times)| *times != 1);
    wrong.map(|(winner, times)| format!("{winner} won a claim and was told `inserted` {times} times")).collect()
}

fn count<'r>(told: impl Iterator<Item = &'r Recorded>) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for told in told {
        let name = match told {
            Recorded::Inserted { .. } => "inserted",
            Recorded::Duplicate { .. } => "duplicate",
            Recorded::Conflict { .. } => "conflict",
            Recorded::Rejected { .. } => "rejected",
            Recorded::QuotaExceeded { .. } => "quota exceeded",
            Recorded::Unavailable { .. } => "unavailable",
            _ => "other",
        };
        *counts.entry(name).or_default() += 1;
    }
    counts
}

/// Waits until every message is acknowledged.
async fn until_empty(queues: &Queues) -> anyhow::Result<()> {
    let empty = async {
        while !queues.is_empty().await? {
            tokio::time::sleep(POLL).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(DRAIN, empty).await.context("the queue does not become empty")?
}

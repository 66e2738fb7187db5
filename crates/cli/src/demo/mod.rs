//! `tollgate demo`: the product's promise, tried out loud.
//!
//! Starts the stack, a front door and workers; sends events of several plans, with repeats; kills workers while they
//! work; waits until nothing is in flight; then counts what the engines hold and compares it with what must be there.

mod fleet;
mod report;
mod state;
mod tally;
mod traffic;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio_util::sync::CancellationToken;
use tollgate_domain::key::Scope;
use tollgate_stores::connect::Stores;

use crate::args::DemoArguments;
use crate::command::{Ended, create_key, unfinished};
use crate::demo::fleet::{Fleet, FleetPlan};
use crate::demo::report::{Passage, Report};
use crate::demo::state::DemoState;
use crate::demo::traffic::Source;
use crate::output::note;
use crate::sender::{KeyRing, Progress, SendCounts, check, send};
use crate::settings::Settings;
use crate::stack::{self, StackRecord};

/// Events of one call: small, so that many calls and many workers meet.
const BATCH: usize = 100;
/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// Looks in a row that must find the queue empty, since its counts are estimates.
const QUIET_LOOKS: u32 = 3;
/// Time without any progress after which the demo gives up.
const STALLED: Duration = Duration::from_mins(2);

/// Runs the demo on the stack called `stack`.
pub(crate) async fn run(stack: &str, arguments: DemoArguments) -> anyhow::Result<Ended> {
    let started = Instant::now();
    let record = stack::up(stack, None)?;
    let settings = Settings::from_record(record.clone());
    settings.require_local("the demo")?;
    let _alone = state::only_demo(&record)?;
    let source = Source::open(&arguments, &record)?;
    record.add_internal_spaces(source.expected.internal_spaces().into_iter().map(|space| space.to_string()))?;
    let stores = settings.connect().await?;
    let mut state = DemoState::open(&record, &source, arguments.resume)?;
    let keys = prepare(&stores, &source, &mut state).await?;
    let lines: u64 = check(&source.input, &keys)?.values().sum();
    note(format!(
        "{lines} events for {} spaces, all accepted in {}; {} workers, killed while they work.",
        source.expected.spaces.len(),
        state.month(),
        arguments.workers
    ));

    let fleet = Fleet::start(&FleetPlan {
        stack: record.clone(),
        month: state.month(),
        workers: arguments.workers,
        seed: arguments.seed,
    })
    .await?;
    let passage = Passage::new(lines);
    let all_sent = CancellationToken::new();
    let (sent, drained) = tokio::join!(
        send_all(&source, &fleet, &keys, &mut state, &passage, all_sent.clone()),
        drain(&stores, &fleet, &passage, all_sent.clone()),
    );
    let sent = sent?;
    drained?;
    let kills = fleet.stop().await?;
    passage.finish();

    if sent.unavailable > 0 {
        let (missing, lines) = (sent.unavailable, sent.lines);
        return Err(unfinished(format!(
            "{missing} of {lines} events were not queued: run the demo again with --resume"
        )));
    }
    if sent.queued != sent.lines {
        bail!(
            "{} of {} events were refused (told above): the input must be mended",
            sent.lines - sent.queued,
            sent.lines
        );
    }
    state.finished()?;
    let counts = tally::count(&stores, &source, state.month()).await?;
    let report = Report::new(&source, &counts, kills, state.month(), started.elapsed());
    report.print(arguments.json, &record)?;
    Ok(if report.ok { Ended::Well } else { Ended::NotWell })
}

/// Writes the spaces' plans and makes a key for each space that has none yet.
async fn prepare(stores: &Stores, source: &Source, state: &mut DemoState) -> anyhow::Result<KeyRing> {
    for (space, record) in source.expected.records() {
        stores.spaces.set(&space, &record).await?;
    }
    for space in source.expected.spaces.keys() {
        if !state.has_key(space) {
            let key = create_key(&stores.keys, space, BTreeSet::from([Scope::Ingest]), "demo").await?;
            state.add_key(space, &key)?;
        }
    }
    KeyRing::from_file(state.key_file())
}

/// Sends every line that is not known to be queued.
async fn send_all(
    source: &Source,
    fleet: &Fleet,
    keys: &KeyRing,
    state: &mut DemoState,
    passage: &Passage,
    all_sent: CancellationToken,
) -> anyhow::Result<SendCounts> {
    // However sending ends, nobody waits for more.
    let _ended = all_sent.drop_guard();
    let skip = state.sent().clone();
    let skipped: u64 = skip.values().sum();
    passage.queued(skipped);
    let (told, mut queued) = tokio::sync::mpsc::unbounded_channel();
    let progress: Progress = Arc::new(move |space, lines| {
        if let Some(space) = space {
            // Nobody listens any more only when sending has ended.
            let _ = told.send((space.clone(), lines as u64));
        }
    });
    let url = fleet.url();
    let sending = send(&source.input, &url, keys, BATCH, &skip, progress);
    let keeping = async {
        while let Some((space, lines)) = queued.recv().await {
            passage.queued(lines);
            state.add_sent(&space, lines)?;
        }
        anyhow::Ok(())
    };
    let (counts, kept) = tokio::join!(sending, keeping);
    kept?;
    counts
}

/// Watches the queue until everything is sent and it is empty, and stays so.
async fn drain(stores: &Stores, fleet: &Fleet, passage: &Passage, all_sent: CancellationToken) -> anyhow::Result<()> {
    let (mut quiet, mut most, mut moved) = (0, 0, Instant::now());
    while quiet < QUIET_LOOKS {
        tokio::time::sleep(LOOK).await;
        let sending = !all_sent.is_cancelled();
        let depth = match stores.queue.depth().await {
            Ok(depth) => depth,
            // An engine that is away for a moment is what the product is for.
            Err(_) if moved.elapsed() < STALLED => continue,
            Err(error) => return Err(error).context("the queue's depth; go on with --resume"),
        };
        let left = depth.visible + depth.in_flight;
        let done = passage.left(left, fleet.kills());
        fleet.progressed(done);
        quiet = if left == 0 && !sending { quiet + 1 } else { 0 };
        if done > most || sending {
            (most, moved) = (done.max(most), Instant::now());
        }
        if quiet == 0 && moved.elapsed() > STALLED {
            let (stalled, logs) = (STALLED.as_secs(), fleet.logs());
            return Err(unfinished(format!(
                "nothing moved for {stalled} s with {left} messages left; see the logs in {logs}"
            )));
        }
    }
    Ok(())
}

/// A count that tasks share.
#[derive(Debug, Clone, Default)]
struct Counter(Arc<AtomicU64>);

impl Counter {
    fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Where the demo of a stack keeps its files.
fn folder(record: &StackRecord) -> std::path::PathBuf {
    record.state_dir.join("demo")
}

//! Runs cases, several at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures_util::{StreamExt, stream};

use super::gap::{self, Gap};
use super::post::Post;
use super::setup::{GARBAGE, Setup};
use super::{Case, Circumstance, Outcome, Report, Size};
use crate::auditor::{Finding, audit};
use crate::faults::{Edge, Rule};
use crate::live::{Engines, Program, Queues, WorkerSettings, snapshot};

/// Until the fault must have struck.
const STRIKE: Duration = Duration::from_mins(1);
/// Until every message must be acknowledged after that.
const DONE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(100);
/// Short, so that what a killed worker held comes again soon; one receive at a time, so that a worker that holds a
/// message asks for no other; nothing remembered, so that each read is seen.
const SETTINGS: [(&str, &str); 8] = [
    ("TOLLGATE_VISIBILITY_S", "2"),
    ("TOLLGATE_RECEIVE_WAIT_S", "1"),
    ("TOLLGATE_MAX_IN_WORK", "10"),
    ("TOLLGATE_POLLERS", "1"),
    ("TOLLGATE_PLAN_CACHE_MS", "0"),
    ("TOLLGATE_QUARANTINE_SPACING_MS", "0"),
    ("TOLLGATE_BATCH_ROWS", "1"),
    ("TOLLGATE_BATCH_LINGER_MS", "0"),
];

/// Which cases are run.
#[derive(Debug, Clone)]
pub struct Selection {
    /// How much.
    pub size: Size,
    /// Only cases whose name contains this.
    pub only: Option<String>,
    /// Cases at a time.
    pub parallel: usize,
}

/// What every case works with.
pub(super) struct Bench {
    pub(super) engines: Engines,
    pub(super) program: Program,
    pub(super) logs: PathBuf,
}

impl Selection {
    fn takes(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only))
    }
}

/// Runs the selected cases; `progress` gets one line a case, in the cases' order.
pub async fn run(
    selection: &Selection,
    engines: &Engines,
    program: &Program,
    progress: &dyn Fn(&str),
) -> anyhow::Result<Report> {
    let logs = engines.stack.state_dir.join("matrix");
    let bench = Bench { engines: engines.clone(), program: program.clone(), logs };
    let cases: Vec<Case> =
        selection.size.cases().into_iter().filter(|case| selection.takes(&case.to_string())).collect();
    let mut report = Report::default();
    let mut done = BTreeMap::new();
    let outcomes = cases.iter().enumerate().map(|(number, case)| {
        let name = case.to_string();
        let running = timed(name, run_case(&bench, *case));
        async move { (number, running.await) }
    });
    let mut outcomes = stream::iter(outcomes).buffer_unordered(selection.parallel.max(1));
    while let Some((number, outcome)) = outcomes.next().await {
        done.insert(number, outcome);
        // In the cases' order, whichever is done first.
        while let Some(outcome) = done.remove(&report.outcomes.len()) {
            progress(&outcome.line());
            report.outcomes.push(outcome);
        }
    }
    // Last and alone: it takes ClickHouse from everybody.
    let gaps = Gap::ALL.into_iter().filter(|gap| selection.size != Size::Test && selection.takes(gap.name()));
    for gap in gaps {
        let outcome = timed(gap.name().to_owned(), gap::run_case(&bench, gap)).await;
        progress(&outcome.line());
        report.outcomes.push(outcome);
    }
    Ok(report)
}

async fn timed(name: String, running: impl Future<Output = anyhow::Result<Vec<Finding>>>) -> Outcome {
    let start = Instant::now();
    let (wrong, findings) = match Box::pin(running).await {
        Ok(findings) => (Vec::new(), findings),
        Err(error) => (vec![format!("{error:#}")], Vec::new()),
    };
    Outcome { name, wrong, findings, took: start.elapsed() }
}

/// Settings of a matrix's workers, over this database.
pub(super) fn worker_settings(database: &str) -> WorkerSettings {
    let variables = SETTINGS.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    WorkerSettings { variables, internal_spaces: Vec::new(), database: database.to_owned() }
}

/// One case; an error is a case that failed before the auditor could look.
async fn run_case(bench: &Bench, case: Case) -> anyhow::Result<Vec<Finding>> {
    let setup = Setup::of(case, Engines::unique_space("case")?);
    let queues = Queues::create(&bench.engines).await?;
    bench.engines.stores.spaces.set(&setup.space, &setup.record).await?;
    let settings = || worker_settings(&bench.engines.config.clickhouse.database);
    let log = case.to_string().replace('/', ".");

    let main = Rule { effect: case.effect, edge: case.edge, times: case.times() };
    let first = Post::new(bench, [main].into_iter().chain(setup.path()), settings(), &log).await?;
    let mut posts = vec![&first];
    let second;
    queues.send(&setup.first()).await?;
    match case.circumstance {
        Circumstance::SecondWorker => {
            let held = Rule { effect: Circumstance::held_at(case.effect), edge: Edge::Held, times: u32::MAX };
            let log = format!("{log}.second");
            second = Post::new(bench, [held].into_iter().chain(setup.path()), settings(), &log).await?;
            second.start(bench, &queues).await?;
            struck(&second).await.context("the second worker")?;
            posts.push(&second);
            queues.send(&setup.again()).await?;
        }
        Circumstance::DuplicateWaiting => queues.send(&setup.again()).await?,
        _ => {}
    }
    first.start(bench, &queues).await?;
    struck(&first).await?;
    match case.circumstance {
        Circumstance::MonthTurned => queues.send(&setup.again()).await?,
        Circumstance::PlanChanged => {
            bench.engines.stores.spaces.set(&setup.space, &setup.changed_record()).await?;
        }
        _ => {}
    }
    for post in &posts {
        post.script.resume();
    }
    if case.edge.kills() {
        first.start(bench, &queues).await?;
    }
    until_done(&queues, &posts).await?;
    for post in &posts {
        post.end().await?;
    }
    let snapshot = snapshot(&bench.engines, &queues, &BTreeSet::from([setup.space.clone()])).await?;
    if setup.has_garbage() && !snapshot.dead_letters.iter().any(|letter| letter.body == GARBAGE) {
        bail!("the message that cannot be read is in neither queue");
    }
    queues.delete().await?;
    Ok(audit(&setup.sent(), &setup.plans(), &snapshot))
}

async fn struck(post: &Post) -> anyhow::Result<()> {
    tokio::select! {
        () = post.script.until_struck() => Ok(()),
        ended = tokio::time::timeout(STRIKE, async {
            loop {
                tokio::time::sleep(POLL).await;
                if !post.script.has_struck() {
                    post.check().await?;
                }
            }
        }) => match ended {
            Ok(error) => error,
            Err(_) => bail!("the fault never struck: this case proves nothing"),
        },
    }
}

/// Waits until every message is acknowledged and no struck call is still on its way.
pub(super) async fn until_done(queues: &Queues, posts: &[&Post]) -> anyhow::Result<()> {
    let done = async {
        loop {
            for post in posts {
                post.proxy.until_quiet().await;
                post.check().await?;
            }
            if queues.is_empty().await? {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    };
    match tokio::time::timeout(DONE, done).await {
        Ok(done) => done,
        Err(_) => bail!("not done {} s after the fault: {:?}", DONE.as_secs(), queues.depth().await?),
    }
}

//! One world: a sequence through the real router and the real pipeline, until nothing is left to do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::Router;
use futures_util::future::join_all;
use http_body_util::BodyExt as _;
use lambda_http::tower::ServiceExt as _;
use tollgate_domain::ports::{Delivery, Queue as _};
use tollgate_front_door::config::FrontDoorConfig;
use tollgate_front_door::router::router;
use tollgate_tests::memory::{Call, Effect, Fault, World};
use tollgate_worker::batch::{BatchSettings, Batcher};
use tollgate_worker::pipeline::Pipeline;
use tollgate_worker::verdict::Verdict;

use crate::facts::{Fact, facts_of};
use crate::log;
use crate::ports::{Leak, SharedPorts, WorkerPorts};
use crate::sequence::{Ask, Step, poisonous};
use crate::spaces::{self, SPACES};

/// More than any cache, lease, visibility or spacing between quarantines lasts.
const MINUTE_MS: u32 = 61_000;
/// Milliseconds between two quarantines that both count.
const SPACING_MS: u64 = 60_000;
/// ClickHouse's code for a value that it cannot take.
const REFUSED: u32 = 27;
/// A delivery that takes longer has died: the twins take no time.
const DEAD: Duration = Duration::from_millis(100);

/// What one request was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Who asked.
    pub(crate) space: usize,
    pub(crate) status: u16,
    headers: BTreeMap<String, String>,
    body: String,
    /// Spaces that the request named by itself.
    named: Vec<usize>,
}

impl Answer {
    /// Head and body.
    pub(crate) fn text(&self) -> String {
        format!("{:?} {}", self.headers, self.body)
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.headers.contains_key("idempotency-replayed")
    }

    /// What of another space's this answer holds.
    pub(crate) fn tells_of_another_space(&self) -> Option<String> {
        let others = (0..SPACES.len()).filter(|other| *other != self.space);
        let marks = others.flat_map(|other| {
            let name = (!self.named.contains(&other)).then(|| format!("\"{}\"", SPACES[other].name));
            spaces::marks(other).chain(name)
        });
        let found = marks.into_iter().find(|mark| self.text().contains(mark))?;
        Some(format!("{} is told {found}: {self:#?}", SPACES[self.space].name))
    }
}

/// What came of a sequence.
pub(crate) struct Outcome {
    /// In the order of the requests.
    pub(crate) answers: Vec<Answer>,
    /// By their space's name.
    pub(crate) facts: BTreeMap<String, BTreeSet<Fact>>,
    pub(crate) log: String,
}

impl Outcome {
    pub(crate) fn facts_of(&self, space: &str) -> BTreeSet<Fact> {
        self.facts.get(space).cloned().unwrap_or_default()
    }
}

/// Runs the steps in a world of their own, where only the spaces exist that take any.
pub(crate) fn run(steps: &[Step], leak: Option<Leak>) -> Outcome {
    log::listen();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(run_all(steps, leak))
}

async fn run_all(steps: &[Step], leak: Option<Leak>) -> Outcome {
    let world = World::new();
    let present = (0..SPACES.len())
        .filter(|space| steps.iter().any(|step| matches!(step, Step::Ask(ask) if ask.space == *space)));
    world.with(|state| {
        present.for_each(|space| spaces::add(space, state));
        state.poison = poisonous().map(|key| (key, REFUSED)).collect();
    });
    let ports = SharedPorts { world: world.clone(), leak };
    let mut config = FrontDoorConfig::default();
    // Remembered from one minute to the next: how long deaths take must not show.
    config.gate.cache_ttl = Duration::from_secs(30);
    let policy = config.gate.policy.clone();
    let router = router(ports.clone(), config);
    let settings = BatchSettings { max_rows: 100, linger_ms: 0, concurrency: 1 };
    let rows = Batcher::start(ports.clone(), settings);
    let pipeline = Pipeline::new(WorkerPorts { shared: ports, rows }, policy, SPACING_MS);

    let mut answers = Vec::new();
    for step in steps {
        match step {
            Step::Ask(request) => answers.push(ask(&router, request).await),
            Step::Work(dying) => work(&world, &pipeline, *dying).await,
            Step::Wait => wait(&world).await,
        }
    }
    // As many more rounds as an event can need that dies and is then refused three times.
    for _ in 0..5 {
        work(&world, &pipeline, None).await;
        wait(&world).await;
    }
    Outcome { answers, facts: world.with(|state| facts_of(state)), log: log::logged() }
}

async fn ask(router: &Router, ask: &Ask) -> Answer {
    let response = router.clone().oneshot(ask.request()).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    // A key's use is noted beside the request.
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    Answer {
        space: ask.space,
        status: head.status.as_u16(),
        headers: head.headers.iter().map(header).collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
        named: (0..SPACES.len()).filter(|space| ask.names(*space)).collect(),
    }
}

async fn wait(world: &World) {
    world.advance_ms(i64::from(MINUTE_MS));
    tokio::time::advance(Duration::from_millis(u64::from(MINUTE_MS))).await;
}

/// Takes what is visible until nothing is: ten messages at a time, whoever sent them.
async fn work(world: &World, pipeline: &Pipeline<WorkerPorts>, dying: Option<usize>) {
    let mut doomed = dying.map(|space| SPACES[space].name);
    world.install(move |call: &Call| {
        let charges = matches!(call.effect, Effect::Consume | Effect::Stamp);
        let is_doomed = call.key.as_ref().is_some_and(|key| Some(key.space.as_str()) == doomed);
        (charges && is_doomed).then(|| doomed = None).map(|()| Fault::KilledAfter)
    });
    loop {
        let deliveries = world.queue().receive(10).await.unwrap();
        if deliveries.is_empty() {
            return;
        }
        join_all(deliveries.iter().map(|delivery| process(world, pipeline, delivery))).await;
    }
}

/// As the worker's loop does: what was not decided stays hidden, or rests.
async fn process(world: &World, pipeline: &Pipeline<WorkerPorts>, delivery: &Delivery) {
    let Ok(verdict) = tokio::time::timeout(DEAD, pipeline.process_delivery(&delivery.body)).await else { return };
    let receipt = std::slice::from_ref(&delivery.receipt);
    match verdict {
        Verdict::Acknowledge(_) => drop(world.queue().delete(receipt).await.unwrap()),
        Verdict::HandBack(why) => drop(world.queue().set_visibility(receipt, why.rest_ms()).await.unwrap()),
        Verdict::DeadLetter(why) => {
            world.queue().dead_letter(&delivery.body, &why.reason).await.unwrap();
            drop(world.queue().delete(receipt).await.unwrap());
        }
    }
}

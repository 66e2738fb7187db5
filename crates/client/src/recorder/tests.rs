//! Tests of `recorder`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use proptest::prelude::*;
use serde_json::{Value, json};
use tollgate_domain::time::UtcMillis;

use super::*;
use crate::spool::read_refused;
use crate::transport::{Ask, Reply, Transport};

const SECOND: Duration = Duration::from_secs(1);

fn event(number: usize) -> UsageEvent {
    sized(number, 0)
}

fn sized(number: usize, padding: usize) -> UsageEvent {
    let at = UtcMillis::parse("2026-01-01T00:00:00Z").unwrap();
    let event = UsageEvent::builder("m", "s", at).property("n", number);
    event.property("p", "x".repeat(padding)).build().unwrap()
}

fn number_of(event: &UsageEvent) -> usize {
    number_in(&serde_json::from_str(&event.to_json()).unwrap())
}

fn number_in(event: &Value) -> usize {
    usize::try_from(event["properties"]["n"].as_u64().unwrap()).unwrap()
}

/// What the service does with one call.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Queue,
    /// Takes every event, and its answer is lost.
    LoseAnswer,
    /// Never sees it.
    LoseCall,
    Busy,
    /// Answers in time to no more events than so many.
    Slow(usize),
    /// Never answers.
    Stall,
    /// One result an event, these in turn.
    Mixed(Vec<&'static str>),
    /// The whole call is refused for its bytes if it has this event.
    Refuse(usize),
    Unauthorized,
}

/// A service in this process: takes one step a call, and the last one for ever.
#[derive(Clone)]
struct Service(Arc<Mutex<World>>);

struct World {
    steps: VecDeque<Step>,
    calls: Vec<(Vec<usize>, usize, Instant)>,
    queued: BTreeSet<usize>,
    refused: BTreeSet<usize>,
}

impl Service {
    fn new(steps: Vec<Step>) -> Self {
        let world = World { steps: steps.into(), calls: Vec::new(), queued: BTreeSet::new(), refused: BTreeSet::new() };
        Self(Arc::new(Mutex::new(world)))
    }

    fn client(&self) -> Client {
        let world = Arc::clone(&self.0);
        Client::of(Transport::scripted(move |ask| {
            let (step, numbers) = world.lock().unwrap().hear(&ask);
            let world = Arc::clone(&world);
            async move {
                if step == Step::Stall {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
                world.lock().unwrap().answer(&step, &numbers)
            }
        }))
    }

    fn calls(&self) -> Vec<Vec<usize>> {
        self.0.lock().unwrap().calls.iter().map(|(numbers, ..)| numbers.clone()).collect()
    }

    /// What was told is what it did, and what was handed back is what it never settled.
    fn agrees_with(&self, outcomes: &BTreeMap<usize, Outcome>, left: &BTreeSet<usize>, batch: usize) {
        let world = self.0.lock().unwrap();
        for (number, outcome) in outcomes {
            match outcome {
                Outcome::Queued { .. } => assert!(world.queued.contains(number), "{number}"),
                Outcome::Unavailable { .. } | Outcome::HeldBack => panic!("{number}: {outcome:?}"),
                _ => assert!(world.refused.contains(number), "{number}"),
            }
        }
        assert!(left.is_disjoint(&world.refused));
        assert!(world.calls.iter().all(|(numbers, ..)| numbers.len() <= batch));
        let answers = world.steps.len() == 1 && world.steps[0] == Step::Queue;
        assert!(left.is_empty() || !answers, "{left:?} had time enough");
    }

    fn queued(&self) -> BTreeSet<usize> {
        self.0.lock().unwrap().queued.clone()
    }
}

impl World {
    fn hear(&mut self, ask: &Ask) -> (Step, Vec<usize>) {
        assert_eq!(ask.path, "/v1/events?partial=true");
        let body = ask.body.as_ref().unwrap();
        let events: Vec<Value> = serde_json::from_slice(body).unwrap();
        let numbers: Vec<usize> = events.iter().map(number_in).collect();
        self.calls.push((numbers.clone(), body.len(), Instant::now()));
        let step = if self.steps.len() == 1 { self.steps[0].clone() } else { self.steps.pop_front().unwrap() };
        (step, numbers)
    }

    fn answer(&mut self, step: &Step, numbers: &[usize]) -> Reply {
        match step {
            Step::LoseCall | Step::Stall => Reply::Unknown("lost".to_owned()),
            Step::Busy => Reply::of(503, ""),
            Step::LoseAnswer => {
                self.results(&["queued"], numbers);
                Reply::Unknown("lost".to_owned())
            }
            Step::Mixed(statuses) => self.results(statuses, numbers),
            Step::Unauthorized => {
                self.refused.extend(numbers);
                Reply::of(401, "")
            }
            Step::Refuse(bad) if numbers.contains(bad) => {
                self.refused.extend(Some(*bad).filter(|_| numbers.len() == 1));
                Reply::of(400, "")
            }
            Step::Slow(limit) if numbers.len() > *limit => Reply::Unknown("late".to_owned()),
            Step::Queue | Step::Refuse(_) | Step::Slow(_) => self.results(&["queued"], numbers),
        }
    }

    /// These statuses in turn, as the front door has it: 503 if one is unavailable.
    fn results(&mut self, statuses: &[&str], numbers: &[usize]) -> Reply {
        let (mut rows, mut code) = (Vec::new(), 202);
        for ((index, number), status) in numbers.iter().enumerate().zip(statuses.iter().cycle()) {
            match *status {
                "queued" => drop(self.queued.insert(*number)),
                "unavailable" => code = 503,
                _ => drop(self.refused.insert(*number)),
            }
            rows.push(json!({"index": index, "id": event(*number).id(), "submissionId": "sub_1", "status": status}));
        }
        Reply::of(code, json!({ "results": rows }).to_string())
    }
}

/// Outcomes as they were told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Settled>>>);

impl Told {
    fn observer(&self) -> impl FnMut(Settled) + Send + 'static {
        let told = Arc::clone(&self.0);
        move |settled| told.lock().unwrap().push(settled)
    }

    /// Numbers of the events, in the order of their outcomes.
    fn numbers(&self) -> Vec<usize> {
        self.0.lock().unwrap().iter().map(|settled| number_of(&settled.event)).collect()
    }

    fn outcomes(&self) -> BTreeMap<usize, Outcome> {
        let told = self.0.lock().unwrap();
        told.iter().map(|settled| (number_of(&settled.event), settled.outcome.clone())).collect()
    }
}

fn unsent(closed: &Closed) -> Vec<usize> {
    closed.unsent.iter().map(number_of).collect()
}

#[tokio::test(start_paused = true)]
async fn calls_are_made_by_count_by_bytes_and_by_age() {
    let (service, told) = (Service::new(vec![Step::Queue]), Told::default());
    let recorder = Recorder::builder(service.client(), told.observer()).batch_events(3).start().unwrap();
    let started = Instant::now();
    for number in 0..7 {
        recorder.record(event(number)).await.unwrap();
    }
    recorder.flush().await.unwrap();
    assert_eq!(service.calls(), [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
    assert!(started.elapsed() < SECOND, "a flush waits for no age");
    recorder.record(event(7)).await.unwrap();
    let recorded = Instant::now();
    tokio::time::sleep(SECOND * 2).await;
    assert_eq!(told.numbers(), (0..8).collect::<Vec<_>>());
    let (_, _, sent) = service.0.lock().unwrap().calls.pop().unwrap();
    assert_eq!(sent.duration_since(recorded), SECOND, "the age of the eldest");
    let closed = recorder.close().await.unwrap();
    assert_eq!((closed.unsent.len(), closed.counts.queued), (0, 8));

    let service = Service::new(vec![Step::Queue]);
    let builder = Recorder::builder(service.client(), told.observer()).batch_bytes(0).concurrent_calls(1);
    let recorder = builder.start().unwrap();
    for number in 0..4 {
        recorder.record(sized(number, 30_000)).await.unwrap();
    }
    assert!(recorder.close().await.unwrap().unsent.is_empty());
    assert_eq!(service.calls(), [[0, 1], [2, 3]]);
    assert!(service.0.lock().unwrap().calls.iter().all(|(_, bytes, _)| *bytes <= MAX_EVENT_BYTES + 2));
}

#[tokio::test(start_paused = true)]
async fn a_full_buffer_holds_its_recorders_back() {
    let (service, told) = (Service::new(vec![Step::Queue]), Told::default());
    let builder = Recorder::builder(service.client(), told.observer()).buffer_events(2).batch_age(SECOND * 60);
    let recorder = builder.start().unwrap();
    recorder.record(event(0)).await.unwrap();
    recorder.try_record(event(1)).await.unwrap();
    let full = recorder.try_record(event(2)).await.unwrap_err();
    assert!(matches!(full.reason, NotRecordedReason::Full));
    assert_eq!(full.event, event(2));
    let waiting = tokio::spawn({
        let recorder = recorder.clone();
        async move { recorder.record(event(2)).await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    recorder.flush().await.unwrap();
    waiting.await.unwrap().unwrap();
    assert!(recorder.close().await.unwrap().unsent.is_empty());
    assert_eq!(told.numbers(), [0, 1, 2]);

    // By bytes as well.
    let builder = Recorder::builder(service.client(), told.observer()).buffer_bytes(0).batch_age(SECOND * 60);
    let recorder = builder.start().unwrap();
    recorder.try_record(sized(3, 40_000)).await.unwrap();
    assert!(matches!(recorder.try_record(sized(4, 40_000)).await.unwrap_err().reason, NotRecordedReason::Full));
    recorder.try_record(event(5)).await.unwrap();
    assert!(recorder.close().await.unwrap().unsent.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_bad_event_holds_no_other_back_and_is_told_once() {
    let mixed = Step::Mixed(vec!["queued", "conflict", "unavailable", "invalid", "quota_exceeded"]);
    let steps = vec![mixed, Step::Busy, Step::LoseAnswer, Step::Queue];
    let (service, told) = (Service::new(steps), Told::default());
    let recorder = Recorder::builder(service.client(), told.observer()).start().unwrap();
    for number in 0..5 {
        recorder.record(event(number)).await.unwrap();
    }
    let counts = recorder.flush().await.unwrap();
    assert_eq!(service.calls(), [vec![0, 1, 2, 3, 4], vec![2], vec![2], vec![2]]);
    assert_eq!((counts.queued, counts.conflict, counts.invalid, counts.quota_exceeded), (2, 1, 1, 1));
    let outcomes = told.outcomes();
    assert!(matches!(outcomes[&1], Outcome::Conflict { .. }));
    assert!(matches!(outcomes[&2], Outcome::Queued { .. }));
    assert_eq!(told.numbers().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_service_too_slow_for_a_full_call_gets_smaller_ones() {
    let (service, told) = (Service::new(vec![Step::Slow(60)]), Told::default());
    let recorder = Recorder::builder(service.client(), told.observer()).start().unwrap();
    for number in 0..200 {
        recorder.record(event(number)).await.unwrap();
    }
    let counts = tokio::time::timeout(SECOND * 300, recorder.flush()).await.expect("no progress").unwrap();
    assert_eq!((counts.queued, told.numbers().len()), (200, 200));
    let sizes: Vec<usize> = service.calls().iter().map(Vec::len).collect();
    assert_eq!(sizes, [200, 200, 200, 100, 100, 100, 50, 50, 100, 100, 100, 50, 50]);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_call_stops_no_other() {
    let (service, told) = (Service::new(vec![Step::Stall, Step::Queue]), Told::default());
    let builder = Recorder::builder(service.client(), told.observer()).batch_events(1).close_timeout(SECOND);
    let recorder = builder.start().unwrap();
    for number in 0..20 {
        recorder.record(event(number)).await.unwrap();
    }
    let closed = recorder.close().await.unwrap();
    assert_eq!(unsent(&closed), [0]);
    assert_eq!(told.numbers().len(), 19);
}

#[tokio::test(start_paused = true)]
async fn close_hands_back_what_has_no_outcome_in_order_and_in_time() {
    let (service, told) = (Service::new(vec![Step::Queue, Step::Busy]), Told::default());
    let builder = Recorder::builder(service.client(), told.observer()).batch_events(2).buffer_events(6);
    let recorder = builder.close_timeout(SECOND * 5).start().unwrap();
    for number in 0..6 {
        recorder.record(event(number)).await.unwrap();
    }
    let (other, started) = (recorder.clone(), Instant::now());
    let second = recorder.clone();
    let flush = tokio::spawn({
        let recorder = recorder.clone();
        async move { recorder.flush().await }
    });
    let closing = tokio::spawn(recorder.close());
    tokio::time::sleep(SECOND).await;
    // Room for two, and yet none: it is closed.
    let late = other.record(event(9)).await.unwrap_err();
    assert!(matches!(late.reason, NotRecordedReason::Closed));
    assert_eq!(late.event, event(9));
    let closed_again = second.close().await.unwrap();
    let closed = closing.await.unwrap().unwrap();
    assert_eq!(started.elapsed(), SECOND * 5);
    assert_eq!((unsent(&closed), unsent(&closed_again)), (vec![2, 3, 4, 5], vec![]));
    assert_eq!((closed.counts, told.numbers()), (Counts { queued: 2, ..Counts::default() }, vec![0, 1]));
    assert_eq!(flush.await.unwrap(), Err(Ended));
    assert_eq!(other.flush().await, Err(Ended));
    assert!(matches!(other.try_record(event(9)).await.unwrap_err().reason, NotRecordedReason::Closed));
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_room_when_it_closes_gets_the_event_back() {
    let service = Service::new(vec![Step::Stall]);
    let builder = Recorder::builder(service.client(), |_| {}).buffer_events(1).close_timeout(SECOND);
    let recorder = builder.start().unwrap();
    recorder.record(event(0)).await.unwrap();
    let waiting = tokio::spawn({
        let recorder = recorder.clone();
        async move { recorder.record(event(1)).await }
    });
    tokio::task::yield_now().await;
    assert_eq!(unsent(&recorder.close().await.unwrap()), [0]);
    assert!(matches!(waiting.await.unwrap().unwrap_err().reason, NotRecordedReason::Closed));
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_takes_nothing_with_it() {
    let service = Service::new(vec![Step::Queue]);
    let told = Told::default();
    let mut observer = told.observer();
    let panics = move |settled: Settled| {
        let bad = number_of(&settled.event) == 1;
        observer(settled);
        assert!(!bad, "as the test wants it");
    };
    let recorder = Recorder::builder(service.client(), panics).start().unwrap();
    for number in 0..3 {
        recorder.record(event(number)).await.unwrap();
    }
    let closed = recorder.close().await.unwrap();
    assert_eq!((closed.counts.queued, closed.counts.observer_panics, closed.unsent.len()), (3, 1, 0));
    assert_eq!(told.numbers(), [0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn dropped_without_close_it_goes_on_and_tells_what_is_left() {
    let told = Told::default();
    for (last, kind) in [(Step::Queue, "Queued"), (Step::Busy, "Unavailable")] {
        let service = Service::new(vec![last]);
        let recorder = Recorder::builder(service.client(), told.observer()).start().unwrap();
        recorder.record(event(7)).await.unwrap();
        drop(recorder);
        tokio::time::sleep(SECOND * 31).await;
        let settled = told.0.lock().unwrap().pop().unwrap();
        assert_eq!(settled.event, event(7));
        assert!(format!("{:?}", settled.outcome).starts_with(kind), "{:?}", settled.outcome);
    }
}

#[test]
fn a_thread_that_cannot_be_had_says_why() {
    let error = StartError::Thread(io::Error::from(io::ErrorKind::OutOfMemory));
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<io::Error>());
    assert_eq!(cause.map(io::Error::kind), Some(io::ErrorKind::OutOfMemory));
    assert!(error.to_string().contains(&cause.unwrap().to_string()));
}

#[test]
fn without_a_runtime_it_says_so() {
    let client = || Service::new(vec![Step::Queue]).client();
    assert!(matches!(Recorder::builder(client(), |_| {}).start(), Err(StartError::NoRuntime)));
}

/// Waits for a recorder that was dropped to let go of its folder, and starts the next one.
async fn restart(service: &Service, told: &Told, folder: &Path, batch: usize) -> (Recorder, Recovery) {
    let spool = Spool::at(folder).durability(crate::Durability::Os).segment_bytes(600);
    loop {
        let builder = Recorder::builder(service.client(), told.observer()).batch_events(batch);
        match builder.close_timeout(SECOND * 200).start_with_spool(spool.clone()).await {
            Ok(started) => return started,
            Err(StartError::Spool(SpoolError::InUse { .. })) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

fn segments(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("segment")).count()
}

#[tokio::test(start_paused = true)]
async fn what_a_spool_holds_is_sent_by_the_next_start_with_the_same_ids() {
    let folder = tempfile::tempdir().unwrap();
    let (dead, told) = (Service::new(vec![Step::Busy]), Told::default());
    let (recorder, recovery) = restart(&dead, &told, folder.path(), 4).await;
    assert_eq!(recovery, Recovery::default());
    for number in 0..10 {
        recorder.record(event(number)).await.unwrap();
    }
    drop(recorder);
    let (alive, dropped) = (Service::new(vec![Step::Mixed(vec!["queued", "conflict"]), Step::Queue]), Instant::now());
    let (recorder, recovery) = restart(&alive, &told, folder.path(), 4).await;
    assert!(dropped.elapsed() < SECOND * 100, "the folder is free at once, and not after the time of a close");
    assert_eq!((recovery.events, told.numbers().len()), (10, 0));
    let closed = recorder.close().await.unwrap();
    assert_eq!((closed.unsent.len(), closed.counts.queued, closed.counts.conflict), (0, 8, 2));
    assert_eq!(segments(folder.path()), 0);
    let mut numbers = told.numbers();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    let sent = told.0.lock().unwrap().iter().all(|settled| settled.event == event(number_of(&settled.event)));
    assert!(sent, "the same facts, and so the same ids");
    let (refused, unreadable) = read_refused(&folder.path().join("refused")).unwrap();
    let refused: Vec<usize> = refused.iter().map(|refused| number_of(&refused.event)).collect();
    assert_eq!((refused, unreadable), (vec![1, 3], 0));
}

#[tokio::test(start_paused = true)]
async fn a_spool_that_broke_off_at_any_byte_sends_every_event_that_was_recorded() {
    let written = tempfile::tempdir().unwrap();
    let spool = Spool::at(written.path());
    let dead = Service::new(vec![Step::Busy]);
    let builder = Recorder::builder(dead.client(), |_| {}).close_timeout(Duration::ZERO);
    let (recorder, _) = builder.start_with_spool(spool).await.unwrap();
    for number in 0..3 {
        recorder.record(event(number)).await.unwrap();
    }
    let closed = recorder.close().await.unwrap();
    assert_eq!(unsent(&closed), [0, 1, 2]);
    let name = "segment-0000000000000001.events";
    let bytes = std::fs::read(written.path().join(name)).unwrap();
    for cut in 0..=bytes.len() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(name), &bytes[..cut]).unwrap();
        let (alive, told) = (Service::new(vec![Step::Queue]), Told::default());
        let (recorder, recovery) = restart(&alive, &told, folder.path(), 500).await;
        assert!(recorder.close().await.unwrap().unsent.is_empty());
        // Of each line that had been written, its end included, `record` had returned.
        let recorded = bytes[..cut].split(|byte| *byte == b'\n').count().saturating_sub(2);
        let sent = told.numbers();
        assert!(sent.len() == recorded || sent.len() == recorded + 1, "cut at {cut}: {sent:?}");
        assert_eq!((recovery.events, sent), (told.numbers().len(), (0..recovery.events).collect()), "cut at {cut}");
        assert!(told.0.lock().unwrap().iter().all(|told| told.event == event(number_of(&told.event))));
    }
}

#[derive(Debug, Clone)]
enum Op {
    Record,
    TryRecord,
    Flush,
    Pass(u64),
    /// The process ends without a close and another one begins; with a spool only.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let status = prop::sample::select(vec!["queued", "queued", "unavailable", "invalid", "conflict", "quota_exceeded"]);
    let step = prop_oneof![
        3 => Just(Step::Queue),
        2 => Just(Step::LoseAnswer),
        2 => Just(Step::LoseCall),
        2 => Just(Step::Busy),
        1 => Just(Step::Stall),
        3 => prop::collection::vec(status, 1..6).prop_map(Step::Mixed),
        1 => (0..20_usize).prop_map(Step::Refuse),
        1 => Just(Step::Unauthorized),
    ];
    let last = prop_oneof![2 => Just(Step::Queue), 1 => Just(Step::Busy), 1 => Just(Step::LoseAnswer)];
    (prop::collection::vec(step, 0..8), last).prop_map(|(mut steps, last)| {
        steps.push(last);
        steps
    })
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => Just(Op::Record),
        3 => Just(Op::TryRecord),
        1 => Just(Op::Flush),
        1 => (1..3_000_u64).prop_map(Op::Pass),
        1 => Just(Op::Restart),
    ];
    prop::collection::vec(op, 1..30)
}

/// Runs a history to its close: every event that was recorded has one outcome, which the service agrees with, or is
/// handed back, and then the service has not said a word on it; none that was not recorded has either.
async fn live(ops: Vec<Op>, steps: Vec<Step>, batch: usize, calls: usize, buffer: usize, folder: Option<&Path>) {
    let (service, told) = (Service::new(steps), Told::default());
    let start = async || {
        let builder = Recorder::builder(service.client(), told.observer()).batch_events(batch).buffer_events(buffer);
        let builder = builder.concurrent_calls(calls).close_timeout(SECOND * 200); // longer than all steps, stalls included
        match folder {
            None => builder.start().unwrap(),
            Some(folder) => restart(&service, &told, folder, batch).await.0,
        }
    };
    let mut recorder = start().await;
    let mut recorded = BTreeSet::new();
    for (number, op) in ops.into_iter().enumerate() {
        match op {
            // Its room is ample, and the stopped clock runs while the disk is waited for: no timeout.
            Op::Record if folder.is_some() => {
                recorder.record(event(number)).await.unwrap();
                recorded.insert(number);
            }
            // A call that is given up while it waits for room has not recorded its event.
            Op::Record => {
                if let Ok(result) = tokio::time::timeout(SECOND * 40, recorder.record(event(number))).await {
                    result.unwrap();
                    recorded.insert(number);
                }
            }
            Op::TryRecord => match recorder.try_record(event(number)).await {
                Ok(()) => drop(recorded.insert(number)),
                Err(full) => assert_eq!((full.event, recorded.contains(&number)), (event(number), false)),
            },
            Op::Flush => {
                if let Ok(flushed) = tokio::time::timeout(SECOND * 60, recorder.flush()).await {
                    flushed.unwrap();
                    assert_eq!(told.outcomes().into_keys().collect::<BTreeSet<_>>(), recorded);
                }
            }
            Op::Pass(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            Op::Restart if folder.is_some() => {
                drop(recorder);
                recorder = start().await;
            }
            Op::Restart => {}
        }
    }
    let closed = recorder.close().await.unwrap();
    let left: BTreeSet<usize> = closed.unsent.iter().map(number_of).collect();
    let outcomes = told.outcomes();
    assert_eq!(told.numbers().len(), outcomes.len(), "one outcome an event");
    assert_eq!(left.len(), closed.unsent.len());
    assert!(left.iter().all(|number| !outcomes.contains_key(number)));
    let all: BTreeSet<usize> = outcomes.keys().copied().chain(left.clone()).collect();
    assert_eq!(all, recorded);
    service.agrees_with(&outcomes, &left, batch);
    let Some(folder) = folder else { return };
    // What is left, and nothing else, is sent by the next start, with the same facts.
    let (alive, told_later) = (Service::new(vec![Step::Queue]), Told::default());
    let (recorder, recovery) = restart(&alive, &told_later, folder, batch).await;
    assert_eq!((recovery.events, recovery.set_aside), (left.len(), Vec::new()));
    assert!(recorder.close().await.unwrap().unsent.is_empty());
    assert_eq!(alive.queued(), left);
    assert!(told_later.0.lock().unwrap().iter().all(|told| told.event == event(number_of(&told.event))));
    assert_eq!(segments(folder), 0);
    let refused = read_refused(&folder.join("refused")).map(|(events, _)| events).unwrap_or_default();
    let kept: BTreeSet<usize> = refused.iter().map(|refused| number_of(&refused.event)).collect();
    let told_refused = outcomes.iter().filter(|(_, outcome)| !matches!(outcome, Outcome::Queued { .. }));
    assert_eq!(kept, told_refused.map(|(number, _)| *number).collect::<BTreeSet<_>>());
}

fn run(history: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(history);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_event_has_one_outcome_or_is_handed_back(
        ops in ops(), steps in steps(), batch in 1..6_usize, calls in 1..4_usize, buffer in 1..12_usize,
    ) {
        run(live(ops, steps, batch, calls, buffer, None));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_event_on_disk_has_one_outcome_or_is_sent_by_the_next_start(
        ops in ops(), steps in steps(), batch in 1..6_usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        run(live(ops, steps, batch, 4, 10_000, Some(folder.path())));
    }
}

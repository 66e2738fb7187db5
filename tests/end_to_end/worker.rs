//! The receive loop on a real queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tollgate_domain::ledger::Status;
use tollgate_domain::ports::{PortError, Queue};
use tollgate_worker::config::RunSettings;
use tollgate_worker::pipeline::Pipeline;
use tollgate_worker::ports::Ports;
use tollgate_worker::verdict::{HandBack, Outcome, Verdict};
use tollgate_worker::worker::Worker;

use crate::count::Count;
use crate::queue::{Queues, WatchedQueue};
use crate::script::{Act, Edge, Script};
use crate::world::{World, until};

const VISIBILITY_S: i32 = 60;

fn settings(visibility_s: i32, stop_grace_ms: u64) -> RunSettings {
    let visibility_ms = u64::try_from(visibility_s).unwrap() * 1_000;
    RunSettings { pollers: 1, max_in_work: 20, visibility_ms, stop_grace_ms }
}

/// Room for one receive's messages: while one is in work, no long poll is open that could take a message on the way
/// out and hide it.
fn settings_of_one_receive(stop_grace_ms: u64) -> RunSettings {
    RunSettings { max_in_work: 10, ..settings(VISIBILITY_S, stop_grace_ms) }
}

/// A worker that runs until it is told to stop.
struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    fn start<Q: Queue, P: Ports>(queue: Q, pipeline: Pipeline<P>, settings: RunSettings) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(Worker::new(queue, pipeline, settings).run(stop.clone()));
        Self { stop, task }
    }

    async fn stop(self) {
        self.stop.cancel();
        let stopped = tokio::time::timeout(Duration::from_secs(30), self.task).await;
        stopped.unwrap().unwrap();
    }
}

#[tokio::test]
async fn an_unparseable_message_goes_to_the_dead_letter_queue_and_the_worker_goes_on() {
    let world = World::new().await;
    let queues = Queues::create(&world).await;
    let good = world.message("a");
    queues.send_texts(&["{\"version\":1,".to_owned(), good.body.clone()]).await;
    let worker = Running::start(queues.port(VISIBILITY_S), world.live(), settings(VISIBILITY_S, 10_000));
    queues.until_empty().await;
    worker.stop().await;

    assert_eq!(world.count(&good.key).await, Count::inserted());
    let dead = queues.dead_letters().await;
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(dead[0].0, "{\"version\":1,", "as it came");
    assert!(dead[0].1.contains("unparseable message"), "{}", dead[0].1);
}

#[tokio::test]
async fn a_halted_delivery_goes_to_the_dead_letter_queue_with_its_reason_and_not_back_to_the_worker() {
    let world = World::new().await;
    let queues = Queues::create(&world).await;
    let message = world.message("a");
    world.claim(&message).await;
    world.insert(&message).await; // A row that nobody billed.
    queues.send(&[&message]).await;
    let worker = Running::start(queues.port(VISIBILITY_S), world.live(), settings(VISIBILITY_S, 10_000));
    queues.until_empty().await;
    worker.stop().await;
    let dead = queues.dead_letters().await;
    assert_eq!(dead, [(message.body.clone(), "a row is stored that nobody billed".to_owned())]);
}

#[tokio::test]
async fn a_panic_is_caught_for_its_message_alone_and_the_worker_goes_on() {
    let world = World::new().await;
    let queues = Queues::create(&world).await;
    let (bad, good) = (world.message("a"), world.message("b"));
    let id = bad.key.id.as_str().to_owned();
    let script = Script::new(move |point| {
        let panics = point.edge == Edge::Before && point.effect == "put" && point.of.contains(&id);
        if panics { Act::Panic } else { Act::Go }
    });
    queues.send(&[&bad, &good]).await;
    let queue = WatchedQueue::over(queues.port(VISIBILITY_S));
    let rests = queue.rests();
    let worker = Running::start(queue, world.scripted(&script), settings(VISIBILITY_S, 10_000));
    until("the good event is inserted", async || world.count(&good.key).await.status == "INSERTED").await;
    until("the bad one is handed back", async || *rests.lock().unwrap() == [HandBack::Panicked.rest_ms()]).await;
    // One slot a message: had the panic kept its slot or its poller, none of these would follow.
    let more: Vec<_> = (0..30).map(|number| world.message(&format!("more-{number}"))).collect();
    queues.send(&more.iter().collect::<Vec<_>>()).await;
    let port = queues.port(VISIBILITY_S);
    until("all but the bad one are acknowledged", async || {
        let depth = port.depth().await.unwrap();
        (depth.visible, depth.in_flight) == (0, 1)
    })
    .await;
    worker.stop().await;
    let count = world.count(&bad.key).await;
    assert_eq!(count, Count { meter: 32, archived: 31, rows: 31, twins: 31, ..Count::charged() });
    assert!(queues.receive().await.is_empty(), "the bad one rests");
    assert_eq!(world.deliver(&bad).await, Verdict::Acknowledge(Outcome::Inserted));
    assert_eq!(world.count(&bad.key).await.meter, 32, "and its redelivery does not charge again");
}

#[tokio::test]
async fn a_worker_that_is_told_to_stop_finishes_what_is_in_work() {
    let world = World::new().await;
    let queues = Queues::create(&world).await;
    let (started, waiting) = (world.message("a"), world.message("b"));
    queues.send(&[&started]).await;
    let script = Script::stop_at(Edge::Before, "put");
    let worker = Running::start(queues.port(VISIBILITY_S), world.scripted(&script), settings_of_one_receive(20_000));
    script.reached().await;
    worker.stop.cancel();
    // What comes after the signal stays in the queue for another worker.
    queues.send(&[&waiting]).await;
    let received = queues.receive().await;
    assert_eq!(received.iter().map(|delivery| delivery.body.as_str()).collect::<Vec<_>>(), [waiting.body.as_str()]);
    assert!(!worker.task.is_finished(), "it waits for the delivery in work");
    script.release();
    worker.stop().await;
    assert_eq!(world.count(&started.key).await, Count::inserted());
    let depth = queues.port(VISIBILITY_S).depth().await.unwrap();
    assert_eq!((depth.visible, depth.in_flight), (0, 1), "the finished one is deleted; the other was received above");
}

#[tokio::test]
async fn what_outlives_the_grace_is_handed_back_at_once() {
    let world = World::new().await;
    let queues = Queues::create(&world).await;
    let message = world.message("a");
    queues.send(&[&message]).await;
    let script = Script::stop_at(Edge::Before, "put");
    let worker = Running::start(queues.port(VISIBILITY_S), world.scripted(&script), settings_of_one_receive(100));
    script.reached().await;
    assert!(queues.receive().await.is_empty(), "hidden while it is in work");
    worker.stop().await;
    // Long before the visibility of a minute has run out.
    let received = queues.receive().await;
    assert_eq!(received.len(), 1);
    assert_eq!((received[0].body.as_str(), received[0].receive_count), (message.body.as_str(), 2));
    assert_eq!(world.count(&message.key).await, Count::charged());
    assert_eq!(world.deliver(&message).await, Verdict::Acknowledge(Outcome::Inserted));
    assert_eq!(world.count(&message.key).await, Count::inserted());
}

#[tokio::test]
async fn the_heartbeat_keeps_a_slow_delivery_hidden_beyond_its_visibility() {
    const SHORT_S: i32 = 2;
    let world = World::new().await;
    let queues = Queues::create(&world).await;
    let message = world.message("a");
    queues.send(&[&message]).await;
    let script = Script::stop_at(Edge::Before, "put");
    let worker = Running::start(queues.port(SHORT_S), world.scripted(&script), settings(SHORT_S, 10_000));
    script.reached().await;
    // Each receive waits for a second: five of them outlast two visibilities.
    for second in 1..=5 {
        assert!(queues.receive().await.is_empty(), "visible to others after {second} s");
    }
    script.release();
    queues.until_empty().await;
    worker.stop().await;
    assert_eq!(script.calls_of("claim"), 1, "nor did the same worker receive it again");
    assert_eq!(world.count(&message.key).await, Count::inserted());
}

#[tokio::test]
async fn twenty_copies_of_a_message_over_two_workers_charge_once() {
    let world = World::new().await;
    let queues = Queues::create(&world).await;
    let message = world.message("a");
    queues.send(&[&message; 20]).await;
    let workers =
        [(), ()].map(|()| Running::start(queues.port(VISIBILITY_S), world.live(), settings(VISIBILITY_S, 10_000)));
    queues.until_empty().await;
    for worker in workers {
        worker.stop().await;
    }
    assert_eq!(world.count(&message.key).await, Count::inserted());
    assert_eq!(queues.dead_letters().await, []);
    let verdict = world.deliver(&message).await;
    assert_eq!(verdict, Verdict::Acknowledge(Outcome::Already(Status::Inserted)));
}

#[tokio::test]
async fn a_message_that_an_open_poll_brings_while_the_worker_stops_is_handed_back_at_once() {
    let world = World::new().await;
    let queues = Queues::create(&world).await;
    let message = world.message("a");
    let queue = WatchedQueue::over(queues.polled_for(10, VISIBILITY_S));
    let (receives, rests) = (queue.receives(), queue.rests());
    let worker = Running::start(queue, world.live(), settings(VISIBILITY_S, 20_000));
    until("a poll is open", async || receives.load(Ordering::Relaxed) == 1).await;
    worker.stop.cancel();
    queues.send(&[&message]).await;
    worker.stop().await;

    assert_eq!(*rests.lock().unwrap(), [0], "the poll brought it, and it was handed back");
    let again = queues.receive().await;
    assert_eq!(again.first().map(|delivery| delivery.body.as_str()), Some(message.body.as_str()));
    assert_eq!(world.count(&message.key).await, Count::of("absent"), "nothing was begun");
}

#[tokio::test]
async fn an_outage_slows_receiving_down_lengthens_rests_and_sends_nothing_to_the_dead_letter_queue() {
    const MESSAGES: usize = 4;
    let world = World::new().await;
    let queues = Queues::create(&world).await;
    let messages: Vec<_> = (0..MESSAGES).map(|number| world.message(&format!("m{number}"))).collect();
    queues.send(&messages.iter().collect::<Vec<_>>()).await;
    let away = Arc::new(AtomicBool::new(true));
    let script = Script::new({
        let away = Arc::clone(&away);
        move |point| match (point.edge, point.effect) {
            (Edge::Before, "insert") if away.load(Ordering::Relaxed) => Act::Fail(PortError::NotNow("away".to_owned())),
            _ => Act::Go,
        }
    });
    let queue = WatchedQueue::over(queues.port(VISIBILITY_S));
    let (receives, rests) = (queue.receives(), queue.rests());
    let worker = Running::start(queue, world.scripted(&script), settings(VISIBILITY_S, 10_000));
    // Each message is given back twice: the second time after the outage has lasted for the first rest.
    until("every message was given back twice", async || rests.lock().unwrap().len() >= 2 * MESSAGES).await;
    away.store(false, Ordering::Relaxed);
    let rests_ms = rests.lock().unwrap().clone();
    assert!(rests_ms.iter().all(|rest_ms| *rest_ms >= 5_000), "{rests_ms:?}");
    assert!(rests_ms.last() > rests_ms.first(), "rests grow with the outage: {rests_ms:?}");
    // Without the pauses an empty queue is asked once a second, and a full one at once, over and over.
    assert!(receives.load(Ordering::Relaxed) < 40, "{receives:?}");

    queues.until_empty().await;
    worker.stop().await;
    for message in &messages {
        assert_eq!(world.item(&message.key).await.status, Status::Inserted);
    }
    assert_eq!(queues.dead_letters().await, []);
}

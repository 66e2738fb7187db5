//! The loop: receive, process, settle, until told to stop.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tollgate_domain::ports::{Delivery, PortError, Queue, Receipt};
use tollgate_stores::connect::Stores;

use crate::acknowledge::Acknowledger;
use crate::batch::Batcher;
use crate::config::{RunSettings, WorkerConfig};
use crate::heartbeat::{InWork, beat};
use crate::outage::{Outage, rest_ms};
use crate::patience::{Backoff, Patience};
use crate::pipeline::Pipeline;
use crate::ports::{LivePorts, Ports};
use crate::verdict::{DeadLetter, HandBack, Outcome, Verdict};

/// Messages that one receive asks for.
const RECEIVE: usize = 10;
/// Pause after a receive that cannot succeed until a person acts.
const BROKEN_PAUSE: Duration = Duration::from_secs(5);

/// A worker over one queue and one pipeline.
pub struct Worker<Q, P> {
    queue: Arc<Q>,
    pipeline: Arc<Pipeline<P>>,
    settings: RunSettings,
}

/// What the tasks of one run share.
struct Run<Q, P> {
    queue: Arc<Q>,
    pipeline: Arc<Pipeline<P>>,
    in_work: InWork,
    acknowledger: Acknowledger,
    slots: Arc<Semaphore>,
    outage: Outage,
    tracker: TaskTracker,
    stop: CancellationToken,
    /// After the grace: what is still in work is handed back.
    give_up: CancellationToken,
}

/// Runs a worker on the real engines until `stop`.
pub async fn run_live(config: WorkerConfig, stop: CancellationToken) -> Result<(), PortError> {
    let stores = Stores::connect(&config.stores).await?;
    let queue = stores.queue.clone();
    let rows = Batcher::start(stores.rows.clone(), config.batch);
    let pipeline = Pipeline::new(LivePorts::new(stores, rows), config.policy, config.quarantine_spacing_ms);
    Worker::new(queue, pipeline, config.run).run(stop).await;
    Ok(())
}

impl<Q: Queue, P: Ports> Worker<Q, P> {
    /// A worker that takes from `queue` and processes by `pipeline`.
    pub fn new(queue: Q, pipeline: Pipeline<P>, settings: RunSettings) -> Self {
        Self { queue: Arc::new(queue), pipeline: Arc::new(pipeline), settings }
    }

    /// Works until `stop`; then finishes what is in work within the grace, and hands back the rest.
    pub async fn run(self, stop: CancellationToken) {
        let RunSettings { pollers, max_in_work, visibility_ms, stop_grace_ms } = self.settings;
        let (acknowledger, deleting) = Acknowledger::start(Arc::clone(&self.queue));
        let run = Arc::new(Run {
            queue: Arc::clone(&self.queue),
            pipeline: self.pipeline,
            in_work: InWork::default(),
            acknowledger,
            slots: Arc::new(Semaphore::new(max_in_work.max(RECEIVE))),
            outage: Outage::default(),
            tracker: TaskTracker::new(),
            stop: stop.clone(),
            give_up: CancellationToken::new(),
        });
        let beating = CancellationToken::new();
        let heartbeat = tokio::spawn(beat(self.queue, run.in_work.clone(), visibility_ms, beating.clone()));
        for _ in 0..pollers.max(1) {
            run.tracker.spawn(poll(Arc::clone(&run)));
        }
        tracing::info!(pollers, max_in_work, "the worker takes messages");

        stop.cancelled().await;
        run.tracker.close();
        if tokio::time::timeout(Duration::from_millis(stop_grace_ms), run.tracker.wait()).await.is_err() {
            run.give_up.cancel();
            run.tracker.wait().await;
        }
        beating.cancel();
        let _ = heartbeat.await;
        // The last handle on the acknowledger: its task deletes what waits, then ends.
        drop(run);
        let _ = deleting.await;
        tracing::info!("the worker has stopped");
    }
}

/// Receives while there is room, and starts a task a message.
async fn poll<Q: Queue, P: Ports>(run: Arc<Run<Q, P>>) {
    let mut failures = 0;
    while !run.stop.is_cancelled() {
        let Some(mut slots) = free_slots(&run).await else { return };
        // While an engine is unwell, one message at a time tries whether it still is.
        let wanted = match run.outage.pause() {
            None => RECEIVE,
            Some(pause) => {
                if run.stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                    return;
                }
                1
            }
        };
        // A poll under way is waited for even when the worker stops: what it brings would otherwise stay hidden for a
        // whole visibility. It ends by itself after the queue's long poll, and with the grace at the latest.
        let Some(received) = run.give_up.run_until_cancelled(run.queue.receive(wanted)).await else { return };
        match received {
            Ok(deliveries) if run.stop.is_cancelled() => {
                for delivery in deliveries {
                    hand_back(&*run.queue, &delivery.receipt, HandBack::Stopping.rest_ms()).await;
                }
            }
            Ok(deliveries) => {
                failures = 0;
                for delivery in deliveries {
                    // One slot a message; a queue that answers more than it was asked for waits its turn.
                    let Some(slot) = slots.split(1) else { break };
                    run.in_work.begin(&delivery.receipt);
                    run.tracker.spawn(handle(Arc::clone(&run), delivery, slot));
                }
            }
            Err(error) => {
                tracing::warn!(%error, failures, "a receive failed");
                drop(slots);
                pause_after(&run, &error, failures).await;
                failures += 1;
            }
        }
    }
}

async fn free_slots<Q, P>(run: &Run<Q, P>) -> Option<OwnedSemaphorePermit> {
    let wanted = u32::try_from(RECEIVE).unwrap_or(1);
    tokio::select! {
        () = run.stop.cancelled() => None,
        slots = Arc::clone(&run.slots).acquire_many_owned(wanted) => slots.ok(),
    }
}

async fn pause_after<Q, P>(run: &Run<Q, P>, error: &PortError, failures: u32) {
    let pause = async {
        match error {
            PortError::Broken(_) => tokio::time::sleep(BROKEN_PAUSE).await,
            _ => Backoff.pause(failures).await,
        }
    };
    tokio::select! {
        () = run.stop.cancelled() => {}
        () = pause => {}
    }
}

/// One message: process it, whatever happens, and do what the verdict says.
async fn handle<Q: Queue, P: Ports>(run: Arc<Run<Q, P>>, delivery: Delivery, slot: OwnedSemaphorePermit) {
    let processing = AssertUnwindSafe(run.pipeline.process_delivery(&delivery.body)).catch_unwind();
    let verdict = tokio::select! {
        processed = processing => processed.unwrap_or_else(|_| {
            tracing::error!(message_id = delivery.message_id, "processing a message panicked; the worker goes on");
            Verdict::HandBack(HandBack::Panicked)
        }),
        () = run.give_up.cancelled() => Verdict::HandBack(HandBack::Stopping),
    };
    run.in_work.end(&delivery.receipt);
    settle(&run, delivery, verdict).await;
    drop(slot);
}

async fn settle<Q: Queue, P>(run: &Run<Q, P>, delivery: Delivery, verdict: Verdict) {
    match verdict {
        Verdict::Acknowledge(outcome) => {
            run.outage.settled(outcome == Outcome::Inserted);
            run.acknowledger.delete(delivery.receipt).await;
        }
        Verdict::HandBack(why) => {
            let rest = if why.is_an_engine_s() { rest_ms(why.rest_ms(), run.outage.go_on()) } else { why.rest_ms() };
            hand_back(&*run.queue, &delivery.receipt, rest).await;
        }
        Verdict::DeadLetter(DeadLetter { reason, .. }) => {
            tracing::error!(message_id = delivery.message_id, reason, "a message goes to the dead-letter queue");
            match run.queue.dead_letter(&delivery.body, &reason).await {
                Ok(()) => run.acknowledger.delete(delivery.receipt).await,
                // Sent first, deleted second: a message that is in neither queue is lost, one that is in both is not.
                Err(error) => {
                    tracing::error!(%error, message_id = delivery.message_id, "a dead letter could not be sent");
                    hand_back(&*run.queue, &delivery.receipt, HandBack::Trouble(error).rest_ms()).await;
                }
            }
        }
    }
}

/// Tells the queue when to deliver again. If that fails, the visibility runs out by itself.
async fn hand_back<Q: Queue>(queue: &Q, receipt: &Receipt, rest_ms: u64) {
    if let Err(error) = queue.set_visibility(std::slice::from_ref(receipt), rest_ms).await {
        tracing::debug!(%error, "a message could not be handed back early");
    }
}

//! Messages in work stay hidden from other workers for as long as the work takes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tollgate_domain::ports::{Queue, Receipt};

/// Receipts that one call extends.
const BATCH: usize = 10;

/// The receipts of deliveries in work.
#[derive(Clone, Default)]
pub(crate) struct InWork(Arc<Mutex<BTreeSet<Receipt>>>);

impl InWork {
    pub(crate) fn begin(&self, receipt: &Receipt) {
        self.receipts().insert(receipt.clone());
    }

    pub(crate) fn end(&self, receipt: &Receipt) {
        self.receipts().remove(receipt);
    }

    fn snapshot(&self) -> Vec<Receipt> {
        self.receipts().iter().cloned().collect()
    }

    fn receipts(&self) -> MutexGuard<'_, BTreeSet<Receipt>> {
        // Nothing can panic while the lock is held; a poisoned set is still a set.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Extends every delivery in work, three times in each visibility, until `stop`.
pub(crate) async fn beat<Q: Queue>(queue: Arc<Q>, in_work: InWork, visibility_ms: u64, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(Duration::from_millis((visibility_ms / 3).max(1)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first tick is at once, when every receipt is still fresh.
    ticks.tick().await;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        for receipts in in_work.snapshot().chunks(BATCH) {
            // A receipt that ended in between is refused, which is as well; one that ran out is somebody else's now.
            if let Err(error) = queue.set_visibility(receipts, visibility_ms).await {
                tracing::warn!(messages = receipts.len(), %error, "a heartbeat failed: the messages may come twice");
            }
        }
    }
}

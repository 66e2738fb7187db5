//! Deletes of finished messages, ten to a call.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout_at;
use tollgate_domain::ports::{Queue, Receipt};

/// Receipts that one call deletes.
const BATCH: usize = 10;
/// How long the first receipt of a batch waits for others.
const LINGER: Duration = Duration::from_millis(20);
/// Receipts that may wait; beyond it, finished deliveries hold their slot.
const WAITING: usize = 256;

/// Where finished deliveries leave their receipts.
#[derive(Clone)]
pub(crate) struct Acknowledger {
    sender: mpsc::Sender<Receipt>,
}

impl Acknowledger {
    /// Starts deleting. The task ends when every handle is dropped and every receipt was tried.
    pub(crate) fn start<Q: Queue>(queue: Arc<Q>) -> (Self, JoinHandle<()>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self { sender }, tokio::spawn(delete_batches(queue, receiver)))
    }

    /// Leaves a receipt. A delete that is lost costs a redelivery, which the ledger answers at once.
    pub(crate) async fn delete(&self, receipt: Receipt) {
        let _ = self.sender.send(receipt).await;
    }
}

async fn delete_batches<Q: Queue>(queue: Arc<Q>, mut receiver: mpsc::Receiver<Receipt>) {
    while let Some(first) = receiver.recv().await {
        let deadline = tokio::time::Instant::now() + LINGER;
        let mut batch = vec![first];
        while batch.len() < BATCH {
            match timeout_at(deadline, receiver.recv()).await {
                Ok(Some(receipt)) => batch.push(receipt),
                Ok(None) | Err(_) => break,
            }
        }
        match queue.delete(&batch).await {
            Ok(unproven) if unproven.is_empty() => {}
            Ok(unproven) => {
                tracing::warn!(messages = unproven.len(), "deletes are not proven: the messages will come again");
            }
            Err(error) => {
                tracing::warn!(messages = batch.len(), %error, "a delete failed: the messages will come again");
            }
        }
    }
}

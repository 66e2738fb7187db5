//! Rows of concurrent deliveries share an insert: one row an insert is ClickHouse's anti-pattern.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout_at;
use tollgate_domain::ledger::EventKey;
use tollgate_domain::ports::{InsertError, PortError, PortResult, Rows};
use tollgate_domain::row::Row;

/// When a batch is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSettings {
    /// Rows at most.
    pub max_rows: usize,
    /// Milliseconds that the first row of a batch waits for others.
    pub linger_ms: u64,
    /// Inserts under way at once.
    pub concurrency: usize,
}

/// Collects rows and inserts them together; each row gets its own answer.
pub struct Batcher<R> {
    rows: Arc<R>,
    sender: mpsc::Sender<Pending>,
}

struct Pending {
    row: Row,
    answer: oneshot::Sender<Result<(), InsertError>>,
}

impl<R: Rows> Batcher<R> {
    /// Starts collecting. Stops by itself when the last handle is dropped and every row has its answer.
    pub fn start(rows: R, settings: BatchSettings) -> Self {
        let rows = Arc::new(rows);
        let (sender, receiver) = mpsc::channel(settings.max_rows.max(1));
        tokio::spawn(collect(Arc::clone(&rows), receiver, settings));
        Self { rows, sender }
    }

    async fn insert_one(&self, row: Row) -> Result<(), InsertError> {
        let stopped = || InsertError::Port(PortError::NotNow("the batch of inserts has stopped".to_owned()));
        let (answer, answered) = oneshot::channel();
        self.sender.send(Pending { row, answer }).await.map_err(|_| stopped())?;
        // No answer means that the insert may have happened.
        answered.await.unwrap_or_else(|_| Err(PortError::Unknown("an insert was dropped".to_owned()).into()))
    }
}

impl<R: Rows> Rows for Batcher<R> {
    async fn is_present(&self, key: &EventKey) -> PortResult<bool> {
        self.rows.is_present(key).await
    }

    async fn insert(&self, rows: &[Row]) -> Result<(), InsertError> {
        let answers = join_all(rows.iter().map(|row| self.insert_one(row.clone()))).await;
        answers.into_iter().collect()
    }
}

async fn collect<R: Rows>(rows: Arc<R>, mut receiver: mpsc::Receiver<Pending>, settings: BatchSettings) {
    let slots = Arc::new(Semaphore::new(settings.concurrency.max(1)));
    while let Some(first) = receiver.recv().await {
        let deadline = tokio::time::Instant::now() + Duration::from_millis(settings.linger_ms);
        let mut batch = vec![first];
        while batch.len() < settings.max_rows {
            match timeout_at(deadline, receiver.recv()).await {
                Ok(Some(next)) => batch.push(next),
                Ok(None) | Err(_) => break,
            }
        }
        // Waiting for a slot here, and not in the task, lets the next batch grow while the engine is busy.
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let rows = Arc::clone(&rows);
        tokio::spawn(async move {
            insert_bisecting(&*rows, batch).await;
            drop(slot);
        });
    }
}

/// Inserts a batch and answers every row of it. A batch that holds a poison row is halved until that row is alone.
async fn insert_bisecting<R: Rows>(rows: &R, batch: Vec<Pending>) {
    let mut parts = VecDeque::from([batch]);
    while let Some(mut part) = parts.pop_front() {
        let sent: Vec<Row> = part.iter().map(|pending| pending.row.clone()).collect();
        let answer = rows.insert(&sent).await;
        if matches!(answer, Err(InsertError::Poison { .. })) && part.len() > 1 {
            let second = part.split_off(part.len() / 2);
            parts.extend([part, second]);
            continue;
        }
        for pending in part {
            // Nobody waits any more where a delivery was given up: its redelivery will ask the probe.
            let _ = pending.answer.send(answer.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Refuses any batch that holds the row of subject "poison".
    #[derive(Default)]
    struct Recorder(Mutex<Vec<usize>>);

    impl Rows for Recorder {
        async fn is_present(&self, _: &EventKey) -> PortResult<bool> {
            Ok(false)
        }

        async fn insert(&self, rows: &[Row]) -> Result<(), InsertError> {
            self.0.lock().unwrap().push(rows.len());
            if rows.iter().any(|row| row.subject == "poison") {
                return Err(InsertError::Poison { code: 469, message: String::new() });
            }
            Ok(())
        }
    }

    fn row(subject: &str) -> Row {
        Row {
            space: "acme".to_owned(),
            event_id: "uev_0".to_owned(),
            fingerprint: String::new(),
            meter: "m".to_owned(),
            subject: subject.to_owned(),
            source: String::new(),
            quantity: 1,
            occurred_at_ms: 0,
            row_inserted_at_ms: 0,
            period_month: "2026-11".to_owned(),
            billed_as: "FREE".to_owned(),
        }
    }

    fn settings(max_rows: usize) -> BatchSettings {
        BatchSettings { max_rows, linger_ms: 50, concurrency: 1 }
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_rows_share_an_insert() {
        let batcher = Batcher::start(Recorder::default(), settings(8));
        let answers = join_all((0..8).map(|_| batcher.insert_one(row("s")))).await;
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(*batcher.rows.0.lock().unwrap(), [8]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lone_row_waits_for_the_linger_and_no_longer() {
        let batcher = Batcher::start(Recorder::default(), settings(8));
        let start = tokio::time::Instant::now();
        batcher.insert_one(row("s")).await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_millis(50));
    }

    #[tokio::test(start_paused = true)]
    async fn a_poison_row_is_found_alone_and_its_neighbours_are_stored() {
        let batcher = Batcher::start(Recorder::default(), settings(8));
        let subjects = ["a", "b", "c", "poison", "d", "e", "f", "g"];
        let answers = join_all(subjects.map(|subject| batcher.insert_one(row(subject)))).await;
        for (subject, answer) in subjects.iter().zip(answers) {
            assert_eq!(answer.is_err(), *subject == "poison", "{subject}");
        }
        assert_eq!(*batcher.rows.0.lock().unwrap(), [8, 4, 4, 2, 2, 1, 1]);
    }
}

//! For callers without an async runtime.
//!
//! Behind each client is a thread of its own with a small runtime on it; calls hand it their work and wait. So it may be
//! called from anywhere, also from inside another runtime, where it does not panic: it blocks that runtime's thread
//! like any slow function, which is why async code uses [`Client`] and [`Recorder`] themselves.
//!
//! ```no_run
//! use std::time::{Duration, SystemTime};
//! use tollgate_client::{ApiKey, Client, Outcome, UsageEvent, blocking, instant_of};
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let key = ApiKey::parse(&std::env::var("TOLLGATE_API_KEY")?)?;
//! let client = blocking::Client::new(Client::builder("https://tollgate.example.com", &key).build()?)?;
//! let event = UsageEvent::builder("api_request", "cus_01", instant_of(SystemTime::now())).build()?;
//! if let Outcome::Unavailable { reason, .. } = client.record(&event) {
//!     println!("keep the event, and record the same one later: {reason}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The one place where a call cannot work is the module's own thread, where a recorder's observer runs: there it is
//! answered at once, with an error or with *unavailable*, and not waited for.

use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::{self, Handle};
use tokio::sync::oneshot;
use tollgate_domain::identity::EventId;
use tollgate_domain::period::PeriodMonth;

use crate::event::UsageEvent;
use crate::outcome::Outcome;
use crate::recorder::{
    Closed, Counts, Ended, NotRecorded, NotRecordedReason, Recorder as AsyncRecorder, RecorderBuilder, Settled,
    StartError,
};
use crate::spool::{Recovery, Spool};
use crate::status::{EventStatus, LookError, Recorded, Usage};

/// Why a call was not made.
const NOT_HERE: &str = "the blocking client's own thread has ended, or made this call itself";

/// A thread with a runtime. Ends when the last clone is dropped, and whatever still ran there with it.
#[derive(Debug, Clone)]
struct Blocking(Arc<Worker>);

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    thread: ThreadId,
    /// Dropped to end the thread.
    _alive: oneshot::Sender<()>,
}

impl Blocking {
    fn start() -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (handle, (alive, ended)) = (runtime.handle().clone(), oneshot::channel::<()>());
        let thread = thread::Builder::new().name("tollgate-client".to_owned()).spawn(move || {
            // An error: the last handle was dropped. The runtime is dropped here, where that may block.
            let _ended = runtime.block_on(ended);
        })?;
        Ok(Self(Arc::new(Worker { runtime: handle, thread: thread.thread().id(), _alive: alive })))
    }

    /// What `work` comes to; `None` when it cannot be waited for. A channel of the standard library waits: it asks for
    /// no runtime and minds none.
    fn wait<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        if thread::current().id() == self.0.thread {
            return None;
        }
        let (done, wait) = mpsc::sync_channel(1);
        self.0.runtime.spawn(async move {
            let _told = done.send(work.await); // an error: nobody waits any more
        });
        wait.recv().ok()
    }
}

/// A [`crate::Client`] for callers without a runtime. Clones share its thread.
#[derive(Debug, Clone)]
pub struct Client {
    client: crate::Client,
    blocking: Blocking,
}

impl Client {
    /// A blocking client, with a thread of its own; fails when the operating system gives none.
    pub fn new(client: crate::Client) -> io::Result<Self> {
        Ok(Self { client, blocking: Blocking::start()? })
    }

    /// See [`crate::Client::record`].
    pub fn record(&self, event: &UsageEvent) -> Outcome {
        let (client, event) = (self.client.clone(), event.clone());
        self.blocking.wait(async move { client.record(&event).await }).unwrap_or_else(unavailable)
    }

    /// See [`crate::Client::record_batch`].
    pub fn record_batch(&self, events: &[UsageEvent]) -> Vec<Outcome> {
        let (client, batch) = (self.client.clone(), events.to_vec());
        let outcomes = self.blocking.wait(async move { client.record_batch(&batch).await });
        outcomes.unwrap_or_else(|| vec![unavailable(); events.len()])
    }

    /// See [`crate::Client::record_batch_partial`].
    pub fn record_batch_partial(&self, events: &[UsageEvent]) -> Vec<Outcome> {
        let (client, batch) = (self.client.clone(), events.to_vec());
        let outcomes = self.blocking.wait(async move { client.record_batch_partial(&batch).await });
        outcomes.unwrap_or_else(|| vec![unavailable(); events.len()])
    }

    /// See [`crate::Client::record_json_batch`].
    pub fn record_json_batch(&self, events: &[Value]) -> Vec<Outcome> {
        let (client, batch) = (self.client.clone(), events.to_vec());
        let outcomes = self.blocking.wait(async move { client.record_json_batch(&batch).await });
        outcomes.unwrap_or_else(|| vec![unavailable(); events.len()])
    }

    /// See [`crate::Client::record_and_wait`].
    pub fn record_and_wait(&self, event: &UsageEvent, timeout: Duration) -> Recorded {
        let (client, event) = (self.client.clone(), event.clone());
        let recorded = self.blocking.wait(async move { client.record_and_wait(&event, timeout).await });
        recorded.unwrap_or_else(unrecorded)
    }

    /// See [`crate::Client::record_and_wait_batch`].
    pub fn record_and_wait_batch(&self, events: &[UsageEvent], timeout: Duration) -> Vec<Recorded> {
        let (client, batch) = (self.client.clone(), events.to_vec());
        let recorded = self.blocking.wait(async move { client.record_and_wait_batch(&batch, timeout).await });
        recorded.unwrap_or_else(|| vec![unrecorded(); events.len()])
    }

    /// See [`crate::Client::event_status`].
    pub fn event_status(&self, id: &EventId, wait: Duration) -> Result<EventStatus, LookError> {
        let (client, id) = (self.client.clone(), id.clone());
        let status = self.blocking.wait(async move { client.event_status(&id, wait).await });
        status.unwrap_or_else(|| Err(unanswered()))
    }

    /// See [`crate::Client::usage`].
    pub fn usage(&self, month: Option<PeriodMonth>) -> Result<Usage, LookError> {
        let client = self.client.clone();
        self.blocking.wait(async move { client.usage(month).await }).unwrap_or_else(|| Err(unanswered()))
    }
}

fn unavailable() -> Outcome {
    Outcome::Unavailable { reason: NOT_HERE.to_owned(), retry_after: None, attempts: 0 }
}

fn unrecorded() -> Recorded {
    Recorded::Unavailable { reason: NOT_HERE.to_owned(), queued: false, retry_after: None, attempts: 0 }
}

fn unanswered() -> LookError {
    LookError::Unavailable { reason: NOT_HERE.to_owned(), retry_after: None, attempts: 0 }
}

/// A [`crate::Recorder`] for callers without a runtime, on a thread of its own. Clones are handles of the same one.
///
/// Close it: when the last handle is dropped, its thread ends and takes with it what is in the buffer, unless there is
/// a spool.
#[derive(Debug, Clone)]
pub struct Recorder {
    recorder: AsyncRecorder,
    blocking: Blocking,
}

impl Recorder {
    /// Starts a recorder that holds its events in memory alone.
    pub fn start<F: FnMut(Settled) + Send + 'static>(builder: RecorderBuilder<F>) -> Result<Self, StartError> {
        let blocking = Blocking::start().map_err(StartError::Thread)?;
        let recorder = blocking.wait(async move { builder.start() }).ok_or(StartError::NoRuntime)??;
        Ok(Self { recorder, blocking })
    }

    /// Starts a recorder that keeps every event on disk until its outcome is known.
    pub fn start_with_spool<F: FnMut(Settled) + Send + 'static>(
        builder: RecorderBuilder<F>,
        spool: Spool,
    ) -> Result<(Self, Recovery), StartError> {
        let blocking = Blocking::start().map_err(StartError::Thread)?;
        let started = blocking.wait(builder.start_with_spool(spool));
        let (recorder, recovery) = started.ok_or(StartError::NoRuntime)??;
        Ok((Self { recorder, blocking }, recovery))
    }

    /// See [`crate::Recorder::record`].
    pub fn record(&self, event: UsageEvent) -> Result<(), NotRecorded> {
        let (recorder, sent) = (self.recorder.clone(), event.clone());
        let recorded = self.blocking.wait(async move { recorder.record(sent).await });
        recorded.unwrap_or(Err(NotRecorded { event, reason: NotRecordedReason::Closed }))
    }

    /// See [`crate::Recorder::try_record`].
    pub fn try_record(&self, event: UsageEvent) -> Result<(), NotRecorded> {
        let (recorder, sent) = (self.recorder.clone(), event.clone());
        let recorded = self.blocking.wait(async move { recorder.try_record(sent).await });
        recorded.unwrap_or(Err(NotRecorded { event, reason: NotRecordedReason::Closed }))
    }

    /// See [`crate::Recorder::flush`]; `None` when `timeout` was over first.
    pub fn flush(&self, timeout: Duration) -> Result<Option<Counts>, Ended> {
        let recorder = self.recorder.clone();
        let flushed = self.blocking.wait(async move { tokio::time::timeout(timeout, recorder.flush()).await });
        flushed.ok_or(Ended)?.ok().transpose()
    }

    /// See [`crate::Recorder::close`].
    pub fn close(self) -> Result<Closed, Ended> {
        let recorder = self.recorder;
        self.blocking.wait(recorder.close()).ok_or(Ended)?
    }
}

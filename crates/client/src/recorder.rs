//! A recorder: events in, one outcome an event out, in the background.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tollgate_domain::event::MAX_EVENT_BYTES;

use crate::call::{MAX_CALL_BYTES, MAX_CALL_EVENTS};
use crate::client::{Client, Taking};
use crate::event::UsageEvent;
use crate::outcome::Outcome;
use crate::spool::{Backlog, Place, Recovery, Spool, SpoolError, Writer};

/// Bytes of a call beyond its events' own: one between each two, and one at each end.
const BYTES_BETWEEN: usize = 1;

/// Records events in the background: gathers them into calls, sends these until every event has an outcome, and tells
/// each outcome once.
///
/// A call takes every event for itself (`partial=true`): a bad event holds no other back. Events that found no answer
/// stay in the buffer and are sent again, the same bytes, with the client's back-off and without its end: only
/// [`Recorder::close`] gives up, and then it hands them back. Up to `concurrent_calls` calls are under way at a time,
/// so that events may arrive in another order than they were recorded in; with one, they keep it.
///
/// What is refused is final: it is told, with a spool it is kept in the file of refused events, and it is not sent
/// again. That holds for a refused API key as well, which refuses every event: mend the key, and record them again.
///
/// Clones are handles of the same recorder. **Await [`Recorder::close`] before the process ends.** When every handle is
/// dropped without it, a recorder with a spool stops at once and its next start sends what is left; one without a spool
/// goes on by itself for the time that close would have, while the runtime lives, and tells whatever is left then as
/// [`Outcome::Unavailable`]. Nobody waits for that: a process that ends in between loses those events.
#[derive(Clone)]
pub struct Recorder {
    commands: mpsc::UnboundedSender<Command>,
    room: Arc<Room>,
    writer: Option<Writer>,
}

/// An event and its outcome. Told once, unless the process dies between the telling and the spool's note of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The event.
    pub event: UsageEvent,
    /// What became of it; never [`Outcome::HeldBack`].
    pub outcome: Outcome,
}

/// How many events ended how, since the recorder was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Durably queued.
    pub queued: u64,
    /// Refused: another event of the same call has the id and other facts. Each is a mistake of its sender.
    pub conflict: u64,
    /// Refused by the plan.
    pub quota_exceeded: u64,
    /// Refused for what they are.
    pub invalid: u64,
    /// Refused for the API key.
    pub unauthorized: u64,
    /// Refused for a call that the service does not take.
    pub refused: u64,
    /// Outcomes whose observer panicked.
    pub observer_panics: u64,
    /// Writes of the spool that failed after `record` had returned: at worst, an event is sent again.
    pub spool_failures: u64,
}

/// What a recorder leaves when it is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "unsent events are in nobody else's hands, unless there is a spool"]
pub struct Closed {
    /// Events without an outcome, in the order in which they were recorded: not known to be queued. Record the same
    /// events later. Those of a recorder with a spool are on disk as well, and its next start sends them.
    pub unsent: Vec<UsageEvent>,
    /// How the others ended.
    pub counts: Counts,
}

/// An event that was not recorded.
#[derive(Debug, thiserror::Error)]
#[error("the event was not recorded: {reason}")]
pub struct NotRecorded {
    /// The event, handed back.
    pub event: UsageEvent,
    /// Why.
    #[source]
    pub reason: NotRecordedReason,
}

/// Why an event was not recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotRecordedReason {
    /// There is no room now; told by [`Recorder::try_record`] alone.
    #[error("the buffer is full")]
    Full,
    /// The recorder is closed, or its runtime is gone.
    #[error("the recorder is closed")]
    Closed,
    /// The spool could not keep it. It may stand on the disk all the same, and then the next start sends it: record the
    /// same event again, elsewhere if need be, and never another in its place.
    #[error("the spool could not keep it: {0}")]
    Spool(#[source] io::Error),
}

/// Why a recorder cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Call it inside a Tokio runtime, or see [`crate::blocking`].
    #[error("a recorder needs a Tokio runtime to run on")]
    NoRuntime,
    /// The operating system gives no thread or runtime to a recorder of [`crate::blocking`].
    #[error("a blocking recorder gets no thread to run on: {0}")]
    Thread(#[source] io::Error),
    /// The spool cannot be opened.
    #[error(transparent)]
    Spool(#[from] SpoolError),
}

/// The recorder ended before it could answer: closed by another handle, or its runtime is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the recorder has ended")]
pub struct Ended;

/// Settings of a recorder.
#[must_use = "a builder does nothing before `start`"]
pub struct RecorderBuilder<F> {
    client: Client,
    observer: F,
    settings: Settings,
}

impl<F> fmt::Debug for RecorderBuilder<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecorderBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone)]
struct Settings {
    batch_events: usize,
    batch_bytes: usize,
    batch_age: Duration,
    concurrent_calls: usize,
    buffer_events: usize,
    buffer_bytes: usize,
    close_timeout: Duration,
}

impl<F: FnMut(Settled) + Send + 'static> RecorderBuilder<F> {
    /// Events of one call: 1 to 500. Default 500. A call that has so many is sent at once.
    pub fn batch_events(mut self, events: usize) -> Self {
        self.settings.batch_events = events.clamp(1, MAX_CALL_EVENTS);
        self
    }

    /// Bytes of one call's body: 64 KiB and two brackets, which the largest event needs, to 1 MiB. Default 1 MiB.
    pub fn batch_bytes(mut self, bytes: usize) -> Self {
        self.settings.batch_bytes = bytes.clamp(MAX_EVENT_BYTES + 2, MAX_CALL_BYTES);
        self
    }

    /// How long an event may wait for others to share its call. Default 1 s.
    pub fn batch_age(mut self, age: Duration) -> Self {
        self.settings.batch_age = age;
        self
    }

    /// Calls under way at a time, at least 1. Default 4.
    pub fn concurrent_calls(mut self, calls: usize) -> Self {
        self.settings.concurrent_calls = calls.max(1);
        self
    }

    /// Events without an outcome that there is room for, at least 1; `record` waits when there are so many. Default
    /// 10,000. A spool has room for no more: what it held at the start counts.
    pub fn buffer_events(mut self, events: usize) -> Self {
        self.settings.buffer_events = events.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Bytes of JSON of the events without an outcome that there is room for, at least 64 KiB. Default 16 MiB.
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.settings.buffer_bytes = bytes.clamp(MAX_EVENT_BYTES, Semaphore::MAX_PERMITS);
        self
    }

    /// How long [`Recorder::close`] goes on trying. Default 30 s.
    pub fn close_timeout(mut self, timeout: Duration) -> Self {
        self.settings.close_timeout = timeout;
        self
    }

    /// A recorder that holds its events in memory alone. Call it inside a Tokio runtime.
    pub fn start(self) -> Result<Recorder, StartError> {
        self.run(None, Vec::new())
    }

    /// A recorder that keeps every event on disk until its outcome is known, and begins with those that an earlier
    /// process left there. Call it inside a Tokio runtime.
    pub async fn start_with_spool(self, spool: Spool) -> Result<(Recorder, Recovery), StartError> {
        Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let (writer, backlog, recovery) = Writer::open(spool).await?;
        Ok((self.run(Some(writer), backlog)?, recovery))
    }

    fn run(self, writer: Option<Writer>, backlog: Backlog) -> Result<Recorder, StartError> {
        let runtime = Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let room = Arc::new(Room {
            events: Arc::new(Semaphore::new(self.settings.buffer_events)),
            bytes: Arc::new(Semaphore::new(self.settings.buffer_bytes)),
        });
        let (commands, received) = mpsc::unbounded_channel();
        let (settle, settled) = mpsc::unbounded_channel();
        let mut driver = Driver {
            client: self.client,
            observer: self.observer,
            settings: self.settings,
            writer: writer.clone(),
            commands: received,
            open: true,
            settle,
            settled,
            calls: JoinSet::new(),
            next: 0,
            unsettled: BTreeMap::new(),
            line: VecDeque::new(),
            line_bytes: 0,
            send_below: 0,
            flushes: Vec::new(),
            closing: None,
            counts: Counts::default(),
        };
        for (place, event) in backlog {
            let text: Arc<str> = event.to_json().into();
            // A backlog larger than the room is taken all the same; there is room again when it is gone.
            let taken = room.try_take(text.len()).ok();
            driver.take(Entry { event, text, place: Some(place), room: taken });
        }
        driver.send_below = driver.next;
        runtime.spawn(driver.run());
        Ok(Recorder { commands, room, writer })
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let free = (self.room.events.available_permits(), self.room.bytes.available_permits());
        f.debug_struct("Recorder").field("free_events_and_bytes", &free).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Starts a recorder of `client`'s space. `observer` is told the outcome of every event, on the recorder's own
    /// task: it should return soon, for instance by passing the outcome on through a channel. There is none by default,
    /// so that a conflict, which is somebody's mistake, is never nobody's business.
    pub fn builder<F: FnMut(Settled) + Send + 'static>(client: Client, observer: F) -> RecorderBuilder<F> {
        let settings = Settings {
            batch_events: MAX_CALL_EVENTS,
            batch_bytes: MAX_CALL_BYTES,
            batch_age: Duration::from_secs(1),
            concurrent_calls: 4,
            buffer_events: 10_000,
            buffer_bytes: 16 * 1024 * 1024,
            close_timeout: Duration::from_secs(30),
        };
        RecorderBuilder { client, observer, settings }
    }

    /// Records an event; waits while there is no room, and with a spool until the event is kept.
    ///
    /// A call that is dropped while it waits has recorded the event or not; recording it again is harmless.
    pub async fn record(&self, event: UsageEvent) -> Result<(), NotRecorded> {
        let text: Arc<str> = event.to_json().into();
        match self.room.take(text.len()).await {
            Ok(room) => self.enter(event, text, room).await,
            Err(reason) => Err(NotRecorded { event, reason }),
        }
    }

    /// Like [`Recorder::record`], but hands the event back when there is no room. With a spool it still waits until the
    /// event is kept.
    pub async fn try_record(&self, event: UsageEvent) -> Result<(), NotRecorded> {
        let text: Arc<str> = event.to_json().into();
        match self.room.try_take(text.len()) {
            Ok(room) => self.enter(event, text, room).await,
            Err(reason) => Err(NotRecorded { event, reason }),
        }
    }

    /// Sends what is recorded, without waiting for calls to fill, and returns when everything that was recorded before
    /// has its outcome: for ever, if the service stays away. Give it a timeout; dropping it loses nothing.
    pub async fn flush(&self) -> Result<Counts, Ended> {
        let (done, wait) = oneshot::channel();
        self.commands.send(Command::Flush(done)).map_err(|_| Ended)?;
        wait.await.map_err(|_| Ended)
    }

    /// Takes no more events, sends what is left until its outcome is known or `close_timeout` is over, and stops. What
    /// is left then is handed back. Calls of `record` that wait for room end with [`NotRecordedReason::Closed`].
    ///
    /// Closed twice through two handles, the first is handed what is left.
    pub async fn close(self) -> Result<Closed, Ended> {
        self.room.close();
        let (done, wait) = oneshot::channel();
        self.commands.send(Command::Close(done)).map_err(|_| Ended)?;
        wait.await.map_err(|_| Ended)
    }

    async fn enter(&self, event: UsageEvent, text: Arc<str>, room: Taken) -> Result<(), NotRecorded> {
        let closed = |event| NotRecorded { event, reason: NotRecordedReason::Closed };
        let entry = Entry { event, text, place: None, room: Some(room) };
        let Some(writer) = &self.writer else {
            return self.commands.send(Command::Record(Box::new(entry))).map_err(|unsent| match unsent.0 {
                Command::Record(entry) => closed(entry.event),
                Command::Flush(_) | Command::Close(_) => unreachable!("what was sent comes back"),
            });
        };
        let (told, wait) = oneshot::channel();
        let (event, text, commands) = (entry.event.clone(), Arc::clone(&entry.text), self.commands.clone());
        // From the disk into the buffer without this call, which may be dropped meanwhile: what is kept is sent.
        let kept = move |result: io::Result<Place>| {
            let kept = result.map(|place| {
                // An error: the recorder has ended. The event is kept, and the next start sends it.
                let _sent = commands.send(Command::Record(Box::new(Entry { place: Some(place), ..entry })));
            });
            let _told = told.send(kept);
        };
        writer.append(text, Box::new(kept));
        match wait.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(NotRecorded { event, reason: NotRecordedReason::Spool(error) }),
            Err(_) => Err(closed(event)),
        }
    }
}

/// What a handle says to the driver.
enum Command {
    Record(Box<Entry>),
    Flush(oneshot::Sender<Counts>),
    Close(oneshot::Sender<Closed>),
}

/// Room for events without an outcome.
struct Room {
    events: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

/// One event's share of the room, given back when it is dropped.
struct Taken {
    _event: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
}

impl Room {
    async fn take(&self, bytes: usize) -> Result<Taken, NotRecordedReason> {
        let closed = |_| NotRecordedReason::Closed;
        let event = Arc::clone(&self.events).acquire_owned().await.map_err(closed)?;
        let bytes = Arc::clone(&self.bytes).acquire_many_owned(share(bytes)).await.map_err(closed)?;
        Ok(Taken { _event: event, _bytes: bytes })
    }

    fn try_take(&self, bytes: usize) -> Result<Taken, NotRecordedReason> {
        let reason = |error| match error {
            tokio::sync::TryAcquireError::Closed => NotRecordedReason::Closed,
            tokio::sync::TryAcquireError::NoPermits => NotRecordedReason::Full,
        };
        let event = Arc::clone(&self.events).try_acquire_owned().map_err(reason)?;
        let bytes = Arc::clone(&self.bytes).try_acquire_many_owned(share(bytes)).map_err(reason)?;
        Ok(Taken { _event: event, _bytes: bytes })
    }

    fn close(&self) {
        self.events.close();
        self.bytes.close();
    }
}

/// Bytes as permits: an event has at most 64 KiB.
fn share(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// A recorded event without an outcome.
struct Entry {
    event: UsageEvent,
    text: Arc<str>,
    place: Option<Place>,
    #[expect(dead_code, reason = "held until the event has its outcome")]
    room: Option<Taken>,
}

/// An event that waits for a call.
struct Waiting {
    number: u64,
    bytes: usize,
    since: Instant,
}

/// Until when a closing recorder goes on, and who waits for it.
struct Closing {
    deadline: Instant,
    told: Vec<oneshot::Sender<Closed>>,
}

/// The recorder's task. It owns everything, so that an event is settled in one place: by its removal from `unsettled`.
struct Driver<F> {
    client: Client,
    observer: F,
    settings: Settings,
    writer: Option<Writer>,
    commands: mpsc::UnboundedReceiver<Command>,
    /// Whether a handle is left.
    open: bool,
    settle: mpsc::UnboundedSender<(u64, Outcome)>,
    settled: mpsc::UnboundedReceiver<(u64, Outcome)>,
    calls: JoinSet<()>,
    /// The next event's number.
    next: u64,
    unsettled: BTreeMap<u64, Entry>,
    /// Those of them that no call has taken yet, in order.
    line: VecDeque<Waiting>,
    line_bytes: usize,
    /// Events below this number wait for no others.
    send_below: u64,
    /// Who waits for every event below which number.
    flushes: Vec<(u64, oneshot::Sender<Counts>)>,
    closing: Option<Closing>,
    counts: Counts,
}

/// What the driver waits for.
enum Turn {
    Settled(u64, Outcome),
    Command(Option<Command>),
    CallEnded,
    BatchDue,
    TimeIsOver,
}

impl<F: FnMut(Settled)> Driver<F> {
    async fn run(mut self) {
        while !self.is_over() {
            self.start_calls();
            match self.turn().await {
                Turn::Settled(number, outcome) => self.settle(number, outcome),
                Turn::Command(Some(command)) => self.obey(command),
                Turn::Command(None) => self.abandon(),
                Turn::CallEnded | Turn::BatchDue => {}
                Turn::TimeIsOver => break,
            }
        }
        self.end().await;
    }

    fn is_over(&self) -> bool {
        self.closing.is_some() && self.unsettled.is_empty()
    }

    async fn turn(&mut self) -> Turn {
        let due = self.due();
        let deadline = self.closing.as_ref().map(|closing| closing.deadline);
        tokio::select! {
            biased;
            Some((number, outcome)) = self.settled.recv() => Turn::Settled(number, outcome),
            command = self.commands.recv(), if self.open => Turn::Command(command),
            Some(_) = self.calls.join_next(), if !self.calls.is_empty() => Turn::CallEnded,
            () = at(due), if due.is_some() => Turn::BatchDue,
            () = at(deadline), if deadline.is_some() => Turn::TimeIsOver,
        }
    }

    /// When the eldest waiting event is old enough; `None` when it waits for a call to end, or there is none.
    fn due(&self) -> Option<Instant> {
        let eldest = self.line.front().filter(|_| self.calls.len() < self.settings.concurrent_calls)?;
        eldest.since.checked_add(self.settings.batch_age)
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Record(entry) => self.take(*entry),
            Command::Flush(told) => {
                self.send_below = self.next;
                self.flushes.push((self.next, told));
                self.tell_flushes();
            }
            Command::Close(told) => self.begin_closing().told.push(told),
        }
    }

    fn begin_closing(&mut self) -> &mut Closing {
        self.send_below = u64::MAX;
        let timeout = self.settings.close_timeout;
        self.closing.get_or_insert_with(|| Closing { deadline: after(timeout), told: Vec::new() })
    }

    /// Every handle is dropped. A spool has what is left; without one, there is only this.
    fn abandon(&mut self) {
        self.open = false;
        let keeps = self.writer.is_some();
        let closing = self.begin_closing();
        if keeps && closing.told.is_empty() {
            closing.deadline = Instant::now();
        }
    }

    fn take(&mut self, entry: Entry) {
        let number = self.next;
        self.next += 1;
        let bytes = entry.text.len().saturating_add(BYTES_BETWEEN);
        self.line_bytes += bytes;
        self.line.push_back(Waiting { number, bytes, since: Instant::now() });
        self.unsettled.insert(number, entry);
    }

    /// Starts every call that is full, due or asked for, as far as calls may be under way.
    fn start_calls(&mut self) {
        while self.calls.len() < self.settings.concurrent_calls && self.batch_is_ready() {
            let batch = self.next_batch();
            let (client, settle) = (self.client.clone(), self.settle.clone());
            self.calls.spawn(async move {
                let (numbers, texts): (Vec<u64>, Vec<Arc<str>>) = batch.into_iter().unzip();
                let policy = client.retry().endless();
                let told = |place: usize, outcome| {
                    // An error: the driver has ended, and with it this call.
                    let _told = numbers.get(place).map(|number| settle.send((*number, outcome)));
                };
                client.call(&texts, Taking::Each, &policy, told).await;
            });
        }
    }

    fn batch_is_ready(&self) -> bool {
        let Some(eldest) = self.line.front() else { return false };
        self.line.len() >= self.settings.batch_events
            || self.line_bytes.saturating_add(BYTES_BETWEEN) >= self.settings.batch_bytes
            || eldest.number < self.send_below
            || eldest.since.elapsed() >= self.settings.batch_age
    }

    fn next_batch(&mut self) -> Vec<(u64, Arc<str>)> {
        let (mut batch, mut bytes) = (Vec::new(), BYTES_BETWEEN);
        while let Some(waiting) = self.line.front() {
            bytes = bytes.saturating_add(waiting.bytes);
            if batch.len() >= self.settings.batch_events || (bytes > self.settings.batch_bytes && !batch.is_empty()) {
                break;
            }
            self.line_bytes -= waiting.bytes;
            batch.extend(self.unsettled.get(&waiting.number).map(|entry| (waiting.number, Arc::clone(&entry.text))));
            self.line.pop_front();
        }
        batch
    }

    fn settle(&mut self, number: u64, outcome: Outcome) {
        let Some(entry) = self.unsettled.remove(&number) else { return };
        if let (Some(writer), Some(place)) = (&self.writer, entry.place) {
            writer.settle(place, entry.text, &outcome);
        }
        self.count(&outcome);
        self.tell(entry.event, outcome);
        self.tell_flushes();
    }

    fn tell(&mut self, event: UsageEvent, outcome: Outcome) {
        // A panic of the observer must not take the other events with it.
        let told = catch_unwind(AssertUnwindSafe(|| (self.observer)(Settled { event, outcome })));
        self.counts.observer_panics += u64::from(told.is_err());
    }

    fn count(&mut self, outcome: &Outcome) {
        let place = match outcome {
            Outcome::Queued { .. } => &mut self.counts.queued,
            Outcome::Conflict { .. } => &mut self.counts.conflict,
            Outcome::QuotaExceeded { .. } => &mut self.counts.quota_exceeded,
            Outcome::Invalid { .. } => &mut self.counts.invalid,
            Outcome::Unauthorized { .. } => &mut self.counts.unauthorized,
            Outcome::Refused { .. } | Outcome::HeldBack | Outcome::Unavailable { .. } => &mut self.counts.refused,
        };
        *place += 1;
    }

    fn tell_flushes(&mut self) {
        if self.flushes.is_empty() {
            return;
        }
        let (first, counts) = (self.unsettled.keys().next().copied().unwrap_or(self.next), self.counts());
        let (done, rest) = std::mem::take(&mut self.flushes).into_iter().partition(|(below, _)| *below <= first);
        self.flushes = rest;
        let done: Vec<(u64, oneshot::Sender<Counts>)> = done;
        for (_, told) in done {
            let _told = told.send(counts); // an error: nobody waits any more
        }
    }

    fn counts(&self) -> Counts {
        Counts { spool_failures: self.writer.as_ref().map_or(0, Writer::failures), ..self.counts }
    }

    /// Stops the calls, takes the outcomes that are known by now, and hands back the rest.
    async fn end(mut self) {
        self.calls.shutdown().await;
        self.commands.close();
        while let Some(command) = self.commands.recv().await {
            self.obey(command);
        }
        while let Ok((number, outcome)) = self.settled.try_recv() {
            self.settle(number, outcome);
        }
        if let Some(writer) = &self.writer {
            writer.close().await;
        }
        let left: Vec<UsageEvent> =
            std::mem::take(&mut self.unsettled).into_values().map(|entry| entry.event).collect();
        let counts = self.counts();
        let told = self.closing.take().map(|closing| closing.told).unwrap_or_default();
        let mut unsent = Some(left);
        for waiting in told {
            let closed = Closed { unsent: unsent.take().unwrap_or_default(), counts };
            // An error: that handle waits no more, and the next one is handed the rest.
            if let Err(closed) = waiting.send(closed) {
                unsent = Some(closed.unsent);
            }
        }
        if self.writer.is_none() {
            self.tell_lost(unsent.unwrap_or_default());
        }
    }

    /// Nobody is left to be handed these.
    fn tell_lost(&mut self, events: Vec<UsageEvent>) {
        for event in events {
            let reason = "the recorder ended before there was an answer".to_owned();
            self.tell(event, Outcome::Unavailable { reason, retry_after: None, attempts: 0 });
        }
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// The instant that long from now; one that no clock reaches is far enough in ten years.
fn after(wait: Duration) -> Instant {
    const FAR: Duration = Duration::from_hours(24 * 3_652);
    let now = Instant::now();
    now.checked_add(wait.min(FAR)).unwrap_or(now)
}

#[cfg(test)]
mod tests {
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
            let world =
                World { steps: steps.into(), calls: Vec::new(), queued: BTreeSet::new(), refused: BTreeSet::new() };
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
                rows.push(
                    json!({"index": index, "id": event(*number).id(), "submissionId": "sub_1", "status": status}),
                );
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
        let (alive, dropped) =
            (Service::new(vec![Step::Mixed(vec!["queued", "conflict"]), Step::Queue]), Instant::now());
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
        let status =
            prop::sample::select(vec!["queued", "queued", "unavailable", "invalid", "conflict", "quota_exceeded"]);
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
            let builder =
                Recorder::builder(service.client(), told.observer()).batch_events(batch).buffer_events(buffer);
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
}

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
mod tests;

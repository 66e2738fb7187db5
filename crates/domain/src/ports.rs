//! The ports: everything that the pipeline asks of the world, one async trait each.
//!
//! Errors are decisions: a variant says what the caller must do. An answer that never came is *unknown*, not failed.
//! A failed condition is neither: it is information, and comes back as a value with the item that made it fail.

use std::future::Future;

use crate::archive::ArchiveObject;
use crate::identity::Fingerprint;
use crate::key::{KeyHash, KeyRecord, ListedKey};
use crate::ledger::{Checkpoint, EventKey, LedgerItem, NewClaim, Rejection};
use crate::period::PeriodMonth;
use crate::plan::{Limit, SpaceRecord};
use crate::receipt::{CommandReceipt, NewReceipt, Owner, ReceiptKey, StoredAnswer};
use crate::row::Row;
use crate::space::SpaceId;
use crate::time::UtcMillis;

/// Why a port gave no answer, as what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// The answer never came: the effect may have happened. Run the same step again, its own condition answers.
    #[error("no answer: {0}")]
    Unknown(String),
    /// Nothing happened, and will not for a moment: throttling, overload, an outage. Back off, then again.
    #[error("not now: {0}")]
    NotNow(String),
    /// Nothing happened because somebody else was at the same item. Back off with jitter, then again.
    #[error("contended: {0}")]
    Contended(String),
    /// Nothing happened, and every call would fail alike: credentials, configuration, a drifted schema. Stop and page.
    #[error("broken: {0}")]
    Broken(String),
}

/// What a port answers.
pub type PortResult<T> = Result<T, PortError>;

/// A ledger item as a store hands it out. Strongly consistent, wherever it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Image {
    /// The item.
    Item(Box<LedgerItem>),
    /// There is none.
    Absent,
    /// There is one that this version cannot read; the text says why, without the item's content.
    Unreadable(String),
}

/// Outcome of a conditional write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conditional {
    /// The condition held and the write is durable.
    Applied,
    /// The condition did not hold; this is the item that it was held against.
    Refused(Image),
}

/// Outcome of a transaction that consumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Consumption {
    /// Counter and checkpoint moved together.
    Consumed,
    /// Neither moved. Why is not told by the error's shape but by durable state; an image that came along is fresh,
    /// and its absence proves nothing.
    Cancelled {
        /// The ledger item, where its condition failed.
        ledger: Option<Image>,
        /// The month's count, where the counter's condition failed.
        count: Option<u64>,
    },
}

/// How fresh an answer must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// A few seconds old will do: enough to accept.
    Cached,
    /// Strongly consistent: required before any rejection.
    Strong,
}

/// Outcome of a put that must not overwrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// Written now.
    Stored,
    /// The same bytes were there already.
    Same,
    /// Other bytes are there; they were left alone.
    Different,
}

/// Why rows were not inserted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InsertError {
    /// ClickHouse refuses a row of this batch for what it is. Alone in its batch, the row is quarantined.
    #[error("poison row: ClickHouse code {code}")]
    Poison {
        /// ClickHouse's error code.
        code: u32,
        /// Its message: may quote data, so it goes to the ledger and to no log.
        message: String,
    },
    /// Nothing is known against the rows.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// DynamoDB's `event_ledger`: the one authority on "have we processed this event?".
pub trait Ledger: Send + Sync + 'static {
    /// First writer wins, for all time. Refused with the winner's item.
    fn claim(&self, claim: &NewClaim) -> impl Future<Output = PortResult<Conditional>> + Send;
    /// A strongly consistent read.
    fn read(&self, key: &EventKey) -> impl Future<Output = PortResult<Image>> + Send;
    /// Closes a stored event; refused unless the checkpoint stands.
    fn mark_inserted(&self, key: &EventKey, now: UtcMillis) -> impl Future<Output = PortResult<Conditional>> + Send;
    /// Counts one refusal of the row: count becomes `seen + 1`, if it is still `seen` and the last is older than `spacing_ms`.
    fn record_quarantine(
        &self,
        key: &EventKey,
        seen: u64,
        spacing_ms: i64,
        error: &str,
        now: UtcMillis,
    ) -> impl Future<Output = PortResult<Conditional>> + Send;
    /// Gives the row up; refused below [`crate::ledger::MAX_QUARANTINES`].
    fn mark_uninsertable(&self, key: &EventKey, now: UtcMillis)
    -> impl Future<Output = PortResult<Conditional>> + Send;
    /// Keeps another fingerprint that came under the same id; a repeat is counted once.
    fn record_conflict(
        &self,
        key: &EventKey,
        fingerprint: &Fingerprint,
        now: UtcMillis,
    ) -> impl Future<Output = PortResult<Conditional>> + Send;
}

/// The ledger, asked about many events at once: for whoever only looks.
pub trait EventLookup: Send + Sync + 'static {
    /// What stands for each key, in their order; strongly consistent. All of them or an error.
    fn read_many(&self, keys: &[EventKey]) -> impl Future<Output = PortResult<Vec<Image>>> + Send;
}

/// The writes that move money: `consume`, `stamp` and `reject`, and no other.
pub trait Billing: Send + Sync + 'static {
    /// Free space: moves the counter of (space, month) by one and stamps the checkpoint, both or neither.
    fn consume(
        &self,
        key: &EventKey,
        month: PeriodMonth,
        limit: Limit,
        now: UtcMillis,
    ) -> impl Future<Output = PortResult<Consumption>> + Send;
    /// Internal or active Plus space: stamps the checkpoint alone.
    fn stamp(&self, key: &EventKey, checkpoint: &Checkpoint) -> impl Future<Output = PortResult<Conditional>> + Send;
    /// Refuses the event for ever, with what justified it.
    fn reject(
        &self,
        key: &EventKey,
        rejection: &Rejection,
        now: UtcMillis,
    ) -> impl Future<Output = PortResult<Conditional>> + Send;
    /// The month's count, strongly consistent; absent reads as 0.
    fn count(&self, space: &SpaceId, month: PeriodMonth) -> impl Future<Output = PortResult<u64>> + Send;
}

/// DynamoDB's `spaces`.
pub trait Spaces: Send + Sync + 'static {
    /// The space's entry. A failed read is an error, never an unknown space.
    fn read(
        &self,
        space: &SpaceId,
        freshness: Freshness,
    ) -> impl Future<Output = PortResult<Option<SpaceRecord>>> + Send;
}

/// DynamoDB's `api_keys`.
pub trait Keys: Send + Sync + 'static {
    /// What is known of the key, revoked or not. A failed read is an error, never an unknown key.
    fn find(&self, hash: &KeyHash) -> impl Future<Output = PortResult<Option<KeyRecord>>> + Send;
    /// The space's keys, revoked ones too, oldest first. A change of the last seconds may be missing.
    fn list(&self, space: &SpaceId) -> impl Future<Output = PortResult<Vec<ListedKey>>> + Send;
    /// Notes that the key was used, unless a use within `spacing_ms` is noted already; tells whether it wrote.
    fn touch(&self, hash: &KeyHash, spacing_ms: i64, now: UtcMillis) -> impl Future<Output = PortResult<bool>> + Send;
}

/// DynamoDB's `command_receipts`.
pub trait Receipts: Send + Sync + 'static {
    /// Writes the receipt and answers `None`, if [`NewReceipt::may_replace`] what stands; else answers what stands.
    fn begin(&self, new: &NewReceipt) -> impl Future<Output = PortResult<Option<CommandReceipt>>> + Send;
    /// Keeps the answer from now on for [`crate::receipt::KEPT_MS`]; `false` if the receipt is not `owner`'s any more.
    fn finish(
        &self,
        key: &ReceiptKey,
        owner: &Owner,
        answer: &StoredAnswer,
        now: UtcMillis,
    ) -> impl Future<Output = PortResult<bool>> + Send;
    /// Ends the lease, so that the same request runs again; `false` if the receipt is not `owner`'s any more or has an
    /// answer.
    fn release(&self, key: &ReceiptKey, owner: &Owner) -> impl Future<Output = PortResult<bool>> + Send;
}

/// S3: the full payloads.
pub trait Archive: Send + Sync + 'static {
    /// Writes the object unless its key is taken, and says whether the bytes there are the same.
    fn put(&self, object: &ArchiveObject) -> impl Future<Output = PortResult<Put>> + Send;
    /// The object's bytes, or that there is none.
    fn get(&self, key: &str) -> impl Future<Output = PortResult<Option<Vec<u8>>>> + Send;
}

/// ClickHouse: the lean rows.
pub trait Rows: Send + Sync + 'static {
    /// Whether the row is in `events` and in `events_billing`.
    fn is_present(&self, key: &EventKey) -> impl Future<Output = PortResult<bool>> + Send;
    /// Inserts all of them or tells why not. Repeats are harmless.
    fn insert(&self, rows: &[Row]) -> impl Future<Output = Result<(), InsertError>> + Send;
}

/// ClickHouse: what a Plus space is billed from.
pub trait PlusUsage: Send + Sync + 'static {
    /// Distinct events of the space and month that were billed as Plus.
    fn count_plus(&self, space: &SpaceId, month: PeriodMonth) -> impl Future<Output = PortResult<u64>> + Send;
}

/// A received message, until its receipt runs out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The message's text.
    pub body: String,
    /// Whatever the queue needs to delete, extend or hand back this delivery.
    pub receipt: Receipt,
    /// The queue's name of the message.
    pub message_id: String,
    /// How often the message was received, this time included. No verdict: crashes and outages raise it too.
    pub receive_count: u32,
}

/// The queue's handle on one delivery.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Receipt(pub String);

/// SQS, as the worker sees it.
pub trait Queue: Send + Sync + 'static {
    /// Waits for up to 10 messages, at most the queue's long poll.
    fn receive(&self, max: usize) -> impl Future<Output = PortResult<Vec<Delivery>>> + Send;
    /// Acknowledges at most 10 deliveries; returns those that are not proven deleted.
    fn delete(&self, receipts: &[Receipt]) -> impl Future<Output = PortResult<Vec<Receipt>>> + Send;
    /// Makes at most 10 deliveries visible again in `ms` milliseconds from now, rounded up to seconds: a heartbeat,
    /// or with 0 a hand-back. Returns those that are not proven extended.
    fn set_visibility(&self, receipts: &[Receipt], ms: u64) -> impl Future<Output = PortResult<Vec<Receipt>>> + Send;
    /// Sends a message that no worker can finish to the dead-letter queue, with the reason. The source still has it.
    fn dead_letter(&self, body: &str, reason: &str) -> impl Future<Output = PortResult<()>> + Send;
}

/// SQS, as the front door sees it.
pub trait Intake: Send + Sync + 'static {
    /// Sends all messages, however many. Tells of each, by its place among them, as soon as its answer comes and in no
    /// order: `Ok` means durably queued.
    ///
    /// Whoever drops the future keeps what was told. Of a message that nothing was told of, nothing is known.
    fn send_each(
        &self,
        messages: &[String],
        told: &mut (impl FnMut(usize, PortResult<()>) + Send),
    ) -> impl Future<Output = ()> + Send;
    /// The same for whoever waits for every answer: all of them, in the messages' order.
    fn send(&self, messages: &[String]) -> impl Future<Output = Vec<PortResult<()>>> + Send {
        async move {
            let unanswered = || Err(PortError::Unknown("a message has no answer".to_owned()));
            let mut answers: Vec<_> = messages.iter().map(|_| unanswered()).collect();
            let mut told = |place: usize, answer| {
                if let Some(slot) = answers.get_mut(place) {
                    *slot = answer;
                }
            };
            self.send_each(messages, &mut told).await;
            answers
        }
    }
    /// Whether the queue is there and answers.
    fn probe(&self) -> impl Future<Output = PortResult<()>> + Send;
}

/// The time of day.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> UtcMillis;
}

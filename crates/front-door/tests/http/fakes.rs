//! A world that does what a test tells it, and remembers what it was asked.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use lambda_http::tower::ServiceExt as _;
use serde_json::Value;
use tollgate_domain::envelope::Envelope;
use tollgate_domain::identity::Fingerprint;
use tollgate_domain::key::{ApiKey, KeyHash, KeyRecord, ListedKey, Scope};
use tollgate_domain::ledger::{Checkpoint, EventKey, LedgerItem, NewClaim, Rejection};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::{Limit, SpaceRecord};
use tollgate_domain::ports::{
    Billing, Clock, Conditional, Consumption, EventLookup, Freshness, Image, Intake, Keys, Ledger, PlusUsage,
    PortError, PortResult, Receipts, Spaces,
};
use tollgate_domain::receipt::{CommandReceipt, NewReceipt, Owner, Progress, ReceiptKey, StoredAnswer, expiry_s};
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;
use tollgate_front_door::config::FrontDoorConfig;
use tollgate_front_door::ports::FrontDoorPorts;
use tollgate_front_door::router::router;

use crate::document;

pub(crate) const NOW: &str = "2026-11-30T12:00:00Z";
pub(crate) const EVENT: &str =
    r#"{"meter":"api_request","subject":"cus_01","occurredAt":"2026-08-18T09:15:00Z","quantity":3}"#;

/// How a fake answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Mood {
    #[default]
    Well,
    Failing,
    Stalled,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) keys: BTreeMap<KeyHash, KeyRecord>,
    pub(crate) keys_mood: Mood,
    pub(crate) key_reads: usize,
    /// Uses that were noted, with their spacing in milliseconds.
    pub(crate) touches: Vec<(KeyHash, i64)>,
    pub(crate) touch_mood: Mood,
    pub(crate) space: Option<SpaceRecord>,
    pub(crate) spaces_mood: Mood,
    pub(crate) space_reads: Vec<Freshness>,
    pub(crate) count: u64,
    pub(crate) billing_mood: Mood,
    pub(crate) counted: Vec<PeriodMonth>,
    pub(crate) known: BTreeSet<String>,
    pub(crate) ledger_mood: Mood,
    pub(crate) ledger_reads: usize,
    /// What a look at one event finds.
    pub(crate) items: BTreeMap<EventKey, LedgerItem>,
    pub(crate) receipts: BTreeMap<ReceiptKey, CommandReceipt>,
    pub(crate) receipts_mood: Mood,
    pub(crate) finish_mood: Mood,
    /// What ClickHouse counts for a Plus space; `None` where it is not configured.
    pub(crate) plus: Option<u64>,
    pub(crate) plus_mood: Mood,
    pub(crate) queue_probes: usize,
    /// Milliseconds by which the clock is ahead of [`NOW`].
    pub(crate) ahead_ms: i64,
    pub(crate) queue_mood: Mood,
    /// The message of a call from which on the queue gives no answer.
    pub(crate) queue_stalls_at: Option<usize>,
    /// Texts of messages that the queue does not take.
    pub(crate) refused_messages: BTreeSet<String>,
    pub(crate) sent: Vec<String>,
    /// A worker that is done at once with what is queued: what it leaves of an event that nobody claimed before.
    pub(crate) worker: Option<fn(&Envelope) -> LedgerItem>,
}

/// One world: clones share it.
#[derive(Clone, Default)]
pub(crate) struct World(Arc<Mutex<State>>);

impl World {
    /// A world with one key, of the space `acme`, that may ingest.
    pub(crate) fn new() -> Self {
        listen();
        let world = Self::default();
        world.add_key(&key(7), &[Scope::Ingest], None);
        world
    }

    /// The same, of a space of one's own.
    pub(crate) fn add_key_of(&self, space: &str, key: &ApiKey, scopes: &[Scope]) {
        self.add_key(key, scopes, None);
        self.with(|state| state.keys.get_mut(&key.hash()).unwrap().space = SpaceId::parse(space).unwrap());
    }

    pub(crate) fn add_key(&self, key: &ApiKey, scopes: &[Scope], revoked_at: Option<&str>) {
        let record = KeyRecord {
            space: SpaceId::parse("acme").unwrap(),
            scopes: scopes.iter().copied().collect(),
            created_at: UtcMillis::EPOCH,
            revoked_at: revoked_at.map(|text| UtcMillis::parse(text).unwrap()),
            label: "test".to_owned(),
            last_used_at: None,
        };
        self.with(|state| state.keys.insert(key.hash(), record));
    }

    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    pub(crate) fn sent(&self) -> Vec<Envelope> {
        self.with(|state| state.sent.iter().map(|text| Envelope::decode(text).unwrap()).collect())
    }

    pub(crate) fn router(&self, config: FrontDoorConfig) -> Router {
        router(self.clone(), config)
    }
}

async fn in_mood<T>(mood: Mood, value: T) -> PortResult<T> {
    match mood {
        Mood::Well => Ok(value),
        Mood::Failing => Err(PortError::NotNow("throttled".to_owned())),
        Mood::Stalled => {
            tokio::time::sleep(Duration::from_secs(30)).await;
            Ok(value)
        }
    }
}

impl Keys for World {
    async fn find(&self, hash: &KeyHash) -> PortResult<Option<KeyRecord>> {
        let (mood, found) = self.with(|state| {
            state.key_reads += 1;
            (state.keys_mood, state.keys.get(hash).cloned())
        });
        in_mood(mood, found).await
    }
    async fn list(&self, space: &SpaceId) -> PortResult<Vec<ListedKey>> {
        let listed = |(hash, record): (&KeyHash, &KeyRecord)| ListedKey { hash: hash.clone(), record: record.clone() };
        let (mood, keys) = self.with(|state| {
            (state.keys_mood, state.keys.iter().filter(|(_, record)| record.space == *space).map(listed).collect())
        });
        in_mood(mood, keys).await
    }
    async fn touch(&self, hash: &KeyHash, spacing_ms: i64, now: UtcMillis) -> PortResult<bool> {
        let mood = self.with(|state| {
            state.touches.push((hash.clone(), spacing_ms));
            state.touch_mood
        });
        in_mood(mood, ()).await?;
        Ok(self.with(|state| state.keys.get_mut(hash).map(|record| record.last_used_at = Some(now))).is_some())
    }
}

impl Receipts for World {
    async fn begin(&self, new: &NewReceipt) -> PortResult<Option<CommandReceipt>> {
        let mood = self.with(|state| state.receipts_mood);
        in_mood(mood, ()).await?;
        self.with(|state| match state.receipts.get(&new.key) {
            standing if new.may_replace(standing) => {
                state.receipts.insert(new.key.clone(), new.clone().into_receipt());
                Ok(None)
            }
            standing => Ok(standing.cloned()),
        })
    }
    async fn finish(&self, key: &ReceiptKey, owner: &Owner, answer: &StoredAnswer, now: UtcMillis) -> PortResult<bool> {
        let mood = self.with(|state| state.finish_mood);
        in_mood(mood, ()).await?;
        self.with(|state| {
            let Some(receipt) = state.receipts.get_mut(key).filter(|receipt| receipt.owner == *owner) else {
                return Ok(false);
            };
            receipt.progress = Progress::Done(answer.clone());
            receipt.expires_at_s = expiry_s(now);
            Ok(true)
        })
    }
    async fn release(&self, key: &ReceiptKey, owner: &Owner) -> PortResult<bool> {
        let mood = self.with(|state| state.receipts_mood);
        in_mood(mood, ()).await?;
        self.with(|state| match state.receipts.get_mut(key).filter(|receipt| receipt.owner == *owner) {
            Some(CommandReceipt { progress: Progress::Running { lease_until }, .. }) => {
                *lease_until = UtcMillis::EPOCH;
                Ok(true)
            }
            _ => Ok(false),
        })
    }
}

impl PlusUsage for World {
    async fn count_plus(&self, _: &SpaceId, month: PeriodMonth) -> PortResult<u64> {
        let (mood, count) = self.with(|state| {
            state.counted.push(month);
            (state.plus_mood, state.plus.unwrap())
        });
        in_mood(mood, count).await
    }
}

impl Spaces for World {
    async fn read(&self, _: &SpaceId, freshness: Freshness) -> PortResult<Option<SpaceRecord>> {
        let (mood, record) = self.with(|state| {
            state.space_reads.push(freshness);
            (state.spaces_mood, state.space)
        });
        in_mood(mood, record).await
    }
}

impl Billing for World {
    async fn consume(&self, _: &EventKey, _: PeriodMonth, _: Limit, _: UtcMillis) -> PortResult<Consumption> {
        unreachable!("the front door never consumes")
    }
    async fn stamp(&self, _: &EventKey, _: &Checkpoint) -> PortResult<Conditional> {
        unreachable!("the front door never stamps")
    }
    async fn reject(&self, _: &EventKey, _: &Rejection, _: UtcMillis) -> PortResult<Conditional> {
        unreachable!("the front door never rejects")
    }
    async fn count(&self, _: &SpaceId, month: PeriodMonth) -> PortResult<u64> {
        let (mood, count) = self.with(|state| {
            state.counted.push(month);
            (state.billing_mood, state.count)
        });
        in_mood(mood, count).await
    }
}

impl Ledger for World {
    async fn claim(&self, _: &NewClaim) -> PortResult<Conditional> {
        unreachable!("the front door never claims")
    }
    async fn read(&self, key: &EventKey) -> PortResult<Image> {
        let (mood, item) = self.with(|state| {
            state.ledger_reads += 1;
            let unreadable = || Image::Unreadable("of a later version".to_owned());
            let image = state.items.get(key).map(|item| Image::Item(Box::new(item.clone())));
            let image = image.or_else(|| state.known.contains(key.id.as_str()).then(unreadable));
            (state.ledger_mood, image.unwrap_or(Image::Absent))
        });
        in_mood(mood, item).await
    }
    async fn mark_inserted(&self, _: &EventKey, _: UtcMillis) -> PortResult<Conditional> {
        unreachable!("the front door never marks")
    }
    async fn record_quarantine(&self, _: &EventKey, _: u64, _: i64, _: &str, _: UtcMillis) -> PortResult<Conditional> {
        unreachable!("the front door never quarantines")
    }
    async fn mark_uninsertable(&self, _: &EventKey, _: UtcMillis) -> PortResult<Conditional> {
        unreachable!("the front door never marks")
    }
    async fn record_conflict(&self, _: &EventKey, _: &Fingerprint, _: UtcMillis) -> PortResult<Conditional> {
        unreachable!("the front door never records conflicts")
    }
}

impl EventLookup for World {
    async fn read_many(&self, keys: &[EventKey]) -> PortResult<Vec<Image>> {
        let (mood, images) = self.with(|state| {
            state.ledger_reads += 1;
            let unreadable = || Image::Unreadable("of a later version".to_owned());
            let image =
                |key: &EventKey| if state.known.contains(key.id.as_str()) { unreadable() } else { Image::Absent };
            (state.ledger_mood, keys.iter().map(image).collect())
        });
        in_mood(mood, images).await
    }
}

impl Intake for World {
    async fn send_each(&self, messages: &[String], told: &mut (impl FnMut(usize, PortResult<()>) + Send)) {
        let (mood, stalls_at) = self.with(|state| (state.queue_mood, state.queue_stalls_at));
        if in_mood(mood, ()).await.is_err() {
            let lost = || Err(PortError::Unknown("connection reset".to_owned()));
            return (0..messages.len()).for_each(|place| told(place, lost()));
        }
        let send = |state: &mut State, message: &String| {
            if state.refused_messages.iter().any(|part| message.contains(part)) {
                return Err(PortError::NotNow("throttled".to_owned()));
            }
            state.sent.push(message.clone());
            if let Some(worker) = state.worker {
                let item = worker(&Envelope::decode(message).unwrap());
                state.items.entry(item.key.clone()).or_insert(item);
            }
            Ok(())
        };
        for (place, message) in messages.iter().enumerate() {
            if stalls_at.is_some_and(|stalls_at| stalls_at <= place) {
                std::future::pending::<()>().await;
            }
            told(place, self.with(|state| send(state, message)));
        }
    }
    async fn probe(&self) -> PortResult<()> {
        let mood = self.with(|state| {
            state.queue_probes += 1;
            state.queue_mood
        });
        in_mood(mood, ()).await
    }
}

impl Clock for World {
    fn now(&self) -> UtcMillis {
        UtcMillis::parse(NOW).unwrap().saturating_add_ms(self.with(|state| state.ahead_ms))
    }
}

impl FrontDoorPorts for World {
    type Keys = Self;
    type Spaces = Self;
    type Billing = Self;
    type Ledger = Self;
    type Receipts = Self;
    type PlusUsage = Self;
    type Intake = Self;
    type Clock = Self;

    fn keys(&self) -> &Self {
        self
    }
    fn spaces(&self) -> &Self {
        self
    }
    fn billing(&self) -> &Self {
        self
    }
    fn ledger(&self) -> &Self {
        self
    }
    fn receipts(&self) -> &Self {
        self
    }
    fn plus_usage(&self) -> Option<&Self> {
        self.with(|state| state.plus.is_some()).then_some(self)
    }
    fn intake(&self) -> &Self {
        self
    }
    fn clock(&self) -> &Self {
        self
    }
}

pub(crate) fn key(byte: u8) -> ApiKey {
    ApiKey::from_random([byte; 32])
}

/// A `GET` of `path` with `key`.
pub(crate) fn get_as(key: &ApiKey, path: &str) -> Request<Body> {
    Request::get(path).header("authorization", format!("Bearer {}", key.expose())).body(Body::empty()).unwrap()
}

/// A `POST /v1/events` with the key of [`World::new`].
pub(crate) fn post(body: impl Into<Body>) -> Request<Body> {
    post_as(&key(7), body)
}

pub(crate) fn post_as(key: &ApiKey, body: impl Into<Body>) -> Request<Body> {
    Request::post("/v1/events")
        .header("authorization", format!("Bearer {}", key.expose()))
        .header("content-type", "application/json")
        .body(body.into())
        .unwrap()
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: Response<()>,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.headers().get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }
}

/// The answer to a request; fails if it is not one that the OpenAPI document describes.
pub(crate) async fn ask(router: &Router, request: Request<Body>) -> Answer {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    let answer = Answer { status: parts.status.as_u16(), head: Response::from_parts(parts, ()), body };
    document::check(&method, &path, &answer);
    answer
}

thread_local! {
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What this test's thread has logged since its world was made.
pub(crate) fn logged() -> String {
    LOG.with_borrow(|bytes| String::from_utf8(bytes.clone()).unwrap())
}

/// Sends each thread's log to its own memory. One subscriber for the whole process: `tracing` remembers for good what
/// a thread without one finds uninteresting.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let log = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
        log.with_writer(|| ThreadLog).init();
    });
}

struct ThreadLog;

impl Write for ThreadLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.with_borrow_mut(|log| log.extend_from_slice(bytes));
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

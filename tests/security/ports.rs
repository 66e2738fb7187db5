//! The twins as front door and worker share them, and ports that forget which space they were asked about.

use tollgate_domain::archive::ArchiveObject;
use tollgate_domain::envelope::Envelope;
use tollgate_domain::identity::Fingerprint;
use tollgate_domain::key::{KeyHash, KeyRecord, ListedKey};
use tollgate_domain::ledger::{Checkpoint, EventKey, NewClaim, Rejection};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::{Limit, SpaceRecord};
use tollgate_domain::ports::{
    Archive, Billing, Clock, Conditional, Consumption, EventLookup, Freshness, Image, InsertError, Intake, Keys,
    Ledger, PlusUsage, PortResult, Put, Receipts, Rows, Spaces,
};
use tollgate_domain::receipt::{CommandReceipt, NewReceipt, Owner, ReceiptKey, StoredAnswer};
use tollgate_domain::row::Row;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;
use tollgate_front_door::ports::FrontDoorPorts;
use tollgate_tests::memory::World;
use tollgate_worker::batch::Batcher;
use tollgate_worker::patience::Backoff;
use tollgate_worker::ports::Ports;

/// How a store could mix spaces up: one table's key without its space, one filter forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leak {
    /// The receipts' key is the hash of the idempotency key alone.
    ReceiptsOfAll,
    /// A look at an event finds it in whichever space has it.
    StatusOfAll,
    /// So does the gate's look at many.
    LookupOfAll,
    /// The list of keys is not filtered.
    KeysOfAll,
    /// A use is noted with every key.
    UseOfAll,
    /// The month's count is every space's.
    CountOfAll,
    /// So is what Plus is billed from.
    PlusOfAll,
    /// Every space's meter moves.
    MetersOfAll,
    /// The plan is that of the first space in the table.
    PlanOfTheFirst,
    /// A claim is lost to an item of another space.
    ClaimsOfAll,
    /// The archive's key has no space.
    ObjectsOfAll,
    /// A probe finds the row of another space.
    RowsOfAll,
    /// A message's space is what its properties say.
    SpaceOfTheBody,
}

impl Leak {
    pub(crate) const ALL: [Self; 13] = [
        Self::ReceiptsOfAll,
        Self::StatusOfAll,
        Self::LookupOfAll,
        Self::KeysOfAll,
        Self::UseOfAll,
        Self::CountOfAll,
        Self::PlusOfAll,
        Self::MetersOfAll,
        Self::PlanOfTheFirst,
        Self::ClaimsOfAll,
        Self::ObjectsOfAll,
        Self::RowsOfAll,
        Self::SpaceOfTheBody,
    ];
}

/// Every port over one world, honest without a leak.
#[derive(Clone)]
pub(crate) struct SharedPorts {
    pub(crate) world: World,
    pub(crate) leak: Option<Leak>,
}

impl SharedPorts {
    fn forgets(&self, leak: Leak) -> bool {
        self.leak == Some(leak)
    }

    /// The event's key, or that of an event with its id in any space.
    fn key_under(&self, leak: Leak, key: &EventKey) -> EventKey {
        let any = || self.world.with(|state| state.ledger.keys().find(|there| there.id == key.id).cloned());
        self.forgets(leak).then(any).flatten().unwrap_or_else(|| key.clone())
    }

    fn receipt(&self, key: &ReceiptKey) -> ReceiptKey {
        let hash = key.as_str().split_once('#').map_or("", |(_, hash)| hash);
        if self.forgets(Leak::ReceiptsOfAll) { ReceiptKey::from_stored(&format!("any#{hash}")) } else { key.clone() }
    }

    fn present(&self) -> Vec<SpaceId> {
        self.world.with(|state| state.spaces.keys().cloned().collect())
    }
}

impl Keys for SharedPorts {
    async fn find(&self, hash: &KeyHash) -> PortResult<Option<KeyRecord>> {
        self.world.keys().find(hash).await
    }

    async fn list(&self, space: &SpaceId) -> PortResult<Vec<ListedKey>> {
        let mut keys = Vec::new();
        for listed in self.present() {
            if listed == *space || self.forgets(Leak::KeysOfAll) {
                keys.extend(self.world.keys().list(&listed).await?);
            }
        }
        Ok(keys)
    }

    async fn touch(&self, hash: &KeyHash, spacing_ms: i64, now: UtcMillis) -> PortResult<bool> {
        if self.forgets(Leak::UseOfAll) {
            self.world.with(|state| state.keys.values_mut().for_each(|record| record.last_used_at = Some(now)));
        }
        self.world.keys().touch(hash, spacing_ms, now).await
    }
}

impl Receipts for SharedPorts {
    async fn begin(&self, new: &NewReceipt) -> PortResult<Option<CommandReceipt>> {
        let new = NewReceipt { key: self.receipt(&new.key), ..new.clone() };
        self.world.receipts().begin(&new).await
    }

    async fn finish(&self, key: &ReceiptKey, owner: &Owner, answer: &StoredAnswer, now: UtcMillis) -> PortResult<bool> {
        self.world.receipts().finish(&self.receipt(key), owner, answer, now).await
    }

    async fn release(&self, key: &ReceiptKey, owner: &Owner) -> PortResult<bool> {
        self.world.receipts().release(&self.receipt(key), owner).await
    }
}

impl Spaces for SharedPorts {
    async fn read(&self, space: &SpaceId, freshness: Freshness) -> PortResult<Option<SpaceRecord>> {
        let first = self.present().into_iter().next().filter(|_| self.forgets(Leak::PlanOfTheFirst));
        self.world.spaces().read(first.as_ref().unwrap_or(space), freshness).await
    }
}

impl Billing for SharedPorts {
    async fn consume(
        &self,
        key: &EventKey,
        month: PeriodMonth,
        limit: Limit,
        now: UtcMillis,
    ) -> PortResult<Consumption> {
        let consumed = self.world.billing().consume(key, month, limit, now).await?;
        if self.forgets(Leak::MetersOfAll) && consumed == Consumption::Consumed {
            for other in self.present().into_iter().filter(|other| *other != key.space) {
                self.world.with(|state| *state.meters.entry((other, month)).or_default() += 1);
            }
        }
        Ok(consumed)
    }

    async fn stamp(&self, key: &EventKey, checkpoint: &Checkpoint) -> PortResult<Conditional> {
        self.world.billing().stamp(key, checkpoint).await
    }

    async fn reject(&self, key: &EventKey, rejection: &Rejection, now: UtcMillis) -> PortResult<Conditional> {
        self.world.billing().reject(key, rejection, now).await
    }

    async fn count(&self, space: &SpaceId, month: PeriodMonth) -> PortResult<u64> {
        let mut count = 0;
        for counted in self.present() {
            if counted == *space || self.forgets(Leak::CountOfAll) {
                count += self.world.billing().count(&counted, month).await?;
            }
        }
        Ok(count)
    }
}

impl Ledger for SharedPorts {
    async fn claim(&self, claim: &NewClaim) -> PortResult<Conditional> {
        let key = self.key_under(Leak::ClaimsOfAll, &claim.key);
        self.world.ledger().claim(&NewClaim { key, ..claim.clone() }).await
    }

    async fn read(&self, key: &EventKey) -> PortResult<Image> {
        self.world.ledger().read(&self.key_under(Leak::StatusOfAll, key)).await
    }

    async fn mark_inserted(&self, key: &EventKey, now: UtcMillis) -> PortResult<Conditional> {
        self.world.ledger().mark_inserted(key, now).await
    }

    async fn record_quarantine(
        &self,
        key: &EventKey,
        seen: u64,
        spacing_ms: i64,
        error: &str,
        now: UtcMillis,
    ) -> PortResult<Conditional> {
        self.world.ledger().record_quarantine(key, seen, spacing_ms, error, now).await
    }

    async fn mark_uninsertable(&self, key: &EventKey, now: UtcMillis) -> PortResult<Conditional> {
        self.world.ledger().mark_uninsertable(key, now).await
    }

    async fn record_conflict(
        &self,
        key: &EventKey,
        fingerprint: &Fingerprint,
        now: UtcMillis,
    ) -> PortResult<Conditional> {
        self.world.ledger().record_conflict(key, fingerprint, now).await
    }
}

impl EventLookup for SharedPorts {
    async fn read_many(&self, keys: &[EventKey]) -> PortResult<Vec<Image>> {
        let keys: Vec<EventKey> = keys.iter().map(|key| self.key_under(Leak::LookupOfAll, key)).collect();
        self.world.ledger().read_many(&keys).await
    }
}

impl PlusUsage for SharedPorts {
    async fn count_plus(&self, space: &SpaceId, month: PeriodMonth) -> PortResult<u64> {
        // A twin counts one space; every space's events are what a forgotten filter would leave.
        let all = || self.world.with(|state| state.events_billing.len() as u64);
        let counted = self.world.rows().count_plus(space, month).await?;
        Ok(if self.forgets(Leak::PlusOfAll) { all() } else { counted })
    }
}

impl Intake for SharedPorts {
    async fn send_each(&self, messages: &[String], told: &mut (impl FnMut(usize, PortResult<()>) + Send)) {
        let readdressed = |message: &String| {
            let envelope = Envelope::decode(message).unwrap();
            let properties = envelope.event.properties().unwrap_or("{}").parse::<serde_json::Value>().unwrap();
            let named = properties["space"].as_str().and_then(|name| SpaceId::parse(name).ok());
            named.map_or_else(|| message.clone(), |space| Envelope { space, ..envelope }.encode())
        };
        if self.forgets(Leak::SpaceOfTheBody) {
            let messages: Vec<String> = messages.iter().map(readdressed).collect();
            return self.world.intake().send_each(&messages, told).await;
        }
        self.world.intake().send_each(messages, told).await;
    }

    async fn probe(&self) -> PortResult<()> {
        self.world.intake().probe().await
    }
}

impl Clock for SharedPorts {
    fn now(&self) -> UtcMillis {
        self.world.clock().now()
    }
}

impl Archive for SharedPorts {
    async fn put(&self, object: &ArchiveObject) -> PortResult<Put> {
        let mut object = object.clone();
        if self.forgets(Leak::ObjectsOfAll) {
            object.key = object.key.split_once('/').map_or(String::new(), |(_, rest)| format!("any/{rest}"));
        }
        self.world.archive().put(&object).await
    }

    async fn get(&self, key: &str) -> PortResult<Option<Vec<u8>>> {
        self.world.archive().get(key).await
    }
}

impl Rows for SharedPorts {
    async fn is_present(&self, key: &EventKey) -> PortResult<bool> {
        let any = || self.world.with(|state| state.events.iter().any(|row| row.event_id == key.id.as_str()));
        Ok(self.world.rows().is_present(key).await? || (self.forgets(Leak::RowsOfAll) && any()))
    }

    async fn insert(&self, rows: &[Row]) -> Result<(), InsertError> {
        self.world.rows().insert(rows).await
    }
}

impl FrontDoorPorts for SharedPorts {
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
        Some(self)
    }

    fn intake(&self) -> &Self {
        self
    }

    fn clock(&self) -> &Self {
        self
    }
}

/// The same for the worker, where rows of concurrent deliveries share an insert, whoever's they are.
pub(crate) struct WorkerPorts {
    pub(crate) shared: SharedPorts,
    pub(crate) rows: Batcher<SharedPorts>,
}

impl Ports for WorkerPorts {
    type Ledger = SharedPorts;
    type Billing = SharedPorts;
    type Spaces = SharedPorts;
    type Archive = SharedPorts;
    type Rows = Batcher<SharedPorts>;
    type Clock = SharedPorts;
    type Patience = Backoff;

    fn ledger(&self) -> &SharedPorts {
        &self.shared
    }

    fn billing(&self) -> &SharedPorts {
        &self.shared
    }

    fn spaces(&self) -> &SharedPorts {
        &self.shared
    }

    fn archive(&self) -> &SharedPorts {
        &self.shared
    }

    fn rows(&self) -> &Batcher<SharedPorts> {
        &self.rows
    }

    fn clock(&self) -> &SharedPorts {
        &self.shared
    }

    fn patience(&self) -> &Backoff {
        &Backoff
    }
}

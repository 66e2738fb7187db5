//! The live ports behind a script.

use std::sync::Arc;

use tollgate_domain::archive::ArchiveObject;
use tollgate_domain::identity::Fingerprint;
use tollgate_domain::ledger::{Checkpoint, EventKey, NewClaim, Rejection};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::{Limit, SpaceRecord};
use tollgate_domain::ports::{
    Archive, Billing, Conditional, Consumption, Freshness, Image, InsertError, Ledger, PortResult, Put, Rows, Spaces,
};
use tollgate_domain::row::Row;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;
use tollgate_stores::archive::S3Archive;
use tollgate_stores::billing::DynamoBilling;
use tollgate_stores::clock::SystemClock;
use tollgate_stores::ledger::DynamoLedger;
use tollgate_stores::rows::ClickHouseRows;
use tollgate_stores::spaces::DynamoSpaces;
use tollgate_worker::batch::Batcher;
use tollgate_worker::patience::Patience;
use tollgate_worker::ports::Ports;

use crate::script::Script;

/// A port behind a script.
pub(crate) struct Scripted<T> {
    pub(crate) inner: T,
    pub(crate) script: Arc<Script>,
}

/// Every live port behind one script. Waiting between tries takes no time.
pub(crate) struct ScriptedPorts {
    pub(crate) ledger: Scripted<DynamoLedger>,
    pub(crate) billing: Scripted<DynamoBilling>,
    pub(crate) spaces: Scripted<DynamoSpaces>,
    pub(crate) archive: Scripted<S3Archive>,
    pub(crate) rows: Scripted<Batcher<ClickHouseRows>>,
}

/// Waits for nothing.
pub(crate) struct Impatience;

impl Patience for Impatience {
    async fn pause(&self, _: u32) {}
}

impl Ports for ScriptedPorts {
    type Ledger = Scripted<DynamoLedger>;
    type Billing = Scripted<DynamoBilling>;
    type Spaces = Scripted<DynamoSpaces>;
    type Archive = Scripted<S3Archive>;
    type Rows = Scripted<Batcher<ClickHouseRows>>;
    type Clock = SystemClock;
    type Patience = Impatience;

    fn ledger(&self) -> &Self::Ledger {
        &self.ledger
    }

    fn billing(&self) -> &Self::Billing {
        &self.billing
    }

    fn spaces(&self) -> &Self::Spaces {
        &self.spaces
    }

    fn archive(&self) -> &Self::Archive {
        &self.archive
    }

    fn rows(&self) -> &Self::Rows {
        &self.rows
    }

    fn clock(&self) -> &Self::Clock {
        &SystemClock
    }

    fn patience(&self) -> &Self::Patience {
        &Impatience
    }
}

impl<L: Ledger> Ledger for Scripted<L> {
    async fn claim(&self, claim: &NewClaim) -> PortResult<Conditional> {
        self.script.run(("claim", claim.key.id.as_str()), self.inner.claim(claim), None).await
    }

    async fn read(&self, key: &EventKey) -> PortResult<Image> {
        self.script.run(("read_ledger", key.id.as_str()), self.inner.read(key), None).await
    }

    async fn mark_inserted(&self, key: &EventKey, now: UtcMillis) -> PortResult<Conditional> {
        self.script.run(("mark_inserted", key.id.as_str()), self.inner.mark_inserted(key, now), None).await
    }

    async fn record_quarantine(
        &self,
        key: &EventKey,
        seen: u64,
        spacing_ms: i64,
        error: &str,
        now: UtcMillis,
    ) -> PortResult<Conditional> {
        let call = self.inner.record_quarantine(key, seen, spacing_ms, error, now);
        self.script.run(("record_quarantine", key.id.as_str()), call, None).await
    }

    async fn mark_uninsertable(&self, key: &EventKey, now: UtcMillis) -> PortResult<Conditional> {
        self.script.run(("mark_uninsertable", key.id.as_str()), self.inner.mark_uninsertable(key, now), None).await
    }

    async fn record_conflict(
        &self,
        key: &EventKey,
        fingerprint: &Fingerprint,
        now: UtcMillis,
    ) -> PortResult<Conditional> {
        let call = self.inner.record_conflict(key, fingerprint, now);
        self.script.run(("record_conflict", key.id.as_str()), call, None).await
    }
}

impl<B: Billing> Billing for Scripted<B> {
    async fn consume(
        &self,
        key: &EventKey,
        month: PeriodMonth,
        limit: Limit,
        now: UtcMillis,
    ) -> PortResult<Consumption> {
        let cancelled = Some(Consumption::Cancelled { ledger: None, count: None });
        let call = self.inner.consume(key, month, limit, now);
        self.script.run(("consume", key.id.as_str()), call, cancelled).await
    }

    async fn stamp(&self, key: &EventKey, checkpoint: &Checkpoint) -> PortResult<Conditional> {
        self.script.run(("stamp", key.id.as_str()), self.inner.stamp(key, checkpoint), None).await
    }

    async fn reject(&self, key: &EventKey, rejection: &Rejection, now: UtcMillis) -> PortResult<Conditional> {
        self.script.run(("reject", key.id.as_str()), self.inner.reject(key, rejection, now), None).await
    }

    async fn count(&self, space: &SpaceId, month: PeriodMonth) -> PortResult<u64> {
        self.script.run(("read_count", space.as_str()), self.inner.count(space, month), None).await
    }
}

impl<S: Spaces> Spaces for Scripted<S> {
    async fn read(&self, space: &SpaceId, freshness: Freshness) -> PortResult<Option<SpaceRecord>> {
        let effect = if freshness == Freshness::Strong { "read_space_afresh" } else { "read_space" };
        self.script.run((effect, space.as_str()), self.inner.read(space, freshness), None).await
    }
}

impl<A: Archive> Archive for Scripted<A> {
    async fn put(&self, object: &ArchiveObject) -> PortResult<Put> {
        self.script.run(("put", &object.key), self.inner.put(object), None).await
    }

    async fn get(&self, key: &str) -> PortResult<Option<Vec<u8>>> {
        self.script.run(("get", key), self.inner.get(key), None).await
    }
}

impl<R: Rows> Rows for Scripted<R> {
    async fn is_present(&self, key: &EventKey) -> PortResult<bool> {
        self.script.run(("probe", key.id.as_str()), self.inner.is_present(key), None).await
    }

    async fn insert(&self, rows: &[Row]) -> Result<(), InsertError> {
        let of = rows.first().map(|row| row.event_id.clone()).unwrap_or_default();
        self.script.run(("insert", &of), self.inner.insert(rows), None).await
    }
}

//! The suite on the twins in memory.

use tollgate_domain::key::{KeyHash, KeyRecord};
use tollgate_domain::ledger::EventKey;
use tollgate_domain::space::SpaceId;
use tollgate_tests::memory::{MemoryBilling, MemoryKeys, MemoryLedger, MemoryReceipts, MemoryRows, World};

use crate::bench::{Bench, at};

pub(crate) struct Memory {
    world: World,
    ledger: MemoryLedger,
    billing: MemoryBilling,
    keys: MemoryKeys,
    receipts: MemoryReceipts,
    rows: MemoryRows,
    space: SpaceId,
}

impl Memory {
    #[expect(clippy::unused_async, reason = "called as its twin on the engines is")]
    pub(crate) async fn new() -> Self {
        let world = World::new();
        let (ledger, billing) = (world.ledger(), world.billing());
        let (keys, receipts, rows) = (world.keys(), world.receipts(), world.rows());
        Self { world, ledger, billing, keys, receipts, rows, space: SpaceId::parse("acme").unwrap() }
    }
}

impl Bench for Memory {
    type Ledger = MemoryLedger;
    type Billing = MemoryBilling;
    type Keys = MemoryKeys;
    type Receipts = MemoryReceipts;
    type Rows = MemoryRows;

    fn ledger(&self) -> &Self::Ledger {
        &self.ledger
    }

    fn billing(&self) -> &Self::Billing {
        &self.billing
    }

    fn keys(&self) -> &Self::Keys {
        &self.keys
    }

    fn receipts(&self) -> &Self::Receipts {
        &self.receipts
    }

    fn rows(&self) -> &Self::Rows {
        &self.rows
    }

    async fn add_key(&self, hash: &KeyHash, record: &KeyRecord) {
        self.world.with(|state| state.keys.insert(hash.clone(), record.clone()));
    }

    fn space(&self) -> &SpaceId {
        &self.space
    }

    async fn set_quarantines(&self, key: &EventKey, count: u64) {
        self.world.with(|state| {
            let quarantine = &mut state.ledger.get_mut(key).unwrap().quarantine;
            (quarantine.count, quarantine.last_at) = (count, Some(at(0)));
        });
    }
}

//! The suite on the twins in memory.

use tollgate_domain::ledger::EventKey;
use tollgate_domain::space::SpaceId;
use tollgate_tests::memory::{MemoryBilling, MemoryLedger, World};

use crate::bench::{Bench, at};

pub(crate) struct Memory {
    world: World,
    ledger: MemoryLedger,
    billing: MemoryBilling,
    space: SpaceId,
}

impl Memory {
    #[expect(clippy::unused_async, reason = "called as its twin on the engines is")]
    pub(crate) async fn new() -> Self {
        let world = World::new();
        let (ledger, billing) = (world.ledger(), world.billing());
        Self { world, ledger, billing, space: SpaceId::parse("acme").unwrap() }
    }
}

impl Bench for Memory {
    type Ledger = MemoryLedger;
    type Billing = MemoryBilling;

    fn ledger(&self) -> &Self::Ledger {
        &self.ledger
    }

    fn billing(&self) -> &Self::Billing {
        &self.billing
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

//! The ports of one simulated delivery: the twins, perhaps behind a lie.

use std::sync::Arc;

use tollgate_worker::patience::Patience;
use tollgate_worker::ports::Ports;

use super::lie::{Lie, Lying};
use crate::memory::{MemoryArchive, MemoryBilling, MemoryClock, MemoryLedger, MemoryRows, MemorySpaces, World};

/// The twins of one world, as one worker sees them.
pub(super) struct SimulatedPorts {
    ledger: Lying<MemoryLedger>,
    billing: Lying<MemoryBilling>,
    spaces: Lying<MemorySpaces>,
    archive: Lying<MemoryArchive>,
    rows: Lying<MemoryRows>,
    clock: MemoryClock,
}

/// Waits for nothing: the next try announces itself, and there the scheduler may let others run.
pub(super) struct Impatience;

impl Patience for Impatience {
    async fn pause(&self, _: u32) {}
}

impl SimulatedPorts {
    pub(super) fn new(world: &World, lie: Lie) -> Self {
        let held_back = Arc::default();
        Self {
            ledger: Lying { inner: world.ledger(), lie, world: world.clone(), held_back: Arc::clone(&held_back) },
            billing: Lying { inner: world.billing(), lie, world: world.clone(), held_back: Arc::clone(&held_back) },
            spaces: Lying { inner: world.spaces(), lie, world: world.clone(), held_back: Arc::clone(&held_back) },
            archive: Lying { inner: world.archive(), lie, world: world.clone(), held_back: Arc::clone(&held_back) },
            rows: Lying { inner: world.rows(), lie, world: world.clone(), held_back },
            clock: world.clock(),
        }
    }
}

impl Ports for SimulatedPorts {
    type Ledger = Lying<MemoryLedger>;
    type Billing = Lying<MemoryBilling>;
    type Spaces = Lying<MemorySpaces>;
    type Archive = Lying<MemoryArchive>;
    type Rows = Lying<MemoryRows>;
    type Clock = MemoryClock;
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
        &self.clock
    }

    fn patience(&self) -> &Self::Patience {
        &Impatience
    }
}

//! In-memory twins of every port, over one shared [`World`].
//!
//! They hold exactly the conditions that the protocol gives each write, hand back images as DynamoDB's `ALL_OLD`
//! does, and take their faults from a [`FaultPlan`]: so the worker's own pipeline can be run through every crash and
//! every lost answer. One effect is one atomic step; with [`World::set_stepping`] each is also one suspension, at
//! which a scheduler may run somebody else.

mod archive;
mod billing;
mod clock;
mod effect;
mod fault;
mod guard;
mod intake;
mod keys;
mod ledger;
mod queue;
mod receipts;
mod rows;
mod spaces;
mod step;
mod world;

pub use archive::MemoryArchive;
pub use billing::MemoryBilling;
pub use clock::MemoryClock;
pub use effect::{Call, Effect};
pub use fault::{Fault, FaultPlan, NoFaults, Script};
pub use guard::Guard;
pub use intake::MemoryIntake;
pub use keys::MemoryKeys;
pub use ledger::MemoryLedger;
pub use queue::{DEFAULT_VISIBILITY_MS, MemoryQueue, QueueState, QueuedMessage};
pub use receipts::MemoryReceipts;
pub use rows::MemoryRows;
pub use spaces::MemorySpaces;
pub use world::{State, World};

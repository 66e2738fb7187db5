//! The front door's ports on the real engines.

use tollgate_domain::ports::Clock;
use tollgate_stores::billing::DynamoBilling;
use tollgate_stores::connect::Stores;
use tollgate_stores::keys::DynamoKeys;
use tollgate_stores::ledger::DynamoLedger;
use tollgate_stores::queue::SqsQueue;
use tollgate_stores::spaces::DynamoSpaces;

use crate::ports::FrontDoorPorts;

/// The stores that the front door needs, and a clock.
#[derive(Clone)]
pub struct LivePorts<C> {
    keys: DynamoKeys,
    spaces: DynamoSpaces,
    billing: DynamoBilling,
    ledger: DynamoLedger,
    queue: SqsQueue,
    clock: C,
}

impl<C: Clock> LivePorts<C> {
    /// Takes what it needs of `stores`; `clock` decides the month that pays.
    pub fn new(stores: Stores, clock: C) -> Self {
        let Stores { keys, spaces, billing, ledger, queue, .. } = stores;
        Self { keys, spaces, billing, ledger, queue, clock }
    }
}

impl<C: Clock> FrontDoorPorts for LivePorts<C> {
    type Keys = DynamoKeys;
    type Spaces = DynamoSpaces;
    type Billing = DynamoBilling;
    type Ledger = DynamoLedger;
    type Intake = SqsQueue;
    type Clock = C;

    fn keys(&self) -> &DynamoKeys {
        &self.keys
    }
    fn spaces(&self) -> &DynamoSpaces {
        &self.spaces
    }
    fn billing(&self) -> &DynamoBilling {
        &self.billing
    }
    fn ledger(&self) -> &DynamoLedger {
        &self.ledger
    }
    fn intake(&self) -> &SqsQueue {
        &self.queue
    }
    fn clock(&self) -> &C {
        &self.clock
    }
}

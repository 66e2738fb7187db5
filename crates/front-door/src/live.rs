//! The front door's ports on the real engines.

use tollgate_domain::ports::Clock;
use tollgate_stores::billing::DynamoBilling;
use tollgate_stores::connect::IntakeStores;
use tollgate_stores::keys::DynamoKeys;
use tollgate_stores::ledger::DynamoLedger;
use tollgate_stores::queue::SqsIntake;
use tollgate_stores::receipts::DynamoReceipts;
use tollgate_stores::rows::ClickHouseRows;
use tollgate_stores::spaces::DynamoSpaces;

use crate::ports::FrontDoorPorts;

/// The stores that the front door needs, and a clock.
#[derive(Clone)]
pub struct LivePorts<C> {
    keys: DynamoKeys,
    spaces: DynamoSpaces,
    billing: DynamoBilling,
    ledger: DynamoLedger,
    receipts: DynamoReceipts,
    plus: Option<ClickHouseRows>,
    queue: SqsIntake,
    clock: C,
}

impl<C: Clock> LivePorts<C> {
    /// The ports on `stores`; `clock` decides the month that pays.
    pub fn new(stores: IntakeStores, clock: C) -> Self {
        let IntakeStores { keys, spaces, billing, ledger, receipts, plus, queue } = stores;
        Self { keys, spaces, billing, ledger, receipts, plus, queue, clock }
    }
}

impl<C: Clock> FrontDoorPorts for LivePorts<C> {
    type Keys = DynamoKeys;
    type Spaces = DynamoSpaces;
    type Billing = DynamoBilling;
    type Ledger = DynamoLedger;
    type Receipts = DynamoReceipts;
    type PlusUsage = ClickHouseRows;
    type Intake = SqsIntake;
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
    fn receipts(&self) -> &DynamoReceipts {
        &self.receipts
    }
    fn plus_usage(&self) -> Option<&ClickHouseRows> {
        self.plus.as_ref()
    }
    fn intake(&self) -> &SqsIntake {
        &self.queue
    }
    fn clock(&self) -> &C {
        &self.clock
    }
}

//! What the pipeline needs, as one bundle.

use tollgate_domain::ports::{Archive, Billing, Clock, Ledger, Rows, Spaces};
use tollgate_stores::archive::S3Archive;
use tollgate_stores::billing::DynamoBilling;
use tollgate_stores::clock::SystemClock;
use tollgate_stores::connect::Stores;
use tollgate_stores::ledger::DynamoLedger;
use tollgate_stores::rows::ClickHouseRows;
use tollgate_stores::spaces::DynamoSpaces;

use crate::batch::Batcher;
use crate::patience::{Backoff, Patience};

/// The ports of one pipeline.
pub trait Ports: Send + Sync + 'static {
    /// `event_ledger`.
    type Ledger: Ledger;
    /// The writes that move money.
    type Billing: Billing;
    /// Plans.
    type Spaces: Spaces;
    /// Payloads.
    type Archive: Archive;
    /// Rows.
    type Rows: Rows;
    /// Time.
    type Clock: Clock;
    /// Waiting.
    type Patience: Patience;

    /// `event_ledger`.
    fn ledger(&self) -> &Self::Ledger;
    /// The writes that move money.
    fn billing(&self) -> &Self::Billing;
    /// Plans.
    fn spaces(&self) -> &Self::Spaces;
    /// Payloads.
    fn archive(&self) -> &Self::Archive;
    /// Rows.
    fn rows(&self) -> &Self::Rows;
    /// Time.
    fn clock(&self) -> &Self::Clock;
    /// Waiting.
    fn patience(&self) -> &Self::Patience;
}

/// The real engines, with inserts batched across deliveries.
pub struct LivePorts {
    stores: Stores,
    rows: Batcher<ClickHouseRows>,
}

impl LivePorts {
    /// The ports over `stores`; rows go through `rows`.
    pub fn new(stores: Stores, rows: Batcher<ClickHouseRows>) -> Self {
        Self { stores, rows }
    }
}

impl Ports for LivePorts {
    type Ledger = DynamoLedger;
    type Billing = DynamoBilling;
    type Spaces = DynamoSpaces;
    type Archive = S3Archive;
    type Rows = Batcher<ClickHouseRows>;
    type Clock = SystemClock;
    type Patience = Backoff;

    fn ledger(&self) -> &Self::Ledger {
        &self.stores.ledger
    }

    fn billing(&self) -> &Self::Billing {
        &self.stores.billing
    }

    fn spaces(&self) -> &Self::Spaces {
        &self.stores.spaces
    }

    fn archive(&self) -> &Self::Archive {
        &self.stores.archive
    }

    fn rows(&self) -> &Self::Rows {
        &self.rows
    }

    fn clock(&self) -> &Self::Clock {
        &SystemClock
    }

    fn patience(&self) -> &Self::Patience {
        &Backoff
    }
}

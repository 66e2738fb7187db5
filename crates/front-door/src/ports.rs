//! What the front door asks of the world.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tollgate_domain::ports::{
    Billing, Clock, EventLookup, Intake, Keys, Ledger, PlusUsage, PortResult, Receipts, Spaces,
};

/// What a port answers within `limit`, or why there is no answer: for the log, and for no client.
pub(crate) async fn in_time<T>(limit: Duration, asked: impl Future<Output = PortResult<T>>) -> Result<T, String> {
    match timeout(limit, asked).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// The front door's ports in one bundle. What it writes: messages ([`Intake::send_each`]), receipts,
/// and when a key was last used.
pub trait FrontDoorPorts: Send + Sync + 'static {
    /// API keys: asked by authentication, which fails closed.
    type Keys: Keys;
    /// Plans: asked by the advisory gate, which fails open.
    type Spaces: Spaces;
    /// The month's count: asked by the advisory gate, which never consumes.
    type Billing: Billing;
    /// Asked before a 402, since a retry of a known event is never told that the quota is used up, and where events
    /// stand.
    type Ledger: Ledger + EventLookup;
    /// Receipts of commands with an `Idempotency-Key`: fails closed.
    type Receipts: Receipts;
    /// What Plus spaces are billed from.
    type PlusUsage: PlusUsage;
    /// The queue: a 202 rests on its answer, which fails closed.
    type Intake: Intake;
    /// The time of acceptance: read once a call, decides the month that pays.
    type Clock: Clock;

    /// API keys.
    fn keys(&self) -> &Self::Keys;
    /// Plans.
    fn spaces(&self) -> &Self::Spaces;
    /// The month's count.
    fn billing(&self) -> &Self::Billing;
    /// The ledger.
    fn ledger(&self) -> &Self::Ledger;
    /// Receipts.
    fn receipts(&self) -> &Self::Receipts;
    /// What Plus spaces are billed from, where this front door can ask.
    fn plus_usage(&self) -> Option<&Self::PlusUsage>;
    /// The queue.
    fn intake(&self) -> &Self::Intake;
    /// The time.
    fn clock(&self) -> &Self::Clock;
}

impl<P: FrontDoorPorts> FrontDoorPorts for Arc<P> {
    type Keys = P::Keys;
    type Spaces = P::Spaces;
    type Billing = P::Billing;
    type Ledger = P::Ledger;
    type Receipts = P::Receipts;
    type PlusUsage = P::PlusUsage;
    type Intake = P::Intake;
    type Clock = P::Clock;

    fn keys(&self) -> &Self::Keys {
        P::keys(self)
    }
    fn spaces(&self) -> &Self::Spaces {
        P::spaces(self)
    }
    fn billing(&self) -> &Self::Billing {
        P::billing(self)
    }
    fn ledger(&self) -> &Self::Ledger {
        P::ledger(self)
    }
    fn receipts(&self) -> &Self::Receipts {
        P::receipts(self)
    }
    fn plus_usage(&self) -> Option<&Self::PlusUsage> {
        P::plus_usage(self)
    }
    fn intake(&self) -> &Self::Intake {
        P::intake(self)
    }
    fn clock(&self) -> &Self::Clock {
        P::clock(self)
    }
}

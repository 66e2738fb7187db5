//! Claims, charges, archives and inserts each event exactly once.
//!
//! The hot path is four hops: [`worker`] hands a delivery to [`pipeline`], which observes the durable facts, finds
//! the scenario and runs from where it says: [`billing`] accepts the bill, [`storage`] archives and inserts, and the
//! pipeline marks. Everything that the pipeline asks of the world is a port ([`ports`]), so that a test can refuse,
//! lose or kill any effect without a line in here.

pub mod acknowledge;
pub mod batch;
pub mod billing;
pub mod config;
#[cfg(test)]
mod example;
pub mod heartbeat;
mod outage;
pub mod patience;
pub mod pipeline;
pub mod ports;
pub mod storage;
pub mod verdict;
pub mod worker;

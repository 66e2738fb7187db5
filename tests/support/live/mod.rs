//! The real engines of a local stack, and real worker processes on them.

mod clickhouse;
mod engines;
mod facts;
mod front_door;
mod program;
mod queues;

pub use clickhouse::ClickHouseServer;
pub use engines::Engines;
pub use facts::snapshot;
pub use front_door::{FrontDoor, FrontDoorSettings};
pub use program::{Program, WorkerSettings};
pub use queues::Queues;

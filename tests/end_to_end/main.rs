//! The worker's pipeline and the stores on real engines: an AWS emulator and a real ClickHouse on loopback.
//!
//! Each test has a space, a queue or a database of its own on one shared stack, so that all run side by side.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, in its helpers too")]
#![expect(clippy::large_futures, reason = "a test's future lives once, at the bottom of a stack of its own")]

mod archive;
mod conflicts;
mod count;
mod database;
mod engines;
mod loopback;
mod message;
mod plans;
mod ports;
mod queue;
mod recovery;
mod rows;
mod scenarios;
mod script;
mod transaction;
mod worker;
mod world;

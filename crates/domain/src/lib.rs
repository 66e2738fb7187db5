//! What an event is, what it costs and which step comes next.
//!
//! Everything here is a pure function of its arguments: no clock, no randomness, no environment, no I/O. The worker,
//! the front door, the operators' commands and the tests all decide by this one crate. The contract that it encodes
//! is `PROTOCOL.md` beside this crate; the identity of an event is `IDENTITY.md`.

#![warn(clippy::arithmetic_side_effects, clippy::float_arithmetic)]

pub mod archive;
pub mod call;
pub mod cloudevent;
pub mod envelope;
pub mod event;
pub mod identity;
pub mod invariant;
pub mod json;
pub mod key;
pub mod ledger;
pub mod period;
pub mod plan;
pub mod ports;
pub mod problem;
pub mod receipt;
pub mod row;
pub mod scan;
pub mod scenario;
pub mod space;
pub mod time;

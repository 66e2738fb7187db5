//! The front door over its whole router, with the world played by fakes.

#![expect(clippy::unwrap_used, reason = "a test's helper fails as the test does")]

mod accepting;
mod authentication;
mod bad_input;
mod cloudevents;
mod fakes;
mod gate;
mod keys;
mod partial;
mod ready;
mod receipts;
mod sdk;
mod serving;
mod status;
mod usage;

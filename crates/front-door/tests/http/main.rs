//! The front door over its whole router, with the world played by fakes.

#![expect(clippy::unwrap_used, reason = "a test's helper fails as the test does")]

mod accepting;
mod authentication;
mod bad_input;
mod fakes;
mod gate;
mod sdk;
mod serving;

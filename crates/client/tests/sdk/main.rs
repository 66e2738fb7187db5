//! The SDK from outside: over a socket, without a runtime, through a kill, and what it brings along.

#![expect(clippy::unwrap_used, reason = "a test's helper fails as the test does")]

mod blocking;
mod killed;
mod over_a_socket;
mod support;
mod tree;

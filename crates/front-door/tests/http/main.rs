//! The front door over its whole router, with the world played by fakes.

#![expect(clippy::unwrap_used, reason = "a test's helper fails as the test does")]

mod accepting;
mod api_page;
mod authentication;
mod bad_input;
mod cloudevents;
mod document;
mod fakes;
mod gate;
mod keys;
mod openapi;
mod partial;
mod ready;
mod receipts;
mod sdk;
mod serving;
mod status;
mod usage;

//! The command `tollgate`, run as its users run it.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod commands;
mod demo;
mod readme;
mod support;

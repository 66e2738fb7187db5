//! The HTTP intake: authenticate, validate, courtesy 402, enqueue, 202.
//!
//! The hot path is `handle_request → authenticate → parse_events → check_advisory_gate → enqueue`. Only the gate fails
//! open: it is a courtesy, and the worker decides. Authentication and the queue fail closed, with 503 and
//! `Retry-After`; the client then sends the same bytes again, which is harmless.
//!
//! One [`router::router`] serves every deployment: [`serve::serve_local`] on a socket, `lambda_http` on Lambda.

pub mod answer;
mod auth;
pub mod clock;
pub mod config;
mod gate;
mod headers;
mod intake;
pub mod keys;
mod limit;
pub mod live;
pub mod openapi;
pub mod ports;
mod query;
mod ready;
mod receipts;
mod route;
pub mod router;
mod schema;
pub mod serve;
pub mod status;
pub mod usage;

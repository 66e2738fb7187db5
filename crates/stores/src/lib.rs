//! The ports of the domain on DynamoDB, SQS, S3 and ClickHouse.
//!
//! The only crate that knows these engines. One file a port; each condition expression is a named constant with the
//! race that it closes; every error of a client becomes a decision of the domain's in one place a client.

pub mod archive;
mod aws;
pub mod billing;
mod clickhouse_error;
pub mod clock;
pub mod config;
pub mod connect;
mod item;
pub mod keys;
pub mod ledger;
pub mod logging;
pub mod queue;
pub mod receipts;
pub mod rows;
pub mod schema;
pub mod spaces;

pub use clickhouse_error::{ErrorClass, class_of};

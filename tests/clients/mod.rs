//! Clients that lose answers: the SDK, the real front door and real workers, over a connection that drops one answer in
//! ten after the call was served.
//!
//! Whatever a client is told must be what the ledger holds, and the auditor must find nothing.

mod agree;
mod run;

pub use run::{Report, Size, run};

//! Chaos: real workers behind proxies that throw dice, killed again and again, over a ClickHouse that comes and goes.
//!
//! Once the faults stop, everything must become terminal, and the auditor must find nothing.

mod fleet;
mod run;
mod size;
mod trouble;

pub use run::{Report, run};
pub use size::Size;

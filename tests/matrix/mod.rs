//! The kill matrix: every effect of a real worker process, struck at every edge, under every circumstance.
//!
//! Each case has a space, a pair of queues and worker processes of its own, each worker behind a proxy of its own.
//! A case fails if its fault never struck, if its events are not done in time, or if the auditor finds anything.

mod case;
mod circumstance;
mod gap;
mod post;
mod report;
mod run;
mod setup;

pub use case::{Case, Size, inapplicable};
pub use circumstance::Circumstance;
pub use report::{Outcome, Report};
pub use run::{Selection, run};

//! Simulation of the worker's own pipeline: every crash, every order, every lost answer, within bounds.
//!
//! The pipeline runs over the twins in memory, under a scheduler that owns every await: each effect of each port is
//! announced, and the scheduler chooses who moves and what becomes of the effect. [`run`] tries *all*
//! choices within the bounds of its cases, and walks at random beyond them. Every schedule ends with the faults gone
//! and the queue emptied by clean redeliveries; then the auditor looks. A failure prints a path that [`replay`] runs
//! again, step by step.

mod budget;
mod case;
mod choice;
mod explore;
mod finish;
mod lie;
mod mutants;
mod ports;
mod possible;
mod reached;
mod replay;
mod report;
mod run;
mod scheduler;
mod size;
mod stage;
mod walk;
mod watch;

#[cfg(test)]
mod tests;

pub use explore::Failure;
pub use lie::Lie;
pub use mutants::{MUTANTS, Mutant, Mutants, Mutation, NOT_APPLICABLE, Verdict, run_mutants};
pub use reached::{Reached, VERDICTS};
pub use replay::{Replay, replay};
pub use report::{Explored, Report};
pub use run::run;
pub use size::Size;

//! The twins' word against the engines': random sequences of operations on both, which must answer alike.
//!
//! The simulation is only as true as its world. Here the ports in memory and the real clients do the same things in the
//! same order, on facts few enough to collide all the time, and the first answer that differs is told with the seed and
//! the operations that led to it.

mod compare;
mod operation;
mod pair;

use std::time::Instant;

use futures_util::stream::{self, StreamExt};
use tollgate_stores::connect::Stores;

use crate::accord::operation::Operation;
use crate::accord::pair::Pair;
use crate::traffic::Random;

/// Operations of one sequence: enough for an event to go through its whole life several times over.
const SEQUENCE: u64 = 60;
/// Sequences that run side by side, each in spaces of its own.
const CONCURRENCY: usize = 4;

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Operations that answered alike.
    pub operations: u64,
    /// The seed that they came from.
    pub seed: u64,
    /// Milliseconds.
    pub elapsed_ms: u128,
}

/// The first answer that differed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("twin and engine differ (seed {seed}):\n{story}\n  in memory: {in_memory}\n  on engine: {on_engine}")]
pub struct Disagreement {
    /// The sequence's own seed.
    pub seed: u64,
    /// The operations up to the one that differed, a line each.
    pub story: String,
    /// The twin's answer.
    pub in_memory: String,
    /// The engine's answer.
    pub on_engine: String,
}

/// Runs at least `operations` operations. `name` is a prefix of spaces that nobody else uses.
pub async fn run(stores: &Stores, name: &str, operations: u64, seed: u64) -> Result<Report, Disagreement> {
    let started = Instant::now();
    let sequences = operations.div_ceil(SEQUENCE);
    let mut runs = stream::iter(0..sequences)
        .map(|number| run_sequence(stores, format!("{name}-{number}"), seed.wrapping_add(number)))
        .buffer_unordered(CONCURRENCY);
    while let Some(outcome) = runs.next().await {
        outcome?;
    }
    Ok(Report { operations: sequences * SEQUENCE, seed, elapsed_ms: started.elapsed().as_millis() })
}

/// One sequence, from nothing.
async fn run_sequence(stores: &Stores, name: String, seed: u64) -> Result<(), Disagreement> {
    let mut random = Random::new(seed);
    let mut pair = Pair::new(stores, &name);
    let mut story = Vec::new();
    for _ in 0..SEQUENCE {
        let operation = Operation::any(&mut random);
        story.push(format!("  {operation:?}"));
        let (in_memory, on_engine) = pair.perform(&operation).await;
        if in_memory != on_engine {
            return Err(Disagreement { seed, story: story.join("\n"), in_memory, on_engine });
        }
    }
    Ok(())
}

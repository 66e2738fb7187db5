//! A model of the protocol itself, explored completely within bounds.
//!
//! It is the protocol's contract and not the worker's code: two workers, two operators and the stores take their steps
//! in every order, with every fault that the bounds of a world allow between any two. What the domain decides by pure
//! functions (the scenario table, the ledger's transitions) is asked of the domain; the conditions, the rule of a
//! cancelled transaction and the order of the steps are written here a second time, so that each can be taken away.
//!
//! Left out, because nothing durable depends on it: waiting times and numbers of tries (giving up is a crash), batches
//! and their bisection, the front door, the dead-letter queue's own retention, S3's 409 (the same put again), and the
//! bound on how many conflicts an item keeps. An effect on one store is atomic, and reads are strongly consistent
//! wherever the protocol asks for it; a cache tells the plan of now or the one before.

mod action;
mod billing;
mod breach;
mod clean_run;
mod hunt;
mod mutant;
mod named;
mod operator;
mod path;
mod property;
mod protocol;
mod report;
mod search;
mod sighting;
mod state;
mod storage;
mod store;
#[cfg(test)]
mod tests;
mod turn;
mod world;

use std::thread::available_parallelism;
use std::time::Instant;

pub use self::hunt::{Caught, MutantVerdict, run_mutants};
pub use self::mutant::Mutant;
pub use self::report::{Failure, Report};
pub use self::sighting::Sighting;

/// How much is explored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Seconds, also without optimisation.
    Test,
    /// Millions of states, in well under a minute on two cores.
    Ci,
    /// A further fault of each kind.
    Full,
}

/// Explores every world of this size completely.
pub fn run(size: Size, progress: &dyn Fn(&str)) -> Result<Report, Failure> {
    let started = Instant::now();
    let (mut states, mut depth, mut seen) = (0, 0, sighting::Sightings::default());
    for world in world::worlds(size) {
        let explored = search::explore(world, threads());
        if explored.failed {
            return Err(failure(world));
        }
        states += explored.states;
        depth = depth.max(explored.depth);
        seen.add(explored.seen);
        progress(&format!("model: {}: {} states, {states} in all", world.name, explored.states));
    }
    let missed: Vec<&str> = Sighting::ALL.iter().filter(|one| !seen.has(**one)).map(|one| one.text()).collect();
    if !missed.is_empty() {
        return Err(Failure { property: missed.join("; "), world: "every world: never met", path: Vec::new() });
    }
    Ok(Report {
        states,
        depth,
        seconds: started.elapsed().as_secs_f64(),
        properties: property::names(),
        sightings: Sighting::ALL.iter().map(|sighting| sighting.text()).collect(),
    })
}

/// The shortest way to what fails in a world that was seen to fail.
fn failure(world: world::World) -> Failure {
    let found = search::shortest(world, None, &property::names().into_iter().collect());
    let (property, path) = found.map_or(("a property that failed once and not again", Vec::new()), |found| {
        (found.property, path::describe(&protocol::Protocol::new(world, None, false), &found.actions))
    });
    Failure { property: property.to_owned(), world: world.name, path }
}

fn threads() -> usize {
    available_parallelism().map_or(1, Into::into)
}

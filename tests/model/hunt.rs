//! Whether each mutant is caught, by which property and how far from the beginning.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::mutant::Mutant;
use super::property;
use super::search::shortest;
use super::world::worlds;
use super::{Size, threads};

/// What became of a mutant.
#[derive(Debug, Clone)]
pub struct MutantVerdict {
    /// The mutant.
    pub mutant: Mutant,
    /// How it was caught; `None` when it survived.
    pub caught: Option<Caught>,
}

/// How a mutant was caught.
#[derive(Debug, Clone, Copy)]
pub struct Caught {
    /// The property that fails.
    pub property: &'static str,
    /// In which world.
    pub world: &'static str,
    /// Steps of the shortest way there in that world.
    pub steps: usize,
}

/// Explores each load-bearing mutant until a property fails.
pub fn run_mutants(size: Size) -> Vec<MutantVerdict> {
    let mutants: Vec<Mutant> = Mutant::load_bearing().collect();
    let (next, verdicts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // One thread a mutant: breadth first on one thread comes to the short ways first.
    thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let verdict = MutantVerdict { mutant: *mutant, caught: catch(*mutant, size) };
                    if let Ok(mut verdicts) = verdicts.lock() {
                        verdicts.push(verdict);
                    }
                }
            });
        }
    });
    let mut verdicts = verdicts.into_inner().unwrap_or_default();
    verdicts.sort_by_key(|verdict| verdict.mutant as usize);
    verdicts
}

/// What a state shows, in the first world that shows it; else what a clean run from one shows, which looks ahead; else the
/// transition itself.
fn catch(mutant: Mutant, size: Size) -> Option<Caught> {
    let last = [property::CLEAN_RUN, property::LEGAL_TRANSITIONS];
    let first: BTreeSet<_> = property::names().into_iter().filter(|name| !last.contains(name)).collect();
    [first].into_iter().chain(last.map(|name| BTreeSet::from([name]))).find_map(|properties| {
        worlds(size).into_iter().find_map(|world| {
            let found = shortest(world, Some(mutant), &properties)?;
            Some(Caught { property: found.property, world: world.name, steps: found.actions.len() })
        })
    })
}

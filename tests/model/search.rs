//! The exploration of one world.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model};

use super::action::Action;
use super::mutant::Mutant;
use super::property;
use super::protocol::Protocol;
use super::sighting::Sightings;
use super::world::World;

/// A world that was explored.
pub(super) struct Explored {
    /// Distinct states.
    pub(super) states: usize,
    /// Steps to the farthest state.
    pub(super) depth: usize,
    /// What was met.
    pub(super) seen: Sightings,
    /// Whether some property failed and ended the search.
    pub(super) failed: bool,
}

/// The way to a state in which a property fails.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Counterexample {
    /// The property.
    pub(super) property: &'static str,
    /// The actions.
    pub(super) actions: Vec<Action>,
}

/// Explores a world on `threads` threads, completely unless a property fails.
pub(super) fn explore(world: World, threads: usize) -> Explored {
    let builder = Protocol::new(world, None, true).checker().threads(threads).finish_when(HasDiscoveries::AnyFailures);
    let checker = builder.spawn_bfs().join();
    Explored {
        states: checker.unique_state_count(),
        // The checker counts states along the way, and the first of them took no step.
        depth: checker.max_depth().saturating_sub(1),
        seen: checker.model().seen.all(),
        failed: !checker.discoveries().is_empty(),
    }
}

/// The shortest way to a failure of one of `properties`; of equally short ones, the first property's.
///
/// The checker looks for failures in blocks of states and keeps the last of a block. So it is asked again for a shorter
/// one until there is none.
pub(super) fn shortest(
    world: World,
    mutant: Option<Mutant>,
    properties: &BTreeSet<&'static str>,
) -> Option<Counterexample> {
    let looks_ahead = properties.contains(property::CLEAN_RUN);
    let mut best: Option<Counterexample> = None;
    loop {
        let mut builder =
            Protocol::new(world, mutant, looks_ahead).checker().finish_when(HasDiscoveries::AnyOf(properties.clone()));
        if let Some(best) = &best {
            // Looks at ways of one step less: the bound counts states, and leaves out those at the bound.
            builder = builder.target_max_depth(best.actions.len() + 1);
        }
        let mut discoveries = builder.spawn_bfs().join().discoveries();
        let in_order = property::names().into_iter().filter(|name| properties.contains(name));
        let found = in_order.filter_map(|property| {
            discoveries.remove(property).map(|path| Counterexample { property, actions: path.into_actions() })
        });
        match found.min_by_key(|found| found.actions.len()) {
            Some(shorter) if !shorter.actions.is_empty() => best = Some(shorter),
            Some(at_once) => return Some(at_once),
            None => return best,
        }
    }
}

//! The model holds, meets everything, and each thing that it takes away is missed.

use super::property::names;
use super::search::shortest;
use super::world::worlds;
use super::{Mutant, Sighting, Size, run, run_mutants};

#[test]
fn the_small_size_holds_and_meets_every_race() {
    let report = run(Size::Test, &|line| println!("{line}")).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{} states, depth {}, {:.1} s", report.states, report.depth, report.seconds);
    assert_eq!(report.sightings.len(), Sighting::ALL.len());
    assert!(report.states > 10_000, "{} states are too few to mean anything", report.states);
}

#[test]
fn every_mutant_is_caught() {
    let verdicts = run_mutants(Size::Test);
    for verdict in &verdicts {
        println!("{:<75} {:?}", verdict.mutant.text(), verdict.caught);
    }
    let caught = verdicts.iter().filter(|verdict| verdict.caught.is_some()).count();
    assert_eq!((caught, verdicts.len()), (verdicts.len(), Mutant::load_bearing().count()));
}

#[test]
fn nothing_fails_without_an_implied_clause() {
    for mutant in Mutant::IMPLIED {
        for world in worlds(Size::Test) {
            let found = shortest(world, Some(mutant), &names().into_iter().collect());
            assert_eq!(found, None, "{} in {}", mutant.text(), world.name);
        }
    }
}

#[test]
fn sightings_fit_their_set_and_scenarios_come_first() {
    assert!(Sighting::ALL.len() <= 64);
    for (sighting, number) in Sighting::ALL.iter().zip(1..=8) {
        assert!(sighting.text().starts_with(&format!("scenario {number}: ")));
    }
}

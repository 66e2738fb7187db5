//! The simulation at its smallest size, its mutants, and its own honesty.

use super::budget::Budget;
use super::case::Case;
use super::explore::{Explorer, Tally};
use super::mutants::run_mutant;
use super::possible::Offer;
use super::stage::Stage;
use super::walk::walk;
use super::*;
use std::collections::HashSet;

const SEED: u64 = 20_261_115;
const ONE_FAULT: Budget = Budget::new([1, 1, 1, 1, 0, 1], 1);
const NO_FAULT: Budget = Budget::new([0; 6], 0);

fn silent(_: &str) {}

fn told(line: &str) {
    println!("{line}");
}

#[test]
fn every_schedule_within_the_small_bounds_is_sound() {
    let report = run(Size::Test, SEED, &silent).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{report}");
    assert!(report.schedules > 1_000, "{report}");
}

#[test]
fn every_mutant_is_caught() {
    let mutants = run_mutants(20_000, &told);
    assert_eq!(mutants.survivors().collect::<Vec<_>>(), Vec::<&str>::new());
    assert_eq!(mutants.caught(), MUTANTS.len());
}

#[test]
fn a_failing_path_replays_and_is_told_step_by_step() {
    let seeds_rule = MUTANTS.iter().find(|mutant| mutant.mutation.lie == Lie::CancelledMeansFull).unwrap();
    let failure = run_mutant(seeds_rule, 20_000).caught_by.unwrap();
    let broken = replay(&failure.path, seeds_rule.mutation).unwrap();
    println!("{}\n{}", failure.path, broken.trace);
    assert_eq!(broken.findings, failure.findings);
    assert_eq!(replay(&failure.path, seeds_rule.mutation).unwrap(), broken, "the same again");
    assert!(broken.trace.contains("Billing::consume: Contend"), "{}", broken.trace);
    assert_eq!(broken.trace.lines().filter(|line| line.contains(". ")).count(), failure.path.split(' ').count() - 1);
    // The same schedule of the pipeline as it is.
    assert_eq!(replay(&failure.path, Mutation::NONE).unwrap().findings, Vec::<String>::new());
}

#[test]
fn a_path_that_is_none_is_refused() {
    for bad in ["", "free/full/E/-/plain", "free/full/Z/-/plain: 0a", "free/full/E/-/plain: 0?"] {
        assert!(replay(bad, Mutation::NONE).is_err(), "{bad}");
    }
    // Well formed, and yet no schedule: it says which step cannot be made.
    assert_eq!(replay("free/full/E/-/plain: 3a", Mutation::NONE).unwrap().findings, ["there is no actor 3"]);
}

fn explored(name: &str, budget: Budget, offer: Offer, reduces: bool) -> (HashSet<u64>, Tally) {
    let stage = Stage::new(&Case::parse(name).unwrap(), Mutation::NONE);
    let mut explorer = Explorer::naive(&stage, budget, offer, reduces);
    explorer.explore(|_| true).unwrap();
    (explorer.good_ends.hashes().clone(), explorer.tally)
}

/// Explores with the reduction and without, and compares where the schedules end.
fn compare(cases: &[(&str, Budget)]) {
    for (name, budget) in cases {
        let (all_ends, all) = explored(name, *budget, Offer::Distinct, false);
        let (ends, reduced) = explored(name, *budget, Offer::Distinct, true);
        println!("{name}: {} schedules, {} of them distinct, {} ends", all.schedules, reduced.schedules, ends.len());
        assert_eq!(ends, all_ends, "{name}");
        assert_eq!(reduced.reached, all.reached, "{name}");
        assert!(reduced.schedules <= all.schedules, "{name}");
    }
}

#[test]
fn what_the_reduction_leaves_out_ends_nowhere_else() {
    compare(&[
        ("free/last-unit/EF/-/plain", NO_FAULT),
        ("free/sole-unit/ED/-/plain", NO_FAULT),
        ("plus-inactive/room-left/EP/-/plain", NO_FAULT),
        ("free/full/E/i/plain", ONE_FAULT),
        ("free/last-unit/E/-/plain", ONE_FAULT),
    ]);
}

#[test]
fn what_is_not_offered_ends_nowhere_else() {
    for name in ["free/last-unit/E/-/plain", "plus-active/room-left/E/-/poison", "plus-inactive/room-left/EP/-/plain"] {
        let (all_ends, all) = explored(name, ONE_FAULT, Offer::All, true);
        let (ends, offered) = explored(name, ONE_FAULT, Offer::Distinct, true);
        println!("{name}: {} schedules, {} of them offered, {} ends", all.schedules, offered.schedules, ends.len());
        assert_eq!(ends, all_ends, "{name}");
    }
}

#[test]
fn the_same_seed_walks_the_same_way() {
    let case = Case::parse("free/last-unit/EDFP/mu/plain").unwrap();
    let [first, second, other] = [7, 7, 8].map(|seed| walk(&case, Mutation::NONE, seed, 50).unwrap());
    assert_eq!(first, second);
    assert_ne!(first, other);
}

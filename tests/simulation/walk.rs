//! Beyond the bounds: random schedules with more deliveries, kills and faults. The same seed walks the same way.

use super::budget::Budget;
use super::case::Case;
use super::choice::{Act, Choice, Possible, path_of};
use super::explore::{Failure, Tally};
use super::finish::GoodEnds;
use super::mutants::Mutation;
use super::possible::Offer;
use super::scheduler::Run;
use super::stage::Stage;
use crate::traffic::Random;

/// Faults of a walk, by kind, and all together.
const BUDGET: Budget = Budget::new([3, 3, 3, 2, 1, 5], 8);
/// Of 100 steps, how many are free to fail. The others go on as they should, or no walk would get anywhere.
const FREE_PERCENT: usize = 25;

/// Walks `walks` times through a case.
pub(super) fn walk(case: &Case, mutation: Mutation, seed: u64, walks: u64) -> Result<Tally, Failure> {
    let stage = Stage::new(case, mutation);
    let mut random = Random::new(seed);
    let (mut ends, mut tally) = (GoodEnds::default(), Tally::default());
    let (mut possible, mut going_on) = (Vec::new(), Vec::new());
    for _ in 0..walks {
        let mut choices = Vec::new();
        let mut run = Run::start(&stage, BUDGET).map_err(|what| failure(case, &choices, vec![what]))?;
        loop {
            run.possible(Offer::All, &mut possible);
            going_on.clear();
            going_on.extend(possible.iter().filter(|one| goes_on(one)));
            let from = if random.percent(FREE_PERCENT) || going_on.is_empty() { &possible } else { &going_on };
            let Some(one) = from.get(random.below(from.len())) else { break };
            choices.push(one.choice);
            run.step(one.choice).map_err(|what| failure(case, &choices, vec![what]))?;
        }
        ends.finish(&mut run).map_err(|findings| failure(case, &choices, findings))?;
        tally.schedules += 1;
        tally.deepest = tally.deepest.max(choices.len());
        tally.reached.merge(run.reached);
    }
    tally.ends = ends.count();
    Ok(tally)
}

fn goes_on(one: &Possible) -> bool {
    matches!(one.choice, Choice::Actor(_, Act::Apply | Act::Receive))
}

fn failure(case: &Case, choices: &[Choice], findings: Vec<String>) -> Failure {
    Failure { path: format!("{case}: {}", path_of(choices.iter().copied())), findings }
}

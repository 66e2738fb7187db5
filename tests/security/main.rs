//! Spaces share a front door, a queue, a worker and every table, and must not notice each other.
//!
//! Random sequences of requests of three spaces run through the real router and the real pipeline, over the twins in
//! memory. Then each space's own requests run in a world that holds no other space. What the space was answered, and
//! every fact that is stored of it, must be the same in both: then nobody read, billed, archived or overwrote anything
//! of anybody else's. Each space is the victim of the two others, which know all of its facts, ids and keys' names, and
//! claim to be it wherever a request has room for a name.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod facts;
mod log;
mod ports;
mod run;
mod sequence;
mod spaces;

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::ports::Leak;
use crate::run::{Answer, Outcome, run};
use crate::sequence::{Step, sequence};
use crate::spaces::SPACES;

/// What is wrong with a sequence, if anything is: a space that notices another one, or is told of it.
fn breach(steps: &[Step], leak: Option<Leak>) -> Option<String> {
    let shared = run(steps, leak);
    if let Some(fact) = shared.facts.get("").and_then(|facts| facts.first()) {
        return Some(format!("belongs to no space: {fact}"));
    }
    let told = shared.answers.iter().find_map(Answer::tells_of_another_space);
    told.or_else(|| (0..SPACES.len()).find_map(|space| noticed(space, steps, &shared, leak)))
}

/// How `space` fared otherwise than it does alone.
fn noticed(space: usize, steps: &[Step], shared: &Outcome, leak: Option<Leak>) -> Option<String> {
    let name = SPACES[space].name;
    let own: Vec<Step> = steps.iter().filter(|step| step.is_of(space)).cloned().collect();
    let alone = run(&own, leak);
    let answers = shared.answers.iter().filter(|answer| answer.space == space);
    for (shared, alone) in answers.zip(&alone.answers) {
        if shared != alone {
            return Some(format!("{name} is answered {shared:#?} among others and {alone:#?} alone"));
        }
    }
    let (shared, alone) = (shared.facts_of(name), alone.facts_of(name));
    let difference = shared.symmetric_difference(&alone).next()?;
    let where_it_is = if shared.contains(difference) { "among others" } else { "alone" };
    Some(format!("only {where_it_is}, {name} has: {difference}"))
}

proptest! {
    #[test]
    fn no_space_can_read_bill_archive_or_overwrite_what_is_another_s(steps in sequence()) {
        let breach = breach(&steps, None);
        prop_assert!(breach.is_none(), "{}", breach.unwrap_or_default());
    }

    #[test]
    fn no_log_line_and_no_answer_holds_a_key_or_a_payload(steps in sequence()) {
        let outcome = run(&steps, None);
        prop_assert!(outcome.answers.is_empty() || outcome.log.contains("req-"), "nothing was logged");
        for secret in spaces::secrets() {
            prop_assert!(!outcome.log.contains(&secret), "the log has {}", secret);
        }
        for answer in &outcome.answers {
            let keys = spaces::keys().find(|key| answer.text().contains(key.expose()));
            prop_assert!(keys.is_none() && !answer.text().contains(spaces::PAYLOAD), "{:?}", answer);
        }
    }
}

/// Sequences that are the same in every run.
fn fixed_sequences(count: usize) -> impl Iterator<Item = Vec<Step>> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(move |_| sequence().new_tree(&mut runner).unwrap().current())
}

#[test]
fn every_port_that_forgets_the_space_is_found_out() {
    for leak in Leak::ALL {
        let found = fixed_sequences(300).position(|steps| breach(&steps, Some(leak)).is_some());
        assert!(found.is_some(), "{leak:?} went unnoticed");
    }
}

#[test]
fn the_sequences_reach_what_they_are_about() {
    let mut reached = BTreeSet::new();
    for steps in fixed_sequences(200) {
        let outcome = run(&steps, None);
        reached.extend(outcome.answers.iter().map(|answer| answer.status.to_string()));
        reached.extend(outcome.answers.iter().filter(|answer| answer.is_replay()).map(|_| "replay".to_owned()));
        let facts = |space: usize| outcome.facts_of(SPACES[space].name);
        // Whatever two spaces have under one name, each has of its own.
        for kind in ["ledger", "conflict", "receipt", "row", "object"] {
            let names = |space| facts(space).iter().filter_map(|fact| fact.name_within(kind)).collect::<BTreeSet<_>>();
            if [(0, 1), (1, 2), (2, 0)].into_iter().any(|(one, other)| !names(one).is_disjoint(&names(other))) {
                reached.insert(format!("{kind} of two spaces"));
            }
        }
        for space in 0..SPACES.len() {
            for status in ["Inserted", "Rejected", "Uninsertable"] {
                if facts(space).iter().any(|fact| fact.text.contains(&format!("status: {status}"))) {
                    reached.insert(status.to_owned());
                }
            }
        }
    }
    for wanted in [
        "200",
        "202",
        "400",
        "401",
        "402",
        "403",
        "404",
        "422",
        "replay",
        "ledger of two spaces",
        "receipt of two spaces",
        "row of two spaces",
        "object of two spaces",
        "conflict of two spaces",
        "Inserted",
        "Rejected",
        "Uninsertable",
    ] {
        assert!(reached.contains(wanted), "no sequence reaches {wanted}: {reached:?}");
    }
}

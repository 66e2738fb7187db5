//! Every condition is load-bearing: each one taken away, and each rule dropped, makes the simulation fail.

use tollgate_domain::ledger::Write;

use super::budget::Budget;
use super::case::Case;
use super::explore::{Beginning, Explorer, Failure};
use super::lie::Lie;
use super::stage::Stage;
use crate::memory::Guard;

/// What is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mutation {
    /// A condition that the stores forgot.
    pub forgotten: Option<Guard>,
    /// What the ports tell instead of the truth.
    pub lie: Lie,
}

impl Mutation {
    /// Nothing is broken.
    pub const NONE: Self = Self { forgotten: None, lie: Lie::None };

    const fn without(guard: Guard) -> Self {
        Self { forgotten: Some(guard), lie: Lie::None }
    }

    const fn lying(lie: Lie) -> Self {
        Self { forgotten: None, lie }
    }
}

/// One thing broken, and the case whose schedules must show it.
#[derive(Debug, Clone, Copy)]
pub struct Mutant {
    /// What is broken, in words.
    pub name: &'static str,
    /// What is broken.
    pub mutation: Mutation,
    /// Where it shows.
    case: &'static str,
}

const fn without(name: &'static str, guard: Guard, case: &'static str) -> Mutant {
    Mutant { name, mutation: Mutation::without(guard), case }
}

const fn lying(name: &'static str, lie: Lie, case: &'static str) -> Mutant {
    Mutant { name, mutation: Mutation::lying(lie), case }
}

/// One line a mutant.
#[rustfmt::skip]
pub const MUTANTS: &[Mutant] = &[
    without("claim: attribute_not_exists(pk)",                       Guard::Whole(Write::Claim),                "free/room-left/ED/-/plain"),
    without("consume, counter: eventCount < limit",                  Guard::Limit,                              "free/last-unit/EF/-/plain"),
    without("consume, ledger: whole condition",                      Guard::Whole(Write::Consume),              "free/room-left/ED/-/plain"),
    without("consume, ledger: status = INSERTING",                   Guard::Open(Write::Consume),               "free/full/ED/i/plain"),
    without("consume, ledger: no checkpoint",                        Guard::Checkpoint(Write::Consume),         "free/room-left/ED/-/plain"),
    without("stamp: whole condition",                                Guard::Whole(Write::Stamp),                "free/room-left/ED/u/plain"),
    without("stamp: status = INSERTING",                             Guard::Open(Write::Stamp),                 "plus-inactive/room-left/ED/u/plain"),
    without("stamp: no checkpoint",                                  Guard::Checkpoint(Write::Stamp),           "free/room-left/ED/u/plain"),
    without("reject: whole condition",                               Guard::Whole(Write::Reject),               "plus-active/room-left/ED/l/plain"),
    without("reject: status = INSERTING",                            Guard::Open(Write::Reject),                "free/full/ED/l/plain"),
    without("reject: no checkpoint",                                 Guard::Checkpoint(Write::Reject),          "plus-active/room-left/ED/l/plain"),
    without("record quarantine: whole condition",                    Guard::Whole(Write::RecordQuarantine),     "plus-active/room-left/ED/h/poison"),
    without("record quarantine: status = INSERTING",                 Guard::Open(Write::RecordQuarantine),      "plus-active/room-left/ED/h/poison"),
    without("record quarantine: the count is the one seen",          Guard::SeenCount,                          "plus-active/room-left/EDD/s/poison"),
    without("record quarantine: a spacing apart",                    Guard::Spacing,                            "plus-active/room-left/ED/-/poison"),
    without("mark uninsertable: whole condition",                    Guard::Whole(Write::MarkUninsertable),     "plus-active/room-left/ED/h/refused-twice"),
    without("mark uninsertable: status = INSERTING",                 Guard::Open(Write::MarkUninsertable),      "plus-active/room-left/ED/h/refused-twice"),
    without("mark inserted: whole condition",                        Guard::Whole(Write::MarkInserted),         "plus-active/room-left/ED/h/refused-twice"),
    without("mark inserted: status = INSERTING",                     Guard::Open(Write::MarkInserted),          "plus-active/room-left/ED/h/refused-twice"),
    lying("archive before insert, turned round",                     Lie::RowBeforePayload,                     "plus-active/room-left/ED/-/plain"),
    lying("the checkpoint test of a redelivery",                     Lie::CheckpointHidden,                     "free/room-left/ED/-/plain"),
    lying("the conflict rule: every payload is a retry",             Lie::EveryPayloadAlike,                    "free/room-left/EP/-/plain"),
    lying("the seed's rule: cancelled and unbilled means full",      Lie::CancelledMeansFull,                   "free/room-left/EF/-/plain"),
    lying("no answer means done",                                    Lie::NoAnswerMeansDone,                    "free/room-left/E/-/plain"),
    lying("a message that was handed back is deleted",               Lie::HandedBackMeansDone,                  "plus-active/room-left/E/-/poison"),
    lying("the month of the clock, not of the acceptance",           Lie::MonthOfTheClock,                      "free/room-left/ED/m/plain"),
    lying("a stamp of the clock, not of the claim",                  Lie::StampOfTheClock,                      "free/room-left/ED/m/plain"),
    lying("a row is present without its twin",                       Lie::TwinNotProbed,                        "plus-active/room-left/ED/-/plain"),
    lying("a rejection from a remembered entry",                     Lie::RejectionFromMemory,                  "plus-active/room-left/E/-/stale-memory"),
];

/// Conditions whose loss no schedule can show, each with what shows it instead.
pub const NOT_APPLICABLE: &[(&str, &str)] = &[
    (
        "mark inserted: checkpoint stands",
        "a second lock: no row is stored unbilled as long as the pipeline's own order holds",
    ),
    ("record quarantine: checkpoint stands", "a second lock: storing is entered with a durable checkpoint only"),
    ("mark uninsertable: checkpoint stands", "a second lock, as above"),
    ("mark uninsertable: refused often enough", "a second lock until a re-drive can set the count back under a worker"),
    ("record conflict: the item exists", "a second lock: an item is never deleted"),
    ("reopen: status = UNINSERTABLE", "no port makes this write: the re-drive does"),
];

/// Faults that a mutant's schedules may hold: none, then one, then two. What needs few is found among few.
const BUDGETS: [Budget; 3] =
    [Budget::new([0, 0, 0, 0, 0, 0], 0), Budget::new([1, 1, 1, 1, 0, 1], 1), Budget::new([1, 1, 1, 0, 0, 1], 2)];

/// A mutant that was caught, or was not.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// What was broken.
    pub name: &'static str,
    /// What caught it; `None` when nothing did.
    pub caught_by: Option<Failure>,
    /// Schedules that it took.
    pub schedules: u64,
}

/// What became of the mutants.
#[derive(Debug, Clone)]
pub struct Mutants {
    /// One for each mutant, in the order of [`MUTANTS`].
    pub verdicts: Vec<Verdict>,
}

impl Mutants {
    /// How many were caught.
    pub fn caught(&self) -> usize {
        self.verdicts.iter().filter(|verdict| verdict.caught_by.is_some()).count()
    }

    /// How many there are.
    pub fn of(&self) -> usize {
        self.verdicts.len()
    }

    /// Those that were not caught.
    pub fn survivors(&self) -> impl Iterator<Item = &'static str> {
        self.verdicts.iter().filter(|verdict| verdict.caught_by.is_none()).map(|verdict| verdict.name)
    }
}

/// Runs every mutant until a schedule fails, within `most` schedules each.
pub fn run_mutants(most: u64, progress: &dyn Fn(&str)) -> Mutants {
    let verdicts = MUTANTS.iter().map(|mutant| {
        let verdict = run_mutant(mutant, most);
        match &verdict.caught_by {
            Some(failure) => {
                progress(&format!("caught after {}: {}: {}", verdict.schedules, mutant.name, failure.path));
            }
            None => progress(&format!("survived {}: {}", verdict.schedules, mutant.name)),
        }
        verdict
    });
    Mutants { verdicts: verdicts.collect() }
}

/// Runs one mutant until a schedule fails, within `most` schedules of each bound.
pub(super) fn run_mutant(mutant: &Mutant, most: u64) -> Verdict {
    let case = Case::parse(mutant.case).unwrap_or_else(|| unreachable!("{} is not a case", mutant.case));
    let stage = Stage::new(&case, mutant.mutation);
    let mut schedules = 0;
    for budget in BUDGETS {
        let mut explorer = Explorer::new(&stage, budget, Beginning::new());
        let caught_by = explorer.explore(|tally| tally.schedules + tally.repeated < most).err();
        schedules += explorer.tally.schedules + u64::from(caught_by.is_some());
        if caught_by.is_some() {
            return Verdict { name: mutant.name, caught_by, schedules };
        }
    }
    Verdict { name: mutant.name, caught_by: None, schedules }
}

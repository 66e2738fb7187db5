//! How much is explored: the cases, and the faults that each may hold.

use super::budget::Budget;
use super::case::Case;

/// How much is explored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Seconds, in a debug build: what every `cargo test` runs.
    Test,
    /// A million schedules and more, in minutes: what every change must pass.
    Ci,
    /// Five millions and more.
    Full,
}

/// Plans and rooms, where a room means something.
const TIERS_AND_ROOMS: [&str; 7] = [
    "free/room-left",
    "free/last-unit",
    "free/sole-unit",
    "free/full",
    "plus-active/room-left",
    "plus-inactive/room-left",
    "internal/room-left",
];

/// A family of cases within the same bounds.
struct Family {
    /// What its schedules may hold.
    bounds: &'static str,
    /// Casts and moves and twists, as in a case's name; `=` stands for every plan and room.
    cases: &'static [&'static str],
    budget: Budget,
}

/// A case, and its bounds.
pub(super) struct Bounded {
    pub(super) case: Case,
    pub(super) budget: Budget,
    /// Which family it is of.
    pub(super) family: usize,
}

/// kill, lost, refuse, lag, outage, again; all faults together.
const fn budget(of_kind: [u8; 6], total: u8) -> Budget {
    Budget::new(of_kind, total)
}

const NO_FAULT: Budget = budget([0, 0, 0, 0, 0, 0], 0);
const ONE_FAULT: Budget = budget([1, 1, 1, 1, 1, 1], 1);
const TWO_FAULTS: Budget = budget([1, 1, 1, 1, 0, 1], 2);
/// What the proof promises at least: one kill, one redelivery, one lost answer.
const KILL_AND_LOSS: Budget = budget([1, 1, 0, 0, 0, 1], 2);
const KILL_LOSS_AND_REFUSAL: Budget = budget([1, 1, 1, 0, 0, 1], 3);

/// Moves of the environment while two workers are at it, each where it can matter.
const MOVED: &[&str] = &[
    "free/room-left/EN/m/plain",
    "free/last-unit/ED/m/plain",
    "free/room-left/ED/u/plain",
    "free/last-unit/EF/U/plain",
    "free/full/ED/u/plain",
    "free/full/ED/i/plain",
    "free/full/EF/I/plain",
    "free/room-left/ED/o/plain",
    "free/last-unit/ED/O/plain",
    "free/room-left/ED/l/plain",
    "plus-active/room-left/ED/l/plain",
    "plus-active/room-left/ED/L/plain",
    "plus-active/full/ED/d/plain",
    "plus-active/last-unit/EF/d/plain",
    "plus-inactive/room-left/ED/u/plain",
    "plus-inactive/room-left/ED/D/plain",
];

/// More of them, where there is time.
const MOVED_MORE: &[&str] =
    &["internal/room-left/ED/m/plain", "plus-active/room-left/EP/m/plain", "free/full/EF/iu/plain"];

/// Those of them that take no time.
const MOVED_IN_SHORT: &[&str] = &[
    "free/room-left/N/m/plain",
    "free/room-left/ED/u/plain",
    "free/last-unit/EF/U/plain",
    "free/full/ED/i/plain",
    "free/room-left/ED/o/plain",
    "plus-active/room-left/ED/l/plain",
    "plus-active/full/ED/d/plain",
    "plus-inactive/room-left/ED/u/plain",
];

/// Rows that ClickHouse refuses, and everything else that is out of the ordinary.
const TWISTED: &[&str] = &[
    "free/last-unit/ED/-/poison",
    "plus-active/room-left/ED/h/poison",
    "plus-active/room-left/ED/q/plain",
    "plus-active/room-left/ED/h/refused-twice",
    "plus-active/room-left/ED/-/view-throws",
    "plus-active/room-left/ED/-/stale-memory",
    "free/last-unit/EF/-/stale-memory",
    "plus-active/room-left/EG/-/unreadable",
    "free/room-left/E/-/flapping",
];

const EVERY_PAIR: &[&str] = &["=/ED/-/plain", "=/EF/-/plain", "=/EP/-/plain"];

const THREE: &[&str] = &["=/EDF/-/plain", "=/EDP/-/plain"];

const FAMILIES_OF_TEST: &[Family] = &[
    Family { bounds: "two deliveries, no fault", cases: EVERY_PAIR, budget: NO_FAULT },
    Family { bounds: "two deliveries, out of the ordinary, no fault", cases: TWISTED, budget: NO_FAULT },
    Family { bounds: "two deliveries, a move of the environment, no fault", cases: MOVED_IN_SHORT, budget: NO_FAULT },
    Family {
        bounds: "one delivery, one fault, one redelivery",
        cases: &["free/last-unit/E/-/plain", "plus-active/room-left/E/-/plain"],
        budget: ONE_FAULT,
    },
];

const FAMILIES_OF_CI: &[Family] = &[
    Family {
        bounds: "two workers, one kill, one redelivery, one lost answer",
        cases: &["=/ED/-/plain"],
        budget: KILL_AND_LOSS,
    },
    Family { bounds: "two deliveries, one fault of any kind, one redelivery", cases: EVERY_PAIR, budget: ONE_FAULT },
    Family { bounds: "the same, and a move of the environment", cases: MOVED, budget: ONE_FAULT },
    Family { bounds: "the same, out of the ordinary", cases: TWISTED, budget: ONE_FAULT },
    Family { bounds: "three deliveries, no fault", cases: THREE, budget: NO_FAULT },
];

const FAMILIES_OF_FULL: &[Family] = &[
    Family {
        bounds: "two workers, one kill, one redelivery, one lost answer",
        cases: &["=/ED/-/plain"],
        budget: KILL_AND_LOSS,
    },
    Family {
        bounds: "the same, and one refusal, all in one schedule",
        cases: &["free/last-unit/ED/-/plain", "plus-inactive/room-left/ED/-/plain"],
        budget: KILL_LOSS_AND_REFUSAL,
    },
    Family { bounds: "two deliveries, two faults of any kinds, one redelivery", cases: EVERY_PAIR, budget: TWO_FAULTS },
    Family { bounds: "two deliveries, one fault of any kind, one redelivery", cases: EVERY_PAIR, budget: ONE_FAULT },
    Family { bounds: "the same, and a move of the environment", cases: MOVED, budget: ONE_FAULT },
    Family { bounds: "the same, and more moves", cases: MOVED_MORE, budget: ONE_FAULT },
    Family { bounds: "the same, out of the ordinary", cases: TWISTED, budget: ONE_FAULT },
    Family { bounds: "three deliveries, one fault of any kind, one redelivery", cases: THREE, budget: ONE_FAULT },
];

/// Where a walk goes: more deliveries, and several moves of the environment in one schedule.
const WALKED: [&str; 10] = [
    "free/last-unit/EDFP/mu/plain",
    "free/sole-unit/EDFN/m/plain",
    "free/full/EDF/iu/plain",
    "free/room-left/EDFP/Ol/plain",
    "plus-active/last-unit/EDFP/lsm/plain",
    "plus-active/room-left/EDD/ss/poison",
    "plus-active/room-left/EDD/sh/refused-twice",
    "plus-inactive/room-left/EDFP/um/plain",
    "internal/room-left/EDFP/m/plain",
    "plus-active/room-left/EDG/s/view-throws",
];

fn parse(name: &str) -> Case {
    Case::parse(name).unwrap_or_else(|| unreachable!("{name} is not the name of a case"))
}

impl Size {
    fn families(self) -> &'static [Family] {
        match self {
            Self::Test => FAMILIES_OF_TEST,
            Self::Ci => FAMILIES_OF_CI,
            Self::Full => FAMILIES_OF_FULL,
        }
    }

    /// The bounds of each family of cases.
    pub(super) fn bounds(self) -> impl Iterator<Item = &'static str> {
        self.families().iter().map(|family| family.bounds)
    }

    /// Every case of this size with its bounds.
    pub(super) fn cases(self) -> Vec<Bounded> {
        let mut cases = Vec::new();
        for (family, Family { cases: names, budget, .. }) in self.families().iter().enumerate() {
            let bounded = |name: &str| Bounded { case: parse(name), budget: *budget, family };
            for name in *names {
                match name.strip_prefix('=') {
                    Some(rest) => cases.extend(TIERS_AND_ROOMS.map(|first| bounded(&format!("{first}{rest}")))),
                    None => cases.push(bounded(name)),
                }
            }
        }
        cases
    }

    /// The walked cases, and how often each is walked.
    pub(super) fn walks(self) -> (Vec<Case>, u64) {
        let walks = match self {
            Self::Test => 60,
            Self::Ci => 10_000,
            Self::Full => 100_000,
        };
        (WALKED.into_iter().map(parse).collect(), walks)
    }
}

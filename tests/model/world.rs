//! The bounded worlds that a run explores: who sends what, under which plan, and how much may go wrong.
//!
//! Each is explored completely. They differ because no single bound that includes everything at once ends in a minute.

use tollgate_domain::plan::BilledAs;

use super::Size;
use super::state::{EVENTS, Faults, Item, Object, State};

/// What a space's plan is, and a free one's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Tier {
    /// The canary.
    Internal,
    /// Paid and in good standing.
    PlusActive,
    /// Paid plan that lapsed.
    PlusInactive,
    /// Capped by this many events a month.
    Free(u8),
}

/// A message that the front door accepted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    /// The event's id.
    pub(super) event: u8,
    /// Which payload it carries under that id.
    pub(super) payload: u8,
    /// The month in which it was accepted.
    pub(super) month: u8,
}

/// What happened before the world begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    /// Nothing.
    None,
    /// A newer version claimed the event: this one cannot read its item.
    Unreadable,
    /// The tables were restored from a backup of before the checkpoint; archive, row and twin are there.
    Restored,
}

impl Past {
    /// No worker can finish the first event: it halts, and a person decides.
    pub(super) fn halts(self) -> bool {
        self != Self::None
    }

    pub(super) fn apply(self, state: &mut State) {
        let item = Item::claimed(0, 0, 0);
        match self {
            Self::None => {}
            Self::Unreadable => state.ledger[0] = Some(Item { is_readable: false, ..item }),
            Self::Restored => {
                let object = Object { payload: 0, stamp: 0 };
                state.ledger[0] = Some(item);
                state.archive[0] = Some(object);
                state.rows[0].insert(object, BilledAs::Free);
                state.twins[0].insert(object, BilledAs::Free);
            }
        }
    }
}

/// One bounded world.
#[derive(Debug, Clone, Copy)]
pub(super) struct World {
    /// Its name.
    pub(super) name: &'static str,
    /// The messages.
    pub(super) messages: &'static [Message],
    /// The plan at first, and the one that it may change to and back.
    pub(super) plans: [Tier; 2],
    /// Events whose rows are refused until the drift is fixed.
    pub(super) is_poison: [bool; EVENTS],
    /// What went before.
    pub(super) past: Past,
    /// What may go wrong.
    pub(super) faults: Faults,
    /// Two go through every quarantine side by side: a fault more costs several times as much as elsewhere.
    pub(super) is_wide: bool,
}

const fn message(event: u8, payload: u8, month: u8) -> Message {
    Message { event, payload, month }
}

const ALONE: &[Message] = &[message(0, 0, 0)];
const TWO_EVENTS: &[Message] = &[message(0, 0, 0), message(1, 0, 0)];
/// The client's retry of an event, accepted after midnight on the 1st.
const RETRY_NEXT_MONTH: &[Message] = &[message(0, 0, 0), message(0, 0, 1)];
const OTHER_PAYLOAD: &[Message] = &[message(0, 0, 0), message(0, 1, 0)];

const NO_FAULTS: Faults = Faults {
    crashes: 0,
    lost_answers: 0,
    contentions: 0,
    redeliveries: 0,
    half_inserts: 0,
    lagging_probes: 0,
    redrives: 0,
    plan_changes: 0,
    month_turns: 0,
    breaker_openings: 0,
};

impl Faults {
    /// At least `count` of each fault that can befall any event; what makes a world special stays as it is.
    fn at_least(self, count: u8) -> Self {
        Self {
            crashes: self.crashes.max(count),
            lost_answers: self.lost_answers.max(count),
            contentions: self.contentions.max(count),
            redeliveries: self.redeliveries.max(count),
            ..self
        }
    }

    /// `count` more crashes and lost answers.
    fn plus(self, count: u8) -> Self {
        Self { crashes: self.crashes + count, lost_answers: self.lost_answers + count, ..self }
    }
}

/// The worlds of a size: in a small one the faults that its own races need, in a larger one every fault besides.
pub(super) fn worlds(size: Size) -> Vec<World> {
    let mut worlds = small();
    for world in &mut worlds {
        let faults = world.faults;
        world.faults = match (size, world.is_wide) {
            (Size::Test, _) => faults,
            (Size::Ci, true) => Faults { crashes: 1, lost_answers: 1, ..faults },
            (Size::Ci, false) => faults.at_least(1).plus(1),
            (Size::Full, true) => faults.at_least(1),
            (Size::Full, false) => faults.at_least(1).plus(2),
        };
    }
    worlds
}

fn small() -> Vec<World> {
    let calm = |name, messages, plans| World {
        name,
        messages,
        plans,
        is_poison: [false; EVENTS],
        past: Past::None,
        faults: NO_FAULTS,
        is_wide: false,
    };
    let free = |limit| [Tier::Free(limit); 2];
    vec![
        World {
            faults: Faults { crashes: 1, lost_answers: 1, contentions: 1, ..NO_FAULTS },
            ..calm("two events, the last unit", TWO_EVENTS, free(1))
        },
        World {
            faults: Faults { contentions: 1, ..NO_FAULTS },
            ..calm("two events, room for both", TWO_EVENTS, free(2))
        },
        World {
            faults: Faults { plan_changes: 1, redeliveries: 1, ..NO_FAULTS },
            ..calm("the limit is raised", TWO_EVENTS, [Tier::Free(1), Tier::Free(2)])
        },
        World {
            faults: Faults { plan_changes: 1, redeliveries: 1, ..NO_FAULTS },
            ..calm("the limit is lowered", TWO_EVENTS, [Tier::Free(2), Tier::Free(1)])
        },
        World {
            faults: Faults { plan_changes: 1, redeliveries: 1, ..NO_FAULTS },
            ..calm("an inactive plan becomes active", ALONE, [Tier::PlusInactive, Tier::PlusActive])
        },
        World {
            faults: Faults { plan_changes: 1, redeliveries: 1, contentions: 1, ..NO_FAULTS },
            ..calm("a free space upgrades", ALONE, [Tier::Free(1), Tier::PlusActive])
        },
        World {
            faults: Faults { plan_changes: 1, redeliveries: 1, ..NO_FAULTS },
            ..calm("a full space's plan lapses", TWO_EVENTS, [Tier::Free(1), Tier::PlusInactive])
        },
        World {
            faults: Faults { redeliveries: 1, lost_answers: 1, half_inserts: 1, ..NO_FAULTS },
            ..calm("the canary", ALONE, [Tier::Internal; 2])
        },
        World {
            faults: Faults { crashes: 1, lagging_probes: 1, month_turns: 1, ..NO_FAULTS },
            ..calm("a retry after the month's end", RETRY_NEXT_MONTH, free(1))
        },
        World {
            faults: Faults { redeliveries: 1, crashes: 1, ..NO_FAULTS },
            ..calm("the same id with another payload", OTHER_PAYLOAD, free(1))
        },
        World {
            is_poison: [true, false],
            faults: Faults { redeliveries: 1, redrives: 1, ..NO_FAULTS },
            ..calm("a poison row", ALONE, free(1))
        },
        World {
            is_poison: [true, false],
            is_wide: true,
            faults: Faults { redrives: 2, plan_changes: 1, ..NO_FAULTS },
            ..calm("two operators", ALONE, [Tier::PlusActive, Tier::PlusInactive])
        },
        World {
            is_poison: [true, true],
            is_wide: true,
            faults: Faults { breaker_openings: 1, ..NO_FAULTS },
            ..calm("every row is refused", TWO_EVENTS, [Tier::Internal; 2])
        },
        World {
            past: Past::Unreadable,
            faults: Faults { redeliveries: 1, crashes: 1, ..NO_FAULTS },
            ..calm("an item of a newer version", TWO_EVENTS, free(2))
        },
        World {
            past: Past::Restored,
            faults: Faults { redeliveries: 1, crashes: 1, ..NO_FAULTS },
            ..calm("tables restored from a backup", TWO_EVENTS, free(2))
        },
    ]
}

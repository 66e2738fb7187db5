//! What else is the matter while a fault strikes.

use std::fmt;

use crate::faults::WireEffect;

/// What else is the matter while a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Circumstance {
    /// Nothing: the message comes again, to the one worker.
    Alone,
    /// A second worker holds the same event, stopped right before the same effect; it goes on once the fault struck.
    SecondWorker,
    /// A duplicate of each message waits in the queue.
    DuplicateWaiting,
    /// The event was accepted in the last moment of a month; the client's retry is accepted in the next one.
    MonthTurned,
    /// The space's plan changes between the effect and its answer.
    PlanChanged,
}

impl Circumstance {
    /// Every circumstance.
    pub const ALL: [Self; 5] =
        [Self::Alone, Self::SecondWorker, Self::DuplicateWaiting, Self::MonthTurned, Self::PlanChanged];

    /// Why it means nothing at this effect; `None` where it means something.
    pub fn inapplicable(self, effect: WireEffect) -> Option<&'static str> {
        match (self, effect) {
            (Self::MonthTurned | Self::PlanChanged, WireEffect::SendDeadLetter) => {
                Some("a message that cannot be read has neither month nor plan")
            }
            _ => None,
        }
    }

    /// Where the second worker is stopped while the fault strikes the first.
    pub(crate) fn held_at(effect: WireEffect) -> WireEffect {
        // Before a receive nobody holds anything.
        if effect == WireEffect::Receive { WireEffect::Claim } else { effect }
    }
}

impl fmt::Display for Circumstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alone => "alone",
            Self::SecondWorker => "second-worker",
            Self::DuplicateWaiting => "duplicate-waiting",
            Self::MonthTurned => "month-turned",
            Self::PlanChanged => "plan-changed",
        })
    }
}

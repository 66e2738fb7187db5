//! What happens around an effect.

use std::fmt;
use std::time::Duration;

use crate::faults::{Engine, WireEffect};

/// What happens around an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edge {
    /// The connection breaks before the request arrives: nothing is applied, no answer comes.
    Dropped,
    /// The engine fails with a 500: nothing is applied.
    Refused,
    /// The engine throttles: nothing is applied.
    Throttled,
    /// Somebody else is at the same item: nothing is applied.
    Conflicted,
    /// The effect is applied, and the connection breaks before its answer.
    AnswerLost,
    /// The effect comes late: after the client has given up and tried again, where its patience is shorter.
    Late(Duration),
    /// Nothing is applied, and nothing is heard for so long.
    Stalled(Duration),
    /// The effect is applied, and nothing is heard for so long.
    StalledAfter(Duration),
    /// The worker is killed before the effect.
    KilledBefore,
    /// The effect is applied, and the worker is killed before it knows.
    KilledAfter,
    /// The request waits for whoever wrote the script, and is applied then.
    Held,
    /// ClickHouse refuses the row for what it is.
    Poisoned,
}

/// Longer than the SDK waits for one attempt: the client gives up, tries again, and *then* the first one is applied.
const LATE: Duration = Duration::from_millis(2_600);

impl Edge {
    /// Those that the kill matrix tries.
    pub const TRIED: [Self; 8] = [
        Self::Dropped,
        Self::Refused,
        Self::Throttled,
        Self::Conflicted,
        Self::AnswerLost,
        Self::Late(LATE),
        Self::KilledBefore,
        Self::KilledAfter,
    ];

    /// Whether it takes the worker's life.
    pub fn kills(self) -> bool {
        matches!(self, Self::KilledBefore | Self::KilledAfter)
    }

    /// Why it cannot be told apart from another edge, or not happen, at this effect; `None` where it can.
    pub fn inapplicable(self, effect: WireEffect) -> Option<&'static str> {
        match self {
            Self::AnswerLost if effect.is_read() => {
                Some("a read applies nothing: its lost answer is a dropped request")
            }
            Self::KilledAfter if effect.is_read() => Some("a read applies nothing: after it is as before it"),
            Self::Conflicted if effect.is_read() || matches!(effect.engine(), Engine::Sqs | Engine::ClickHouse) => {
                Some("only conditional writes of DynamoDB and S3 conflict")
            }
            Self::Poisoned if effect != WireEffect::Insert => Some("only a row can be poison"),
            _ => None,
        }
    }
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dropped => "dropped",
            Self::Refused => "refused",
            Self::Throttled => "throttled",
            Self::Conflicted => "conflicted",
            Self::AnswerLost => "answer-lost",
            Self::Late(_) => "late",
            Self::Stalled(_) => "stalled",
            Self::StalledAfter(_) => "stalled-after",
            Self::KilledBefore => "killed-before",
            Self::KilledAfter => "killed-after",
            Self::Held => "held",
            Self::Poisoned => "poisoned",
        })
    }
}

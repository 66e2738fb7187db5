//! The cases: whose plan, how much room, who delivers what, and what the environment does meanwhile.
//!
//! A case's name says all of it, so that a printed path needs nothing else to be run again.

use std::fmt;

/// The plan of the one space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tier {
    /// Capped.
    Free,
    /// Plus, in good standing.
    Plus,
    /// Plus, inactive.
    Lapsed,
    /// The canary.
    Internal,
}

/// How much room the month has when the schedule begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// More than all deliveries can use.
    Left,
    /// One unit, and a counter that others moved before.
    LastUnit,
    /// One unit, and no counter yet.
    SoleUnit,
    /// None.
    Full,
}

impl Room {
    /// (the limit, how much of it others have used)
    pub(super) fn limit_and_used(self) -> (u64, usize) {
        match self {
            Self::Left => (5, 0),
            Self::LastUnit => (2, 1),
            Self::SoleUnit => (1, 0),
            Self::Full => (1, 1),
        }
    }
}

/// What one message carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The event.
    Event,
    /// The same event, sent again.
    Double,
    /// The same event, sent again in the next month.
    NextMonth,
    /// Another payload under the same id.
    OtherPayload,
    /// Another event of the same space.
    OtherEvent,
    /// No event at all.
    Garbage,
}

/// A move of the environment; each happens once, at any moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    /// The clock passes midnight of the 1st.
    MonthEnd,
    /// Longer than the spacing of two quarantines passes.
    SpacingPasses,
    /// The space becomes Plus; with true, some worker still remembers the old entry.
    Upgrade(bool),
    /// The space's Plus plan lapses.
    Lapse(bool),
    /// The space becomes free again.
    Downgrade(bool),
    /// Its limit is raised.
    Raise(bool),
    /// Its limit is lowered to 1.
    Lower(bool),
    /// ClickHouse begins to refuse the first event's row.
    Drift,
    /// ClickHouse takes it again.
    Mend,
}

/// How the world differs from the ordinary when the schedule begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Twist {
    /// Not at all.
    Plain,
    /// ClickHouse refuses the first event's row.
    Poison,
    /// It has refused it twice, an hour ago.
    RefusedTwice,
    /// The view throws: rows are stored without their twins.
    ViewThrows,
    /// The first event's item cannot be read until somebody mends it.
    Unreadable,
    /// Every worker remembers an entry of the space that lapsed or was lower.
    StaleMemory,
    /// *Mark inserted* is refused, whatever stands: facts that move under every dispatch.
    Flapping,
}

const TIERS: [(Tier, &str); 4] =
    [(Tier::Free, "free"), (Tier::Plus, "plus-active"), (Tier::Lapsed, "plus-inactive"), (Tier::Internal, "internal")];
const ROOMS: [(Room, &str); 4] =
    [(Room::Left, "room-left"), (Room::LastUnit, "last-unit"), (Room::SoleUnit, "sole-unit"), (Room::Full, "full")];
const PARTS: [(Part, char); 6] = [
    (Part::Event, 'E'),
    (Part::Double, 'D'),
    (Part::NextMonth, 'N'),
    (Part::OtherPayload, 'P'),
    (Part::OtherEvent, 'F'),
    (Part::Garbage, 'G'),
];
const MOVES: [(Move, char); 14] = [
    (Move::MonthEnd, 'm'),
    (Move::SpacingPasses, 's'),
    (Move::Upgrade(false), 'u'),
    (Move::Upgrade(true), 'U'),
    (Move::Lapse(false), 'l'),
    (Move::Lapse(true), 'L'),
    (Move::Downgrade(false), 'd'),
    (Move::Downgrade(true), 'D'),
    (Move::Raise(false), 'i'),
    (Move::Raise(true), 'I'),
    (Move::Lower(false), 'o'),
    (Move::Lower(true), 'O'),
    (Move::Drift, 'q'),
    (Move::Mend, 'h'),
];
const TWISTS: [(Twist, &str); 7] = [
    (Twist::Plain, "plain"),
    (Twist::Poison, "poison"),
    (Twist::RefusedTwice, "refused-twice"),
    (Twist::ViewThrows, "view-throws"),
    (Twist::Unreadable, "unreadable"),
    (Twist::StaleMemory, "stale-memory"),
    (Twist::Flapping, "flapping"),
];

fn word_of<T: PartialEq, W: Copy>(table: &[(T, W)], value: &T) -> Option<W> {
    table.iter().find(|(known, _)| known == value).map(|(_, word)| *word)
}

fn value_of<T: Copy, W: PartialEq>(table: &[(T, W)], word: &W) -> Option<T> {
    table.iter().find(|(_, known)| known == word).map(|(value, _)| *value)
}

impl Move {
    /// Its letter in a name and in a path.
    pub(super) fn letter(self) -> char {
        word_of(&MOVES, &self).unwrap_or('?')
    }
}

/// One case: everything that a schedule needs but its choices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Case {
    /// The plan.
    pub(super) tier: Tier,
    /// The room.
    pub(super) room: Room,
    /// The messages; the first two are in flight at once, and so are all others.
    pub(super) cast: Vec<Part>,
    /// What the environment does.
    pub(super) moves: Vec<Move>,
    /// How the world begins.
    pub(super) twist: Twist,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tier = word_of(&TIERS, &self.tier).unwrap_or_default();
        let room = word_of(&ROOMS, &self.room).unwrap_or_default();
        let twist = word_of(&TWISTS, &self.twist).unwrap_or_default();
        let cast: String = self.cast.iter().filter_map(|part| word_of(&PARTS, part)).collect();
        let moves: String = self.moves.iter().map(|one| one.letter()).collect();
        write!(f, "{tier}/{room}/{cast}/{}/{twist}", if moves.is_empty() { "-" } else { &moves })
    }
}

impl Case {
    /// Reads a case's name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let [tier, room, cast, moves, twist] = name.split('/').collect::<Vec<_>>().try_into().ok()?;
        let moves = moves.trim_matches('-');
        Some(Self {
            tier: value_of(&TIERS, &tier)?,
            room: value_of(&ROOMS, &room)?,
            cast: cast.chars().map(|letter| value_of(&PARTS, &letter)).collect::<Option<_>>()?,
            moves: moves.chars().map(|letter| value_of(&MOVES, &letter)).collect::<Option<_>>()?,
            twist: value_of(&TWISTS, &twist)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back() {
        for name in ["free/last-unit/EDF/mU/plain", "internal/room-left/E/-/flapping"] {
            assert_eq!(Case::parse(name).unwrap().to_string(), name);
        }
        for bad in ["", "free/last-unit/E/-", "free/last-unit/Z/-/plain", "gold/full/E/-/plain"] {
            assert_eq!(Case::parse(bad), None, "{bad}");
        }
    }
}

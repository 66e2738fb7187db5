//! What a scheduler can choose: who moves, and what becomes of the effect that they announced.

use std::fmt;

use tollgate_domain::ports::PortError;

use crate::memory::{Effect, Fault};

/// What becomes of an actor's next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Act {
    /// The worker receives the message and runs up to its first effect.
    Receive,
    /// The effect happens and is answered.
    Apply,
    /// Nothing happens, and no answer comes.
    NotApplied,
    /// It happens, and no answer comes.
    AnswerLost,
    /// Half of it happens: the row is stored and its twin is not.
    Half,
    /// Nothing happens: not now.
    Throttle,
    /// Nothing happens: somebody else is at the same item, or the transaction is cancelled without an image.
    Contend,
    /// The worker dies, and nothing has happened.
    KillBefore,
    /// It happens, and the worker dies before it learns.
    KillAfter,
    /// The probe does not see the row yet.
    Lag,
    /// Not now, until the worker gives up: an outage.
    Outage,
    /// No answer, until the worker gives up.
    Silence,
    /// Contended, until the worker gives up.
    Crowd,
    /// Every call would fail alike.
    Break,
    /// The worker stops in good order and hands the message back.
    Stop,
}

impl Act {
    /// Every act, with its letter in a path.
    pub(super) const ALL: [(Self, char); 15] = [
        (Self::Receive, 'r'),
        (Self::Apply, 'a'),
        (Self::NotApplied, 'x'),
        (Self::AnswerLost, 'L'),
        (Self::Half, 'h'),
        (Self::Throttle, 't'),
        (Self::Contend, 'c'),
        (Self::KillBefore, 'k'),
        (Self::KillAfter, 'K'),
        (Self::Lag, 'p'),
        (Self::Outage, 'o'),
        (Self::Silence, 'u'),
        (Self::Crowd, 'f'),
        (Self::Break, 'b'),
        (Self::Stop, 's'),
    ];

    fn letter(self) -> char {
        Self::ALL.iter().find(|(act, _)| *act == self).map_or('?', |(_, letter)| *letter)
    }

    /// The fault that the twins are told; `None` when the effect simply happens.
    pub(super) fn fault(self) -> Option<Fault> {
        let because = || "the schedule says so".to_owned();
        Some(match self {
            Self::Receive | Self::Apply => return None,
            Self::NotApplied | Self::Silence => Fault::NotApplied(PortError::Unknown(because())),
            Self::AnswerLost => Fault::AppliedAnswerLost,
            Self::Half => Fault::Partly,
            Self::Throttle | Self::Outage => Fault::NotApplied(PortError::NotNow(because())),
            Self::Contend | Self::Crowd => Fault::Contended,
            Self::KillBefore | Self::Stop => Fault::KilledBefore,
            Self::KillAfter => Fault::KilledAfter,
            Self::Lag => Fault::ProbeLags,
            Self::Break => Fault::NotApplied(PortError::Broken(because())),
        })
    }

    /// Whether the worker is gone afterwards, and its message comes again.
    pub(super) fn ends_the_worker(self) -> bool {
        matches!(self, Self::KillBefore | Self::KillAfter | Self::Stop)
    }

    /// Whether the same effect fails in the same way until the worker gives up.
    pub(super) fn lasts(self) -> bool {
        matches!(self, Self::Outage | Self::Silence | Self::Crowd)
    }

    /// Whether the world may be changed by an effect that ends like this.
    pub(super) fn touches_the_world(self) -> bool {
        matches!(self, Self::Apply | Self::AnswerLost | Self::Half | Self::KillAfter)
    }
}

/// One choice of the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Choice {
    /// An actor's next step.
    Actor(u8, Act),
    /// A message whose worker died, or that was handed back, is received again by a new actor.
    Again(u8),
    /// A move of the environment, by its letter.
    Move(char),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Actor(who, act) => write!(f, "{who:x}{}", act.letter()),
            Self::Again(message) => write!(f, "r{message}"),
            Self::Move(letter) => write!(f, "*{letter}"),
        }
    }
}

impl Choice {
    /// Reads one word of a path.
    pub(super) fn parse(word: &str) -> Option<Self> {
        let mut letters = word.chars();
        let (first, second) = (letters.next()?, letters.next()?);
        let digit = |letter: char| letter.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        if letters.next().is_some() {
            return None;
        }
        match first {
            '*' => Some(Self::Move(second)),
            'r' => digit(second).map(Self::Again),
            _ => {
                let act = Act::ALL.iter().find(|(_, letter)| *letter == second)?.0;
                digit(first).map(|who| Self::Actor(who, act))
            }
        }
    }
}

/// A choice's words, one after the other.
pub(super) fn path_of(choices: impl IntoIterator<Item = Choice>) -> String {
    choices.into_iter().map(|choice| choice.to_string()).collect::<Vec<_>>().join(" ")
}

/// What a choice reads and writes, one bit a resource: two choices of different actors may change places when neither
/// writes what the other one touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Footprint {
    pub(super) reads: u32,
    pub(super) writes: u32,
}

/// Events that one case can hold: each has its item, its rows and its objects.
pub(super) const MAX_EVENTS: u8 = 4;
const METERS: u32 = 1 << 12;
pub(super) const SPACES: u32 = 1 << 13;
pub(super) const CLOCK: u32 = 1 << 14;
pub(super) const QUEUE: u32 = 1 << 15;
/// First of the bits that stand for what is left of each kind of fault.
const BUDGETS: u32 = 16;

fn item(event: u8) -> u32 {
    1 << event
}

pub(super) fn rows(event: u8) -> u32 {
    1 << (MAX_EVENTS + event)
}

fn objects(event: u8) -> u32 {
    1 << (2 * MAX_EVENTS + event)
}

/// Everything that a delivery of this event may write, wherever it stands.
pub(super) fn all_of(event: u8) -> u32 {
    item(event) | rows(event) | objects(event) | METERS
}

impl Footprint {
    pub(super) fn writing(writes: u32) -> Self {
        Self { reads: 0, writes }
    }

    /// Of a step that runs on to the next announcement: every one may read the clock.
    pub(super) fn of(effect: Effect, event: u8, act: Act) -> Self {
        let mut print = Self { reads: CLOCK, writes: 0 };
        if !act.touches_the_world() && act != Act::Lag {
            return print;
        }
        match effect {
            Effect::ReadItem => print.reads |= item(event),
            Effect::ReadCount => print.reads |= METERS,
            Effect::ReadSpace => print.reads |= SPACES,
            Effect::ProbeRow => print.reads |= rows(event),
            Effect::InsertRows => print.writes |= rows(event),
            Effect::PutObject => print.writes |= objects(event),
            Effect::Consume => print.writes |= item(event) | METERS,
            effect if effect.is_write() => print.writes |= item(event),
            _ => {}
        }
        print
    }

    /// The same, and it takes the last of these budgets.
    pub(super) fn taking(mut self, budgets: impl Iterator<Item = usize>) -> Self {
        self.writes |= budgets.fold(0, |bits, budget| bits | 1 << (BUDGETS as usize + budget));
        self
    }

    /// Whether somebody who writes these can change what it does. Who takes the last of a budget changes nothing: what
    /// is then possible no longer is.
    pub(super) fn can_be_changed_by(self, writes: u32) -> bool {
        (self.reads | self.writes) & writes & ((1 << BUDGETS) - 1) != 0
    }

    pub(super) fn is_independent_of(self, other: Self) -> bool {
        self.writes & (other.reads | other.writes) == 0 && other.writes & self.reads == 0
    }
}

/// A choice that is possible now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Possible {
    pub(super) choice: Choice,
    pub(super) print: Footprint,
}

impl Possible {
    pub(super) fn is_independent_of(&self, other: &Self) -> bool {
        let same_actor = matches!((self.choice, other.choice), (Choice::Actor(a, _), Choice::Actor(b, _)) if a == b);
        !same_actor && self.print.is_independent_of(other.print)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_back() {
        let acts = Act::ALL.iter().map(|(act, _)| Choice::Actor(11, *act));
        for choice in acts.chain([Choice::Again(2), Choice::Move('m')]) {
            assert_eq!(Choice::parse(&choice.to_string()), Some(choice), "{choice}");
        }
        for bad in ["", "0", "0?", "0aa", "r!"] {
            assert_eq!(Choice::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_touches_the_same_thing_does_not_change_places() {
        let print = |effect, event| Footprint::of(effect, event, Act::Apply);
        assert!(!print(Effect::Claim, 0).is_independent_of(print(Effect::ReadItem, 0)));
        assert!(print(Effect::Claim, 0).is_independent_of(print(Effect::Claim, 1)));
        assert!(!print(Effect::Consume, 0).is_independent_of(print(Effect::Consume, 1)), "they share the meter");
        assert!(print(Effect::ReadSpace, 0).is_independent_of(print(Effect::ReadSpace, 0)));
        assert!(!print(Effect::ReadSpace, 0).is_independent_of(Footprint::writing(SPACES)));
        let lost = Footprint::of(Effect::Claim, 0, Act::NotApplied).taking([1].into_iter());
        assert!(!lost.is_independent_of(Footprint::of(Effect::Claim, 1, Act::NotApplied).taking([1].into_iter())));
    }
}

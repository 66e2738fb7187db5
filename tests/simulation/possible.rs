//! What a scheduler may choose now, within the budget.
//!
//! Left out are choices that differ in nothing from others: a read whose answer is lost is one that did not happen, a
//! worker that dies before an effect is one that died after its last write while the others ran on, and so is one that
//! dies around a read. A walk beyond the bounds takes them all the same.

use super::budget::Kind;
use super::case::Move;
use super::choice::{Act, CLOCK, Choice, Footprint, Possible, QUEUE, SPACES, all_of, rows};
use super::scheduler::{Actor, Phase, Run, kind_of};
use crate::memory::Effect;

/// How many of the acts are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offer {
    /// One of those that differ in nothing.
    Distinct,
    /// All that can happen.
    All,
}

const ACTS: [Act; 13] = [
    Act::Apply,
    Act::AnswerLost,
    Act::NotApplied,
    Act::Half,
    Act::Contend,
    Act::Throttle,
    Act::KillAfter,
    Act::KillBefore,
    Act::Lag,
    Act::Outage,
    Act::Silence,
    Act::Crowd,
    Act::Break,
];

impl Run<'_> {
    /// Fills `into` with every choice that there is; none are left when the schedule is complete.
    pub(super) fn possible(&self, offer: Offer, into: &mut Vec<Possible>) {
        into.clear();
        for (who, actor) in (0..).zip(&self.actors) {
            let mut push = |act: Act, print: Footprint| {
                let print = match kind_of(act) {
                    None => print,
                    Some(kind) if self.budget.allows(kind) => print.taking(self.budget.last_of(kind)),
                    Some(_) => return,
                };
                into.push(Possible { choice: Choice::Actor(who, act), print });
            };
            match actor.phase {
                Phase::Waiting => push(Act::Receive, Footprint { reads: CLOCK, writes: 0 }),
                Phase::Running(effect) => {
                    let fits = |act: &Act| self.fits(*act, effect, actor, offer);
                    let stop = (offer == Offer::All).then_some(Act::Stop);
                    for act in ACTS.into_iter().filter(fits).chain(stop) {
                        push(act, Footprint::of(effect, actor.event, act));
                    }
                }
                // Of one's own message: nobody else looks at it, and that it comes again takes nothing from others.
                Phase::Deleting | Phase::Sending(_) => {
                    let killed = if matches!(actor.phase, Phase::Deleting) { Act::KillBefore } else { Act::KillAfter };
                    for act in [Act::Apply, Act::NotApplied, killed] {
                        push(act, Footprint::default());
                    }
                }
                Phase::Done => {}
            }
        }
        if self.budget.allows(Kind::Again) {
            let print = Footprint { reads: CLOCK, writes: QUEUE };
            let visible = (0_u8..).zip(&self.stage.messages).filter(|(message, _)| self.visible & (1 << message) != 0);
            into.extend(visible.map(|(message, _)| Possible { choice: Choice::Again(message), print }));
        }
        into.extend(
            self.moves_left.iter().map(|one| Possible {
                choice: Choice::Move(one.letter()),
                print: Footprint::writing(written_by(*one)),
            }),
        );
    }

    /// Everything that anybody but this actor may still write.
    pub(super) fn writable_by_others(&self, who: u8) -> u32 {
        let moves = self.moves_left.iter().fold(0, |bits, one| bits | written_by(*one));
        let comes_again = self.budget.allows(Kind::Again);
        let others = (0..).zip(&self.actors).filter(|(other, actor)| {
            let is_at_it = matches!(actor.phase, Phase::Waiting | Phase::Running(_));
            // Its message may come again, to another actor.
            *other != who && is_at_it || comes_again
        });
        others.fold(moves, |bits, (_, actor)| bits | all_of(actor.event))
    }

    fn fits(&self, act: Act, effect: Effect, actor: &Actor, offer: Offer) -> bool {
        let all = offer == Offer::All;
        match act {
            Act::AnswerLost | Act::KillAfter => all || effect.is_write(),
            Act::KillBefore => all || actor.is_fresh,
            Act::Half => effect == Effect::InsertRows,
            Act::Contend | Act::Crowd => all || effect == Effect::Consume,
            Act::Lag => effect == Effect::ProbeRow && self.budget.allows(Kind::Lag) && self.is_stored(actor),
            _ => true,
        }
    }

    /// Whether a probe would find the row: only then can it miss it.
    fn is_stored(&self, actor: &Actor) -> bool {
        let Some(followed) = self.stage.followed.get(usize::from(actor.event)) else { return false };
        let id = followed.key.id.as_str();
        self.world.with(|state| {
            state.events.iter().any(|row| row.event_id == id)
                && state.events_billing.iter().any(|row| row.event_id == id)
        })
    }
}

/// What a move of the environment writes.
fn written_by(one: Move) -> u32 {
    match one {
        Move::MonthEnd | Move::SpacingPasses => CLOCK,
        Move::Drift | Move::Mend => rows(0),
        _ => SPACES,
    }
}

//! What holds always: the invariants by their ids, and the promises that are about a step or about the end.

use stateright::Property;
use tollgate_domain::invariant::Invariant;
use tollgate_domain::ledger::{Attention, Status};
use tollgate_domain::plan::{BilledAs, RejectedReason};

use super::breach::Breach;
use super::clean_run::settles;
use super::protocol::Protocol;
use super::state::{EVENTS, Item, MESSAGES, Object, State};
use super::store::MAX;

/// Whether a promise holds in a state.
type Holds = fn(&Protocol, &State) -> bool;

/// From here on, without faults, everything comes to its end.
pub(super) const CLEAN_RUN: &str = "clean-run-settles";
/// The ledger's transitions are the domain's. A mutant is caught by a consequence wherever there is one, and by this
/// only where there is none.
pub(super) const LEGAL_TRANSITIONS: &str = "only-legal-transitions";

/// Every promise beyond the invariants.
const PROMISES: [(&str, Holds); 14] = [
    ("never-charged-twice", |_, state| {
        state.charges.iter().all(|charges| *charges <= 1) && !state.breaches.has(Breach::CheckpointRewritten)
    }),
    ("never-rejected-with-room", |_, state| !state.breaches.has(Breach::RejectedOnOldFacts)),
    ("billed-is-not-billed-again", |_, state| !state.breaches.has(Breach::BilledAgain)),
    ("re-drive-never-bills", |_, state| !state.breaches.has(Breach::RedriveBilled)),
    ("re-drive-mark-is-cleared", |_, state| state.ledger.iter().flatten().all(is_marked)),
    ("conflict-leaves-the-first-alone", |_, state| (0..EVENTS).all(|event| is_all_of_the_claimed(state, event))),
    ("conflict-is-kept-and-counted-once", |_, state| {
        !state.breaches.has(Breach::ConflictForgotten) && state.ledger.iter().flatten().all(|item| item.conflicts <= 1)
    }),
    ("refusal-is-counted-once", |_, state| !state.breaches.has(Breach::CountNotRaised)),
    ("refusal-is-not-counted-under-breaker", |_, state| !state.breaches.has(Breach::CountedUnderBreaker)),
    ("given-up-after-spaced-refusals", |_, state| state.ledger.iter().flatten().all(is_given_up_late)),
    ("nothing-is-lost", |protocol, state| (0..MESSAGES).all(|message| is_kept(protocol, state, message))),
    ("never-halts", |_, state| !state.breaches.has(Breach::Halted)),
    (CLEAN_RUN, settles),
    (LEGAL_TRANSITIONS, |_, state| !state.breaches.has(Breach::IllegalTransition)),
];

/// Every promise, as the checker wants them.
pub(super) fn all() -> Vec<Property<Protocol>> {
    let invariants = Invariant::ALL.into_iter().map(|invariant| (invariant.id(), predicate(invariant)));
    invariants.chain(PROMISES).map(|(name, holds)| Property::always(name, holds)).collect()
}

/// Every promise's name, the invariants first.
pub(super) fn names() -> Vec<&'static str> {
    all().into_iter().map(|property| property.name).collect()
}

fn predicate(invariant: Invariant) -> Holds {
    match invariant {
        Invariant::ConsumedBelowLimit => |_, state| !state.breaches.has(Breach::ConsumedAtLimit),
        Invariant::RejectedAtLimit => |_, state| state.ledger.iter().flatten().all(is_rejected_at_limit),
        Invariant::MeterEqualsCheckpoints => |_, state| {
            [0, 1].into_iter().all(|month: u8| state.meter[usize::from(month)] == free_checkpoints(state, month))
        },
        Invariant::NeverChargedAndRejected => |_, state| {
            let is_rejected = |item: &Item| item.status == Status::Rejected || item.rejection.is_some();
            state.ledger.iter().flatten().all(|item| item.checkpoint.is_none() || !is_rejected(item))
        },
        Invariant::InsertedIsComplete => |_, state| (0..EVENTS).all(|event| is_complete(state, event)),
        Invariant::RowImpliesArchive => |_, state| {
            (0..EVENTS).all(|event| {
                let is_stored = !state.rows[event].is_empty() || !state.twins[event].is_empty();
                !is_stored || state.archive[event].is_some()
            })
        },
        Invariant::OneRowAnEvent => {
            |_, state| (0..EVENTS).all(|event| state.rows[event].len() <= 1 && state.twins[event].len() <= 1)
        }
        Invariant::TerminalIsFinal => |_, state| !state.breaches.has(Breach::TerminalChanged),
    }
}

fn free_checkpoints(state: &State, month: u8) -> u8 {
    let pays = |item: &&Item| item.month == month && item.checkpoint == Some(BilledAs::Free);
    state.ledger.iter().flatten().filter(pays).fold(0, |count, _| count + 1)
}

fn is_rejected_at_limit(item: &Item) -> bool {
    match (item.status, item.rejection) {
        (Status::Rejected, None) => false,
        (_, Some(rejection)) if rejection.reason == RejectedReason::LimitExhausted => {
            rejection.count_seen >= rejection.limit_seen
        }
        _ => true,
    }
}

fn is_complete(state: &State, event: usize) -> bool {
    state.ledger[event].is_none_or(|item| {
        item.status != Status::Inserted
            || (item.checkpoint.is_some()
                && state.archive[event].is_some()
                && !state.rows[event].is_empty()
                && !state.twins[event].is_empty())
    })
}

/// Archive and rows hold the claimed payload and no other.
fn is_all_of_the_claimed(state: &State, event: usize) -> bool {
    let Some(item) = state.ledger[event] else { return true };
    let other = 1 - item.payload;
    state.archive[event].is_none_or(|Object { payload, .. }| payload == item.payload)
        && !state.rows[event].has_payload(other)
        && !state.twins[event].has_payload(other)
}

/// REDRIVING is for what a re-drive left open: whatever closes the event clears it.
fn is_marked(item: &Item) -> bool {
    item.attention() != Some(Attention::Redriving) || item.status == Status::Inserting
}

/// An event is given up after so many refusals, with a spacing between any two.
fn is_given_up_late(item: &Item) -> bool {
    item.status != Status::Uninsertable || (item.quarantines >= MAX && item.spacings + 1 >= MAX)
}

/// A message is gone only when its event is settled, or a re-drive's mark stands for it.
fn is_kept(protocol: &Protocol, state: &State, message: usize) -> bool {
    let Some(sent) = protocol.world.messages.get(message) else { return true };
    if state.is_live(message) || state.is_dead[message] {
        return true;
    }
    let event = usize::from(sent.event);
    state.ledger[event].is_some_and(|item| {
        let is_conflict = item.payload != sent.payload;
        (is_conflict && state.is_conflict_kept[event]) || item.status.is_terminal() || item.is_redriving
    })
}

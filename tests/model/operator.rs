//! The re-drive: reopen first, send second; a crash between the two is resumed by running it again.

use tollgate_domain::ledger::{Attention, Status};

use super::action::How;
use super::mutant::Mutant;
use super::sighting::{Sighting, Sightings};
use super::state::{Item, Operator, State};
use super::store::{Answer, Change, Store};
use super::world::World;

/// What a re-drive's listing finds: given up, or reopened and not closed since.
pub(super) fn needs_redrive(item: Option<&Item>) -> bool {
    item.and_then(Item::attention).is_some_and(|attention| attention != Attention::Conflict)
}

/// Does the operator's next effect.
pub(super) fn redrive(
    world: &World,
    mutant: Option<Mutant>,
    state: &mut State,
    seen: &mut Sightings,
    operator: usize,
    how: How,
) {
    let next = match state.operators[operator] {
        Operator::Idle => Operator::Idle,
        Operator::Listed(event) => match (Store { state, mutant }).write(event, Change::Reopen) {
            Answer::Applied => Operator::Reopened(event),
            Answer::Refused(Some(item)) if item.status == Status::Inserting && needs_redrive(Some(&item)) => {
                seen.note(Sighting::ReopenOpen);
                Operator::Reopened(event)
            }
            Answer::Refused(_) => {
                seen.note(Sighting::ReopenClosed);
                Operator::Idle
            }
        },
        Operator::Reopened(event) => {
            send(world, state, event);
            Operator::Idle
        }
    };
    if how != How::AnswerLost {
        state.operators[operator] = next;
    }
}

/// Sends the archived payload again: the claimed one, never the conflict's.
pub(super) fn send(world: &World, state: &mut State, event: u8) {
    let claimed = state.ledger[usize::from(event)].map(|item| item.payload);
    let of_event = |message: &super::world::Message| message.event == event && Some(message.payload) == claimed;
    if let Some(message) = world.messages.iter().position(of_event) {
        state.waiting[message] += 1;
    }
}

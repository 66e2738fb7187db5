//! Whether the world comes to its end once nothing goes wrong any more.
//!
//! A checker's own *eventually* is unsound on graphs with cycles and joins, and this graph has both. So the question is
//! asked of *every* reached state, and answered by running on from it: no further fault, no further change, one
//! participant at a time to the end of its work. One such run is enough to show that no state is a dead end; that every
//! fair schedule ends is not claimed.

use tollgate_domain::ledger::Status;

use super::action::{Action, How};
use super::operator;
use super::protocol::Protocol;
use super::sighting::Sightings;
use super::state::{Operator, State, Step};

/// Steps after which a clean run has failed; the longest that was met takes less than half of it.
const BOUND: usize = 200;

/// Runs on from `state` without faults: every event that was sent must end terminal, or halted where tampering calls
/// for a person.
pub(super) fn settles(protocol: &Protocol, state: &State) -> bool {
    if !protocol.looks_ahead {
        return true;
    }
    let mut state = *state;
    for _ in 0..BOUND {
        match next(&state) {
            Some(action) => state = protocol.after(&state, action, &mut Sightings::default()),
            None => match unsent_redrive(&state) {
                // The operator runs the command again, as the protocol says.
                Some(event) => operator::send(&protocol.world, &mut state, event),
                None => return is_settled(protocol, &state),
            },
        }
    }
    false
}

/// The one thing that happens next.
fn next(state: &State) -> Option<Action> {
    if state.is_breaker_open {
        return Some(Action::CloseBreaker);
    }
    if let Some(operator) = state.operators.iter().position(|operator| *operator != Operator::Idle) {
        return Some(Action::Redrive { operator, how: How::Clean });
    }
    if let Some(worker) = state.workers.iter().position(|worker| worker.step != Step::Idle) {
        return Some(Action::Act { worker, how: How::Clean });
    }
    if state.ledger.iter().flatten().any(|item| item.is_quarantine_recent) {
        return Some(Action::PassSpacing);
    }
    let message = state.waiting.iter().position(|copies| *copies > 0)?;
    Some(Action::Deliver { worker: 0, message })
}

fn unsent_redrive(state: &State) -> Option<u8> {
    let is_unsent = |item: &super::state::Item| item.is_redriving && item.status == Status::Inserting;
    (0..).zip(&state.ledger).find(|(_, item)| item.as_ref().is_some_and(is_unsent)).map(|(event, _)| event)
}

fn is_settled(protocol: &Protocol, state: &State) -> bool {
    protocol.world.messages.iter().enumerate().all(|(message, sent)| {
        let item = state.ledger[usize::from(sent.event)];
        state.is_dead[message] || item.is_some_and(|item| item.status.is_terminal() && !item.is_redriving)
    })
}

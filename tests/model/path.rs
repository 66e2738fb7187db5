//! The way to a failure, in words.

use super::action::{Action, How};
use super::protocol::Protocol;
use super::sighting::Sightings;
use super::state::State;

/// One line an action, with what it was done to; the last line is the state that fails.
pub(super) fn describe(protocol: &Protocol, actions: &[Action]) -> Vec<String> {
    let mut state = State::initial(&protocol.world);
    let mut lines = Vec::with_capacity(actions.len() + 1);
    for action in actions {
        lines.push(line(&state, *action));
        state = protocol.after(&state, *action, &mut Sightings::default());
    }
    lines.push(format!("{state:?}"));
    lines
}

fn line(state: &State, action: Action) -> String {
    match action {
        Action::Act { worker, how: How::Clean } => format!("worker {worker}: {:?}", state.workers[worker].step),
        Action::Act { worker, how } => format!("worker {worker}: {:?}, {how:?}", state.workers[worker].step),
        Action::Crash(worker) => format!("worker {worker}: killed before {:?}", state.workers[worker].step),
        Action::Redrive { operator, how: How::Clean } => {
            format!("operator {operator}: goes on from {:?}", state.operators[operator])
        }
        Action::Redrive { operator, how } => {
            format!("operator {operator}: goes on from {:?}, {how:?}", state.operators[operator])
        }
        other => format!("{other:?}"),
    }
}

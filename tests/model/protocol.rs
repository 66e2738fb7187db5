//! The protocol in one of its worlds, as the checker explores it.

use stateright::{Model, Property};

use super::action::{Action, How, enabled};
use super::mutant::Mutant;
use super::operator;
use super::property;
use super::sighting::{Seen, Sightings};
use super::state::{Operator, State, Step, Worker};
use super::turn::Turn;
use super::world::World;

/// The model of one world.
#[derive(Debug)]
pub(super) struct Protocol {
    /// The world.
    pub(super) world: World,
    /// What is taken away, if anything.
    pub(super) mutant: Option<Mutant>,
    /// Whether a clean run is made from every state: most of a search's time.
    pub(super) looks_ahead: bool,
    /// What the search has met.
    pub(super) seen: Seen,
}

impl Protocol {
    /// The model of `world`, whole or mutated.
    pub(super) fn new(world: World, mutant: Option<Mutant>, looks_ahead: bool) -> Self {
        Self { world, mutant, looks_ahead, seen: Seen::default() }
    }

    /// The state after `action`.
    pub(super) fn after(&self, state: &State, action: Action, seen: &mut Sightings) -> State {
        let mut next = *state;
        let faults = &mut next.faults;
        match action {
            Action::Deliver { worker, message } => {
                next.waiting[message] -= 1;
                let message = u8::try_from(message).unwrap_or_default();
                next.workers[worker] = Worker { message, step: Step::Claim, ..Worker::IDLE };
            }
            Action::Act { worker, how } => {
                let is_delete = state.workers[worker].step == Step::Acknowledge;
                match how {
                    How::Clean | How::CacheIsOld => {}
                    How::AnswerLost if is_delete => faults.redeliveries -= 1,
                    How::AnswerLost => faults.lost_answers -= 1,
                    How::Contended => faults.contentions -= 1,
                    How::ViewThrows | How::DiesBetween => faults.half_inserts -= 1,
                    How::ProbeLags => faults.lagging_probes -= 1,
                }
                let (world, mutant) = (&self.world, self.mutant);
                Turn { world, mutant, state: &mut next, seen, worker }.act(how);
            }
            Action::Crash(worker) => {
                faults.crashes -= 1;
                next.waiting[usize::from(state.workers[worker].message)] += 1;
                next.workers[worker] = Worker::IDLE;
            }
            Action::Redeliver(message) => {
                faults.redeliveries -= 1;
                next.waiting[message] += 1;
            }
            Action::List { operator, event } => {
                faults.redrives -= 1;
                next.operators[operator] = Operator::Listed(event);
            }
            Action::Redrive { operator, how } => {
                faults.lost_answers -= u8::from(how == How::AnswerLost);
                operator::redrive(&self.world, self.mutant, &mut next, seen, operator, how);
            }
            Action::CrashOperator(operator) => {
                faults.crashes -= 1;
                next.operators[operator] = Operator::Idle;
            }
            Action::ChangePlan => {
                faults.plan_changes -= 1;
                next.plan_changes += 1;
            }
            Action::TurnMonth => {
                faults.month_turns -= 1;
                next.is_next_month = true;
            }
            Action::PassSpacing => {
                for item in next.ledger.iter_mut().flatten().filter(|item| item.is_quarantine_recent) {
                    item.is_quarantine_recent = false;
                    item.spacings += 1;
                }
            }
            Action::FixDrift(event) => next.is_poison[event] = false,
            Action::OpenBreaker => {
                faults.breaker_openings -= 1;
                next.is_breaker_open = true;
            }
            Action::CloseBreaker => next.is_breaker_open = false,
        }
        next
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::initial(&self.world)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        enabled(&self.world, state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut seen = Sightings::default();
        let next = self.after(state, action, &mut seen);
        self.seen.add(seen);
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        property::all()
    }
}

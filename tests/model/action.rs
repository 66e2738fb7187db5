//! What can happen next: a worker's effect and how it goes, a delivery, a fault, or a change of the world around.

use super::state::{EVENTS, MESSAGES, OPERATORS, Operator, State, Step, WORKERS};
use super::world::World;

/// How an effect goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// Applied, and answered.
    Clean,
    /// Applied, and the answer never came.
    AnswerLost,
    /// Cancelled with nothing decided.
    Contended,
    /// Answered by a cache that is behind the last change.
    CacheIsOld,
    /// The base row is stored, the view throws, ClickHouse blames the row.
    ViewThrows,
    /// The base row is stored, ClickHouse dies before the twin, no answer.
    DiesBetween,
    /// Answered from before the insert.
    ProbeLags,
}

/// One step of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// The queue delivers a message to a worker.
    Deliver {
        /// Whom.
        worker: usize,
        /// What.
        message: usize,
    },
    /// A worker does its next effect.
    Act {
        /// Who.
        worker: usize,
        /// With what luck.
        how: How,
    },
    /// A worker is killed, or gives its message back.
    Crash(usize),
    /// A message becomes visible again while somebody works on it.
    Redeliver(usize),
    /// An operator sees an event that needs a re-drive.
    List {
        /// Who.
        operator: usize,
        /// Which event.
        event: u8,
    },
    /// An operator does the next effect of a re-drive.
    Redrive {
        /// Who.
        operator: usize,
        /// With what luck.
        how: How,
    },
    /// An operator's command is killed.
    CrashOperator(usize),
    /// The space's plan or limit changes.
    ChangePlan,
    /// It is the 1st.
    TurnMonth,
    /// Enough time goes by for the next quarantine to count.
    PassSpacing,
    /// The row is not refused any more.
    FixDrift(usize),
    /// Too many different events were quarantined.
    OpenBreaker,
    /// A person closed it.
    CloseBreaker,
}

/// Appends everything that can happen in `state`.
pub(super) fn enabled(world: &World, state: &State, actions: &mut Vec<Action>) {
    for worker in 0..WORKERS {
        if state.workers[worker].step == Step::Idle {
            // Workers are alike: while both are idle it does not matter which of them receives.
            let is_first_idle = state.workers[..worker].iter().all(|other| other.step != Step::Idle);
            if is_first_idle && !state.is_breaker_open {
                let waiting = (0..MESSAGES).filter(|message| state.waiting[*message] > 0);
                actions.extend(waiting.map(|message| Action::Deliver { worker, message }));
            }
        } else {
            add_luck(world, state, worker, actions);
            if state.faults.crashes > 0 {
                actions.push(Action::Crash(worker));
            }
        }
    }
    add_redrives(state, actions);
    add_surroundings(state, actions);
}

fn add_luck(world: &World, state: &State, worker: usize, actions: &mut Vec<Action>) {
    let faults = &state.faults;
    let mut add = |is_possible: bool, how| {
        if is_possible {
            actions.push(Action::Act { worker, how });
        }
    };
    add(true, How::Clean);
    match state.workers[worker].step {
        Step::ReadPlan { strong: false } => {
            add(state.plan_changes > 0 && world.plans[0] != world.plans[1], How::CacheIsOld);
        }
        Step::Probe => add(faults.lagging_probes > 0, How::ProbeLags),
        Step::Idle
        | Step::ReadPlan { .. }
        | Step::ReadLedger { .. }
        | Step::ReadLimit { .. }
        | Step::ReadCount { .. } => {}
        Step::Acknowledge => add(faults.redeliveries > 0, How::AnswerLost),
        step => {
            add(faults.lost_answers > 0, How::AnswerLost);
            add(matches!(step, Step::Consume(_)) && faults.contentions > 0, How::Contended);
            add(step == Step::Insert && faults.half_inserts > 0, How::ViewThrows);
            add(step == Step::Insert && faults.half_inserts > 0, How::DiesBetween);
        }
    }
}

fn add_redrives(state: &State, actions: &mut Vec<Action>) {
    for operator in 0..OPERATORS {
        if state.operators[operator] == Operator::Idle {
            let is_first_idle = state.operators[..operator].iter().all(|other| *other != Operator::Idle);
            if state.faults.redrives > 0 && is_first_idle {
                let events = (0..).zip(&state.ledger).filter(|(_, item)| super::operator::needs_redrive(item.as_ref()));
                actions.extend(events.map(|(event, _)| Action::List { operator, event }));
            }
        } else {
            actions.push(Action::Redrive { operator, how: How::Clean });
            if state.faults.lost_answers > 0 {
                actions.push(Action::Redrive { operator, how: How::AnswerLost });
            }
            if state.faults.crashes > 0 {
                actions.push(Action::CrashOperator(operator));
            }
        }
    }
}

fn add_surroundings(state: &State, actions: &mut Vec<Action>) {
    let faults = &state.faults;
    if faults.redeliveries > 0 {
        actions.extend((0..MESSAGES).filter(|message| state.is_held(*message)).map(Action::Redeliver));
    }
    if faults.plan_changes > 0 {
        actions.push(Action::ChangePlan);
    }
    if faults.month_turns > 0 {
        actions.push(Action::TurnMonth);
    }
    if state.ledger.iter().flatten().any(|item| item.is_quarantine_recent) {
        actions.push(Action::PassSpacing);
    }
    actions.extend((0..EVENTS).filter(|event| state.is_poison[*event]).map(Action::FixDrift));
    if state.is_breaker_open {
        actions.push(Action::CloseBreaker);
    } else if faults.breaker_openings > 0 && state.is_poison.iter().all(|is_poison| *is_poison) {
        actions.push(Action::OpenBreaker);
    }
}

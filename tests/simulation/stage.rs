//! What is the same in every schedule of a case: how the world begins, the messages, and what the auditor must know.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use serde_json::json;
use tollgate_domain::archive::event_key;
use tollgate_domain::envelope::Envelope;
use tollgate_domain::event::Event;
use tollgate_domain::identity::Fingerprint;
use tollgate_domain::ledger::{EventKey, NewClaim};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::{Limit, PlanPolicy, SpaceRecord, Subscription};
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;
use tollgate_worker::pipeline::Pipeline;
use tollgate_worker::verdict::Verdict;

use super::case::{Case, Move, Part, Tier, Twist};
use super::lie::Lie;
use super::mutants::Mutation;
use super::ports::SimulatedPorts;
use crate::auditor::Plans;
use crate::memory::{State, World};
use crate::sent::Sent;

/// Milliseconds between two quarantines that both count.
pub(super) const SPACING_MS: u64 = 60_000;
/// ClickHouse's code for a value that does not parse: it speaks of the row.
const POISON_CODE: u32 = 27;
const HOUR_MS: i64 = 3_600_000;

/// A delivery in process.
pub(super) type Delivering = Pin<Box<dyn Future<Output = Verdict> + Send>>;

/// A message of a case.
pub(super) struct Message {
    pub(super) text: Arc<str>,
    /// Number of the event that it is about.
    pub(super) event: u8,
    /// What the event says; garbage says nothing.
    pub(super) fingerprint: Option<Fingerprint>,
}

/// An event that the watch follows, with the key of its object.
pub(super) struct Followed {
    pub(super) key: EventKey,
    pub(super) object: String,
}

/// A case, ready to be run any number of times.
pub(super) struct Stage {
    pub(super) case: Case,
    pub(super) mutation: Mutation,
    pub(super) messages: Vec<Message>,
    /// The case's own events by their numbers, then those that used the month before.
    pub(super) followed: Vec<Followed>,
    pub(super) sent: Vec<Sent>,
    pub(super) plans: Plans,
    start: State,
    space: SpaceId,
}

fn poison(world: &World, key: EventKey) {
    world.with(|state| state.poison.insert(key, POISON_CODE));
}

/// Runs a future that never has to wait.
pub(super) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("nothing in an unstepped world without faults waits"),
    }
}

fn limit(events: u64) -> Limit {
    Limit::new(events).unwrap_or_else(|| unreachable!("no room has a limit of 0"))
}

fn envelope(space: &SpaceId, work: &str, quantity: u64, submission: &str, accepted_at: UtcMillis) -> Envelope {
    let value = json!({
        "meter": "api_request",
        "subject": "customer-1",
        "occurredAt": "2026-11-15T11:00:00Z",
        "quantity": quantity,
        "idempotencyKey": work,
    });
    Envelope {
        space: space.clone(),
        event: Event::from_value(&value, accepted_at).unwrap_or_else(|problems| unreachable!("{problems:?}")),
        accepted_at,
        submission_id: submission.to_owned(),
        trace_parent: None,
    }
}

fn envelope_of(part: Part, number: usize, space: &SpaceId, noon: UtcMillis) -> Option<Envelope> {
    let (work, quantity) = match part {
        Part::Event | Part::Double | Part::NextMonth => ("work", 1),
        Part::OtherPayload => ("work", 2),
        Part::OtherEvent => ("other-work", 1),
        Part::Garbage => return None,
    };
    let accepted_at = if part == Part::NextMonth { next_month(noon) } else { noon };
    Some(envelope(space, work, quantity, &format!("sub-{number}"), accepted_at))
}

fn next_month(noon: UtcMillis) -> UtcMillis {
    PeriodMonth::of(noon).next().start()
}

impl Stage {
    pub(super) fn new(case: &Case, mutation: Mutation) -> Self {
        let space = SpaceId::parse("acme").unwrap_or_else(|_| unreachable!("a plain name"));
        let noon = State::default().now;
        let (limit_events, used) = case.room.limit_and_used();
        let internal = if case.tier == Tier::Internal { BTreeSet::from([space.clone()]) } else { BTreeSet::new() };
        let policy = PlanPolicy { internal_spaces: internal, default_free_limit: limit(limit_events) };
        let moves_plans = case
            .moves
            .iter()
            .any(|one| !matches!(one, Move::MonthEnd | Move::SpacingPasses | Move::Drift | Move::Mend));
        // Who used the month before did so as a free space.
        let changed = moves_plans || (used > 0 && case.tier != Tier::Free);
        let mut stage = Self {
            plans: Plans {
                policy,
                records: [(space.clone(), record(case.tier, limit_events))].into(),
                changed: if changed { BTreeSet::from([space.clone()]) } else { BTreeSet::new() },
            },
            case: case.clone(),
            mutation,
            messages: Vec::new(),
            followed: Vec::new(),
            sent: Vec::new(),
            start: State::default(),
            space,
        };
        for (number, part) in case.cast.iter().enumerate() {
            stage.add_message(envelope_of(*part, number, &stage.space, noon).as_ref());
        }
        stage.begin(used);
        stage
    }

    fn add_message(&mut self, envelope: Option<&Envelope>) {
        let text = envelope.map_or_else(|| "garbage".to_owned(), Envelope::encode);
        let event = envelope.map_or(0, |envelope| {
            let key = envelope.key();
            self.sent.push(Sent::from(envelope));
            let known = self.followed.iter().position(|followed| followed.key == key);
            let number = known.unwrap_or_else(|| {
                self.followed.push(Followed { object: event_key(&key), key });
                self.followed.len() - 1
            });
            u8::try_from(number).unwrap_or_default()
        });
        let fingerprint = envelope.map(|envelope| envelope.event.fingerprint());
        self.messages.push(Message { text: text.into(), event, fingerprint });
    }

    /// The world's beginning: what others used, then the twist.
    fn begin(&mut self, used: usize) {
        let world = World::of(self.start.clone());
        let noon = self.start.now;
        let own = record(self.case.tier, self.case.room.limit_and_used().0);
        let as_free = record(Tier::Free, self.case.room.limit_and_used().0);
        world.with(|state| state.spaces.insert(self.space.clone(), if used > 0 { as_free } else { own }));
        for number in 0..used {
            let before = envelope(&self.space, &format!("before-{number}"), 1, "sub-before", noon);
            self.sent.push(Sent::from(&before));
            self.followed.push(Followed { object: event_key(&before.key()), key: before.key() });
            at_once(self.deliver(&world, Lie::None, &before.encode().into()));
        }
        world.with(|state| state.spaces.insert(self.space.clone(), own));
        if let Some(first) = envelope_of(Part::Event, 0, &self.space, noon) {
            self.twist(&world, &first);
        }
        self.start = world.with(|state| state.clone());
        self.start.forgotten = self.mutation.forgotten;
    }

    fn twist(&self, world: &World, first: &Envelope) {
        let key = first.key();
        match self.case.twist {
            Twist::Plain | Twist::Flapping => {}
            Twist::Poison => poison(world, key),
            Twist::RefusedTwice => {
                let noon = world.with(|state| state.now);
                poison(world, key);
                for hours_ago in [2, 1] {
                    world.set_now(noon.saturating_add_ms(-hours_ago * HOUR_MS));
                    at_once(self.deliver(world, Lie::None, &first.encode().into()));
                }
                world.set_now(noon);
            }
            Twist::ViewThrows => world.with(|state| state.view_throws = true),
            Twist::Unreadable => {
                let claim = NewClaim {
                    key: key.clone(),
                    fingerprint: first.event.fingerprint(),
                    submission_id: first.submission_id.clone(),
                    period_month: PeriodMonth::of(first.accepted_at),
                    now: first.accepted_at,
                };
                world.with(|state| {
                    state.ledger.insert(key.clone(), claim.into_item());
                    state.unreadable.insert(key, "a status of a later version".to_owned());
                });
            }
            Twist::StaleMemory => {
                let tier = if self.case.tier == Tier::Plus { Tier::Lapsed } else { self.case.tier };
                world.with(|state| state.remembered_spaces.insert(self.space.clone(), Some(record(tier, 1))));
            }
        }
    }

    /// The world as every schedule finds it.
    pub(super) fn world(&self) -> World {
        World::of(self.start.clone())
    }

    /// What the ports tell while the schedule runs; once faults have stopped, a twist no longer lies.
    pub(super) fn lie(&self) -> Lie {
        if self.case.twist == Twist::Flapping { Lie::RefusedMarks } else { self.mutation.lie }
    }

    /// One delivery through the worker's own pipeline.
    pub(super) fn deliver(&self, world: &World, lie: Lie, text: &Arc<str>) -> Delivering {
        let ports = SimulatedPorts::new(world, lie);
        let pipeline = Pipeline::new(ports, self.plans.policy.clone(), SPACING_MS);
        let text = Arc::clone(text);
        Box::pin(async move { pipeline.process_delivery(&text).await })
    }

    /// A move of the environment.
    pub(super) fn make(&self, one: Move, state: &mut State) {
        match one {
            Move::MonthEnd => state.now = next_month(state.now),
            Move::SpacingPasses => {
                state.now = state.now.saturating_add_ms(i64::try_from(SPACING_MS).unwrap_or(i64::MAX));
            }
            Move::Upgrade(remembered) => {
                self.change_plan(state, remembered, |entry| entry.subscription = Subscription::PlusActive);
            }
            Move::Lapse(remembered) => {
                self.change_plan(state, remembered, |entry| entry.subscription = Subscription::PlusInactive);
            }
            Move::Downgrade(remembered) => {
                self.change_plan(state, remembered, |entry| entry.subscription = Subscription::Free);
            }
            Move::Raise(remembered) => {
                let raised = limit(self.case.room.limit_and_used().0 + 1);
                self.change_plan(state, remembered, |entry| entry.monthly_limit = Some(raised));
            }
            Move::Lower(remembered) => {
                self.change_plan(state, remembered, |entry| entry.monthly_limit = Some(limit(1)));
            }
            Move::Drift => {
                if let Some(first) = self.followed.first() {
                    state.poison.insert(first.key.clone(), POISON_CODE);
                }
            }
            Move::Mend => state.poison.clear(),
        }
    }

    fn change_plan(&self, state: &mut State, remembered: bool, change: impl FnOnce(&mut SpaceRecord)) {
        let Some(entry) = state.spaces.get_mut(&self.space) else { return };
        if remembered {
            state.remembered_spaces.insert(self.space.clone(), Some(*entry));
        } else {
            state.remembered_spaces.remove(&self.space);
        }
        change(entry);
    }
}

fn record(tier: Tier, limit_events: u64) -> SpaceRecord {
    let subscription = match tier {
        Tier::Free | Tier::Internal => Subscription::Free,
        Tier::Plus => Subscription::PlusActive,
        Tier::Lapsed => Subscription::PlusInactive,
    };
    SpaceRecord { subscription, monthly_limit: Some(limit(limit_events)) }
}

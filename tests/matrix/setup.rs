//! What leads a worker to an effect: the plan, the messages, and faults on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;
use tollgate_domain::envelope::Envelope;
use tollgate_domain::event::Event;
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::{Limit, PlanPolicy, SpaceRecord, Subscription};
use tollgate_domain::ports::Clock;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;
use tollgate_stores::clock::SystemClock;

use super::{Case, Circumstance};
use crate::auditor::Plans;
use crate::faults::{Edge, Rule, WireEffect};
use crate::sent::Sent;

/// What no front door wrote.
pub(super) const GARBAGE: &str = "{\"version\":1,";
/// Longer than a third of the visibility: the heartbeat must beat in between.
const UNTIL_A_HEARTBEAT: Duration = Duration::from_millis(1_500);

/// One case's plan and messages.
pub(super) struct Setup {
    case: Case,
    pub(super) space: SpaceId,
    /// What the space is before the fault.
    pub(super) record: SpaceRecord,
    envelopes: Vec<Envelope>,
}

impl Setup {
    pub(super) fn of(case: Case, space: SpaceId) -> Self {
        let now = SystemClock.now();
        let accepted_at = match case.circumstance {
            Circumstance::MonthTurned => PeriodMonth::of(now).start().saturating_add_ms(-1),
            _ => now,
        };
        let payloads: &[(&str, u64)] = match case.effect {
            // One more than the limit.
            WireEffect::Reject => &[("a", 3), ("b", 3)],
            // The same id twice.
            WireEffect::PutConflict | WireEffect::RecordConflict => &[("a", 3), ("a", 4)],
            _ => &[("a", 3)],
        };
        let envelope = |(name, quantity): &(&str, u64)| Envelope {
            space: space.clone(),
            event: event(name, *quantity, accepted_at),
            accepted_at,
            submission_id: format!("sub_{name}_{quantity}"),
            trace_parent: None,
        };
        let record = match case.effect {
            WireEffect::Stamp => plan(Subscription::PlusActive, None),
            WireEffect::Reject => plan(Subscription::Free, Limit::new(1)),
            _ => plan(Subscription::Free, Limit::new(5)),
        };
        Self { case, envelopes: payloads.iter().map(envelope).collect(), space, record }
    }

    /// What the space is after the fault, where its plan changes.
    pub(super) fn changed_record(&self) -> SpaceRecord {
        match self.case.effect {
            WireEffect::Stamp => plan(Subscription::Free, Limit::new(1)),
            WireEffect::Reject => plan(Subscription::PlusActive, None),
            // Whatever is charged by now must be finished all the same.
            _ => plan(Subscription::PlusInactive, None),
        }
    }

    /// The messages as they come first.
    pub(super) fn first(&self) -> Vec<String> {
        self.texts(&self.envelopes)
    }

    /// The same events again, as a client retries them: accepted later, under another submission.
    pub(super) fn again(&self) -> Vec<String> {
        self.texts(&self.retries())
    }

    fn retries(&self) -> Vec<Envelope> {
        let retry = |envelope: &Envelope| Envelope {
            accepted_at: SystemClock.now(),
            submission_id: format!("{}_again", envelope.submission_id),
            ..envelope.clone()
        };
        self.envelopes.iter().map(retry).collect()
    }

    fn texts(&self, envelopes: &[Envelope]) -> Vec<String> {
        let garbage = self.has_garbage().then(|| GARBAGE.to_owned());
        envelopes.iter().map(Envelope::encode).chain(garbage).collect()
    }

    /// Whether a message that cannot be read is among them.
    pub(super) fn has_garbage(&self) -> bool {
        self.case.effect == WireEffect::SendDeadLetter
    }

    /// What leads a worker from its first call to the effect, beyond what the messages do.
    pub(super) fn path(&self) -> Vec<Rule> {
        let once = |effect, edge| vec![Rule { effect, edge, times: 1 }];
        match self.case.effect {
            // The SDK asks again, and is told of an item: its own.
            WireEffect::Probe => once(WireEffect::Claim, Edge::AnswerLost),
            // A cancellation that proves nothing: both facts are read. Twice, so that a duplicate does not pay meanwhile.
            WireEffect::ReadLedger | WireEffect::ReadCount => {
                vec![Rule { effect: WireEffect::Consume, edge: Edge::Conflicted, times: 2 }]
            }
            // The SDK puts again, and the key is taken: by itself.
            WireEffect::GetObject => once(WireEffect::PutEvent, Edge::AnswerLost),
            WireEffect::RecordQuarantine => once(WireEffect::Insert, Edge::Poisoned),
            WireEffect::MarkUninsertable => {
                vec![Rule { effect: WireEffect::Insert, edge: Edge::Poisoned, times: u32::MAX }]
            }
            WireEffect::SetVisibility => once(WireEffect::Insert, Edge::Late(UNTIL_A_HEARTBEAT)),
            _ => Vec::new(),
        }
    }

    /// Everything that is sent in this case.
    pub(super) fn sent(&self) -> Vec<Sent> {
        let again = match self.case.circumstance {
            Circumstance::Alone | Circumstance::PlanChanged => Vec::new(),
            _ => self.retries(),
        };
        self.envelopes.iter().chain(&again).map(Sent::from).collect()
    }

    /// The plans, for the auditor.
    pub(super) fn plans(&self) -> Plans {
        let is_changed = self.case.circumstance == Circumstance::PlanChanged;
        Plans {
            policy: PlanPolicy { internal_spaces: BTreeSet::new(), default_free_limit: Limit::FREE_PLAN },
            records: BTreeMap::from([(self.space.clone(), self.record)]),
            changed: is_changed.then(|| self.space.clone()).into_iter().collect(),
        }
    }
}

fn plan(subscription: Subscription, monthly_limit: Option<Limit>) -> SpaceRecord {
    SpaceRecord { subscription, monthly_limit }
}

/// An event whose id depends on its name alone.
fn event(name: &str, quantity: u64, accepted_at: UtcMillis) -> Event {
    let value = json!({
        "meter": "api_request",
        "subject": "customer-1",
        "occurredAt": "2025-04-30T12:00:00.500Z",
        "quantity": quantity,
        "idempotencyKey": format!("work-{name}"),
        "properties": {"region": "eu", "ratio": 0.5},
    });
    Event::from_value(&value, accepted_at).unwrap_or_else(|problems| unreachable!("{problems:?}"))
}

//! Reference money: from what was sent and the plans, what the facts must be.
//!
//! It shares no step with the pipeline: it counts, compares and reports. Every other test ends in it.

mod change;
mod event;
mod money;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tollgate_domain::envelope::Envelope;
use tollgate_domain::invariant::Invariant;
use tollgate_domain::ledger::EventKey;
use tollgate_domain::plan::{Plan, PlanPolicy, SpaceRecord};
use tollgate_domain::space::SpaceId;

use crate::sent::{Sent, by_key};
use crate::snapshot::Snapshot;
pub use change::audit_change;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An invariant of the domain does not hold.
    Breach(Invariant),
    /// Sent, and the ledger does not know it.
    Lost,
    /// Sent, and not finished.
    NotTerminal,
    /// The facts know something that nobody sent.
    NeverSent,
    /// More was consumed than events or limit allow.
    DoubleCharged,
    /// Rejected although the plan and the month had room.
    WronglyRejected,
    /// Accepted although the plan or the month had no room.
    WronglyAccepted,
    /// Accepted as something else than the plan says.
    WronglyBilled,
    /// Another month pays than any delivery of these facts was accepted in.
    WrongMonth,
    /// The archive holds other bytes than the event's.
    WrongPayload,
    /// A row says something else than its event.
    WrongRow,
    /// Archived or stored although nobody accepted the bill.
    StoredUncharged,
    /// Given up before ClickHouse refused it often enough.
    GivenUpEarly,
    /// Another payload came under the same id, and the ledger or the archive does not tell.
    ConflictNotRecorded,
    /// A message that a front door wrote was given up.
    DeadLettered,
    /// A stamp that is written once was written again.
    StampChanged,
}

impl Kind {
    /// Every kind.
    pub fn all() -> Vec<Self> {
        let own = [
            Self::Lost,
            Self::NotTerminal,
            Self::NeverSent,
            Self::DoubleCharged,
            Self::WronglyRejected,
            Self::WronglyAccepted,
            Self::WronglyBilled,
            Self::WrongMonth,
            Self::WrongPayload,
            Self::WrongRow,
            Self::StoredUncharged,
            Self::GivenUpEarly,
            Self::ConflictNotRecorded,
            Self::DeadLettered,
            Self::StampChanged,
        ];
        Invariant::ALL.into_iter().map(Self::Breach).chain(own).collect()
    }

    /// Its stable id; an invariant has its own.
    pub fn id(self) -> &'static str {
        match self {
            Self::Breach(invariant) => invariant.id(),
            Self::Lost => "lost",
            Self::NotTerminal => "not-terminal",
            Self::NeverSent => "never-sent",
            Self::DoubleCharged => "double-charged",
            Self::WronglyRejected => "wrongly-rejected",
            Self::WronglyAccepted => "wrongly-accepted",
            Self::WronglyBilled => "wrongly-billed",
            Self::WrongMonth => "wrong-month",
            Self::WrongPayload => "wrong-payload",
            Self::WrongRow => "wrong-row",
            Self::StoredUncharged => "stored-uncharged",
            Self::GivenUpEarly => "given-up-early",
            Self::ConflictNotRecorded => "conflict-not-recorded",
            Self::DeadLettered => "dead-lettered",
            Self::StampChanged => "stamp-changed",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// Of which event, meter or object.
    pub about: String,
    /// How it shows.
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.kind.id(), self.about, self.detail)
    }
}

/// The plans under which events were accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plans {
    /// What the worker was configured with.
    pub policy: PlanPolicy,
    /// What the spaces table said.
    pub records: BTreeMap<SpaceId, SpaceRecord>,
    /// Spaces whose plan or limit changed on the way: of these only what holds under every plan is checked.
    pub changed: BTreeSet<SpaceId>,
}

impl Plans {
    /// The plan of a space.
    pub fn plan_of(&self, space: &SpaceId) -> Plan {
        self.policy.plan_of(space, self.records.get(space))
    }

    /// The plan of a space that never changed; `None` for the others.
    fn fixed_plan_of(&self, space: &SpaceId) -> Option<Plan> {
        (!self.changed.contains(space)).then(|| self.plan_of(space))
    }
}

/// Everything that is wrong with the facts once nothing is in flight any more; empty when nothing is.
pub fn audit(sent: &[Sent], plans: &Plans, snapshot: &Snapshot) -> Vec<Finding> {
    let sent = by_key(sent);
    let mut findings = Findings::default();
    event::audit_events(&sent, plans, snapshot, &mut findings);
    money::audit_meters(plans, snapshot, &mut findings);
    for letter in &snapshot.dead_letters {
        // What no front door wrote belongs there.
        if let Ok(envelope) = Envelope::decode(&letter.body) {
            findings.add(Kind::DeadLettered, &envelope.key(), &letter.reason);
        }
    }
    findings.0
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, kind: Kind, about: &impl ToString, detail: impl Into<String>) {
        self.0.push(Finding { kind, about: about.to_string(), detail: detail.into() });
    }

    fn breach(&mut self, invariant: Invariant, about: &impl ToString, detail: impl Into<String>) {
        self.add(Kind::Breach(invariant), about, detail);
    }
}

type SentByKey<'a> = BTreeMap<EventKey, Vec<&'a Sent>>;

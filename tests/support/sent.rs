//! What was sent: the auditor's first witness.

use std::collections::BTreeMap;

use tollgate_domain::envelope::Envelope;
use tollgate_domain::event::Event;
use tollgate_domain::ledger::EventKey;
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

/// One event that was accepted, as often as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Who is billed.
    pub space: SpaceId,
    /// The event.
    pub event: Event,
    /// When it was accepted: its month pays.
    pub accepted_at: UtcMillis,
}

impl Sent {
    /// (space, event id).
    pub fn key(&self) -> EventKey {
        EventKey { space: self.space.clone(), id: self.event.id() }
    }

    /// The month that pays, if this delivery wins the claim.
    pub fn month(&self) -> PeriodMonth {
        PeriodMonth::of(self.accepted_at)
    }
}

impl From<&Envelope> for Sent {
    fn from(envelope: &Envelope) -> Self {
        Self { space: envelope.space.clone(), event: envelope.event.clone(), accepted_at: envelope.accepted_at }
    }
}

/// All deliveries of each event, whatever their payload.
pub fn by_key(sent: &[Sent]) -> BTreeMap<EventKey, Vec<&Sent>> {
    let mut keyed: BTreeMap<EventKey, Vec<&Sent>> = BTreeMap::new();
    for one in sent {
        keyed.entry(one.key()).or_default().push(one);
    }
    keyed
}

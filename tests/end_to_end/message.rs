//! Messages as the front door would queue them.

use serde_json::{Value, json};
use tollgate_domain::envelope::Envelope;
use tollgate_domain::event::Event;
use tollgate_domain::ledger::{EventKey, NewClaim};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

/// When the messages were accepted, unless a test says otherwise. Long past, so that a month that comes from the
/// clock instead shows.
pub(crate) const ACCEPTED: &str = "2025-04-30T23:59:59.999Z";

/// A message and what it says.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) key: EventKey,
    pub(crate) envelope: Envelope,
    pub(crate) body: String,
}

/// The event called `name`; `quantity` makes another payload under the same id.
pub(crate) fn event_value(name: &str, quantity: u64) -> Value {
    json!({
        "meter": "api_request",
        "subject": name,
        "occurredAt": "2025-04-30T12:00:00.5Z",
        "quantity": quantity,
        "source": "tests",
        "properties": {"ratio": 0.5, "region": "eu", "status": 200},
        "idempotencyKey": name,
    })
}

impl Message {
    pub(crate) fn new(space: &SpaceId, name: &str, quantity: u64, accepted: &str) -> Self {
        let accepted_at = UtcMillis::parse(accepted).unwrap();
        let envelope = Envelope {
            space: space.clone(),
            event: Event::from_value(&event_value(name, quantity), accepted_at).unwrap(),
            accepted_at,
            submission_id: "sub_1".to_owned(),
            trace_parent: None,
        };
        Self { key: envelope.key(), body: envelope.encode(), envelope }
    }

    /// The same event as another client would spell it: order of keys, white space, forms of numbers and instants,
    /// and another submission, accepted a month later.
    pub(crate) fn spelled_differently(&self) -> String {
        let event = &self.envelope.event;
        format!(
            r#"{{ "version":1, "traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "submissionId":"sub_2", "space":"{}", "acceptedAtMs":{}, "event": {{
            "subject":"{}", "source":"test\u0073", "idempotencyKey":"{}", "quantity":{},
            "properties":{{"status":2e2,"region":"\u0065u","ratio":5e-1}},
            "occurredAt":"2025-04-30T14:00:00.500+02:00", "meter":"api_request" }} }}"#,
            self.key.space,
            self.envelope.accepted_at.saturating_add_ms(30 * 86_400_000).get(),
            event.subject(),
            event.idempotency_key().unwrap_or_default(),
            event.quantity(),
        )
    }

    /// The claim that a worker makes of it at `now`.
    pub(crate) fn claim(&self, now: UtcMillis) -> NewClaim {
        NewClaim {
            key: self.key.clone(),
            fingerprint: self.envelope.event.fingerprint(),
            submission_id: self.envelope.submission_id.clone(),
            period_month: self.month(),
            now,
        }
    }

    /// The month that pays.
    pub(crate) fn month(&self) -> PeriodMonth {
        PeriodMonth::of(self.envelope.accepted_at)
    }
}

//! One usage event, checked before it is sent.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use tollgate_domain::event::Event;
use tollgate_domain::identity::{EventId, Fingerprint};
use tollgate_domain::json;
use tollgate_domain::problem::Problem;
use tollgate_domain::time::UtcMillis;

/// A billable fact, immutable: sending it twice is sending the same fact twice. Clones share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageEvent(Arc<Event>);

/// The event cannot be sent: every problem of it, each with what to send instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the event is invalid: {}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct InvalidEvent {
    /// At least one.
    pub problems: Vec<Problem>,
}

impl UsageEvent {
    /// Starts an event: `meter` is what is counted, `subject` for whom, `occurred_at` when the work was done.
    ///
    /// The time is asked for and never defaulted: without an idempotency key it is part of the event's identity, and
    /// one taken at the moment of sending would make a new event of every retry.
    pub fn builder(meter: impl Into<String>, subject: impl Into<String>, occurred_at: UtcMillis) -> UsageEventBuilder {
        let fields = [
            ("meter", Value::String(meter.into())),
            ("subject", Value::String(subject.into())),
            ("occurredAt", Value::String(occurred_at.to_string())),
            ("quantity", Value::from(1)),
        ];
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        UsageEventBuilder { fields, properties: Map::new() }
    }

    /// The event's id, known before it is sent: the same here, in every answer and in the ledger.
    pub fn id(&self) -> EventId {
        self.0.id()
    }

    /// The event's facts in one hash: equal for a retry, different for another event under the same id.
    pub fn fingerprint(&self) -> Fingerprint {
        self.0.fingerprint()
    }

    /// When the work was done.
    pub fn occurred_at(&self) -> UtcMillis {
        self.0.occurred_at()
    }

    /// The JSON text that is sent: equal for equal events. Kept beside the work, and read back with
    /// [`UsageEvent::from_json`], it makes every later try the same event.
    pub fn to_json(&self) -> String {
        self.0.canonical_json()
    }

    /// The event of a JSON text, such as one that [`UsageEvent::to_json`] gave, or every problem of it.
    pub fn from_json(text: &str) -> Result<Self, InvalidEvent> {
        // Whether its time lies too far ahead is judged when it is accepted.
        let end_of_time = UtcMillis::EPOCH.saturating_add_ms(i64::MAX);
        let checked = json::parse(text.as_bytes()).and_then(|value| Event::from_value(&value, end_of_time));
        checked.map(|event| Self(Arc::new(event))).map_err(|problems| InvalidEvent { problems })
    }
}

/// An event in the making.
#[derive(Debug, Clone)]
#[must_use = "nothing is sent before `build` and `record`"]
pub struct UsageEventBuilder {
    fields: Map<String, Value>,
    properties: Map<String, Value>,
}

impl UsageEventBuilder {
    /// How much happened: 1 to 2^53 − 1; 1 if unsaid.
    pub fn quantity(self, quantity: u64) -> Self {
        self.with("quantity", quantity)
    }

    /// The id of the work that is metered, such as a request's: two events with the same meter, subject and key are
    /// one event. Without it the facts themselves are the identity.
    pub fn idempotency_key(self, key: impl Into<String>) -> Self {
        self.with("idempotencyKey", key.into())
    }

    /// Where it was observed.
    pub fn source(self, source: impl Into<String>) -> Self {
        self.with("source", source.into())
    }

    /// One property; a second value under the same name replaces the first.
    pub fn property(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.properties.insert(name.into(), value.into());
        self
    }

    /// The event, or every problem of it. Whether its time lies too far ahead is judged when it is accepted.
    pub fn build(mut self) -> Result<UsageEvent, InvalidEvent> {
        let properties = std::mem::take(&mut self.properties);
        let fields = self.with("properties", properties).fields;
        // Through the text, since the strict reader also judges what stands inside of the properties.
        UsageEvent::from_json(&Value::Object(fields).to_string())
    }

    fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }
}

/// The instant of a system clock's reading, in whole milliseconds, held within the years 0000 to 9998.
pub fn instant_of(time: SystemTime) -> UtcMillis {
    let since_epoch = |span: std::time::Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    let ms = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => since_epoch(after),
        Err(before) => since_epoch(before.duration()).saturating_neg(),
    };
    UtcMillis::EPOCH.saturating_add_ms(ms)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(text: &str) -> UtcMillis {
        UtcMillis::parse(text).unwrap()
    }

    #[test]
    fn the_id_is_the_published_one() {
        let event =
            UsageEvent::builder("api_request", "cus_01", at("2026-08-18T09:15:00Z")).quantity(3).build().unwrap();
        assert_eq!(event.id().as_str(), "uev_5c8ec3ea62721af70f0521af0552578f89da8d295f45829ec6ab33fa38317745");
        let full = UsageEvent::builder("api_request", "cus_01", at("2026-08-18T09:15:00Z"))
            .quantity(3)
            .source("gateway")
            .property("region", "eu")
            .property("model", "m")
            .build()
            .unwrap();
        assert_eq!(full.id().as_str(), "uev_129387c9f2479ce9870ab6269a4917523071b432857c93c57834ab392a3f1d95");
        assert_eq!(
            full.to_json(),
            r#"{"meter":"api_request","occurredAt":"2026-08-18T09:15:00.000Z","properties":{"model":"m","region":"eu"},"quantity":3,"source":"gateway","subject":"cus_01"}"#
        );
    }

    #[test]
    fn a_kept_text_is_the_same_event() {
        let event = UsageEvent::builder("m", "s 🦀\"", at("2026-08-18T09:15:00Z"))
            .idempotency_key("k")
            .property("f", 0.1)
            .property("deep", serde_json::json!({"b": [1, null], "a": "\n"}))
            .build()
            .unwrap();
        let again = UsageEvent::from_json(&event.to_json()).unwrap();
        assert_eq!((&again, again.id(), again.fingerprint()), (&event, event.id(), event.fingerprint()));
        assert_eq!(again.to_json(), event.to_json());
        assert_eq!(UsageEvent::from_json("{}").unwrap_err().problems.len(), 4);
        assert_eq!(UsageEvent::from_json("nothing").unwrap_err().problems[0].code, "invalid_json");
    }

    #[test]
    fn every_problem_is_told_before_anything_is_sent() {
        let invalid = UsageEvent::builder("", "a\u{1f}b", at("2026-08-18T09:15:00Z"))
            .quantity(0)
            .idempotency_key("")
            .build()
            .unwrap_err();
        let fields: Vec<&str> = invalid.problems.iter().map(|problem| problem.field.as_str()).collect();
        assert_eq!(fields, ["meter", "subject", "idempotencyKey", "quantity"]);
        let invalid = UsageEvent::builder("m", "s", at("2026-08-18T09:15:00Z")).property("n", u64::MAX).build();
        assert_eq!(invalid.unwrap_err().problems[0].field, "properties.n");
    }

    #[test]
    fn system_time_is_cut_to_milliseconds() {
        for (time, text) in [
            (UNIX_EPOCH + Duration::from_micros(1_999), "1970-01-01T00:00:00.001Z"),
            (UNIX_EPOCH - Duration::from_secs(1), "1969-12-31T23:59:59.000Z"),
        ] {
            assert_eq!(instant_of(time).to_string(), text);
        }
    }
}

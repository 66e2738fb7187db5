//! The queue's message: one accepted event and how it came in.

use serde_json::Value;

use crate::event::Event;
use crate::json;
use crate::ledger::EventKey;
use crate::problem::Problem;
use crate::space::SpaceId;
use crate::time::UtcMillis;

/// Version of the message's form that this code writes.
pub const VERSION: u64 = 1;
/// Characters of a submission id or a trace parent.
const MAX_CHARS: usize = 128;

/// One accepted event on its way to the worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// Who is billed: from the API key, never from the client's text.
    pub space: SpaceId,
    /// The event.
    pub event: Event,
    /// When the front door accepted it: decides the billing month.
    pub accepted_at: UtcMillis,
    /// The submission that carried it.
    pub submission_id: String,
    /// W3C trace context of the request.
    pub trace_parent: Option<String>,
}

impl Envelope {
    /// (space, event id).
    pub fn key(&self) -> EventKey {
        EventKey { space: self.space.clone(), id: self.event.id() }
    }

    /// The message's text: JSON, in the characters that SQS lets through.
    pub fn encode(&self) -> String {
        let trace = self.trace_parent.as_deref().map(|t| format!(r#","traceparent":{}"#, json::canonical_text(t)));
        let text = format!(
            r#"{{"acceptedAtMs":{},"event":{},"space":"{}","submissionId":{}{},"version":{VERSION}}}"#,
            self.accepted_at.get(),
            self.event.canonical_json(),
            self.space,
            json::canonical_text(&self.submission_id),
            trace.unwrap_or_default(),
        );
        // SQS refuses these two code points raw, JSON carries them escaped; they can stand in texts only.
        text.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff")
    }

    /// Reads a message, or tells what is wrong with it.
    pub fn decode(text: &str) -> Result<Self, Vec<Problem>> {
        const MEND: &str = "only the front door writes to this queue: find out who else did";
        let value = json::parse(text.as_bytes())?;
        let wrong = |field: &'static str, what: &str| vec![Problem::new("invalid_envelope", field, what, MEND)];
        let short_text = |field: &'static str| match value.get(field).and_then(Value::as_str) {
            Some(text) if !text.is_empty() && text.len() <= MAX_CHARS => Ok(text.to_owned()),
            _ => Err(wrong(field, "is not a text of 1 to 128 bytes")),
        };
        if value.get("version").and_then(Value::as_u64) != Some(VERSION) {
            return Err(wrong("version", "is not a version that this worker reads"));
        }
        let space = value.get("space").and_then(Value::as_str).and_then(|text| SpaceId::parse(text).ok());
        let accepted_at = value.get("acceptedAtMs").and_then(Value::as_i64).and_then(UtcMillis::new);
        let accepted_at = accepted_at.ok_or_else(|| wrong("acceptedAtMs", "is not an instant in milliseconds"))?;
        Ok(Self {
            space: space.ok_or_else(|| wrong("space", "is not a space's name"))?,
            event: Event::from_value(value.get("event").unwrap_or(&Value::Null), accepted_at)?,
            accepted_at,
            submission_id: short_text("submissionId")?,
            trace_parent: value.get("traceparent").map(|_| short_text("traceparent")).transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(subject: &str) -> Envelope {
        let accepted_at = UtcMillis::parse("2026-11-30T00:00:00Z").unwrap();
        let value = serde_json::json!({"meter":"m","subject":subject,"occurredAt":"2026-01-01T00:00:00Z","quantity":1});
        Envelope {
            space: SpaceId::parse("acme").unwrap(),
            event: Event::from_value(&value, accepted_at).unwrap(),
            accepted_at,
            submission_id: "sub_1".to_owned(),
            trace_parent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        }
    }

    #[test]
    fn a_message_reads_back_and_holds_only_characters_that_the_queue_takes() {
        for subject in ["s", "\u{ffff}\u{fffe}\u{fffd}", "🦀\"\\"] {
            let sent = envelope(subject);
            let text = sent.encode();
            assert!(
                text.chars().all(|c| matches!(c, '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)),
                "{text}"
            );
            assert_eq!(Envelope::decode(&text), Ok(sent));
        }
    }

    #[test]
    fn what_no_front_door_wrote_is_told_by_field() {
        let good = envelope("s").encode();
        for (text, field) in [
            ("garbage".to_owned(), ""),
            ("{}".to_owned(), "version"),
            (good.replace("\"version\":1", "\"version\":2"), "version"),
            (good.replace("acme", "ACME"), "space"),
            (good.replace("acceptedAtMs", "accepted"), "acceptedAtMs"),
            (good.replace("sub_1", ""), "submissionId"),
            (good.replace("\"quantity\":1", "\"quantity\":0"), "quantity"),
            (good.replace("\"event\":", "\"other\":"), ""),
        ] {
            assert_eq!(Envelope::decode(&text).unwrap_err()[0].field, field, "{text}");
        }
    }
}

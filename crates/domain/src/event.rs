//! Usage events: one billable fact each.

use serde_json::{Map, Value};

use crate::identity::{EventId, Fingerprint};
use crate::json;
use crate::problem::Problem;
use crate::time::{TimeProblem, UtcMillis};

/// Bytes that an event's canonical JSON may take: 64 KiB.
pub const MAX_EVENT_BYTES: usize = 64 * 1024;
/// How far ahead of the time of acceptance an event may have occurred, in milliseconds: five minutes of clock skew.
pub const MAX_AHEAD_MS: i64 = 5 * 60 * 1000;
/// Characters that a meter's name may have.
pub const MAX_METER_CHARS: usize = 128;
/// Characters that a subject, a source or an idempotency key may have.
pub const MAX_TEXT_CHARS: usize = 256;

const FIELDS: [&str; 7] = ["idempotencyKey", "meter", "occurredAt", "properties", "quantity", "source", "subject"];

/// A validated event. Two events are equal exactly when their fingerprints are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub(crate) meter: String,
    pub(crate) subject: String,
    pub(crate) occurred_at: UtcMillis,
    pub(crate) quantity: u64,
    pub(crate) source: Option<String>,
    /// Canonical JSON of a non-empty object; an empty bag and no bag are the same fact.
    pub(crate) properties: Option<String>,
    pub(crate) idempotency_key: Option<String>,
}

impl Event {
    /// Validates one event of Tollgate's own JSON form, or tells every problem of it.
    ///
    /// `accepted_at` is the time at which the front door took the event: the future begins five minutes after it.
    pub fn from_value(value: &Value, accepted_at: UtcMillis) -> Result<Self, Vec<Problem>> {
        let Value::Object(fields) = value else {
            return Err(vec![Problem::new(
                "not_an_object",
                "",
                format!("is {}, not an event", json::kind(value)),
                "send an object with meter, subject, occurredAt and quantity",
            )]);
        };
        let mut problems = unknown_fields(fields);
        let mut keep = |read: Result<Option<String>, Problem>| {
            read.unwrap_or_else(|problem| {
                problems.push(problem);
                None
            })
        };
        let meter = keep(required(fields, "meter", MAX_METER_CHARS));
        let subject = keep(required(fields, "subject", MAX_TEXT_CHARS));
        // "A missing source joins as the empty string": the two are one fact, so they are one value here.
        let source = keep(text(fields, "source", MAX_TEXT_CHARS)).filter(|source| !source.is_empty());
        let idempotency_key = keep(idempotency_key(fields));
        let properties = keep(bag(fields, "properties"));
        let occurred_at = instant(fields, "occurredAt", accepted_at).map_err(|problem| problems.push(problem)).ok();
        let quantity = quantity(fields.get("quantity"), "quantity").map_err(|problem| problems.push(problem)).ok();

        let (Some(meter), Some(subject), Some(occurred_at), Some(quantity), true) =
            (meter, subject, occurred_at, quantity, problems.is_empty())
        else {
            return Err(problems);
        };
        Self { meter, subject, occurred_at, quantity, source, properties, idempotency_key }.of_a_fair_size()
    }

    /// The event, or that its canonical JSON is too long.
    pub(crate) fn of_a_fair_size(self) -> Result<Self, Vec<Problem>> {
        let bytes = self.canonical_json().len();
        if bytes > MAX_EVENT_BYTES {
            return Err(vec![Problem::new(
                "event_too_large",
                "",
                format!("takes {bytes} bytes of canonical JSON, more than {MAX_EVENT_BYTES}"),
                "keep large content elsewhere and send its address",
            )]);
        }
        Ok(self)
    }

    /// What is counted, such as `api_request`.
    pub fn meter(&self) -> &str {
        &self.meter
    }

    /// For whom the space counts it, such as a customer's id.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// When it happened, as its producer says.
    pub fn occurred_at(&self) -> UtcMillis {
        self.occurred_at
    }

    /// How much happened: 1 to 2^53 − 1. The billing unit is the event, whatever its quantity.
    pub fn quantity(&self) -> u64 {
        self.quantity
    }

    /// Where it was observed.
    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// Canonical JSON of the properties, a non-empty object; `None` when there are none.
    pub fn properties(&self) -> Option<&str> {
        self.properties.as_deref()
    }

    /// The producer's own identity of the fact, when it has one.
    pub fn idempotency_key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    /// The event's key: explicit when it carries an idempotency key, else derived from its facts.
    pub fn id(&self) -> EventId {
        EventId::of(self)
    }

    /// Tells a retry from a conflict: equal for equal events, whichever form made the id.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self)
    }

    /// The RFC 8785 form of the event: absent fields left out, keys in order. Archive and queue carry these bytes.
    pub fn canonical_json(&self) -> String {
        let quoted = |text: &Option<String>| text.as_deref().map(json::canonical_text);
        let members = [
            ("idempotencyKey", quoted(&self.idempotency_key)),
            ("meter", Some(json::canonical_text(&self.meter))),
            ("occurredAt", Some(format!("\"{}\"", self.occurred_at))),
            ("properties", self.properties.clone()),
            ("quantity", Some(self.quantity.to_string())),
            ("source", quoted(&self.source)),
            ("subject", Some(json::canonical_text(&self.subject))),
        ];
        let present: Vec<String> =
            members.into_iter().filter_map(|(name, value)| value.map(|value| format!("\"{name}\":{value}"))).collect();
        format!("{{{}}}", present.join(","))
    }
}

fn unknown_fields(fields: &Map<String, Value>) -> Vec<Problem> {
    let unknown = fields.keys().filter(|name| !FIELDS.contains(&name.as_str()));
    unknown
        .take(json::MAX_PROBLEMS)
        .map(|name| {
            let mend = if name == "space" {
                "leave it out: the space comes from the API key".to_owned()
            } else {
                format!("put it into properties, or use one of {}", FIELDS.join(", "))
            };
            let shown: String = name.chars().take(64).filter(|c| !c.is_control()).collect();
            Problem::new("unknown_field", shown, "is not a field of an event", mend)
        })
        .collect()
}

/// A text field without control characters: the separator of the identity's join can then stand in none of them.
fn text(fields: &Map<String, Value>, name: &'static str, max_chars: usize) -> Result<Option<String>, Problem> {
    let text = match fields.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text,
        Some(other) => {
            return Err(Problem::new(
                "wrong_type",
                name,
                format!("is {}, not a text", json::kind(other)),
                "send a JSON string",
            ));
        }
    };
    if text.chars().any(char::is_control) {
        return Err(Problem::new(
            "control_character",
            name,
            "holds a control character",
            "remove it: printable characters only",
        ));
    }
    let chars = text.chars().count();
    if chars > max_chars {
        return Err(Problem::new(
            "text_too_long",
            name,
            format!("has {chars} characters, more than {max_chars}"),
            format!("send at most {max_chars} characters"),
        ));
    }
    Ok(Some(text.clone()))
}

/// A text field that must be there and not empty.
pub(crate) fn required(
    fields: &Map<String, Value>,
    name: &'static str,
    max_chars: usize,
) -> Result<Option<String>, Problem> {
    match text(fields, name, max_chars)? {
        None => Err(Problem::new("missing_field", name, "is missing", format!("send {name} as a non-empty text"))),
        Some(text) if text.is_empty() => {
            Err(Problem::new("empty_text", name, "is empty", format!("send {name} as a non-empty text")))
        }
        some => Ok(some),
    }
}

fn idempotency_key(fields: &Map<String, Value>) -> Result<Option<String>, Problem> {
    let key = text(fields, "idempotencyKey", MAX_TEXT_CHARS)?;
    if key.as_deref() == Some("") {
        // Taken as absent, it would silently turn an explicit identity into a derived one.
        return Err(Problem::new(
            "empty_text",
            "idempotencyKey",
            "is empty",
            "send the id of the work that is metered, or leave the field out",
        ));
    }
    Ok(key)
}

/// Canonical JSON of an object field; `None` when there is nothing in it.
pub(crate) fn bag(fields: &Map<String, Value>, name: &'static str) -> Result<Option<String>, Problem> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(bag)) if bag.is_empty() => Ok(None),
        // Counted from the event and not from the text that carries it: what one reader takes, all of them take.
        Some(bag) if json::depth(bag) >= json::MAX_DEPTH => Err(Problem::new(
            "nested_too_deep",
            name,
            format!("nests the event deeper than {} levels", json::MAX_DEPTH),
            "send a flatter structure",
        )),
        Some(bag @ Value::Object(_)) => Ok(Some(json::canonical(bag))),
        Some(other) => Err(Problem::new(
            "wrong_type",
            name,
            format!("is {}, not an object", json::kind(other)),
            "send a JSON object, or leave the field out",
        )),
    }
}

/// A field with the time at which the event occurred.
pub(crate) fn instant(
    fields: &Map<String, Value>,
    name: &'static str,
    accepted_at: UtcMillis,
) -> Result<UtcMillis, Problem> {
    const FORM: &str = "send an instant such as 2026-11-30T12:34:56.789Z";
    let text = match fields.get(name) {
        None | Some(Value::Null) => {
            return Err(Problem::new("missing_field", name, "is missing", FORM));
        }
        Some(Value::String(text)) => text,
        Some(other) => {
            return Err(Problem::new("wrong_type", name, format!("is {}, not a text", json::kind(other)), FORM));
        }
    };
    let occurred_at = UtcMillis::parse(text).map_err(|problem| {
        let (code, mend) = match problem {
            TimeProblem::Form => ("malformed_time", FORM),
            TimeProblem::TooFine => ("time_too_fine", "send at most three decimals: keys are made of milliseconds"),
            TimeProblem::NoSuchInstant => {
                ("no_such_time", "send a day and a time that exist, in the years 0000 to 9998")
            }
        };
        Problem::new(code, name, problem.to_string(), mend)
    })?;
    if occurred_at > accepted_at.saturating_add_ms(MAX_AHEAD_MS) {
        return Err(Problem::new(
            "time_in_the_future",
            name,
            "lies more than five minutes ahead",
            "send the time at which the work was done, and check the sender's clock",
        ));
    }
    Ok(occurred_at)
}

/// A quantity, which stands at `name`.
pub(crate) fn quantity(value: Option<&Value>, name: &'static str) -> Result<u64, Problem> {
    const MEND: &str = "send a JSON integer from 1 to 9007199254740991, without a decimal point or quotes";
    let number = match value {
        None | Some(Value::Null) => {
            return Err(Problem::new("missing_field", name, "is missing", MEND));
        }
        Some(Value::Number(number)) => number,
        Some(other) => {
            return Err(Problem::new("wrong_type", name, format!("is {}, not an integer", json::kind(other)), MEND));
        }
    };
    match number.as_u64() {
        Some(quantity) if (1..=json::MAX_SAFE_INTEGER).contains(&quantity) => Ok(quantity),
        Some(0) => Err(Problem::new("quantity_out_of_range", name, "is 0", MEND)),
        Some(_) => Err(Problem::new("quantity_out_of_range", name, "is larger than 2^53−1", MEND)),
        None if number.is_i64() => Err(Problem::new("quantity_out_of_range", name, "is negative", MEND)),
        None => Err(Problem::new("quantity_not_an_integer", name, "is not written as an integer", MEND)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-30T12:00:00Z";

    fn event(text: &str) -> Result<Event, Vec<Problem>> {
        Event::from_value(&json::parse(text.as_bytes())?, UtcMillis::parse(NOW).unwrap())
    }

    /// A good event with `fields` put over it.
    fn with(fields: &str) -> Result<Event, Vec<Problem>> {
        let Value::Object(mut object) =
            serde_json::json!({"meter":"m","subject":"s","occurredAt":"2026-01-01T00:00:00Z","quantity":1})
        else {
            unreachable!()
        };
        object.extend(json::parse(fields.as_bytes())?.as_object().unwrap().clone());
        event(&Value::Object(object).to_string())
    }

    #[test]
    fn each_bad_field_gets_its_own_problem() {
        let long = "x".repeat(257);
        for (fields, field, code) in [
            (r#"{"meter":null}"#, "meter", "missing_field"),
            (r#"{"meter":""}"#, "meter", "empty_text"),
            (r#"{"meter":7}"#, "meter", "wrong_type"),
            (r#"{"meter":"a\u001fb"}"#, "meter", "control_character"),
            (r#"{"subject":"a\nb"}"#, "subject", "control_character"),
            (r#"{"subject":"\u007f"}"#, "subject", "control_character"),
            (r#"{"subject":["a"]}"#, "subject", "wrong_type"),
            (&format!(r#"{{"subject":"{long}"}}"#), "subject", "text_too_long"),
            (r#"{"source":"\u0085"}"#, "source", "control_character"),
            (r#"{"source":{}}"#, "source", "wrong_type"),
            (r#"{"idempotencyKey":""}"#, "idempotencyKey", "empty_text"),
            (r#"{"idempotencyKey":"\u0000"}"#, "idempotencyKey", "control_character"),
            (r#"{"quantity":null}"#, "quantity", "missing_field"),
            (r#"{"quantity":0}"#, "quantity", "quantity_out_of_range"),
            (r#"{"quantity":-1}"#, "quantity", "quantity_out_of_range"),
            (r#"{"quantity":1.5}"#, "quantity", "quantity_not_an_integer"),
            (r#"{"quantity":1.0}"#, "quantity", "quantity_not_an_integer"),
            (r#"{"quantity":1e0}"#, "quantity", "quantity_not_an_integer"),
            (r#"{"quantity":"1"}"#, "quantity", "wrong_type"),
            (r#"{"quantity":true}"#, "quantity", "wrong_type"),
            (r#"{"quantity":9223372036854775808}"#, "quantity", "number_out_of_range"),
            (r#"{"quantity":9007199254740992}"#, "quantity", "number_out_of_range"),
            (r#"{"occurredAt":null}"#, "occurredAt", "missing_field"),
            (r#"{"occurredAt":1}"#, "occurredAt", "wrong_type"),
            (r#"{"occurredAt":"yesterday"}"#, "occurredAt", "malformed_time"),
            (r#"{"occurredAt":"2026-02-30T00:00:00Z"}"#, "occurredAt", "no_such_time"),
            (r#"{"occurredAt":"2026-01-01T00:00:00.0001Z"}"#, "occurredAt", "time_too_fine"),
            (r#"{"occurredAt":"2026-11-30T12:05:00.001Z"}"#, "occurredAt", "time_in_the_future"),
            (r#"{"properties":[]}"#, "properties", "wrong_type"),
            (r#"{"properties":"x"}"#, "properties", "wrong_type"),
            (r#"{"colour":"red"}"#, "colour", "unknown_field"),
            (r#"{"space":"acme"}"#, "space", "unknown_field"),
        ] {
            let problems = with(fields).expect_err(fields);
            assert_eq!(problems.len(), 1, "{fields}: {problems:?}");
            assert_eq!((problems[0].field.as_str(), problems[0].code), (field, code), "{fields}");
            assert!(!problems[0].problem.is_empty() && !problems[0].mend.is_empty(), "{fields}");
        }
        for text in ["1", "\"x\"", "null", "[]"] {
            assert_eq!(event(text).unwrap_err()[0].code, "not_an_object", "{text}");
        }
    }

    #[test]
    fn every_problem_of_an_event_is_told_at_once() {
        let codes: Vec<_> =
            event(r#"{"quantity":0,"x":1}"#).unwrap_err().into_iter().map(|p| (p.field, p.code)).collect();
        let expected = [
            ("x", "unknown_field"),
            ("meter", "missing_field"),
            ("subject", "missing_field"),
            ("occurredAt", "missing_field"),
            ("quantity", "quantity_out_of_range"),
        ];
        assert_eq!(codes, expected.map(|(field, code)| (field.to_owned(), code)));
    }

    #[test]
    fn the_edges_are_taken() {
        for fields in [
            r#"{"quantity":1}"#,
            r#"{"quantity":9007199254740991}"#,
            r#"{"occurredAt":"2026-11-30T12:05:00.000Z"}"#,
            r#"{"occurredAt":"0000-01-01T00:00:00Z"}"#,
            r#"{"properties":{"a":{"b":[1,null,"x"]}}}"#,
            r#"{"subject":"Zoë 🦀"}"#,
            &format!(r#"{{"subject":"{}"}}"#, "x".repeat(MAX_TEXT_CHARS)),
            &format!(r#"{{"meter":"{}"}}"#, "x".repeat(MAX_METER_CHARS)),
        ] {
            assert!(with(fields).is_ok(), "{fields}");
        }
    }

    #[test]
    fn a_space_in_an_event_is_told_where_the_space_comes_from() {
        let mend = |fields: &str| with(fields).unwrap_err()[0].mend.clone();
        assert!(mend(r#"{"space":"acme"}"#).contains("API key"));
        assert!(mend(r#"{"spaces":"acme"}"#).contains("properties"));
    }

    #[test]
    fn an_event_over_64_kib_is_refused_and_one_at_64_kib_is_not() {
        let sized = |bytes: usize| {
            let empty = with(r#"{"properties":{"p":""}}"#).unwrap().canonical_json().len();
            with(&format!(r#"{{"properties":{{"p":"{}"}}}}"#, "x".repeat(bytes - empty)))
        };
        assert_eq!(MAX_EVENT_BYTES, 65_536);
        assert_eq!(sized(MAX_EVENT_BYTES).unwrap().canonical_json().len(), MAX_EVENT_BYTES);
        assert_eq!(sized(MAX_EVENT_BYTES + 1).unwrap_err()[0].code, "event_too_large");
    }

    #[test]
    fn what_is_accepted_alone_is_accepted_wherever_it_is_carried() {
        let nested = |levels: usize| {
            let bag = format!(r#"{{"a":{}1{}}}"#, "[".repeat(levels - 2), "]".repeat(levels - 2));
            with(&format!(r#"{{"properties":{bag}}}"#))
        };
        assert_eq!(nested(json::MAX_DEPTH + 1).unwrap_err()[0].code, "nested_too_deep");
        let deepest = nested(json::MAX_DEPTH).unwrap();
        let space = crate::space::SpaceId::parse("acme").unwrap();
        let accepted_at = UtcMillis::parse(NOW).unwrap();
        let envelope = crate::envelope::Envelope {
            space,
            event: deepest.clone(),
            accepted_at,
            submission_id: "sub".to_owned(),
            trace_parent: None,
        };
        assert_eq!(crate::envelope::Envelope::decode(&envelope.encode()).unwrap().event, deepest);
        let claim = crate::ledger::NewClaim {
            key: envelope.key(),
            fingerprint: deepest.fingerprint(),
            submission_id: "sub".to_owned(),
            period_month: crate::period::PeriodMonth::of(accepted_at),
            now: accepted_at,
        };
        let object = crate::archive::ArchiveObject::of_event(&deepest, &claim.into_item());
        assert_eq!(crate::archive::ArchivedEvent::decode(object.body.as_bytes()).unwrap().event, deepest);
        let batch = format!("[{}]", deepest.canonical_json());
        assert!(json::parse(batch.as_bytes()).is_ok());
    }

    #[test]
    fn the_canonical_form_is_its_own_canonical_form() {
        let full =
            with(r#"{"idempotencyKey":"k\"","source":"é","properties":{"b":1.0,"a":"\u0000"},"quantity":3}"#).unwrap();
        let text = full.canonical_json();
        assert_eq!(json::canonical(&json::parse(text.as_bytes()).unwrap()), text);
        assert_eq!(event(&text).unwrap(), full);
        assert_eq!(
            text,
            r#"{"idempotencyKey":"k\"","meter":"m","occurredAt":"2026-01-01T00:00:00.000Z","properties":{"a":"\u0000","b":1},"quantity":3,"source":"é","subject":"s"}"#
        );
    }

    #[test]
    fn absent_null_and_empty_are_one_fact() {
        let plain = with("{}").unwrap();
        for same in [
            r#"{"properties":{}}"#,
            r#"{"properties":null}"#,
            r#"{"source":""}"#,
            r#"{"source":null,"idempotencyKey":null}"#,
        ] {
            assert_eq!(with(same).unwrap(), plain, "{same}");
        }
    }
}

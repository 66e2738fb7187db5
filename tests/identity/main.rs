//! The key means the event: of any text of it, of nothing else, and as another program computes it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod cloudevents;
mod seeds;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};
use tollgate_domain::envelope::Envelope;
use tollgate_domain::event::Event;
use tollgate_domain::json;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;
use tollgate_tests::expected::Expected;
use tollgate_tests::input::read_lines;
use tollgate_tests::properties::is_same;
use tollgate_tests::sent::by_key;
use tollgate_tests::spelling::spell;
use tollgate_tests::strategies::{envelope, event_value, json_value};
use tollgate_tests::traffic::Random;

fn now() -> UtcMillis {
    UtcMillis::parse("2026-11-15T12:00:00Z").unwrap()
}

fn event(value: &Value) -> Event {
    Event::from_value(value, now()).unwrap()
}

/// Another value than this one, by one change somewhere in it.
fn changed(value: &Value, random: &mut Random) -> Value {
    match value {
        Value::Null => Value::Bool(false),
        Value::Bool(bool) => Value::Bool(!bool),
        // 1 turns into 0 and any other number into 1.
        Value::Number(number) => json!(i32::from(number.as_f64() != Some(1.0))),
        Value::String(text) => Value::String(format!("{text}x")),
        Value::Array(items) => {
            let mut items = items.clone();
            let place = random.below(items.len() + 1);
            match items.get_mut(place) {
                Some(item) => *item = changed(item, random),
                None => items.push(Value::Null),
            }
            Value::Array(items)
        }
        Value::Object(fields) => {
            let mut fields = fields.clone();
            let place = random.below(fields.len() + 1);
            match fields.values_mut().nth(place) {
                Some(item) => *item = changed(item, random),
                None => drop(fields.insert(format!("new{}", fields.len()), Value::Null)),
            }
            Value::Object(fields)
        }
    }
}

proptest! {
    #[test]
    fn every_spelling_of_a_value_has_one_canonical_form(value in json_value(), seed: u64) {
        let form = json::canonical(&value);
        let read = json::parse(spell(&value, &mut Random::new(seed)).as_bytes()).unwrap();
        prop_assert!(is_same(&read, &value));
        prop_assert_eq!(json::canonical(&read), form);
    }

    #[test]
    fn the_canonical_form_is_its_own(value in json_value()) {
        let form = json::canonical(&value);
        prop_assert_eq!(json::canonical(&json::parse(form.as_bytes()).unwrap()), form);
    }

    #[test]
    fn canonical_forms_are_equal_for_equal_values_only(left in json_value(), right in json_value(), seed: u64) {
        prop_assert_eq!(json::canonical(&left) == json::canonical(&right), is_same(&left, &right));
        let other = changed(&left, &mut Random::new(seed));
        prop_assert!(!is_same(&left, &other));
        prop_assert_ne!(json::canonical(&left), json::canonical(&other));
    }

    #[test]
    fn every_spelling_of_an_event_has_one_key_and_one_fingerprint(value in event_value(), seed: u64) {
        // A quantity is an integer by its spelling too, so it keeps the one that it has.
        let Value::Object(mut fields) = value.clone() else { unreachable!("an event is an object") };
        let quantity = fields.remove("quantity").unwrap();
        let rest = spell(&Value::Object(fields), &mut Random::new(seed));
        let text = rest.replacen('{', &format!("{{\"quantity\":{quantity},"), 1);
        let (spelled, plain) = (event(&json::parse(text.as_bytes()).unwrap()), event(&value));
        prop_assert_eq!(spelled.id(), plain.id());
        prop_assert_eq!(spelled.fingerprint(), plain.fingerprint());
        prop_assert_eq!(spelled, plain);
    }

    #[test]
    fn an_event_with_one_other_fact_has_another_fingerprint(value in event_value(), seed: u64) {
        let before = event(&value);
        for name in ["meter", "subject", "source", "idempotencyKey", "quantity", "occurredAt", "properties"] {
            let mut other = value.clone();
            other[name] = match (name, &value[name]) {
                ("quantity", old) => json!(if *old == json!(1) { 2 } else { 1 }),
                ("occurredAt", _) => json!(before.occurred_at().saturating_add_ms(-1).to_string()),
                ("properties", Value::Null) => json!({"a": null}),
                (_, Value::Null) => json!("x"),
                (_, old) => changed(old, &mut Random::new(seed)),
            };
            let Ok(after) = Event::from_value(&other, now()) else {
                // The longer text may be too long, which is an answer of its own.
                continue;
            };
            prop_assert_ne!(after.fingerprint(), before.fingerprint(), "{}", name);
            let is_identity = match before.idempotency_key() {
                None => true,
                Some(_) => matches!(name, "meter" | "subject" | "idempotencyKey"),
            };
            prop_assert_eq!(after.id() != before.id(), is_identity, "{}", name);
        }
    }

    #[test]
    fn an_event_s_canonical_json_reads_back_as_the_event(value in event_value()) {
        let before = event(&value);
        let text = before.canonical_json();
        let read = json::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(json::canonical(&read), text);
        prop_assert_eq!(event(&read), before);
    }

    #[test]
    fn a_message_reads_back(sent in envelope()) {
        prop_assert_eq!(Envelope::decode(&sent.encode()), Ok(sent));
    }
}

#[test]
fn an_independent_program_counts_the_same_events() {
    let sent = read_lines(include_str!("../data/events.jsonl"), now()).unwrap();
    let expected: Expected = serde_json::from_str(include_str!("../data/expected.json")).unwrap();
    let mut counted: BTreeMap<SpaceId, (u64, u64, u64)> = BTreeMap::new();
    for (key, deliveries) in by_key(&sent) {
        let payloads: BTreeSet<_> = deliveries.iter().map(|sent| sent.event.fingerprint()).collect();
        let (lines, distinct, conflicting) = counted.entry(key.space).or_default();
        *lines += deliveries.len() as u64;
        *distinct += 1;
        *conflicting += u64::from(payloads.len() > 1);
    }
    let told = expected.spaces.into_iter().map(|(space, expected)| {
        (space, (expected.lines, expected.distinct, expected.conflicting_ids.map_or(0, |ids| ids.count())))
    });
    assert_eq!(counted, told.collect());
    assert!(counted.values().any(|(lines, distinct, _)| lines > distinct));
}

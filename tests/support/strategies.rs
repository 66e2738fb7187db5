//! Arbitrary JSON values, events and messages.

use proptest::prelude::*;
use proptest::{collection, option};
use serde_json::{Map, Number, Value};
use tollgate_domain::envelope::Envelope;
use tollgate_domain::event::Event;
use tollgate_domain::json::MAX_SAFE_INTEGER;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

use crate::memory::State;

/// Any text that JSON can carry, with more than its share of what is escaped or ordered in a special way.
pub fn text() -> impl Strategy<Value = String> {
    let char = prop_oneof![
        4 => any::<char>(),
        2 => proptest::char::range('a', 'e'),
        1 => proptest::sample::select(vec!['"', '\\', '/', '\n', '\u{0}', '\u{7f}', '\u{fb33}', '\u{1f600}', '\u{ffff}']),
    ];
    collection::vec(char, 0..8).prop_map(String::from_iter)
}

/// A number that both JSON and a double can carry: whole or not, of either sign.
pub fn number() -> impl Strategy<Value = Number> {
    let magnitude = prop_oneof![0..10_u64, 0..=MAX_SAFE_INTEGER];
    let whole = (magnitude, any::<bool>()).prop_map(|(magnitude, is_negative)| {
        let signed = i64::try_from(magnitude).unwrap_or(i64::MAX);
        Number::from(if is_negative { -signed } else { signed })
    });
    let broken = prop_oneof![-1e3..1e3_f64, -1e-300..1e-300_f64, -9_007_199_254_740_991.0..9_007_199_254_740_991.0_f64];
    prop_oneof![whole, broken.prop_filter_map("finite", Number::from_f64)]
}

/// Any JSON value that is shallow enough to read.
pub fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number().prop_map(Value::Number),
        text().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            collection::vec((text(), inner), 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Text of an event's field: not empty, without control characters.
fn field() -> impl Strategy<Value = String> {
    text().prop_map(|text| {
        let printable: String = text.chars().filter(|char| !char.is_control()).collect();
        if printable.is_empty() { "x".to_owned() } else { printable }
    })
}

/// The JSON value of a valid event that was accepted when a new world begins.
pub fn event_value() -> impl Strategy<Value = Value> {
    let properties = option::of(collection::vec((text(), json_value()), 0..4));
    let required = (field(), field(), 0..=State::default().now.get(), 1..=MAX_SAFE_INTEGER);
    (required, option::of(field()), properties, option::of(field())).prop_map(
        |((meter, subject, occurred_at_ms, quantity), source, properties, idempotency_key)| {
            let occurred_at = UtcMillis::new(occurred_at_ms).map(|at| Value::from(at.to_string()));
            let bag = properties.map(|fields| Value::Object(fields.into_iter().collect()));
            let fields = [
                ("meter", Some(Value::from(meter))),
                ("subject", Some(Value::from(subject))),
                ("occurredAt", occurred_at),
                ("quantity", Some(Value::from(quantity))),
                ("source", source.map(Value::from)),
                ("properties", bag),
                ("idempotencyKey", idempotency_key.map(Value::from)),
            ];
            let present = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
            Value::Object(present.collect::<Map<_, _>>())
        },
    )
}

/// A valid event that was accepted when a new world begins.
pub fn event() -> impl Strategy<Value = Event> {
    event_value().prop_filter_map("a valid event", |value| Event::from_value(&value, State::default().now).ok())
}

/// A message with such an event.
pub fn envelope() -> impl Strategy<Value = Envelope> {
    let space = "[a-z0-9][a-z0-9_-]{0,10}".prop_filter_map("a space's name", |name| SpaceId::parse(&name).ok());
    (space, event(), "[ -~]{1,40}", option::of("[0-9a-f-]{1,55}")).prop_map(
        |(space, event, submission_id, trace_parent)| Envelope {
            space,
            event,
            accepted_at: State::default().now,
            submission_id,
            trace_parent,
        },
    )
}

//! A CloudEvent is one event, whichever mode carries it, and the event that the table of `IDENTITY.md` makes of it.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tollgate_domain::call::{self, Call, Form, Unreadable};
use tollgate_domain::cloudevent::{decode_header, idempotency_key};
use tollgate_domain::json;
use tollgate_tests::spelling::spell;
use tollgate_tests::strategies::{event_value, text};
use tollgate_tests::traffic::Random;

use crate::now;

/// Texts that are near each other in every way that a join could mistake.
fn part() -> impl Strategy<Value = String> {
    prop_oneof![text(), "[\"\\\\,\\[\\]ab:é1/]{0,6}"]
}

/// A CloudEvent of the JSON format, and the event in Tollgate's own form that it stands for.
///
/// Where the quantity stands: in data, in the extension, in both, or nowhere when it is 1.
fn cloud_event() -> impl Strategy<Value = (Map<String, Value>, Value)> {
    let attribute = || part().prop_map(|text| format!("x{}", text.replace(char::is_control, "")));
    (event_value(), attribute(), attribute(), 0..4_u8).prop_map(|(mut event, source, id, place)| {
        let quantity = if place == 0 { json!(1) } else { event["quantity"].clone() };
        let mut data = event["properties"].as_object().cloned().unwrap_or_default();
        data.remove("quantity");
        if place & 1 == 1 {
            data.insert("quantity".to_owned(), quantity.clone());
        }
        let mut cloud = Map::from_iter([
            ("specversion".to_owned(), json!("1.0")),
            ("id".to_owned(), json!(id)),
            ("source".to_owned(), json!(source)),
            ("type".to_owned(), event["meter"].clone()),
            ("subject".to_owned(), event["subject"].clone()),
            ("time".to_owned(), event["occurredAt"].clone()),
            ("data".to_owned(), Value::Object(data.clone())),
        ]);
        if place & 2 == 2 {
            cloud.insert("quantity".to_owned(), quantity.clone());
        }
        event["quantity"] = quantity;
        event["properties"] = Value::Object(data);
        event["idempotencyKey"] = json!(json!([source, id]).to_string());
        event["source"] = json!(source);
        (cloud, event)
    })
}

fn read(bytes: &[u8], form: &Form<'_>) -> Call {
    call::read(bytes, form, 500, now()).unwrap()
}

/// As CloudEvents' HTTP binding encodes a text, and more of it than it must where `random` says so.
fn header(text: &str, random: &mut Random) -> String {
    let encode = |byte: u8, random: &mut Random| {
        let must = !(b'!'..=b'~').contains(&byte) || byte == b'"' || byte == b'%';
        if must || random.percent(10) { format!("%{byte:02X}") } else { char::from(byte).to_string() }
    };
    text.bytes().map(|byte| encode(byte, random)).collect()
}

proptest! {
    #[test]
    fn the_join_of_source_and_id_is_injective(one in (part(), part()), other in (part(), part())) {
        let join = |(source, id): &(String, String)| idempotency_key(source, id);
        prop_assert_eq!(join(&one) == join(&other), one == other);
        // The same characters, divided in another place.
        let whole: Vec<char> = one.0.chars().chain(one.1.chars()).collect();
        for place in 0..=whole.len() {
            let (source, id) = whole.split_at(place);
            let moved = (String::from_iter(source), String::from_iter(id));
            prop_assert_eq!(join(&one) == join(&moved), one == moved);
        }
        let read: (String, String) = serde_json::from_str(&join(&one)).unwrap();
        prop_assert_eq!(read, one);
    }

    #[test]
    fn every_mode_and_tollgate_s_own_form_are_one_event((cloud, event) in cloud_event(), seed: u64) {
        let random = &mut Random::new(seed);
        let own = read(event.to_string().as_bytes(), &Form::Tollgate);
        prop_assert_eq!(own.flaw(), None);

        // A quantity is an integer by its spelling too, so a value that has one keeps the one that it has.
        let rest = |mut fields: Map<String, Value>, random: &mut Random| {
            fields.retain(|name, _| name != "data" && name != "quantity");
            spell(&Value::Object(fields), random)
        };
        let ours = |name: &str| cloud.get(name).map(|value| format!("\"{name}\":{value},")).unwrap_or_default();
        let structured = rest(cloud.clone(), random).replacen('{', &format!("{{{}{}", ours("data"), ours("quantity")), 1);
        prop_assert_eq!(&read(structured.as_bytes(), &Form::CloudEvent), &own);

        let batch = format!("[{structured}, {structured}]");
        let batched = read(batch.as_bytes(), &Form::CloudEventBatch);
        prop_assert_eq!(&batched.events, &own.events);
        prop_assert_eq!(batched.places.len(), 2);

        let headers: Vec<(String, String)> = cloud
            .iter()
            .filter(|(name, _)| *name != "data")
            .map(|(name, value)| (name.clone(), value.as_str().map_or_else(|| value.to_string(), |text| header(text, random))))
            .collect();
        let attributes = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        prop_assert_eq!(&read(cloud["data"].to_string().as_bytes(), &Form::CloudEventBinary(attributes)), &own);
    }

    #[test]
    fn a_header_reads_back_whatever_it_holds(text in text(), seed: u64) {
        let encoded = header(&text, &mut Random::new(seed));
        prop_assert_eq!(decode_header(encoded.as_bytes()), Some(text));
    }

    #[test]
    fn no_bytes_are_too_odd_to_be_answered(bytes in proptest::collection::vec(any::<u8>(), 0..64), ascii in "[\\[\\]{}:,\"\\\\a1 ]{0,40}") {
        for bytes in [bytes.as_slice(), ascii.as_bytes()] {
            let headers = vec![("id", bytes), ("time", bytes), ("quantity", bytes)];
            for form in [Form::Tollgate, Form::CloudEvent, Form::CloudEventBatch, Form::CloudEventBinary(headers)] {
                match call::read(bytes, &form, 500, now()) {
                    Ok(call) => prop_assert_eq!(call.flaw().is_some(), !call.problems.is_empty()),
                    // What the scan says of a text that is no JSON is not held to anything but its existence.
                    Err(Unreadable::NotJson(problems)) => prop_assert!(json::parse(bytes).is_err() && !problems.is_empty()),
                    Err(Unreadable::NotACall(_) | Unreadable::TooComplex(_)) => {}
                }
            }
        }
    }
}

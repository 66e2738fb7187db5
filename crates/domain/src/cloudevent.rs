//! CloudEvents 1.0 as usage events. `IDENTITY.md` has the table, and the join of `source` and `id`.
//!
//! Attributes that are not in the table are ignored, extensions such as `traceparent` among them: whoever stands
//! between the producer and us may add, change and drop them, so that a retry with other ones must stay the same event.

use serde_json::{Map, Value};

use crate::event::{self, Event, MAX_METER_CHARS, MAX_TEXT_CHARS};
use crate::json;
use crate::problem::Problem;
use crate::time::UtcMillis;

/// The one version that is read.
pub const SPEC_VERSION: &str = "1.0";
/// Attributes that binary mode may carry in headers `ce-{name}`; any other is ignored.
const HEADER_ATTRIBUTES: [&str; 9] =
    ["data_base64", "datacontenttype", "id", "quantity", "source", "specversion", "subject", "time", "type"];

/// One event of the JSON format, or every problem of it.
pub fn event_of(value: &Value, accepted_at: UtcMillis) -> Result<Event, Vec<Problem>> {
    let Value::Object(fields) = value else {
        return Err(vec![Problem::new(
            "not_an_object",
            "",
            format!("is {}, not a CloudEvent", json::kind(value)),
            "send a CloudEvent as a JSON object; an array of them as application/cloudevents-batch+json",
        )]);
    };
    let mut problems: Vec<Problem> =
        [version_problem(fields), content_problem(fields), base64_problem(fields)].into_iter().flatten().collect();
    let mut keep = |read: Result<Option<String>, Problem>| {
        read.unwrap_or_else(|problem| {
            problems.push(problem);
            None
        })
    };
    let id = keep(event::required(fields, "id", MAX_TEXT_CHARS));
    let source = keep(event::required(fields, "source", MAX_TEXT_CHARS));
    let idempotency_key = match (&source, &id) {
        (Some(source), Some(id)) => keep(bounded_key(source, id).map(Some)),
        _ => None,
    };
    let meter = keep(event::required(fields, "type", MAX_METER_CHARS));
    let subject = keep(event::required(fields, "subject", MAX_TEXT_CHARS));
    let properties = keep(event::bag(fields, "data"));
    let occurred_at = event::instant(fields, "time", accepted_at).map_err(|problem| problems.push(problem)).ok();
    let quantity = quantity(fields).map_err(|found| problems.extend(found)).ok();
    let (Some(meter), Some(subject), Some(occurred_at), Some(quantity), true) =
        (meter, subject, occurred_at, quantity, problems.is_empty())
    else {
        return Err(problems);
    };
    Event { meter, subject, occurred_at, quantity, source, properties, idempotency_key }.of_a_fair_size()
}

/// The idempotency key of a CloudEvent: the canonical JSON of the array `[source, id]`.
///
/// Injective, since a JSON text has one value; and the same text that `JSON.stringify([source, id])` gives, for texts
/// without control characters and lone surrogates.
pub fn idempotency_key(source: &str, id: &str) -> String {
    format!("[{},{}]", json::canonical_text(source), json::canonical_text(id))
}

fn bounded_key(source: &str, id: &str) -> Result<String, Problem> {
    let key = idempotency_key(source, id);
    let chars = key.chars().count();
    if chars <= MAX_TEXT_CHARS {
        return Ok(key);
    }
    Err(Problem::new(
        "text_too_long",
        "id",
        format!("makes an idempotency key of {chars} characters with its source, more than {MAX_TEXT_CHARS}"),
        format!("shorten id or source: [\"source\",\"id\"] as JSON may have {MAX_TEXT_CHARS} characters"),
    ))
}

fn version_problem(fields: &Map<String, Value>) -> Option<Problem> {
    const MEND: &str = "send specversion 1.0";
    match fields.get("specversion") {
        Some(Value::String(version)) if version == SPEC_VERSION => None,
        None | Some(Value::Null) => Some(Problem::new("missing_field", "specversion", "is missing", MEND)),
        Some(Value::String(_)) => {
            Some(Problem::new("unknown_version", "specversion", "is a version that is not read here", MEND))
        }
        Some(other) => {
            Some(Problem::new("wrong_type", "specversion", format!("is {}, not a text", json::kind(other)), MEND))
        }
    }
}

fn content_problem(fields: &Map<String, Value>) -> Option<Problem> {
    match fields.get("datacontenttype") {
        None | Some(Value::Null) => None,
        Some(Value::String(media_type)) if is_json(media_type) => None,
        Some(_) => Some(Problem::new(
            "data_not_json",
            "datacontenttype",
            "is not that of JSON",
            "send data as JSON, with application/json or without datacontenttype",
        )),
    }
}

fn base64_problem(fields: &Map<String, Value>) -> Option<Problem> {
    fields.get("data_base64").filter(|value| !value.is_null()).map(|_| {
        Problem::new("data_not_json", "data_base64", "is data that is not JSON", "send data as a JSON object in data")
    })
}

/// From the data, else from the extension attribute, else 1. Two that differ are no quantity.
fn quantity(fields: &Map<String, Value>) -> Result<u64, Vec<Problem>> {
    let present = |value: &&Value| !value.is_null();
    let in_data = fields.get("data").and_then(|data| data.get("quantity")).filter(present);
    let in_data = in_data.map(|value| event::quantity(Some(value), "data.quantity"));
    let attribute = fields.get("quantity").filter(present).map(quantity_attribute);
    match (in_data, attribute) {
        (None, None) => Ok(1),
        (Some(Ok(one)), Some(Ok(other))) if one != other => Err(vec![Problem::new(
            "quantities_differ",
            "quantity",
            "is not the quantity that data has",
            "send one of the two, or the same in both",
        )]),
        (Some(Ok(quantity)), None | Some(Ok(_))) | (None, Some(Ok(quantity))) => Ok(quantity),
        (one, other) => Err([one, other].into_iter().flatten().filter_map(Result::err).collect()),
    }
}

/// An extension attribute has no type once it was a header: its decimal digits are the integer.
fn quantity_attribute(value: &Value) -> Result<u64, Problem> {
    const NAME: &str = "quantity";
    let Value::String(text) = value else { return event::quantity(Some(value), NAME) };
    let is_decimal = !text.is_empty() && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    let quantity = text.parse().ok().filter(|quantity| is_decimal && *quantity <= json::MAX_SAFE_INTEGER);
    quantity.ok_or_else(|| {
        Problem::new(
            "quantity_not_an_integer",
            NAME,
            "is not an integer from 1 to 2^53−1 in decimal digits",
            "send decimal digits, without sign and leading zeros",
        )
    })
}

/// Whether this media type is JSON's: `application/json`, or any with the suffix `+json`; parameters do not matter.
pub fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_suffixed = |(kind, name): (&str, &str)| {
        !kind.is_empty() && name.strip_suffix("+json").is_some_and(|rest| !rest.is_empty())
    };
    essence == "application/json" || essence == "text/json" || essence.split_once('/').is_some_and(is_suffixed)
}

/// The attributes of binary mode: names without `ce-` in lower case, values as the headers hold them. With them the
/// problems of those that cannot be read, which are left out.
pub fn attributes_of<'a>(headers: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> (Map<String, Value>, Vec<Problem>) {
    let (mut fields, mut problems) = (Map::new(), Vec::new());
    for (name, value) in headers {
        let Some(name) = HEADER_ATTRIBUTES.into_iter().find(|known| *known == name) else { continue };
        let (code, what) = match decode_header(value) {
            None => ("malformed_header", "is not text that is percent-encoded in a header"),
            Some(_) if fields.contains_key(name) => ("repeated_header", "stands in two headers"),
            Some(text) => {
                fields.insert(name.to_owned(), Value::String(text));
                continue;
            }
        };
        // Once, however often a header comes: an answer never outgrows its question.
        if !problems.iter().any(|told: &Problem| told.field == name && told.code == code) {
            problems.push(Problem::new(code, name, what, format!("send one header ce-{name}, percent-encoded")));
        }
    }
    (fields, problems)
}

/// The text of a header's value as CloudEvents' HTTP binding has it: printable ASCII, in double quotes or not, then
/// one round of percent-decoding to UTF-8. `None` when it is anything else.
pub fn decode_header(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?;
    if !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return None;
    }
    match text.strip_prefix('"') {
        None if text.contains('"') => None,
        None => percent_decode(text),
        Some(rest) => percent_decode(&unquoted(rest)?),
    }
}

/// What stands before the closing quote, which must be the end; a backslash keeps the character after it.
fn unquoted(rest: &str) -> Option<String> {
    let mut text = String::with_capacity(rest.len());
    let mut chars = rest.chars();
    loop {
        match chars.next()? {
            '"' => return chars.as_str().is_empty().then_some(text),
            '\\' => text.push(chars.next()?),
            char => text.push(char),
        }
    }
}

/// One round of percent-decoding (RFC 3986); `None` when a `%` has no two hex digits, or the bytes are not UTF-8.
pub fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => (digit(rest.next()?)? << 4) | digit(rest.next()?)?,
            plain => plain,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn now() -> UtcMillis {
        UtcMillis::parse("2026-11-30T12:00:00Z").unwrap()
    }

    fn good() -> Value {
        json!({"specversion":"1.0","id":"req_9","source":"/gateway","type":"api_request","subject":"cus_01",
            "time":"2026-08-18T09:15:00Z","datacontenttype":"application/json","data":{"quantity":3,"model":"m"}})
    }

    /// The good event with some members replaced; null takes one away.
    fn with(fields: &Value) -> Result<Event, Vec<Problem>> {
        let mut event = good();
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        event_of(&event, now())
    }

    #[test]
    fn the_mapping_is_as_the_table_has_it() {
        let event = event_of(&good(), now()).unwrap();
        let mapped = json!({"meter":"api_request","subject":"cus_01","occurredAt":"2026-08-18T09:15:00.000Z",
            "quantity":3,"source":"/gateway","idempotencyKey":r#"["/gateway","req_9"]"#,"properties":{"model":"m","quantity":3}});
        assert_eq!(event, Event::from_value(&mapped, now()).unwrap());
        // Computed by another program, from the material that IDENTITY.md gives.
        assert_eq!(event.id().as_str(), "uev_aec3495aa7c7d0703cdc258465f08ebc6bfa5bf912b58b4c6370e8ec1ff5caa9");
        assert_eq!(event.fingerprint().as_str(), "9bc8317449ae5de1f95e98f02e458fdd74d4cb3a3d027bbc3e54d1dca48326eb");
    }

    #[test]
    fn the_join_s_vectors_hold() {
        for (source, id, key) in [
            ("/gateway", "req_9", r#"["/gateway","req_9"]"#),
            (r#"a","b"#, "c", r#"["a\",\"b","c"]"#),
            ("a", r#"b","c"#, r#"["a","b\",\"c"]"#),
            (r"a\", "b", r#"["a\\","b"]"#),
            ("https://example.org/é?x=1&y=<2>", "🦀 7", r#"["https://example.org/é?x=1&y=<2>","🦀 7"]"#),
        ] {
            assert_eq!(idempotency_key(source, id), key);
        }
    }

    #[test]
    fn the_quantity_comes_from_data_else_from_the_attribute_else_is_one() {
        for (fields, quantity) in [
            (json!({}), 3),
            (json!({"quantity": 3}), 3),
            (json!({"quantity": "3"}), 3),
            (json!({"data": {"a": 1}, "quantity": 7}), 7),
            (json!({"data": {"quantity": null}, "quantity": "7"}), 7),
            (json!({"data": null, "quantity": "9007199254740991"}), 9_007_199_254_740_991),
            (json!({"data": null}), 1),
            (json!({"data": {}, "quantity": null}), 1),
        ] {
            assert_eq!(with(&fields).unwrap().quantity(), quantity, "{fields}");
        }
    }

    #[test]
    fn each_bad_attribute_has_its_own_problem_under_its_own_name() {
        for (fields, field, code) in [
            (json!({"specversion": null}), "specversion", "missing_field"),
            (json!({"specversion": "0.3"}), "specversion", "unknown_version"),
            (json!({"specversion": 1}), "specversion", "wrong_type"),
            (json!({"id": null}), "id", "missing_field"),
            (json!({"id": ""}), "id", "empty_text"),
            (json!({"id": "a\u{1f}b"}), "id", "control_character"),
            (json!({"id": "x".repeat(257)}), "id", "text_too_long"),
            (json!({"id": "x".repeat(242)}), "id", "text_too_long"),
            (json!({"source": null}), "source", "missing_field"),
            (json!({"source": ""}), "source", "empty_text"),
            (json!({"source": "\u{85}"}), "source", "control_character"),
            (json!({"type": null}), "type", "missing_field"),
            (json!({"type": "x".repeat(129)}), "type", "text_too_long"),
            (json!({"subject": null}), "subject", "missing_field"),
            (json!({"subject": 7}), "subject", "wrong_type"),
            (json!({"time": null}), "time", "missing_field"),
            (json!({"time": "2026-08-18T09:15:00.123456Z"}), "time", "time_too_fine"),
            (json!({"time": "2026-11-30T12:05:00.001Z"}), "time", "time_in_the_future"),
            (json!({"datacontenttype": "text/xml"}), "datacontenttype", "data_not_json"),
            (json!({"datacontenttype": 1}), "datacontenttype", "data_not_json"),
            (json!({"data_base64": "e30="}), "data_base64", "data_not_json"),
            (json!({"data": "text"}), "data", "wrong_type"),
            (json!({"data": [1]}), "data", "wrong_type"),
            (json!({"data": {"quantity": 0}}), "data.quantity", "quantity_out_of_range"),
            (json!({"data": {"quantity": "3"}}), "data.quantity", "wrong_type"),
            (json!({"data": {"quantity": 3.0}}), "data.quantity", "quantity_not_an_integer"),
            (json!({"quantity": 4}), "quantity", "quantities_differ"),
            (json!({"quantity": "0"}), "quantity", "quantity_not_an_integer"),
            (json!({"quantity": "03"}), "quantity", "quantity_not_an_integer"),
            (json!({"quantity": "+3"}), "quantity", "quantity_not_an_integer"),
            (json!({"quantity": ""}), "quantity", "quantity_not_an_integer"),
            (json!({"quantity": "9007199254740992"}), "quantity", "quantity_not_an_integer"),
            (json!({"quantity": "99999999999999999999"}), "quantity", "quantity_not_an_integer"),
            (json!({"quantity": true}), "quantity", "wrong_type"),
            (json!({"data": {"a": "x".repeat(64 * 1024)}}), "", "event_too_large"),
        ] {
            let problems = with(&fields).expect_err(&fields.to_string());
            assert_eq!(problems.len(), 1, "{fields}: {problems:?}");
            assert_eq!((problems[0].field.as_str(), problems[0].code), (field, code), "{fields}");
        }
        // ["/gateway","…"] has 15 characters around the id.
        assert!(with(&json!({"id": "x".repeat(241)})).is_ok());
        assert_eq!(event_of(&json!([]), now()).unwrap_err()[0].code, "not_an_object");
        assert_eq!(event_of(&json!({"quantity": -1, "data": {"quantity": -1}}), now()).unwrap_err().len(), 8);
    }

    #[test]
    fn other_attributes_change_nothing() {
        let plain = event_of(&good(), now()).unwrap();
        let extended = json!({"traceparent": "00-x", "dataschema": "urn:x", "partitionkey": 7, "datacontenttype": "application/vnd.a+json"});
        assert_eq!(with(&extended).unwrap(), plain);
    }

    #[test]
    fn json_is_told_by_its_media_type() {
        for (media_type, is) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("text/json", true),
            ("application/vnd.acme.usage+json", true),
            ("application/+json", false),
            ("/x+json", false),
            ("application/jsonl", false),
            ("text/plain", false),
            ("", false),
        ] {
            assert_eq!(is_json(media_type), is, "{media_type}");
        }
    }

    #[test]
    fn headers_are_decoded_as_the_http_binding_says() {
        for (value, text) in [
            ("plain/value?x=1", Some("plain/value?x=1")),
            ("a b", Some("a b")),
            ("Euro%20%E2%82%AC%20%F0%9F%98%80", Some("Euro € 😀")),
            ("%e2%82%ac", Some("€")),
            ("%2525", Some("%25")),
            ("%41", Some("A")),
            (r#""quoted \"text\" \\ %25""#, Some(r#"quoted "text" \ %"#)),
            ("", Some("")),
            ("\"\"", Some("")),
            ("%C0%A0", None),
            ("%", None),
            ("%4", None),
            ("%zz", None),
            ("%+1", None),
            ("a\"b", None),
            ("\"open", None),
            ("\"open\\", None),
            ("\"a\"b", None),
            ("é", None),
            ("a\tb", None),
        ] {
            assert_eq!(decode_header(value.as_bytes()).as_deref(), text, "{value}");
        }
        assert_eq!(decode_header(b"\xff"), None);
    }

    #[test]
    fn headers_make_the_attributes_and_two_of_one_name_make_none() {
        let (fields, problems) = attributes_of([
            ("id", b"1".as_slice()),
            ("source", b"%ff"),
            ("type", b"a"),
            ("type", b"a"),
            ("data", b"{}"),
            ("traceparent", b"\xff"),
        ]);
        assert_eq!(Value::Object(fields), json!({"id": "1", "type": "a"}));
        let told: Vec<_> = problems.iter().map(|problem| (problem.field.as_str(), problem.code)).collect();
        assert_eq!(told, [("source", "malformed_header"), ("type", "repeated_header")]);
    }

    #[test]
    fn what_is_wrong_with_a_header_is_told_once_however_often_it_comes() {
        let headers =
            (0..1_000).flat_map(|_| [("id", b"1".as_slice()), ("id", b"%"), ("source", b"\xff"), ("other", b"%")]);
        let (_, problems) = attributes_of(headers);
        let told: Vec<_> = problems.iter().map(|problem| (problem.field.as_str(), problem.code)).collect();
        assert_eq!(told, [("id", "malformed_header"), ("source", "malformed_header"), ("id", "repeated_header")]);
    }
}

//! What holds of any bytes that reach the domain's readers.
//!
//! Each property takes bytes and fails by panicking; it answers how many good things it found in them, so that a seed
//! can be held to what it is for. The fuzz targets feed them whatever they invent, and `tests/identity` replays the
//! seeds in every test run.

use std::collections::BTreeSet;

use serde_json::Value;
use tollgate_domain::archive::{ArchiveObject, ArchivedEvent};
use tollgate_domain::call::{self, Call, Flaw, Form, Keyed, Place, Unreadable};
use tollgate_domain::cloudevent;
use tollgate_domain::envelope::Envelope;
use tollgate_domain::event::{Event, MAX_EVENT_BYTES};
use tollgate_domain::json;
use tollgate_domain::ledger::{EventKey, NewClaim};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::problem::Problem;
use tollgate_domain::scan;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

/// Holds for any bytes, or panics.
pub type Property = fn(&[u8]) -> usize;

/// Every property with its name, which is also that of its target and of the folder of its seeds.
pub const PROPERTIES: [(&str, Property); 4] =
    [("body", body), ("cloudevents", cloudevents), ("envelope", envelope), ("canonical_json", canonical_json)];

/// Events that a call may have.
const MAX_EVENTS: usize = 500;
/// Problems of one event: what the reader tells at most, as many unknown fields, and one or two for each known one.
const MAX_PROBLEMS_OF_AN_EVENT: usize = 2 * json::MAX_PROBLEMS + 20;
/// Characters of a field's path: as many levels as a text may nest, each with a shortened name or an index.
const MAX_PATH_CHARS: usize = (json::MAX_TEXT_DEPTH + 2) * 70;

/// When everything here is accepted: 2026-11-30T12:00:00Z.
fn now() -> UtcMillis {
    UtcMillis::new(1_796_040_000_000).unwrap_or(UtcMillis::EPOCH)
}

/// A call in Tollgate's own form; answers how many good events it has.
///
/// # Panics
/// When the bytes show that something does not hold.
pub fn body(bytes: &[u8]) -> usize {
    let Some(call) = read(bytes, &Form::Tollgate) else { return 0 };
    events_are_judged_one_by_one(bytes, &call, &Form::Tollgate);
    call.events.len()
}

/// A call of CloudEvents; answers how many good events it has.
///
/// The first byte is the mode: `0` structured, `1` batch, `2` binary, and any other one of these. In binary mode lines
/// `name:value` follow, without the prefix `ce-`, then an empty line; the rest is the body.
///
/// # Panics
/// When the bytes show that something does not hold.
pub fn cloudevents(input: &[u8]) -> usize {
    let Some((mode, bytes)) = input.split_first() else { return 0 };
    let call = match mode % 3 {
        0 => structured(bytes),
        1 => {
            let call = read(bytes, &Form::CloudEventBatch);
            if let Some(call) = &call {
                events_are_judged_one_by_one(bytes, call, &Form::CloudEvent);
            }
            call
        }
        _ => binary(bytes),
    };
    call.map_or(0, |call| call.events.len())
}

/// A message of the queue; answers 1 if it is one.
///
/// # Panics
/// When the bytes show that something does not hold.
pub fn envelope(bytes: &[u8]) -> usize {
    let Ok(text) = std::str::from_utf8(bytes) else { return 0 };
    let decoded = Envelope::decode(text);
    assert_eq!(decoded, Envelope::decode(text), "two readings differ");
    match decoded {
        Ok(message) => {
            a_message_reads_back(&message);
            an_event_reads_back(&message.event, message.accepted_at);
            1
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            problems.iter().for_each(a_problem_can_be_told);
            0
        }
    }
}

/// Any JSON text; answers 1 if it is one that can be taken.
///
/// # Panics
/// When the bytes show that something does not hold.
pub fn canonical_json(bytes: &[u8]) -> usize {
    let (value, problems) = json::read(bytes);
    assert_eq!((&value, &problems), (&json::read(bytes).0, &json::read(bytes).1), "two readings differ");
    problems.iter().for_each(a_problem_can_be_told);
    // Somebody else's reader, which takes what two readers may understand differently.
    let lenient: Option<Value> = serde_json::from_slice(bytes).ok();
    let parsed = json::parse(bytes);
    let Ok(parsed) = parsed else {
        assert_eq!(parsed, Err(problems.clone()));
        let is_json = problems.iter().all(|problem| problem.code != "invalid_json");
        assert_eq!(is_json, value.is_some());
        assert!(is_json || lenient.is_none(), "valid JSON is called invalid");
        return 0;
    };
    assert!(problems.is_empty() && value.as_ref() == Some(&parsed));
    let text = json::canonical(&parsed);
    assert_eq!(lenient.as_ref().map(json::canonical).as_ref(), Some(&text), "another reader sees another value");
    let again = json::parse(text.as_bytes());
    assert!(again.as_ref().is_ok_and(|again| is_same(again, &parsed)), "the canonical form is another value");
    assert_eq!(again.map(|again| json::canonical(&again)), Ok(text), "the canonical form is not its own");
    assert!(json::depth(&parsed) <= json::MAX_TEXT_DEPTH);
    assert!(has_safe_numbers(&parsed), "a number beyond ±(2^53−1) is taken");
    if let Ok(elements) = scan::scan(bytes) {
        assert_eq!(elements, parsed.as_array().map(Vec::len), "the scan counts other elements than the reader");
    }
    1
}

/// Whether two values are one: a number is the double nearest to its text, whichever way it is written.
pub fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| is_same(value, other)))
        }
        _ => left == right,
    }
}

fn has_safe_numbers(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64().is_some_and(|double| double.abs() <= 9_007_199_254_740_991.0),
        Value::Array(items) => items.iter().all(has_safe_numbers),
        Value::Object(fields) => fields.values().all(has_safe_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

/// One structured CloudEvent is the same event in a batch and in binary mode.
fn structured(bytes: &[u8]) -> Option<Call> {
    let call = read(bytes, &Form::CloudEvent)?;
    let batch = [b"[", bytes, b"]"].concat();
    if let Some(batched) = read(&batch, &Form::CloudEventBatch) {
        assert_eq!((&batched.events, &batched.places), (&call.events, &call.places), "a batch of one is another event");
    } else {
        // The batch nests one level more, and counts its elements' items for each by itself.
        assert!(call.flaw().is_some(), "a good event cannot be batched");
    }
    let ([keyed], Ok(Value::Object(fields))) = (call.events.as_slice(), json::parse(bytes)) else { return Some(call) };
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let (source, id) = (text("source"), text("id"));
    let key = keyed.event.idempotency_key().unwrap_or_default();
    assert_eq!(key, cloudevent::idempotency_key(source, id));
    assert_eq!(serde_json::from_str(key).ok(), Some((source.to_owned(), id.to_owned())), "the join loses something");
    assert_eq!(keyed.event.source(), Some(source));

    let attributes = fields.iter().filter(|(name, value)| *name != "data" && !value.is_null());
    let headers: Vec<(&str, String)> = attributes
        .map(|(name, value)| (name.as_str(), value.as_str().map_or_else(|| value.to_string(), header)))
        .collect();
    let headers = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    let data = fields.get("data").map(Value::to_string).unwrap_or_default();
    let told = read(data.as_bytes(), &Form::CloudEventBinary(headers));
    assert_eq!(told.as_ref(), Some(&call), "binary mode makes another event of it");
    Some(call)
}

/// One CloudEvent in binary mode is the same event in structured mode.
fn binary(bytes: &[u8]) -> Option<Call> {
    let mut rest = bytes;
    let mut headers = Vec::new();
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (line, after) = (rest.get(..end)?, rest.get(end.saturating_add(1)..)?);
        rest = after;
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { break };
        let (name, value) = line.split_at(colon);
        headers.push((std::str::from_utf8(name).ok()?, value.get(1..).unwrap_or_default()));
    }
    let call = read(rest, &Form::CloudEventBinary(headers.clone()))?;
    if call.flaw().is_none() {
        let (mut fields, problems) = cloudevent::attributes_of(headers);
        assert!(problems.is_empty());
        fields.insert("data".to_owned(), json::parse(rest).unwrap_or_default());
        let text = Value::Object(fields).to_string();
        assert_eq!(read(text.as_bytes(), &Form::CloudEvent).as_ref(), Some(&call), "structured mode differs");
    }
    Some(call)
}

/// A header's value, with more of it encoded than must be.
fn header(text: &str) -> String {
    let encoded = |byte: u8| {
        if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02x}") }
    };
    text.bytes().map(encoded).collect()
}

/// The call, if the bytes are one; with all that holds of any call.
fn read(bytes: &[u8], form: &Form<'_>) -> Option<Call> {
    let found = call::read(bytes, form, MAX_EVENTS, now());
    assert_eq!(found, call::read(bytes, form, MAX_EVENTS, now()), "two readings differ");
    let call = match found {
        Ok(call) => call,
        Err(unreadable) => {
            let (problems, holds) = match &unreadable {
                Unreadable::TooComplex(problem) => (std::slice::from_ref(problem), scan::scan(bytes).is_err()),
                Unreadable::NotJson(problems) => (problems.as_slice(), json::parse(bytes).is_err()),
                Unreadable::NotACall(problem) => (std::slice::from_ref(problem), problem.index.is_none()),
            };
            assert!(holds && !problems.is_empty(), "{unreadable:?}");
            problems.iter().for_each(a_problem_can_be_told);
            return None;
        }
    };
    assert!(scan::scan(bytes).is_ok(), "parsed although a limit is passed");
    assert!((1..=MAX_EVENTS).contains(&call.places.len()));
    for keyed in &call.events {
        assert_eq!((&keyed.id, &keyed.fingerprint), (&keyed.event.id(), &keyed.event.fingerprint()));
        an_event_reads_back(&keyed.event, now());
    }
    places_and_problems_agree(&call);
    Some(call)
}

/// Every event has its place, every flaw its problem, and nothing else has one.
fn places_and_problems_agree(call: &Call) {
    let mut next = 0;
    for (index, place) in call.places.iter().enumerate() {
        let told: Vec<&Problem> = call.problems.iter().filter(|problem| problem.index == Some(index)).collect();
        let contradicts = |problem: &&Problem| problem.code == "same_id_other_payload";
        match place {
            Place::At(at) => {
                assert!(*at <= next && *at < call.events.len(), "the places are not in the order of their first");
                next = next.max(at.saturating_add(1));
                assert!(told.is_empty(), "a good event has a problem: {told:?}");
            }
            Place::Invalid => assert!(!told.is_empty() && !told.iter().any(contradicts), "{told:?}"),
            Place::Contradicted(id) => {
                assert!(told.len() == 1 && told.iter().all(contradicts), "{told:?}");
                let others = call.places.iter().filter(|other| *other == place).count();
                assert!(others > 1 && call.events.iter().all(|keyed| keyed.id != *id));
            }
        }
        assert!(told.len() <= MAX_PROBLEMS_OF_AN_EVENT, "{} problems of one event", told.len());
    }
    assert_eq!(next, call.events.len(), "an event that no place has");
    let ids: BTreeSet<_> = call.events.iter().map(|keyed| &keyed.id).collect();
    assert_eq!(ids.len(), call.events.len(), "one id stands for two events");
    assert!(call.problems.iter().all(|problem| problem.index.is_some_and(|index| index < call.places.len())));
    assert!(call.problems.is_sorted_by_key(|problem| problem.index));
    call.problems.iter().for_each(a_problem_can_be_told);
    // Taken whole or not at all: it is taken exactly when there is nothing to tell.
    assert_eq!(call.flaw().is_none(), call.problems.is_empty());
    assert_eq!(call.flaw() == Some(Flaw::Invalid), call.places.contains(&Place::Invalid));
}

/// What is judged of each event of a call is what is judged of it when it is sent alone, as `form`.
fn events_are_judged_one_by_one(bytes: &[u8], call: &Call, form: &Form<'_>) {
    let Ok(Value::Array(values)) = json::parse(bytes) else { return };
    for (index, (value, place)) in values.iter().zip(&call.places).enumerate() {
        // In our own form an array by itself is a call, not an event.
        if value.is_array() {
            assert_eq!(*place, Place::Invalid);
            continue;
        }
        let alone = call::read(value.to_string().as_bytes(), form, MAX_EVENTS, now());
        let alone = alone.unwrap_or_else(|unreadable| unreachable!("read among others and not alone: {unreadable:?}"));
        match (place, alone.events.as_slice()) {
            (Place::At(at), [keyed]) => assert_eq!(Some(keyed), call.events.get(*at)),
            (Place::Contradicted(id), [keyed]) => assert_eq!(*id, keyed.id),
            (Place::Invalid, []) => {
                let among: Vec<Problem> =
                    call.problems.iter().filter(|problem| problem.index == Some(index)).cloned().collect();
                let alone: Vec<Problem> = alone.problems.into_iter().map(|problem| problem.at(index)).collect();
                assert_eq!(among, alone);
            }
            (place, alone) => unreachable!("{place:?} among others, {alone:?} alone"),
        }
    }
}

/// An event reads back as itself from everything that carries it: a body, a batch, a message, an archived object.
fn an_event_reads_back(event: &Event, accepted_at: UtcMillis) {
    let text = event.canonical_json();
    assert!(text.len() <= MAX_EVENT_BYTES);
    let value = json::parse(text.as_bytes());
    assert_eq!(value.as_ref().map(json::canonical).as_ref(), Ok(&text), "the canonical form is not its own");
    let keyed = Keyed { id: event.id(), fingerprint: event.fingerprint(), event: event.clone() };
    for (text, places) in [(text.clone(), 1), (format!("[{text},{text}]"), 2)] {
        let call = Call { events: vec![keyed.clone()], places: vec![Place::At(0); places], problems: Vec::new() };
        assert_eq!(call::read(text.as_bytes(), &Form::Tollgate, MAX_EVENTS, accepted_at), Ok(call));
    }
    let Ok(space) = SpaceId::parse("acme") else { unreachable!("a plain name") };
    let claim = NewClaim {
        key: EventKey { space: space.clone(), id: event.id() },
        fingerprint: event.fingerprint(),
        submission_id: "sub_1".to_owned(),
        period_month: PeriodMonth::of(accepted_at),
        now: accepted_at,
    };
    let object = ArchiveObject::of_event(event, &claim.into_item());
    let archived = ArchivedEvent::decode(object.body.as_bytes());
    assert_eq!(archived.map(|archived| archived.event).as_ref(), Ok(event));
    let (event, submission_id) = (event.clone(), "sub_1".to_owned());
    a_message_reads_back(&Envelope { space, event, accepted_at, submission_id, trace_parent: None });
}

/// A message has one text, in the characters that the queue lets through.
fn a_message_reads_back(message: &Envelope) {
    let text = message.encode();
    let passes = |c| matches!(c, '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    assert!(text.chars().all(passes), "the queue would refuse this text");
    assert_eq!(Envelope::decode(&text).as_ref(), Ok(message));
    assert_eq!(Envelope::decode(&text).map(|message| message.encode()), Ok(text));
}

/// A problem says something, and no more than an answer can hold.
fn a_problem_can_be_told(problem: &Problem) {
    assert!(!problem.code.is_empty() && !problem.problem.is_empty() && !problem.mend.is_empty(), "{problem:?}");
    assert!(problem.field.chars().count() <= MAX_PATH_CHARS, "{} characters of a path", problem.field.chars().count());
    assert!(!problem.field.chars().any(char::is_control), "a path with control characters: {problem:?}");
    assert!(problem.problem.len() <= 200 && problem.mend.len() <= 300, "{problem:?}");
}

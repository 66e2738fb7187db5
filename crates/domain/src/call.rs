//! From the bytes of one call to its events: pure, so that whoever has the bytes can ask what a call holds.
//!
//! The whole call is refused when it cannot be read as events at all ([`Unreadable`]). Each event that can be read is
//! taken or not by itself ([`Place`]); whether one that is not taken stops the others is the caller's to decide.

use std::collections::HashMap;

use serde_json::Value;

use crate::cloudevent;
use crate::event::Event;
use crate::identity::{EventId, Fingerprint};
use crate::json;
use crate::problem::Problem;
use crate::scan;
use crate::time::UtcMillis;

/// What the bytes of a call are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form<'a> {
    /// Tollgate's own JSON form: one event, or an array of them.
    Tollgate,
    /// CloudEvents, structured: one event of the JSON format.
    CloudEvent,
    /// CloudEvents, batched: an array of events of the JSON format.
    CloudEventBatch,
    /// CloudEvents, binary: the bytes are one event's data (none at all: no data), and these are its attributes, as
    /// [`cloudevent::attributes_of`] takes them.
    CloudEventBinary(Vec<(&'a str, &'a [u8])>),
}

/// An event of a call, with what tells it from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyed {
    /// Its id.
    pub id: EventId,
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
    /// The event.
    pub event: Event,
}

/// What became of one event of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// It is good, and stands at this place of [`Call::events`]; equal events stand at one.
    At(usize),
    /// It is no event: [`Call::problems`] says why.
    Invalid,
    /// Another event of the call has its id and other facts: neither is taken.
    Contradicted(EventId),
}

/// The events of one call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Call {
    /// The good events, each once, in the order of their first.
    pub events: Vec<Keyed>,
    /// One for each event of the call, in their order; at least one.
    pub places: Vec<Place>,
    /// Every problem of every event that is not good, in the order of their indexes.
    pub problems: Vec<Problem>,
}

/// Why a call that is taken whole or not at all is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// At least one event is none.
    Invalid,
    /// All are events; some have one id and different facts.
    Contradiction,
}

impl Call {
    /// Why not every event is good, if so.
    pub fn flaw(&self) -> Option<Flaw> {
        if self.places.contains(&Place::Invalid) {
            return Some(Flaw::Invalid);
        }
        let is_contradicted = |place: &Place| matches!(place, Place::Contradicted(_));
        self.places.iter().any(is_contradicted).then_some(Flaw::Contradiction)
    }
}

/// Why the bytes are not the events of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// A limit of [`scan`] is passed; nothing was parsed.
    TooComplex(Problem),
    /// The bytes are not JSON.
    NotJson(Vec<Problem>),
    /// The call has no events, too many, or is not an array where it must be one.
    NotACall(Problem),
}

/// Reads a call of at most `max_events` events, accepted at this instant.
///
/// Equal events fold into one. An event of which the reader refuses any part is no event, whatever is left of it.
pub fn read(bytes: &[u8], form: &Form<'_>, max_events: usize, accepted_at: UtcMillis) -> Result<Call, Unreadable> {
    let can_be_list = matches!(form, Form::Tollgate | Form::CloudEventBatch);
    let elements = scan::scan(bytes)
        .map_err(|problem| Unreadable::TooComplex(if can_be_list { problem } else { problem.at(0) }))?;
    let is_list = elements.is_some() && can_be_list;
    let count = if is_list { elements.unwrap_or_default() } else { 1 };
    if count > max_events {
        return Err(Unreadable::NotACall(count_problem(count, max_events)));
    }
    let (value, mut problems) = match form {
        Form::CloudEventBinary(_) if bytes.is_empty() => (Some(Value::Null), Vec::new()),
        _ => json::read(bytes),
    };
    let Some(mut value) = value else { return Err(Unreadable::NotJson(problems)) };
    if !is_list {
        problems = problems.into_iter().map(|problem| of_the_one_event(form, problem)).collect();
    }
    if let Form::CloudEventBinary(headers) = form {
        let (mut fields, found) = cloudevent::attributes_of(headers.iter().copied());
        fields.insert("data".to_owned(), value);
        value = Value::Object(fields);
        problems.extend(found.into_iter().map(|problem| problem.at(0)));
    }
    let values = match &value {
        Value::Array(values) if is_list => values.as_slice(),
        other if *form == Form::CloudEventBatch => return Err(Unreadable::NotACall(not_a_batch(other))),
        one => std::slice::from_ref(one),
    };
    if values.is_empty() {
        return Err(Unreadable::NotACall(count_problem(0, max_events)));
    }
    Ok(judge(values, form, problems, accepted_at))
}

/// Judges each value by itself, then those of one id together. `refused` is what the reader could not read.
fn judge(values: &[Value], form: &Form<'_>, refused: Vec<Problem>, accepted_at: UtcMillis) -> Call {
    let mut refused_of: HashMap<usize, Vec<Problem>> = HashMap::new();
    for problem in refused {
        refused_of.entry(problem.index.unwrap_or_default()).or_default().push(problem);
    }
    let mut problems = Vec::new();
    let mut read: Vec<Option<Keyed>> = Vec::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        let event = match form {
            Form::Tollgate => Event::from_value(value, accepted_at),
            Form::CloudEvent | Form::CloudEventBatch | Form::CloudEventBinary(_) => {
                cloudevent::event_of(value, accepted_at)
            }
        };
        let told = refused_of.remove(&index).unwrap_or_default();
        match event {
            Ok(event) if told.is_empty() => {
                read.push(Some(Keyed { id: event.id(), fingerprint: event.fingerprint(), event }));
            }
            event => {
                // What could not be read is told already, under its own name.
                let new = event.err().unwrap_or_default().into_iter().filter(|new| !is_told(&told, new));
                let new: Vec<Problem> = new.map(|problem| problem.at(index)).collect();
                problems.extend(told.into_iter().chain(new));
                read.push(None);
            }
        }
    }
    let others = contradictions(&read);
    let field = if *form == Form::Tollgate { "idempotencyKey" } else { "id" };
    problems.extend(others.iter().map(|(index, other)| contradiction(field, *other).at(*index)));
    problems.sort_by_key(|problem| problem.index);
    fold(read, problems, &others)
}

/// The reader names the place that is too deep, the event only the field that holds it: one problem.
fn is_told(told: &[Problem], new: &Problem) -> bool {
    told.iter().any(|old| old.field == new.field || (old.code == "nested_too_deep" && new.code == old.code))
}

/// A problem that the reader found in a text of one event, at its place in that event.
fn of_the_one_event(form: &Form<'_>, problem: Problem) -> Problem {
    let Form::CloudEventBinary(_) = form else { return problem.at(0) };
    let element = problem.index.map(|index| format!("[{index}]")).unwrap_or_default();
    let inner = if problem.field.is_empty() { String::new() } else { format!(".{}", problem.field) };
    Problem { field: format!("data{element}{inner}"), ..problem }.at(0)
}

fn count_problem(events: usize, max: usize) -> Problem {
    let (code, what) = match events {
        0 => ("empty_call", "is an empty array".to_owned()),
        many => ("too_many_events", format!("has {many} events, more than {max}")),
    };
    Problem::new(code, "", what, format!("send 1 to {max} events in a call"))
}

fn not_a_batch(value: &Value) -> Problem {
    Problem::new(
        "not_an_array",
        "",
        format!("is {}, not a batch", json::kind(value)),
        "send an array of CloudEvents; one by itself as application/cloudevents+json",
    )
}

/// For each event that shares its id with another one of other facts: both indexes.
fn contradictions(events: &[Option<Keyed>]) -> HashMap<usize, usize> {
    let mut by_id: HashMap<&EventId, Vec<(usize, &Fingerprint)>> = HashMap::new();
    let present = events.iter().enumerate().filter_map(|(index, event)| Some((index, event.as_ref()?)));
    for (index, event) in present.clone() {
        by_id.entry(&event.id).or_default().push((index, &event.fingerprint));
    }
    let other_of = |event: &Keyed| {
        let same_id = by_id.get(&event.id).map(Vec::as_slice).unwrap_or_default();
        same_id.iter().find(|(_, other)| *other != &event.fingerprint).map(|(index, _)| *index)
    };
    present.filter_map(|(index, event)| Some((index, other_of(event)?))).collect()
}

fn contradiction(field: &'static str, other: usize) -> Problem {
    Problem::new(
        "same_id_other_payload",
        field,
        format!("stands for other facts in event {other} of this call"),
        "give each fact a key of its own, or send one of the two only",
    )
}

fn fold(read: Vec<Option<Keyed>>, problems: Vec<Problem>, others: &HashMap<usize, usize>) -> Call {
    let mut call = Call { events: Vec::new(), places: Vec::with_capacity(read.len()), problems };
    let mut place_of: HashMap<EventId, usize> = HashMap::new();
    for (index, keyed) in read.into_iter().enumerate() {
        call.places.push(match keyed {
            None => Place::Invalid,
            Some(keyed) if others.contains_key(&index) => Place::Contradicted(keyed.id),
            Some(keyed) => Place::At(*place_of.entry(keyed.id.clone()).or_insert_with(|| {
                call.events.push(keyed);
                call.events.len().saturating_sub(1)
            })),
        });
    }
    call
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const EVENT: &str =
        r#"{"meter":"api_request","subject":"cus_01","occurredAt":"2026-08-18T09:15:00Z","quantity":3}"#;
    const CLOUD: &str =
        r#"{"specversion":"1.0","id":"1","source":"/s","type":"m","subject":"c","time":"2026-08-18T09:15:00Z"}"#;

    fn read_as(form: &Form<'_>, text: &str) -> Result<Call, Unreadable> {
        read(text.as_bytes(), form, 500, UtcMillis::parse("2026-11-30T12:00:00Z").unwrap())
    }

    fn keyed(key: &str, quantity: u64) -> Value {
        json!({"meter":"m","subject":"s","occurredAt":"2026-01-01T00:00:00Z","quantity":quantity,"idempotencyKey":key})
    }

    fn told(call: &Call) -> Vec<(usize, &str, &str)> {
        call.problems.iter().map(|problem| (problem.index.unwrap(), problem.field.as_str(), problem.code)).collect()
    }

    #[test]
    fn a_call_has_at_most_so_many_events() {
        let of = |events: u64| json!((0..events).map(|number| keyed(&number.to_string(), 1)).collect::<Vec<_>>());
        assert_eq!(read_as(&Form::Tollgate, &of(500).to_string()).unwrap().events.len(), 500);
        assert!(matches!(read_as(&Form::Tollgate, &of(501).to_string()), Err(Unreadable::NotACall(_))));
    }

    #[test]
    fn what_the_reader_told_is_not_told_again() {
        let problem = |code, field: &str| Problem::new(code, field, "", "");
        let told = [problem("nested_too_deep", "properties.a"), problem("number_out_of_range", "quantity")];
        for (new, is_new) in [
            (problem("wrong_type", "quantity"), false),
            (problem("nested_too_deep", "properties"), false),
            (problem("wrong_type", "properties"), true),
            (problem("number_out_of_range", "properties"), true),
        ] {
            assert_eq!(is_told(&told, &new), !is_new, "{new:?}");
        }
        assert!(!is_told(&told[1..], &problem("nested_too_deep", "properties")), "nothing was too deep");
    }

    #[test]
    fn good_events_are_taken_beside_bad_ones_and_fold_among_themselves() {
        let body = json!([keyed("a", 1), {"meter": 1}, keyed("b", 1), keyed("a", 1), keyed("c", 1), keyed("c", 2)]);
        let call = read_as(&Form::Tollgate, &body.to_string()).unwrap();
        let id = |key: &str| {
            call.events.iter().find(|keyed| keyed.event.idempotency_key() == Some(key)).map(|k| k.id.clone())
        };
        assert_eq!((call.events.len(), id("c")), (2, None));
        let [
            Place::At(0),
            Place::Invalid,
            Place::At(1),
            Place::At(0),
            Place::Contradicted(one),
            Place::Contradicted(two),
        ] = call.places.as_slice()
        else {
            panic!("{:?}", call.places)
        };
        assert_eq!(one, two);
        assert_eq!(call.flaw(), Some(Flaw::Invalid));
        let indexes: Vec<_> = told(&call).into_iter().map(|(index, ..)| index).collect();
        assert_eq!(indexes, [1, 1, 1, 1, 4, 5]);
        assert!(call.problems[4].problem.contains("event 5") && call.problems[5].problem.contains("event 4"));
    }

    #[test]
    fn a_contradiction_among_three_refuses_all_three() {
        let body = json!([keyed("a", 1), keyed("a", 1), keyed("a", 2)]).to_string();
        let call = read_as(&Form::Tollgate, &body).unwrap();
        assert_eq!((call.events.len(), call.problems.len(), call.flaw()), (0, 3, Some(Flaw::Contradiction)));
    }

    #[test]
    fn an_event_of_which_a_part_is_refused_is_no_event_however_many_are() {
        // Without its refused parts each would be a good event; and the reader bounds what it tells.
        let bad = EVENT.replace('}', r#","properties":{"a":1,"a":2}}"#);
        let full: Vec<String> = (0..150).map(|_| "1e300".to_owned()).collect();
        let full = EVENT.replace('}', &format!(r#","properties":{{"a":[{}]}}}}"#, full.join(",")));
        let call = read_as(&Form::Tollgate, &format!("[{EVENT},{full},{bad},{full},{EVENT},{bad}]")).unwrap();
        assert_eq!(call.places, [0, 1, 1, 1, 0, 1].map(|bad| if bad == 1 { Place::Invalid } else { Place::At(0) }));
        assert_eq!(call.problems.len(), 100 + 1 + 100 + 1);
    }

    #[test]
    fn each_form_takes_its_own_shape_only() {
        let batch = format!("[{CLOUD},{CLOUD}]");
        assert_eq!(read_as(&Form::CloudEvent, CLOUD).unwrap().places, [Place::At(0)]);
        assert_eq!(read_as(&Form::CloudEventBatch, &batch).unwrap().places, [Place::At(0), Place::At(0)]);
        assert_eq!(told(&read_as(&Form::CloudEvent, &batch).unwrap()), [(0, "", "not_an_object")]);
        let Err(Unreadable::NotACall(problem)) = read_as(&Form::CloudEventBatch, CLOUD) else { panic!() };
        assert_eq!(problem.code, "not_an_array");
        for form in [Form::Tollgate, Form::CloudEventBatch] {
            let Err(Unreadable::NotACall(problem)) = read_as(&form, "[ ]") else { panic!() };
            assert_eq!(problem.code, "empty_call");
            let Err(Unreadable::NotACall(problem)) = read_as(&form, &format!("[{}]", vec!["0"; 501].join(","))) else {
                panic!()
            };
            assert_eq!(problem.code, "too_many_events");
        }
        assert!(matches!(read_as(&Form::Tollgate, "[1,"), Err(Unreadable::NotJson(_))));
        let deep = format!("[0,{}", "[".repeat(100));
        for (form, index) in [(Form::Tollgate, 1), (Form::CloudEventBatch, 1), (Form::CloudEvent, 0)] {
            let Err(Unreadable::TooComplex(problem)) = read_as(&form, &deep) else { panic!() };
            assert_eq!((problem.code, problem.index), ("nested_too_deep", Some(index)));
        }
    }

    #[test]
    fn binary_mode_takes_attributes_from_headers_and_data_from_the_body() {
        let headers: [(&str, &[u8]); 6] = [
            ("specversion", b"1.0"),
            ("id", b"1"),
            ("source", b"/s"),
            ("type", b"m"),
            ("subject", b"c"),
            ("time", b"2026-08-18T09:15:00Z"),
        ];
        let form = Form::CloudEventBinary(headers.into());
        let structured = read_as(&Form::CloudEvent, CLOUD).unwrap();
        for body in ["", "null", "{}"] {
            assert_eq!(read_as(&form, body).unwrap(), structured, "{body}");
        }
        let with_data = CLOUD.replace('}', r#","data":{"quantity":7,"a":[]}}"#);
        assert_eq!(read_as(&form, r#"{"a":[],"quantity":7}"#), read_as(&Form::CloudEvent, &with_data));
        for (body, expected) in [
            (r#"{"a":1,"a":2}"#, (0, "data.a", "duplicate_key")),
            (r#"{"quantity":1e300}"#, (0, "data.quantity", "number_out_of_range")),
            ("[1]", (0, "data", "wrong_type")),
            ("3", (0, "data", "wrong_type")),
        ] {
            assert_eq!(told(&read_as(&form, body).unwrap()), [expected], "{body}");
        }
        assert_eq!(told(&read_as(&form, "[0,{\"a\":1e300}]").unwrap())[0], (0, "data[1].a", "number_out_of_range"));
        assert!(matches!(read_as(&form, "{"), Err(Unreadable::NotJson(_))));

        // An attribute that cannot be read is told once, beside all other problems.
        let headers: [(&str, &[u8]); 3] = [("specversion", b"1.0"), ("id", b"%"), ("quantity", b"x")];
        let call = read_as(&Form::CloudEventBinary(headers.into()), "{\"quantity\":0}").unwrap();
        let fields: Vec<_> = told(&call).into_iter().map(|(_, field, _)| field).collect();
        assert_eq!(fields, ["id", "source", "type", "subject", "time", "data.quantity", "quantity"]);
    }

    #[test]
    fn one_id_for_two_cloud_events_is_told_at_their_id() {
        let other = CLOUD.replace("09:15", "09:16");
        let call = read_as(&Form::CloudEventBatch, &format!("[{CLOUD},{other}]")).unwrap();
        assert_eq!(told(&call), [(0, "id", "same_id_other_payload"), (1, "id", "same_id_other_payload")]);
    }
}

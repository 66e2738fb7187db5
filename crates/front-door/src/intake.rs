//! From a body's bytes to messages in the queue. All or nothing until the queue is asked; fails closed.

use std::collections::HashMap;

use axum::body::Body;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::Value;
use tokio::time::timeout;
use tollgate_domain::envelope::Envelope;
use tollgate_domain::event::Event;
use tollgate_domain::identity::{EventId, Fingerprint};
use tollgate_domain::json;
use tollgate_domain::ports::Intake;
use tollgate_domain::problem::Problem;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

use crate::answer::{Accepted, ErrorKind, EventResult, EventStatus, Refusal};
use crate::config::IntakeConfig;
use crate::headers;
use crate::ports::FrontDoorPorts;

/// The valid events of one call.
#[derive(Debug)]
pub(crate) struct Call {
    /// Distinct ids, in the order of their first event.
    pub(crate) ids: Vec<EventId>,
    /// Their events.
    events: Vec<Event>,
    /// For each event of the call, in order, its place in the two above.
    places: Vec<usize>,
}

impl Call {
    /// Events of the call, equal ones counted each.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }
}

/// What came with a call and goes on with each of its messages.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) space: SpaceId,
    pub(crate) accepted_at: UtcMillis,
    pub(crate) id: String,
    pub(crate) trace_parent: Option<String>,
}

/// The body's bytes, once its kind and its size are known to be right.
pub(crate) async fn read_body(config: &IntakeConfig, request: &HeaderMap, body: Body) -> Result<Bytes, Refusal> {
    headers::check_media_type(request)?;
    let announced = request.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > config.max_body_bytes) {
        return Err(Refusal::new(ErrorKind::BodyTooLarge));
    }
    let whole = Limited::new(body, config.max_body_bytes).collect();
    match timeout(config.body_timeout, whole).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refusal::new(ErrorKind::BodyTooLarge)),
        Ok(Err(_)) => Err(Refusal::new(ErrorKind::IncompleteBody)),
        Err(_) => Err(Refusal::new(ErrorKind::BodyTimeout)),
    }
}

/// The call's events, or every problem of every event.
///
/// A JSON array is a call of its elements, any other value a call of one event. Equal events fold into one; events of
/// one id and different facts are refused, each of them.
pub(crate) fn parse_events(config: &IntakeConfig, body: &[u8], accepted_at: UtcMillis) -> Result<Call, Refusal> {
    let (value, mut problems) = json::read(body);
    let Some(value) = value else {
        return Err(Refusal::of_problems(ErrorKind::InvalidJson, problems));
    };
    let is_array = value.is_array();
    if !is_array {
        problems = problems.into_iter().map(|problem| problem.at(0)).collect();
    }
    let values = match &value {
        Value::Array(values) => values.as_slice(),
        one => std::slice::from_ref(one),
    };
    if let Some(problem) = count_problem(values.len(), config.max_events) {
        return Err(Refusal::of_problems(ErrorKind::InvalidEvents, vec![problem]));
    }
    let mut valid: Vec<(usize, Event)> = Vec::with_capacity(values.len());
    let unreadable = problems.len();
    for (index, value) in values.iter().enumerate() {
        match Event::from_value(value, accepted_at) {
            Ok(event) => valid.push((index, event)),
            Err(found) => {
                // What could not be read is told already, under its own name.
                let (told, _) = problems.split_at(unreadable);
                let is_same = |old: &Problem, new: &Problem| {
                    // The reader names the place that is too deep, the event only its properties: one problem.
                    old.field == new.field || (old.code == "nested_too_deep" && new.code == old.code)
                };
                let is_told = |new: &Problem| told.iter().any(|old| old.index == Some(index) && is_same(old, new));
                let new: Vec<Problem> =
                    found.into_iter().filter(|new| !is_told(new)).map(|new| new.at(index)).collect();
                problems.extend(new);
            }
        }
    }
    let was_valid = problems.is_empty();
    let keyed: Vec<Keyed> = valid
        .into_iter()
        .map(|(index, event)| Keyed { index, id: event.id(), fingerprint: event.fingerprint(), event })
        .collect();
    problems.extend(contradictions(&keyed));
    if problems.is_empty() {
        return Ok(fold(keyed));
    }
    problems.sort_by_key(|problem| problem.index);
    Err(Refusal::of_problems(
        if was_valid { ErrorKind::SameIdOtherPayload } else { ErrorKind::InvalidEvents },
        problems,
    ))
}

struct Keyed {
    index: usize,
    id: EventId,
    fingerprint: Fingerprint,
    event: Event,
}

fn count_problem(events: usize, max: usize) -> Option<Problem> {
    let problem = |code, what: String| Problem::new(code, "", what, format!("send 1 to {max} events in a call"));
    match events {
        0 => Some(problem("empty_call", "is an empty array".to_owned())),
        many if many > max => Some(problem("too_many_events", format!("has {many} events, more than {max}"))),
        _ => None,
    }
}

/// A problem for each event that shares its id with another one of other facts.
fn contradictions(events: &[Keyed]) -> Vec<Problem> {
    let mut by_id: HashMap<&EventId, Vec<&Keyed>> = HashMap::new();
    for event in events {
        by_id.entry(&event.id).or_default().push(event);
    }
    let other_of = |event: &Keyed| {
        let same_id = by_id.get(&event.id).map(Vec::as_slice).unwrap_or_default();
        same_id.iter().find(|other| other.fingerprint != event.fingerprint).map(|other| other.index)
    };
    let contradicted = events.iter().filter_map(|event| other_of(event).map(|other| (event.index, other)));
    contradicted
        .map(|(index, other)| {
            Problem::new(
                "same_id_other_payload",
                "idempotencyKey",
                format!("stands for other facts in event {other} of this call"),
                "give each fact a key of its own, or send one of the two only",
            )
            .at(index)
        })
        .collect()
}

fn fold(events: Vec<Keyed>) -> Call {
    let mut call = Call { ids: Vec::new(), events: Vec::new(), places: Vec::with_capacity(events.len()) };
    let mut place_of: HashMap<EventId, usize> = HashMap::new();
    for Keyed { id, event, .. } in events {
        let place = *place_of.entry(id.clone()).or_insert_with(|| {
            call.ids.push(id);
            call.events.push(event);
            call.ids.len() - 1
        });
        call.places.push(place);
    }
    call
}

/// Queues every distinct event, or answers 503 with what became of each.
pub(crate) async fn enqueue<P: FrontDoorPorts>(
    ports: &P,
    config: &IntakeConfig,
    submission: &Submission,
    call: Call,
) -> Result<Accepted, Refusal> {
    let Call { ids, events, places } = call;
    let encode = |event| {
        let Submission { space, accepted_at, id, trace_parent } = submission;
        let (space, accepted_at) = (space.clone(), *accepted_at);
        let (submission_id, trace_parent) = (id.clone(), trace_parent.clone());
        Envelope { space, event, accepted_at, submission_id, trace_parent }.encode()
    };
    let messages: Vec<String> = events.into_iter().map(encode).collect();
    let (space, count) = (&submission.space, messages.len());
    let answers = timeout(config.enqueue_timeout, ports.intake().send(&messages)).await.unwrap_or_else(|_| {
        tracing::error!(%space, messages = count, "the queue did not answer in time");
        Vec::new()
    });
    if let Some(error) = answers.iter().find_map(|answer| answer.as_ref().err()) {
        tracing::error!(%space, messages = count, %error, "the queue did not take everything");
    }
    // What has no answer is not known to be queued.
    let status_of = |place: usize| match answers.get(place) {
        Some(Ok(())) => EventStatus::Queued,
        Some(Err(_)) | None => EventStatus::Unavailable,
    };
    let results: Vec<EventResult> = places
        .into_iter()
        .enumerate()
        .filter_map(|(index, place)| {
            let (id, submission_id) = (ids.get(place)?.clone(), submission.id.clone());
            Some(EventResult { index, id, submission_id, status: status_of(place) })
        })
        .collect();
    if results.iter().all(|result| result.status == EventStatus::Queued) {
        Ok(Accepted { results })
    } else {
        Err(Refusal::of_queue(results))
    }
}

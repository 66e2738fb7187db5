//! From a body's bytes to messages in the queue, and from the queue's answers to each event's. Fails closed.

use axum::body::Body;
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Uri};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::time::timeout;
use tollgate_domain::call::{self, Call, Flaw, Form, Place, Unreadable};
use tollgate_domain::envelope::Envelope;
use tollgate_domain::event::Event;
use tollgate_domain::identity::EventId;
use tollgate_domain::ports::Intake;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

use crate::answer::{ErrorKind, EventResult, EventStatus, Refusal};
use crate::config::IntakeConfig;
use crate::ports::FrontDoorPorts;
use crate::query::Query;

/// What becomes of a call's good events when others are not good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taking {
    /// All or nothing: the whole call is refused.
    Whole,
    /// They are taken.
    Partial,
}

impl Taking {
    /// Reads `?partial=true`.
    pub(crate) fn of_query(uri: &Uri) -> Result<Self, Refusal> {
        let mut query = Query::of(uri);
        let taking = query.take("partial", "true or false", |text| match text {
            "true" => Some(Self::Partial),
            "false" => Some(Self::Whole),
            _ => None,
        });
        query.finish().map(|()| taking.unwrap_or(Self::Whole))
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

/// The body's bytes, once its size is known to be right.
pub(crate) async fn read_body(config: &IntakeConfig, request: &HeaderMap, body: Body) -> Result<Bytes, Refusal> {
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

/// The call's events, or why it is refused: with every problem of every event.
pub(crate) fn parse_events(
    config: &IntakeConfig,
    body: &[u8],
    form: &Form<'_>,
    taking: Taking,
    accepted_at: UtcMillis,
) -> Result<Call, Refusal> {
    let call = call::read(body, form, config.max_events, accepted_at).map_err(|unreadable| match unreadable {
        Unreadable::TooComplex(problem) => Refusal::of_problems(ErrorKind::BodyTooComplex, vec![problem]),
        Unreadable::NotJson(problems) => Refusal::of_problems(ErrorKind::InvalidJson, problems),
        Unreadable::NotACall(problem) => Refusal::of_problems(ErrorKind::InvalidEvents, vec![problem]),
    })?;
    match call.flaw().filter(|_| taking == Taking::Whole) {
        None => Ok(call),
        Some(Flaw::Invalid) => Err(Refusal::of_problems(ErrorKind::InvalidEvents, call.problems)),
        Some(Flaw::Contradiction) => Err(Refusal::of_problems(ErrorKind::SameIdOtherPayload, call.problems)),
    }
}

/// Queues those of the events that `pass`, and tells of each event, in their order, what became of it.
pub(crate) async fn enqueue<P: FrontDoorPorts>(
    ports: &P,
    config: &IntakeConfig,
    submission: &Submission,
    events: Vec<Event>,
    pass: &[bool],
) -> Vec<EventStatus> {
    let passing = events.into_iter().zip(pass).filter_map(|(event, passes)| passes.then_some(event));
    let mut answers = send(ports, config, submission, passing.collect()).await.into_iter();
    let mut queued = || answers.next().unwrap_or(EventStatus::Unavailable);
    pass.iter().map(|passes| if *passes { queued() } else { EventStatus::QuotaExceeded }).collect()
}

/// Sends every event, and tells of each, in their order, whether it is durably queued.
async fn send<P: FrontDoorPorts>(
    ports: &P,
    config: &IntakeConfig,
    submission: &Submission,
    events: Vec<Event>,
) -> Vec<EventStatus> {
    if events.is_empty() {
        return Vec::new();
    }
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
    (0..count).map(status_of).collect()
}

/// One result for each event of the call. `ids` and `fates` are of its good events, in their order.
pub(crate) fn results_of(
    places: Vec<Place>,
    ids: &[EventId],
    fates: &[EventStatus],
    submission_id: &str,
) -> Vec<EventResult> {
    let fate = |place| match place {
        Place::At(at) => (ids.get(at).cloned(), fates.get(at).copied().unwrap_or(EventStatus::Unavailable)),
        Place::Invalid => (None, EventStatus::Invalid),
        Place::Contradicted(id) => (Some(id), EventStatus::Conflict),
    };
    let result = |(index, place)| {
        let (id, status) = fate(place);
        EventResult { index, id, submission_id: submission_id.to_owned(), status }
    };
    places.into_iter().enumerate().map(result).collect()
}

//! From a body's bytes to messages in the queue, and from the queue's answers to each event's. Fails closed.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, EXPECT};
use http::{HeaderMap, Uri};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::time::timeout;
use tollgate_domain::call::{self, Call, Flaw, Form, Place, Unreadable};
use tollgate_domain::envelope::Envelope;
use tollgate_domain::event::Event;
use tollgate_domain::identity::EventId;
use tollgate_domain::ports::{Intake, PortResult};
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

use crate::answer::{ErrorKind, EventResult, EventStatus, Refusal};
use crate::config::IntakeConfig;
use crate::ports::FrontDoorPorts;
use crate::query::Query;

/// Bytes of a refused body that are taken all the same.
const MAX_DRAINED_BYTES: usize = 8 * 1024 * 1024;
/// Time for them to come.
const MAX_DRAIN: Duration = Duration::from_secs(2);

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
pub(crate) async fn read_body(config: &IntakeConfig, request: &HeaderMap, mut body: Body) -> Result<Bytes, Refusal> {
    let announced = request.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > config.max_body_bytes) {
        // Who waits for a word to go on has sent nothing yet, and need not.
        if !request.contains_key(EXPECT) {
            drain(body).await;
        }
        return Err(Refusal::new(ErrorKind::BodyTooLarge));
    }
    let whole = Limited::new(&mut body, config.max_body_bytes).collect();
    match timeout(config.body_timeout, whole).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            drain(body).await;
            Err(Refusal::new(ErrorKind::BodyTooLarge))
        }
        Ok(Err(_)) => Err(Refusal::new(ErrorKind::IncompleteBody)),
        Err(_) => Err(Refusal::new(ErrorKind::BodyTimeout)),
    }
}

/// Takes what still comes of a refused body and forgets it, within limits. A connection that is closed on bytes which
/// nobody read is reset, and the answer can be lost with it.
async fn drain(mut body: Body) {
    let rest = async {
        let mut left = MAX_DRAINED_BYTES;
        while left > 0
            && let Some(Ok(frame)) = body.frame().await
        {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        }
    };
    if timeout(MAX_DRAIN, rest).await.is_err() {
        tracing::debug!("a refused body still comes: it is answered all the same");
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
    // What has no answer is not known to be queued.
    let mut fates = vec![EventStatus::Unavailable; count];
    let mut failure = None;
    let mut told = |place: usize, answer: PortResult<()>| match (answer, fates.get_mut(place)) {
        (Ok(()), Some(fate)) => *fate = EventStatus::Queued,
        (Ok(()), None) => {}
        (Err(error), _) => failure = Some(error),
    };
    let sent = timeout(config.enqueue_timeout, ports.intake().send_each(&messages, &mut told)).await;
    let queued = fates.iter().filter(|fate| **fate == EventStatus::Queued).count();
    if sent.is_err() {
        tracing::error!(%space, messages = count, queued, "the queue did not answer in time");
    }
    if let Some(error) = failure {
        tracing::error!(%space, messages = count, queued, %error, "the queue did not take everything");
    }
    fates
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

//! Everything that the front door can answer.

use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::{Serialize, Serializer};
use tollgate_domain::identity::EventId;
use tollgate_domain::key::Scope;
use tollgate_domain::problem::Problem;
use tollgate_domain::time::UtcMillis;
use utoipa::ToSchema;

use crate::schema;

/// Problems told in one answer; of more, only the number is told, so that an answer never outgrows its question.
pub const MAX_PROBLEMS_TOLD: usize = 1_000;

/// What the `type` of every error begins with; its code follows. A name and no address: there is nothing to fetch.
pub const TYPE_PREFIX: &str = "urn:tollgate:error:";

/// One row of the table of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorRow {
    /// Stable, for programs.
    pub code: &'static str,
    /// HTTP status.
    pub status: StatusCode,
    /// Seconds after which the same bytes may be sent again; absent when sending them again cannot help.
    pub retry_after_s: Option<u32>,
    /// What happened, for people.
    pub title: &'static str,
    /// What to do about it.
    pub mend: &'static str,
}

macro_rules! errors {
    ($($(#[$doc:meta])* $kind:ident = $code:literal $status:ident $retry:expr; $title:literal, $mend:literal;)+) => {
        /// Every error, each with its stable code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorKind { $($(#[$doc])* $kind),+ }

        impl ErrorKind {
            /// Every error, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];

            /// Its row of the table.
            pub const fn row(self) -> ErrorRow {
                match self {
                    $(Self::$kind => ErrorRow {
                        code: $code,
                        status: StatusCode::$status,
                        retry_after_s: $retry,
                        title: $title,
                        mend: $mend,
                    }),+
                }
            }
        }
    };
}

errors! {
    /// The body is not JSON.
    InvalidJson = "invalid_json" BAD_REQUEST None;
        "The body is not JSON", "send one event as a JSON object, or an array of events";
    /// At least one event is not one, or the call has none or too many.
    InvalidEvents = "invalid_events" BAD_REQUEST None;
        "The call has events that cannot be taken", "mend what the problems say and send the whole call again: nothing of it was queued";
    /// A limit of nesting, members or lengths is passed; nothing was parsed.
    BodyTooComplex = "body_too_complex" BAD_REQUEST None;
        "The body passes a limit", "send a flatter or smaller event, or split the call";
    /// The query string has a parameter that the route has not, or a value that it cannot have.
    InvalidQuery = "invalid_query" BAD_REQUEST None;
        "The query cannot be taken", "mend what the problems say";
    /// What the path names has not the form of an event id.
    InvalidEventId = "invalid_event_id" BAD_REQUEST None;
        "The path names no event", "ask for an id as an answer told it: uev_ and 64 lower-case hex digits";
    /// The Idempotency-Key header holds none, or there are two.
    InvalidIdempotencyKey = "invalid_idempotency_key" BAD_REQUEST None;
        "The Idempotency-Key header holds no key", "send one key, of 1 to 255 printable ASCII characters in double quotes";
    /// The body broke off.
    IncompleteBody = "incomplete_body" BAD_REQUEST None;
        "The body broke off", "send the whole body, of the announced length";
    /// The body comes in a transfer coding other than `chunked`.
    BadFraming = "bad_framing" BAD_REQUEST None;
        "The body comes in a transfer coding that is not taken here", "send the body with a Content-Length, or with Transfer-Encoding: chunked and no other coding";
    /// No key was sent.
    MissingKey = "missing_key" UNAUTHORIZED None;
        "No API key was sent", "send Authorization: Bearer <key>";
    /// What was sent has not the form of a key.
    MalformedKey = "malformed_key" UNAUTHORIZED None;
        "The Authorization header holds no API key", "send Authorization: Bearer <key>, where the key is tollgate_sk_ and 64 lower-case hex digits";
    /// Nobody has this key.
    UnknownKey = "unknown_key" UNAUTHORIZED None;
        "The API key is unknown", "send a key that was made for this deployment";
    /// The key was revoked.
    RevokedKey = "revoked_key" UNAUTHORIZED None;
        "The API key was revoked", "send the key that replaced it";
    /// The month's free quota is used up.
    QuotaExceeded = "quota_exceeded" PAYMENT_REQUIRED None;
        "The month's free quota is used up", "wait for the reset, or upgrade the plan; then send the same events again";
    /// The Plus plan lapsed.
    PlanInactive = "plan_inactive" PAYMENT_REQUIRED None;
        "The Plus plan is inactive", "renew the plan; then send the same events again";
    /// The key may not do this.
    MissingScope = "missing_scope" FORBIDDEN None;
        "The API key may not do this", "send a key that has the scope that the detail names, or admin";
    /// There is no such route.
    NotFound = "not_found" NOT_FOUND None;
        "There is nothing here", "ask for a route that GET /openapi.json lists";
    /// The route is there, for another method.
    MethodNotAllowed = "method_not_allowed" METHOD_NOT_ALLOWED None;
        "This method is not served here", "use a method of the Allow header";
    /// The body did not arrive in time.
    BodyTimeout = "body_timeout" REQUEST_TIMEOUT Some(1);
        "The body did not arrive in time", "send the same bytes again";
    /// The same command is being run.
    RequestInProgress = "request_in_progress" CONFLICT Some(1);
        "A request with this Idempotency-Key is in progress", "send the same bytes again after the time that Retry-After tells";
    /// The body is too large.
    BodyTooLarge = "body_too_large" PAYLOAD_TOO_LARGE None;
        "The body is too large", "split the call: at most 500 events and 1 MiB each";
    /// The body is not declared as JSON, in one of its forms.
    UnsupportedMediaType = "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE None;
        "The body is of a kind that is not taken here", "send Content-Type: application/json, application/cloudevents+json or application/cloudevents-batch+json, without a Content-Encoding";
    /// Two events of the call have one id and different facts.
    SameIdOtherPayload = "same_id_other_payload" UNPROCESSABLE_ENTITY None;
        "The call has one id for different events", "give each fact an idempotencyKey of its own: nothing of the call was queued";
    /// The idempotency key stands for another request.
    IdempotencyKeyReused = "idempotency_key_reused" UNPROCESSABLE_ENTITY None;
        "The Idempotency-Key stands for another request", "give each request an Idempotency-Key of its own";
    /// The key asks too often.
    RateLimited = "rate_limited" TOO_MANY_REQUESTS Some(1);
        "The API key asks too often", "send the same bytes again after the time that Retry-After tells; put more events in a call";
    /// The keys table gave no answer.
    AuthenticationUnavailable = "authentication_unavailable" SERVICE_UNAVAILABLE Some(1);
        "The API key could not be checked", "send the same bytes again, with backoff";
    /// The queue did not take every event, or did not say so.
    QueueUnavailable = "queue_unavailable" SERVICE_UNAVAILABLE Some(1);
        "Not every event could be queued", "send the same bytes again, with backoff: what is queued already is charged once";
    /// The receipts table gave no answer.
    ReceiptsUnavailable = "receipts_unavailable" SERVICE_UNAVAILABLE Some(1);
        "The Idempotency-Key could not be checked", "send the same bytes again, with backoff";
    /// The ledger gave no answer, or one that this version cannot read.
    LedgerUnavailable = "ledger_unavailable" SERVICE_UNAVAILABLE Some(1);
        "The ledger does not tell where the event stands", "ask again, with backoff";
    /// A store that usage rests on gave no answer.
    UsageUnavailable = "usage_unavailable" SERVICE_UNAVAILABLE Some(1);
        "Usage cannot be told now", "ask again, with backoff";
    /// The keys table did not list the keys.
    KeysUnavailable = "keys_unavailable" SERVICE_UNAVAILABLE Some(1);
        "The keys cannot be listed now", "ask again, with backoff";
}

impl ErrorKind {
    /// RFC 6750's challenge, which a 401 must carry.
    const fn challenge(self) -> Option<&'static str> {
        match self {
            Self::MissingKey => Some(r#"Bearer realm="tollgate""#),
            Self::MalformedKey | Self::UnknownKey | Self::RevokedKey => {
                Some(r#"Bearer realm="tollgate", error="invalid_token""#)
            }
            _ => None,
        }
    }

    /// Whether nothing more is read from a connection on which this is told: where the next request begins is not sure,
    /// or far away.
    const fn ends_connection(self) -> bool {
        matches!(self, Self::BadFraming | Self::BodyTooLarge)
    }
}

/// What happened to one event of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventStatus {
    /// Durably queued.
    Queued,
    /// Not known to be queued: send the same bytes again.
    Unavailable,
    /// The plan takes no more events now, and the ledger does not know this one. In a partial call only.
    QuotaExceeded,
    /// It is no event; its problems say why. In a partial call only.
    Invalid,
    /// Another event of the call has its id and other facts. In a partial call only.
    Conflict,
}

/// The answer of one event of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventResult {
    /// Position of the event in the call, from 0.
    pub index: usize,
    /// Its id, unless it is invalid. Two equal events of a call have the same one and became one message.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::EventId)]
    pub id: Option<EventId>,
    /// The call's submission id.
    #[schema(value_type = schema::SubmissionId)]
    pub submission_id: String,
    /// What happened to it.
    pub status: EventStatus,
}

/// What the results of a call make of its answer: the first row that any result has. The last three are of calls that
/// are taken in part; a whole call is refused before it has results.
const ANSWERS: [(EventStatus, Option<ErrorKind>); 5] = [
    // What is not known to be queued must be sent again, and the rest comes to no harm by it.
    (EventStatus::Unavailable, Some(ErrorKind::QueueUnavailable)),
    (EventStatus::Queued, None),
    (EventStatus::QuotaExceeded, Some(ErrorKind::QuotaExceeded)),
    (EventStatus::Invalid, Some(ErrorKind::InvalidEvents)),
    (EventStatus::Conflict, Some(ErrorKind::SameIdOtherPayload)),
];

/// A 202: every event with the status `queued` is durably queued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// One result an event, in their order.
    pub results: Vec<EventResult>,
    /// Of the events that were not taken, in a partial call.
    pub problems: Vec<Problem>,
    /// Why some were not taken, in a partial call.
    pub quota: Option<Quota>,
}

impl Accepted {
    /// The answer that these results ask for.
    pub fn or_refusal(self) -> Result<Self, Refusal> {
        let has = |status| self.results.iter().any(|result| result.status == status);
        let Some(kind) = ANSWERS.into_iter().find(|(status, _)| has(*status)).and_then(|(_, kind)| kind) else {
            return Ok(self);
        };
        let Self { results, problems, quota } = self;
        let refusal = match (kind, quota) {
            (ErrorKind::QuotaExceeded, Some(quota)) => Refusal::of_quota(quota),
            (ErrorKind::QueueUnavailable, quota) => {
                let queued = results.iter().filter(|result| result.status == EventStatus::Queued).count();
                let detail = Some(format!("{queued} of {} events are queued", results.len()));
                Refusal { detail, quota: quota.map(Box::new), ..Refusal::new(kind) }
            }
            (kind, _) => Refusal { detail: detail_of(&problems), ..Refusal::new(kind) },
        };
        Err(Refusal { problems, results, ..refusal })
    }
}

impl Accepted {
    pub(crate) fn body(&self) -> AcceptedBody<'_> {
        let (problems, problems_omitted) = told(&self.problems);
        AcceptedBody { results: &self.results, problems, problems_omitted, quota: self.quota.as_ref() }
    }
}

impl IntoResponse for Accepted {
    fn into_response(self) -> Response {
        (StatusCode::ACCEPTED, Json(self.body())).into_response()
    }
}

/// A call's results. `problems`, and the quota, are of events that a partial call leaves out.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Accepted)]
pub(crate) struct AcceptedBody<'a> {
    /// One result an event, in their order.
    #[schema(value_type = schema::Results)]
    results: &'a [EventResult],
    /// What is wrong with those that were not taken.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = schema::Problems)]
    problems: &'a [Problem],
    /// Problems beyond those that are told.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(minimum = 1)]
    problems_omitted: usize,
    #[serde(flatten)]
    #[schema(value_type = schema::MaybeQuota)]
    quota: Option<&'a Quota>,
}

/// The problems that an answer tells, and the number of the others.
fn told(problems: &[Problem]) -> (&[Problem], usize) {
    let told = problems.get(..MAX_PROBLEMS_TOLD).unwrap_or(problems);
    (told, problems.len().saturating_sub(told.len()))
}

fn detail_of(problems: &[Problem]) -> Option<String> {
    match problems {
        [] => None,
        [one] => Some(one.to_string()),
        many => Some(format!("{} problems, each with its event's index, its field and its mend", many.len())),
    }
}

/// Why a plan takes no more events now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Quota {
    /// `free` or `plus`.
    #[schema(value_type = schema::QuotaPlan)]
    pub plan: &'static str,
    /// Events a month; a free space's only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1)]
    pub limit: Option<u64>,
    /// Events that the month has consumed; a free space's only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub used: Option<u64>,
    /// When the next month begins; a free space's only.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schema(value_type = schema::Instant)]
    pub resets_at: Option<UtcMillis>,
}

#[expect(clippy::ref_option, reason = "serde passes the field by reference")]
fn as_text<S: Serializer>(instant: &Option<UtcMillis>, serializer: S) -> Result<S::Ok, S::Error> {
    match instant {
        Some(instant) => serializer.collect_str(instant),
        None => serializer.serialize_none(),
    }
}

/// An error on its way to the client: `application/problem+json` (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    kind: ErrorKind,
    detail: Option<String>,
    problems: Vec<Problem>,
    /// Boxed, so that every other answer stays small.
    quota: Option<Box<Quota>>,
    results: Vec<EventResult>,
    /// What the key lacks.
    scope: Option<Scope>,
    /// Instead of the row's.
    retry_after_s: Option<u64>,
}

impl Refusal {
    /// An error that its row tells completely.
    pub fn new(kind: ErrorKind) -> Self {
        Self {
            kind,
            detail: None,
            problems: Vec::new(),
            quota: None,
            results: Vec::new(),
            scope: None,
            retry_after_s: None,
        }
    }

    /// A key without `scope`.
    pub fn of_scope(scope: Scope) -> Self {
        let detail = Some(format!("this needs the scope {scope}"));
        Self { detail, scope: Some(scope), ..Self::new(ErrorKind::MissingScope) }
    }

    /// The same error, with the time after which the same bytes may be sent again: whole seconds, at least 1.
    #[must_use]
    pub fn retry_after(self, wait: Duration) -> Self {
        let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1);
        Self { retry_after_s: Some(seconds), ..self }
    }

    /// Something that cannot be taken, with every problem of it.
    pub fn of_problems(kind: ErrorKind, problems: Vec<Problem>) -> Self {
        Self { detail: detail_of(&problems), problems, ..Self::new(kind) }
    }

    /// A plan that takes no more events now.
    pub fn of_quota(quota: Quota) -> Self {
        let (kind, detail) = match (quota.limit, quota.used, quota.resets_at) {
            (Some(limit), Some(used), Some(resets_at)) => {
                (ErrorKind::QuotaExceeded, Some(format!("{used} of {limit} events are used, until {resets_at}")))
            }
            _ => (ErrorKind::PlanInactive, None),
        };
        Self { detail, quota: Some(Box::new(quota)), ..Self::new(kind) }
    }

    /// What is wrong, in detail.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// RFC 6750's challenge, which a 401 must and a 403 may carry.
    fn challenge(&self) -> Option<HeaderValue> {
        match self.scope {
            None => self.kind.challenge().map(HeaderValue::from_static),
            Some(scope) => {
                let challenge = format!(r#"Bearer realm="tollgate", error="insufficient_scope", scope="{scope}""#);
                HeaderValue::try_from(challenge).ok()
            }
        }
    }

    /// Which error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

/// An error (RFC 9457). Programs go by `code`; the rest is for people, but for the lists.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Error)]
pub(crate) struct Document<'a> {
    /// `urn:tollgate:error:` and the code.
    #[serde(rename = "type")]
    #[schema(value_type = schema::ErrorType)]
    kind: String,
    /// What happened.
    title: &'a str,
    /// The answer's status.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What happened this time.
    detail: &'a str,
    /// Stable, for programs.
    #[schema(value_type = schema::ErrorCode)]
    code: &'a str,
    /// What to do about it.
    mend: &'a str,
    /// Everything that is wrong with what was sent.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = schema::Problems)]
    problems: &'a [Problem],
    /// Problems beyond those that are told.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(minimum = 1)]
    problems_omitted: usize,
    #[serde(flatten)]
    #[schema(value_type = schema::MaybeQuota)]
    quota: Option<&'a Quota>,
    /// One result an event, in their order, when the call came that far.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = schema::Results)]
    results: &'a [EventResult],
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Refusal {
    pub(crate) fn document(&self) -> Document<'_> {
        let row = self.kind.row();
        let (problems, problems_omitted) = told(&self.problems);
        Document {
            kind: format!("{TYPE_PREFIX}{}", row.code),
            title: row.title,
            status: row.status.as_u16(),
            detail: self.detail.as_deref().unwrap_or(row.mend),
            code: row.code,
            mend: row.mend,
            problems,
            problems_omitted,
            quota: self.quota.as_deref(),
            results: &self.results,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let row = self.kind.row();
        let mut response = (row.status, Json(self.document())).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_s.or(row.retry_after_s.map(u64::from)) {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(challenge) = self.challenge() {
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        if self.kind.ends_connection() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_unique_and_plain() {
        let codes: BTreeSet<_> = ErrorKind::ALL.iter().map(|kind| kind.row().code).collect();
        assert_eq!(codes.len(), ErrorKind::ALL.len());
        assert!(codes.iter().all(|code| code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
    }

    /// The answer to a call with these results: its status and code.
    fn answer(statuses: &[EventStatus], quota: Option<Quota>) -> (u16, &'static str) {
        let result = |(index, status): (usize, &EventStatus)| EventResult {
            index,
            id: None,
            submission_id: "sub_1".to_owned(),
            status: *status,
        };
        let results: Vec<EventResult> = statuses.iter().enumerate().map(result).collect();
        match (Accepted { results: results.clone(), problems: Vec::new(), quota }).or_refusal() {
            Ok(accepted) => {
                assert_eq!(accepted.results, results);
                (202, "")
            }
            Err(refusal) => {
                assert_eq!(refusal.results, results);
                (refusal.kind().row().status.as_u16(), refusal.kind().row().code)
            }
        }
    }

    #[test]
    fn the_results_of_a_partial_call_make_its_status() {
        use EventStatus::{Conflict, Invalid, Queued, QuotaExceeded, Unavailable};
        let free = Quota { plan: "free", limit: Some(1), used: Some(1), resets_at: Some(UtcMillis::EPOCH) };
        let plus = Quota { plan: "plus", limit: None, used: None, resets_at: None };
        for (statuses, quota, expected) in [
            (&[Queued, Queued][..], None, (202, "")),
            (&[Invalid, Queued, Conflict, Conflict], None, (202, "")),
            (&[Queued, QuotaExceeded], Some(free.clone()), (202, "")),
            (&[Queued, Unavailable], None, (503, "queue_unavailable")),
            (&[Unavailable, Invalid], None, (503, "queue_unavailable")),
            (&[Unavailable, QuotaExceeded], Some(free.clone()), (503, "queue_unavailable")),
            (&[QuotaExceeded, Invalid, Conflict], Some(free), (402, "quota_exceeded")),
            (&[Conflict, QuotaExceeded], Some(plus), (402, "plan_inactive")),
            (&[Conflict, Conflict], None, (422, "same_id_other_payload")),
            (&[Conflict, Conflict, Invalid], None, (400, "invalid_events")),
            (&[Invalid], None, (400, "invalid_events")),
        ] {
            assert_eq!(answer(statuses, quota), expected, "{statuses:?}");
        }
    }

    #[test]
    fn a_wait_is_told_in_whole_seconds_and_never_as_none() {
        for (ms, seconds) in [(0, "1"), (1, "1"), (1_000, "1"), (1_001, "2"), (29_999, "30")] {
            let refusal = Refusal::new(ErrorKind::RateLimited).retry_after(Duration::from_millis(ms));
            assert_eq!(refusal.into_response().headers()[RETRY_AFTER], seconds, "{ms}");
        }
    }

    #[test]
    fn only_what_may_be_sent_again_says_when() {
        for kind in ErrorKind::ALL {
            let row = kind.row();
            let again = row.status.is_server_error()
                || [StatusCode::REQUEST_TIMEOUT, StatusCode::CONFLICT, StatusCode::TOO_MANY_REQUESTS]
                    .contains(&row.status);
            assert_eq!(row.retry_after_s.is_some(), again, "{}", row.code);
            assert_ne!(row.status, StatusCode::INTERNAL_SERVER_ERROR, "{}", row.code);
            assert!(kind.challenge().is_some() || row.status != StatusCode::UNAUTHORIZED, "{}", row.code);
        }
    }
}

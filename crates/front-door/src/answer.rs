//! Everything that the front door can answer.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::{Serialize, Serializer};
use tollgate_domain::identity::EventId;
use tollgate_domain::problem::Problem;
use tollgate_domain::time::UtcMillis;

/// Problems told in one answer; of more, only the number is told, so that an answer never outgrows its question.
pub const MAX_PROBLEMS_TOLD: usize = 1_000;

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
    /// The body broke off.
    IncompleteBody = "incomplete_body" BAD_REQUEST None;
        "The body broke off", "send the whole body, of the announced length";
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
        "The API key may not do this", "send a key that has the scope ingest";
    /// There is no such route.
    NotFound = "not_found" NOT_FOUND None;
        "There is nothing here", "send events to POST /v1/events";
    /// The route is there, for another method.
    MethodNotAllowed = "method_not_allowed" METHOD_NOT_ALLOWED None;
        "This method is not served here", "use a method of the Allow header";
    /// The body did not arrive in time.
    BodyTimeout = "body_timeout" REQUEST_TIMEOUT Some(1);
        "The body did not arrive in time", "send the same bytes again";
    /// The body is too large.
    BodyTooLarge = "body_too_large" PAYLOAD_TOO_LARGE None;
        "The body is too large", "split the call: at most 500 events and 1 MiB each";
    /// The body is not declared as JSON.
    UnsupportedMediaType = "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE None;
        "The body is of a kind that is not taken here", "send Content-Type: application/json, without a Content-Encoding";
    /// Two events of the call have one id and different facts.
    SameIdOtherPayload = "same_id_other_payload" UNPROCESSABLE_ENTITY None;
        "The call has one id for different events", "give each fact an idempotencyKey of its own: nothing of the call was queued";
    /// The keys table gave no answer.
    AuthenticationUnavailable = "authentication_unavailable" SERVICE_UNAVAILABLE Some(1);
        "The API key could not be checked", "send the same bytes again, with backoff";
    /// The queue did not take every event, or did not say so.
    QueueUnavailable = "queue_unavailable" SERVICE_UNAVAILABLE Some(1);
        "Not every event could be queued", "send the same bytes again, with backoff: what is queued already is charged once";
}

impl ErrorKind {
    /// RFC 6750's challenge, which a 401 must and a 403 may carry.
    const fn challenge(self) -> Option<&'static str> {
        match self {
            Self::MissingKey => Some(r#"Bearer realm="tollgate""#),
            Self::MalformedKey | Self::UnknownKey | Self::RevokedKey => {
                Some(r#"Bearer realm="tollgate", error="invalid_token""#)
            }
            Self::MissingScope => Some(r#"Bearer realm="tollgate", error="insufficient_scope", scope="ingest""#),
            _ => None,
        }
    }
}

/// What happened to one event of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventStatus {
    /// Durably queued.
    Queued,
    /// Not known to be queued: send the same bytes again.
    Unavailable,
}

/// The answer of one event of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventResult {
    /// Position of the event in the call, from 0.
    pub index: usize,
    /// Its id. Two equal events of a call have the same one and became one message.
    pub id: EventId,
    /// The call's submission id.
    pub submission_id: String,
    /// What happened to it.
    pub status: EventStatus,
}

/// A 202: every event is durably queued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Accepted {
    /// One result an event, in their order.
    pub results: Vec<EventResult>,
}

impl IntoResponse for Accepted {
    fn into_response(self) -> Response {
        (StatusCode::ACCEPTED, Json(self)).into_response()
    }
}

/// Why a plan takes no more events now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Quota {
    /// `free` or `plus`.
    pub plan: &'static str,
    /// Events a month; a free space's only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Events that the month has consumed; a free space's only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// When the next month begins; a free space's only.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    pub resets_at: Option<UtcMillis>,
}

#[expect(clippy::ref_option, reason = "serde passes the field by reference")]
fn as_text<S: Serializer>(instant: &Option<UtcMillis>, serializer: S) -> Result<S::Ok, S::Error> {
    match instant {
        Some(instant) => serializer.collect_str(instant),
        None => serializer.serialize_none(),
    }
}

/// What an error tells beyond its row.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Extra {
    Nothing,
    Problems(Vec<Problem>),
    Quota(Quota),
    Results(Vec<EventResult>),
}

/// An error on its way to the client: `application/problem+json` (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    kind: ErrorKind,
    detail: Option<String>,
    extra: Extra,
}

impl Refusal {
    /// An error that its row tells completely.
    pub fn new(kind: ErrorKind) -> Self {
        Self { kind, detail: None, extra: Extra::Nothing }
    }

    /// Events that cannot be taken, with every problem of each.
    pub fn of_problems(kind: ErrorKind, problems: Vec<Problem>) -> Self {
        let detail = match problems.as_slice() {
            [one] => one.to_string(),
            many => format!("{} problems, each with its event's index, its field and its mend", many.len()),
        };
        Self { kind, detail: Some(detail), extra: Extra::Problems(problems) }
    }

    /// A plan that takes no more events now.
    pub fn of_quota(quota: Quota) -> Self {
        let (kind, detail) = match (quota.limit, quota.used, quota.resets_at) {
            (Some(limit), Some(used), Some(resets_at)) => {
                (ErrorKind::QuotaExceeded, Some(format!("{used} of {limit} events are used, until {resets_at}")))
            }
            _ => (ErrorKind::PlanInactive, None),
        };
        Self { kind, detail, extra: Extra::Quota(quota) }
    }

    /// A queue that did not take everything.
    pub fn of_queue(results: Vec<EventResult>) -> Self {
        let queued = results.iter().filter(|result| result.status == EventStatus::Queued).count();
        let detail = format!("{queued} of {} events are queued", results.len());
        Self { kind: ErrorKind::QueueUnavailable, detail: Some(detail), extra: Extra::Results(results) }
    }

    /// Which error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

/// RFC 9457's members, and ours.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    #[serde(rename = "type")]
    kind: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    code: &'a str,
    mend: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    problems: Option<&'a [Problem]>,
    #[serde(skip_serializing_if = "is_zero")]
    problems_omitted: usize,
    #[serde(flatten)]
    quota: Option<&'a Quota>,
    #[serde(skip_serializing_if = "Option::is_none")]
    results: Option<&'a [EventResult]>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let row = self.kind.row();
        let (problems, quota, results) = match &self.extra {
            Extra::Nothing => (None, None, None),
            Extra::Problems(problems) => (Some(problems.as_slice()), None, None),
            Extra::Quota(quota) => (None, Some(quota), None),
            Extra::Results(results) => (None, None, Some(results.as_slice())),
        };
        let told = problems.map(|problems| problems.get(..MAX_PROBLEMS_TOLD).unwrap_or(problems));
        let document = Document {
            kind: format!("urn:tollgate:error:{}", row.code),
            title: row.title,
            status: row.status.as_u16(),
            detail: self.detail.as_deref().unwrap_or(row.mend),
            code: row.code,
            mend: row.mend,
            problems: told,
            problems_omitted: problems.map_or(0, <[_]>::len).saturating_sub(told.map_or(0, <[_]>::len)),
            quota,
            results,
        };
        let mut response = (row.status, Json(document)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = row.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(challenge) = self.kind.challenge() {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
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

    #[test]
    fn only_what_may_be_sent_again_says_when() {
        for kind in ErrorKind::ALL {
            let row = kind.row();
            let again = row.status.is_server_error() || row.status == StatusCode::REQUEST_TIMEOUT;
            assert_eq!(row.retry_after_s.is_some(), again, "{}", row.code);
            assert_ne!(row.status, StatusCode::INTERNAL_SERVER_ERROR, "{}", row.code);
            assert!(kind.challenge().is_some() || row.status != StatusCode::UNAUTHORIZED, "{}", row.code);
        }
    }
}

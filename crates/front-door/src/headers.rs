//! What the front door reads from a request's headers. Each is a client's text: taken when sane, else as if absent or
//! refused.

use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue};
use tollgate_domain::call::Form;
use tollgate_domain::cloudevent;
use tollgate_domain::key::ApiKey;
use uuid::Uuid;

use crate::answer::{ErrorKind, Refusal};

/// In and out: names a request in both sides' logs.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// In: the client's own submission id, the same for every attempt of a call.
pub(crate) const SUBMISSION_ID: HeaderName = HeaderName::from_static("tollgate-submission-id");
/// In: the body is the data of a CloudEvent whose attributes stand in headers of the prefix.
const CLOUD_EVENT_VERSION: HeaderName = HeaderName::from_static("ce-specversion");
pub(crate) const CLOUD_EVENT_PREFIX: &str = "ce-";
pub(crate) const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// Characters of a request id that is taken from a client.
const MAX_REQUEST_ID_CHARS: usize = 128;
/// Characters of a submission id, its prefix included.
const MAX_SUBMISSION_ID_CHARS: usize = 64;
const SUBMISSION_PREFIX: &str = "sub_";

/// The request's id: the client's, if it is 1 to 128 printable ASCII characters without blanks, else a new one.
pub(crate) fn request_id(headers: &HeaderMap) -> String {
    let sane = |id: &&str| (1..=MAX_REQUEST_ID_CHARS).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic());
    match text(headers, &REQUEST_ID).filter(sane) {
        Some(id) => id.to_owned(),
        None => format!("req_{}", Uuid::now_v7().simple()),
    }
}

/// The call's submission id: the client's, if it is `sub_` and 1 to 60 of `A-Z a-z 0-9 - _`, else a new UUID of version 7.
///
/// One a call. A client that sends its own keeps it over every attempt, so that the ledger, which keeps the id of the
/// submission that won the claim, can tell a call's own retry from somebody else's duplicate.
pub(crate) fn submission_id(headers: &HeaderMap) -> String {
    let sane = |id: &&str| {
        id.len() <= MAX_SUBMISSION_ID_CHARS
            && id.strip_prefix(SUBMISSION_PREFIX).is_some_and(|rest| {
                !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
            })
    };
    match text(headers, &SUBMISSION_ID).filter(sane) {
        Some(id) => id.to_owned(),
        None => format!("{SUBMISSION_PREFIX}{}", Uuid::now_v7().simple()),
    }
}

/// W3C trace context of the request, if it is well-formed: `{version}-{trace id}-{parent id}-{flags}`.
pub(crate) fn trace_parent(headers: &HeaderMap) -> Option<String> {
    const DIGITS: [usize; 4] = [2, 32, 16, 2];
    let value = text(headers, &TRACE_PARENT)?;
    let parts: Vec<&str> = value.split('-').collect();
    let is_hex = |part: &str| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let fits = parts.len() == DIGITS.len()
        && parts.iter().zip(DIGITS).all(|(part, digits)| part.len() == digits && is_hex(part));
    let is_zero = |part: Option<&&str>| part.is_none_or(|part| part.bytes().all(|b| b == b'0'));
    let valid = fits && parts.first() != Some(&"ff") && !is_zero(parts.get(1)) && !is_zero(parts.get(2));
    valid.then(|| value.to_owned())
}

/// The API key of `Authorization: Bearer <key>`.
pub(crate) fn api_key(headers: &HeaderMap) -> Result<ApiKey, Refusal> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let malformed = || Refusal::new(ErrorKind::MalformedKey);
    let value = values.next().ok_or_else(|| Refusal::new(ErrorKind::MissingKey))?;
    if values.next().is_some() {
        return Err(malformed());
    }
    let (scheme, key) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(malformed)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(malformed());
    }
    ApiKey::parse(key.trim()).map_err(|_| malformed())
}

/// Refuses a transfer coding other than `chunked`: whoever stands between may not agree where such a body ends.
///
/// The server refuses one that does not end in `chunked`, and takes `chunked` with a Content-Length as `chunked`, hides
/// the length, and closes the connection behind the answer (RFC 9112, 6.1 and 6.3).
pub(crate) fn check_framing(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if is_chunked(coding) => Ok(()),
        _ => Err(Refusal::new(ErrorKind::BadFraming)),
    }
}

/// What a call's body is, as its head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Tollgate,
    CloudEvent,
    CloudEventBatch,
    CloudEventBinary,
}

impl BodyKind {
    /// How the body is to be read, with what of the head belongs to it.
    pub(crate) fn form(self, headers: &HeaderMap) -> Form<'_> {
        match self {
            Self::Tollgate => Form::Tollgate,
            Self::CloudEvent => Form::CloudEvent,
            Self::CloudEventBatch => Form::CloudEventBatch,
            Self::CloudEventBinary => {
                let attributes = headers.iter().filter_map(|(name, value)| {
                    Some((name.as_str().strip_prefix(CLOUD_EVENT_PREFIX)?, value.as_bytes()))
                });
                Form::CloudEventBinary(attributes.collect())
            }
        }
    }
}

/// What the body is. JSON when unsaid; never compressed: nothing here unpacks what a client packed.
pub(crate) fn body_kind(headers: &HeaderMap) -> Result<BodyKind, Refusal> {
    let unsupported = || Refusal::new(ErrorKind::UnsupportedMediaType);
    let is_plain = |encoding: &HeaderValue| encoding.as_bytes().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(CONTENT_ENCODING).iter().all(is_plain) {
        return Err(unsupported());
    }
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let media_type = match (types.next(), types.next()) {
        (None, _) => "application/json",
        (Some(one), None) => one.to_str().map_err(|_| unsupported())?,
        (Some(_), Some(_)) => return Err(unsupported()),
    };
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "application/cloudevents+json" => Ok(BodyKind::CloudEvent),
        "application/cloudevents-batch+json" => Ok(BodyKind::CloudEventBatch),
        _ if headers.contains_key(CLOUD_EVENT_VERSION) && cloudevent::is_json(&essence) => {
            Ok(BodyKind::CloudEventBinary)
        }
        "application/json" => Ok(BodyKind::Tollgate),
        _ => Err(unsupported()),
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name.clone(), value.parse().unwrap())])
    }

    #[test]
    fn a_sane_request_id_is_kept_and_another_is_replaced() {
        for (sent, kept) in [("abc-1", true), (&"x".repeat(128), true), (&"x".repeat(129), false), ("a b", false)] {
            assert_eq!(request_id(&headers(&REQUEST_ID, sent)) == sent, kept, "{sent}");
        }
        assert!(request_id(&HeaderMap::new()).starts_with("req_"));
    }

    #[test]
    fn a_sane_submission_id_is_kept_and_another_is_replaced() {
        for (sent, kept) in [
            ("sub_1", true),
            ("sub_", false),
            ("1", false),
            ("sub_a b", false),
            (&format!("sub_{}", "x".repeat(61)), false),
        ] {
            let id = submission_id(&headers(&SUBMISSION_ID, sent));
            assert_eq!(id == sent, kept, "{sent}");
            assert!(id.starts_with("sub_"));
        }
    }

    #[test]
    fn only_a_well_formed_trace_parent_is_carried() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        for (sent, kept) in [
            (good.to_owned(), true),
            (good.to_uppercase(), false),
            (good.replace("00-", "ff-"), false),
            (good.replace("b7ad6b7169203331", "0000000000000000"), false),
            (format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)), false),
            (format!("{good}-more"), false),
            (String::new(), false),
        ] {
            assert_eq!(trace_parent(&headers(&TRACE_PARENT, &sent)), kept.then_some(sent.clone()), "{sent}");
        }
    }
}

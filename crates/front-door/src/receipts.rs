//! `Idempotency-Key`: the same command is run once and answered the same, for a day. Fails closed.
//!
//! It guards the command; the event's identity guards the event. A receipt that is lost, or taken over while its first
//! owner still runs, is harmless for that reason: events that are sent twice are charged once.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use tollgate_domain::ports::{Clock, Receipts};
use tollgate_domain::receipt::{
    Begun, IdempotencyKey, NewReceipt, Owner, ReceiptKey, RequestHash, StoredAnswer, begin, is_terminal,
};
use tollgate_domain::space::SpaceId;
use uuid::Uuid;

use crate::answer::{ErrorKind, Refusal};
use crate::config::ReceiptsConfig;
use crate::headers::CLOUD_EVENT_PREFIX;
use crate::ports::{FrontDoorPorts, in_time};

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Out: the answer is a stored one.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// After which a client may ask again at the latest, while its command runs: most end long before their lease does.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// What of an answer's head belongs to the answer and not to the exchange.
const KEPT_HEADERS: [HeaderName; 1] = [CONTENT_TYPE];

/// A command that is to be run once.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    key: ReceiptKey,
    request: RequestHash,
}

impl Command {
    /// The command that a request of `space` is, under its sender's key.
    pub(crate) fn new(space: &SpaceId, key: &IdempotencyKey, head: &Parts, body: &Bytes) -> Self {
        Self { key: ReceiptKey::of(space, key), request: request_hash(head, body) }
    }
}

/// The idempotency key of a request: one header, or none.
pub(crate) fn key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Refusal> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let malformed = || Refusal::new(ErrorKind::InvalidIdempotencyKey);
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            let text = value.to_str().map_err(|_| malformed())?;
            IdempotencyKey::parse_header(text).map(Some).map_err(|_| malformed())
        }
        (Some(_), Some(_)) => Err(malformed()),
    }
}

/// What makes a request the same command: method, path, query, body, its type, and the attributes of a CloudEvent. Not
/// the headers of a single attempt, such as ids and traces.
fn request_hash(head: &Parts, body: &Bytes) -> RequestHash {
    let is_asked = |name: &&HeaderName| **name == CONTENT_TYPE || name.as_str().starts_with(CLOUD_EVENT_PREFIX);
    let mut names: Vec<&HeaderName> = head.headers.keys().filter(is_asked).collect();
    names.sort_by_key(|name| name.as_str());
    let headers = names.into_iter().flat_map(|name| {
        head.headers.get_all(name).iter().flat_map(move |value| [name.as_str().as_bytes(), value.as_bytes()])
    });
    let uri = &head.uri;
    let line = [head.method.as_str(), uri.path(), uri.query().unwrap_or_default()].map(str::as_bytes);
    RequestHash::of(line.into_iter().chain([body.as_ref()]).chain(headers))
}

/// Runs `command` unless it was run before, and keeps its answer.
///
/// 409 while somebody else runs it, 422 when the key stands for another request, 503 when the table gives no answer:
/// the client asked for this guard.
pub(crate) async fn run_once<P: FrontDoorPorts>(
    ports: &P,
    config: &ReceiptsConfig,
    command: Command,
    run: impl Future<Output = Response>,
) -> Result<Response, Refusal> {
    let now = ports.clock().now();
    let lease_ms = i64::try_from(config.lease.as_millis()).unwrap_or(i64::MAX);
    let Command { key, request } = command;
    let owner = Owner::new(Uuid::now_v7().simple().to_string());
    let lease_until = now.saturating_add_ms(lease_ms);
    let new = NewReceipt { key, request, owner, now, lease_until };
    let standing = match in_time(config.timeout, ports.receipts().begin(&new)).await {
        Ok(standing) => standing,
        Err(error) => {
            tracing::error!(error, "the receipts table gives no answer: a command is told 503");
            // It may have been begun all the same; then its retry need not wait for the lease to end.
            end_lease(ports, config, &new).await;
            return Err(Refusal::new(ErrorKind::ReceiptsUnavailable));
        }
    };
    match begin(standing.as_ref(), &new) {
        Begun::Run => Ok(keep(ports, config, &new, run.await).await),
        Begun::Replay(answer) => replay(answer),
        Begun::Reused => Err(Refusal::new(ErrorKind::IdempotencyKeyReused)),
        Begun::InProgress { ms_left } => {
            let left = Duration::from_millis(ms_left.try_into().unwrap_or_default());
            Err(Refusal::new(ErrorKind::RequestInProgress).retry_after(left.min(LONGEST_PAUSE)))
        }
    }
}

/// Keeps a terminal answer, or ends the lease of a command that has none. Whatever comes of it, the client is answered.
async fn keep<P: FrontDoorPorts>(ports: &P, config: &ReceiptsConfig, new: &NewReceipt, answer: Response) -> Response {
    let (head, body) = answer.into_parts();
    // The answers of this process are in memory whole; one that is not could not be replayed.
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        end_lease(ports, config, new).await;
        return Response::from_parts(head, Body::empty());
    };
    // One that is too large for an item is not kept: the command runs again, and is told the same by its events' ids.
    if is_terminal(head.status.as_u16()) && body.len() <= config.max_answer_bytes {
        let stored =
            StoredAnswer { status: head.status.as_u16(), headers: kept_headers(&head.headers), body: body.to_vec() };
        let now = ports.clock().now();
        match in_time(config.timeout, ports.receipts().finish(&new.key, &new.owner, &stored, now)).await {
            Ok(true) => {}
            Ok(false) => tracing::warn!("a command outlived its lease and was taken over: its answer is not kept"),
            Err(error) => {
                tracing::error!(error, "a command's answer could not be kept: its retry runs after the lease");
            }
        }
    } else {
        end_lease(ports, config, new).await;
    }
    Response::from_parts(head, Body::from(body))
}

async fn end_lease<P: FrontDoorPorts>(ports: &P, config: &ReceiptsConfig, new: &NewReceipt) {
    if let Err(error) = in_time(config.timeout, ports.receipts().release(&new.key, &new.owner)).await {
        tracing::warn!(error, "a command could not be released: its retry waits for the lease to end");
    }
}

fn kept_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    let kept = |name: HeaderName| Some((name.as_str().to_owned(), headers.get(name)?.to_str().ok()?.to_owned()));
    KEPT_HEADERS.into_iter().filter_map(kept).collect()
}

/// The stored answer; one that cannot be said again is as good as none.
fn replay(answer: StoredAnswer) -> Result<Response, Refusal> {
    let unreadable = || {
        tracing::error!("a stored answer cannot be said again");
        Refusal::new(ErrorKind::ReceiptsUnavailable)
    };
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).map_err(|_| unreadable())?;
    for (name, value) in answer.headers {
        let name = HeaderName::try_from(name).map_err(|_| unreadable())?;
        response.headers_mut().insert(name, HeaderValue::try_from(value).map_err(|_| unreadable())?);
    }
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}

//! The routes, and the hot path behind `POST /v1/events`.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use tokio::time::Instant;
use tollgate_domain::key::Scope;
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::ports::Clock;

use crate::answer::{Accepted, ErrorKind, Refusal};
use crate::auth::{KeyCache, authenticate};
use crate::config::{FrontDoorConfig, IntakeConfig};
use crate::gate::{Gate, Passage};
use crate::headers;
use crate::intake::{Submission, enqueue, parse_events, read_body};
use crate::ports::FrontDoorPorts;

struct FrontDoor<P> {
    ports: P,
    intake: IntakeConfig,
    keys: KeyCache,
    gate: Gate,
}

/// What a request's log line tells beside its status; travels with the response to the one place that logs.
#[derive(Debug, Clone, Default)]
struct Decision {
    space: Option<String>,
    events: usize,
    distinct: usize,
    gate: Option<&'static str>,
    outcome: &'static str,
}

/// Every route of the front door, over `ports`.
pub fn router<P: FrontDoorPorts>(ports: P, config: FrontDoorConfig) -> Router {
    let FrontDoorConfig { intake, auth, gate, server: _ } = config;
    let door = FrontDoor { ports, intake, keys: KeyCache::new(auth), gate: Gate::new(gate) };
    Router::new()
        .route("/v1/events", post(handle_request::<P>))
        .route("/healthz", get(healthz))
        .fallback(async || Refusal::new(ErrorKind::NotFound).into_answer(Decision::default()))
        .method_not_allowed_fallback(async || {
            Refusal::new(ErrorKind::MethodNotAllowed).into_answer(Decision::default())
        })
        .layer(from_fn(accompany))
        .with_state(Arc::new(door))
}

/// The process is up; says nothing about what it depends on.
async fn healthz() -> Response {
    axum::Json(std::collections::BTreeMap::from([("status", "ok")])).into_response()
}

async fn handle_request<P: FrontDoorPorts>(State(door): State<Arc<FrontDoor<P>>>, request: Request) -> Response {
    let mut decision = Decision::default();
    match door.decide(request, &mut decision).await {
        Ok(accepted) => {
            decision.outcome = "queued";
            let mut response = accepted.into_response();
            response.extensions_mut().insert(decision);
            response
        }
        Err(refusal) => refusal.into_answer(decision),
    }
}

impl<P: FrontDoorPorts> FrontDoor<P> {
    async fn decide(&self, request: Request, decision: &mut Decision) -> Result<Accepted, Refusal> {
        let (parts, body) = request.into_parts();
        let caller = authenticate(&self.ports, &self.keys, &parts.headers).await?;
        decision.space = Some(caller.space.as_str().to_owned());
        caller.require(Scope::Ingest)?;

        let body = read_body(&self.intake, &parts.headers, body).await?;
        // Read once: every event of the call is of one month, and its future begins at one instant.
        let accepted_at = self.ports.clock().now();
        let call = parse_events(&self.intake, &body, accepted_at)?;
        (decision.events, decision.distinct) = (call.len(), call.ids.len());

        let month = PeriodMonth::of(accepted_at);
        let passage = self.gate.check_advisory_gate(&self.ports, &caller.space, month, &call.ids).await?;
        decision.gate = Some(passage).filter(|passage| *passage != Passage::Unasked).map(Passage::as_str);

        let submission = Submission {
            space: caller.space,
            accepted_at,
            id: headers::submission_id(&parts.headers),
            trace_parent: headers::trace_parent(&parts.headers),
        };
        enqueue(&self.ports, &self.intake, &submission, call).await
    }
}

impl Refusal {
    fn into_answer(self, decision: Decision) -> Response {
        let decision = Decision { outcome: self.kind().row().code, ..decision };
        let mut response = self.into_response();
        response.extensions_mut().insert(decision);
        response
    }
}

/// Around every request: its id in and out, headers that every answer has, and the one log line. Neither payloads nor
/// keys nor paths (a client's text) are logged.
async fn accompany(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let request_id = headers::request_id(request.headers());
    let mut response = next.run(request).await;
    let status = response.status().as_u16();
    let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    if let Some(Decision { space, events, distinct, gate, outcome }) = response.extensions_mut().remove::<Decision>() {
        tracing::info!(space, events, distinct, gate, outcome, status, request_id, elapsed_ms, "request decided");
    } else {
        let outcome = if response.status() == StatusCode::OK { "ok" } else { "other" };
        tracing::debug!(outcome, status, request_id, elapsed_ms, "request answered");
    }
    let answer = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        answer.insert(headers::REQUEST_ID, value);
    }
    answer.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

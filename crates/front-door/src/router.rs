//! The routes, and the hot path behind `POST /v1/events`.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use serde::Serialize;
use tokio::task::JoinError;
use tokio::time::Instant;
use tollgate_domain::call::Call;
use tollgate_domain::event::Event;
use tollgate_domain::identity::EventId;
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::PlanPolicy;
use tollgate_domain::ports::Clock;
use tollgate_domain::space::SpaceId;

use crate::answer::{Accepted, ErrorKind, Refusal};
use crate::auth::{Caller, KeyCache, authenticate, note_use};
use crate::config::{FrontDoorConfig, IntakeConfig, ReadsConfig, ReceiptsConfig};
use crate::gate::{Gate, Passage};
use crate::headers::{self, BodyKind};
use crate::intake::{Submission, Taking, enqueue, parse_events, read_body, results_of};
use crate::keys::list_keys;
use crate::limit::RateLimits;
use crate::openapi;
use crate::ports::FrontDoorPorts;
use crate::ready::Readiness;
use crate::receipts::{self, Command, run_once};
use crate::route::Route;
use crate::status::Watch;
use crate::usage::read_usage;

struct FrontDoor<P> {
    ports: P,
    intake: IntakeConfig,
    reads: ReadsConfig,
    receipts: ReceiptsConfig,
    policy: PlanPolicy,
    keys: KeyCache,
    limits: RateLimits,
    gate: Gate,
    watch: Watch,
    readiness: Readiness,
}

/// A call that nothing in its head refuses, with its body.
struct Sent {
    parts: Parts,
    taking: Taking,
    kind: BodyKind,
    body: Bytes,
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
    let FrontDoorConfig { intake, auth, gate, reads, receipts, rate, server: _ } = config;
    let door = FrontDoor {
        ports,
        intake,
        receipts,
        policy: gate.policy.clone(),
        keys: KeyCache::new(auth),
        limits: RateLimits::new(&rate),
        gate: Gate::new(gate),
        watch: Watch::new(reads.clone()),
        readiness: Readiness::default(),
        reads,
    };
    let served = |route| match route {
        Route::SendEvents => post(send_events::<P>),
        Route::EventStatus => get(event_status::<P>),
        Route::Usage => get(usage::<P>),
        Route::Keys => get(keys::<P>),
        Route::Health => get(healthz),
        Route::Readiness => get(readyz::<P>),
        Route::Document => get(document),
    };
    Route::ALL
        .into_iter()
        .fold(Router::new(), |router, route| router.route(route.path(), served(route)))
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

/// The OpenAPI document.
async fn document() -> Response {
    ([(CONTENT_TYPE, "application/json")], openapi::document()).into_response()
}

async fn send_events<P: FrontDoorPorts>(State(door): State<Arc<FrontDoor<P>>>, request: Request) -> Response {
    let mut decision = Decision::default();
    match door.decide(request, &mut decision).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_answer(decision),
    }
}

async fn event_status<P: FrontDoorPorts>(State(door): State<Arc<FrontDoor<P>>>, request: Request) -> Response {
    let look = async |door: Arc<FrontDoor<P>>, space, uri| door.watch.read_status(&door.ports, space, &uri).await;
    tell(door, Route::EventStatus, request, look).await
}

async fn usage<P: FrontDoorPorts>(State(door): State<Arc<FrontDoor<P>>>, request: Request) -> Response {
    let look = async |door: Arc<FrontDoor<P>>, space, uri| {
        read_usage(&door.ports, &door.reads, &door.policy, space, &uri).await
    };
    tell(door, Route::Usage, request, look).await
}

async fn keys<P: FrontDoorPorts>(State(door): State<Arc<FrontDoor<P>>>, request: Request) -> Response {
    let look = async |door: Arc<FrontDoor<P>>, space, uri| list_keys(&door.ports, &door.reads, space, &uri).await;
    tell(door, Route::Keys, request, look).await
}

async fn readyz<P: FrontDoorPorts>(State(door): State<Arc<FrontDoor<P>>>) -> Response {
    door.readiness.answer(&door.ports).await
}

/// A 200 with what `look` finds for a caller who may use `route`, or the refusal.
async fn tell<P: FrontDoorPorts, T: Serialize, F: Future<Output = Result<T, Refusal>>>(
    door: Arc<FrontDoor<P>>,
    route: Route,
    request: Request,
    look: impl FnOnce(Arc<FrontDoor<P>>, SpaceId, Uri) -> F,
) -> Response {
    let (head, mut decision) = (request.into_parts().0, Decision::default());
    let found = match door.admit(&head.headers, route, &mut decision).await {
        Ok(caller) => look(door, caller.space, head.uri).await,
        Err(refusal) => Err(refusal),
    };
    match found {
        Ok(document) => Decision { outcome: "told", ..decision }.of(Json(document).into_response()),
        Err(refusal) => refusal.into_answer(decision),
    }
}

impl<P: FrontDoorPorts> FrontDoor<P> {
    /// Who asks, if they may: the key is known, does not ask too often, and has the route's scope.
    async fn admit(
        self: &Arc<Self>,
        headers: &HeaderMap,
        route: Route,
        decision: &mut Decision,
    ) -> Result<Caller, Refusal> {
        let caller = authenticate(&self.ports, &self.keys, headers).await?;
        decision.space = Some(caller.space.as_str().to_owned());
        self.limits.pass(&caller.key)?;
        route.scope().map_or(Ok(()), |scope| caller.require(scope))?;
        let now = self.ports.clock().now();
        if self.keys.is_use_due(&caller.key, now) {
            let (door, key) = (Arc::clone(self), caller.key.clone());
            tokio::spawn(async move { note_use(&door.ports, &door.keys, &key, now).await });
        }
        Ok(caller)
    }

    /// Takes a call, once if its sender gave it an idempotency key.
    async fn decide(self: &Arc<Self>, request: Request, decision: &mut Decision) -> Result<Response, Refusal> {
        let (parts, body) = request.into_parts();
        let caller = self.admit(&parts.headers, Route::SendEvents, decision).await?;
        let key = receipts::key(&parts.headers)?;
        // What the head alone refuses is told before the body is waited for.
        let (taking, kind) = (Taking::of_query(&parts.uri)?, headers::body_kind(&parts.headers)?);
        let body = read_body(&self.intake, &parts.headers, body).await?;
        let sent = Sent { parts, taking, kind, body };
        let Some(key) = key else { return Ok(self.take(caller, &sent, decision.clone()).await) };

        let command = Command::new(&caller.space, &key, &sent.parts, &sent.body);
        let (door, decision) = (Arc::clone(self), decision.clone());
        // On a task of its own: a client that goes away does not leave a command half run, and its retry is told the
        // answer.
        let running = tokio::spawn(async move {
            let taken = door.take(caller, &sent, decision.clone());
            let answer = run_once(&door.ports, &door.receipts, command, taken).await?;
            let is_replayed = answer.extensions().get::<Decision>().is_none();
            Ok(if is_replayed { Decision { outcome: "replayed", ..decision }.of(answer) } else { answer })
        });
        match running.await.map_err(JoinError::try_into_panic) {
            Ok(answer) => answer,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // The runtime is being stopped.
            Err(Err(_)) => Err(Refusal::new(ErrorKind::ReceiptsUnavailable)),
        }
    }

    async fn take(&self, caller: Caller, sent: &Sent, mut decision: Decision) -> Response {
        match self.accept(caller, sent, &mut decision).await {
            Ok(accepted) => Decision { outcome: "queued", ..decision }.of(accepted.into_response()),
            Err(refusal) => refusal.into_answer(decision),
        }
    }

    async fn accept(&self, caller: Caller, sent: &Sent, decision: &mut Decision) -> Result<Accepted, Refusal> {
        let Sent { parts, taking, kind, body } = sent;
        let (taking, form) = (*taking, kind.form(&parts.headers));
        // Read once: every event of the call is of one month, and its future begins at one instant.
        let accepted_at = self.ports.clock().now();
        let call = parse_events(&self.intake, body, &form, taking, accepted_at)?;
        (decision.events, decision.distinct) = (call.places.len(), call.events.len());
        let Call { events, places, problems } = call;
        let (ids, events): (Vec<EventId>, Vec<Event>) = events.into_iter().map(|keyed| (keyed.id, keyed.event)).unzip();

        let month = PeriodMonth::of(accepted_at);
        let gate = self.gate.check_advisory_gate(&self.ports, &caller.space, month, &ids, taking).await;
        let (pass, quota) = match gate {
            Ok(passage) => {
                decision.gate = Some(passage).filter(|passage| *passage != Passage::Unasked).map(Passage::as_str);
                (vec![true; ids.len()], None)
            }
            Err(full) if taking == Taking::Whole => return Err(Refusal::of_quota(full.quota)),
            // What the ledger knows passes: a retry of an accepted event never hears of a quota.
            Err(full) => {
                decision.gate = Some("full");
                (full.known, Some(full.quota))
            }
        };

        let submission = Submission {
            space: caller.space,
            accepted_at,
            id: headers::submission_id(&parts.headers),
            trace_parent: headers::trace_parent(&parts.headers),
        };
        let fates = enqueue(&self.ports, &self.intake, &submission, events, &pass).await;
        Accepted { results: results_of(places, &ids, &fates, &submission.id), problems, quota }.or_refusal()
    }
}

impl Refusal {
    fn into_answer(self, decision: Decision) -> Response {
        Decision { outcome: self.kind().row().code, ..decision }.of(self.into_response())
    }
}

impl Decision {
    /// `response`, which this is told of in the log.
    fn of(self, mut response: Response) -> Response {
        response.extensions_mut().insert(self);
        response
    }
}

/// Around every request: its id in and out, headers that every answer has, and the one log line. Neither payloads nor
/// keys nor paths (a client's text) are logged.
async fn accompany(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let request_id = headers::request_id(request.headers());
    let mut response = match headers::check_framing(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_answer(Decision::default()),
    };
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

//! The OpenAPI 3.1 document of the HTTP API, made of the routes, the table of errors and the types of the answers.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use http::Method;
use http::header::{CACHE_CONTROL, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use serde::Serialize;
use serde_json::{Value, json};
use tollgate_domain::identity::{EventId, Fingerprint};
use tollgate_domain::key::{KEY_PREFIX, Scope};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::Limit;
use tollgate_domain::problem::Problem;
use tollgate_domain::receipt::is_terminal;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;
use utoipa::ToSchema;
use utoipa::openapi::example::{Example, ExampleBuilder};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::path::{HttpMethod, Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    Components, ComponentsBuilder, Content, ContentBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder,
    PathItem, PathsBuilder, Ref, Required, Response, ResponseBuilder, ServerBuilder,
};

use crate::answer::{Accepted, AcceptedBody, Document, ErrorKind, EventResult, EventStatus, Quota, Refusal};
use crate::config::IntakeConfig;
use crate::headers;
use crate::keys::{KeyEntry, KeyList};
use crate::ready;
use crate::receipts::{IDEMPOTENCY_KEY, REPLAYED};
use crate::route::Route;
use crate::schema::{self, cloud_event_headers, reference, schema_of};
use crate::status::{Known, MAX_WAIT_S, Standing, StandingStatus};
use crate::usage::Usage;

const PROBLEM: &str = "application/problem+json";
const JSON: &str = "application/json";
/// The security scheme's name.
const BEARER: &str = "key";
/// The operation's member that tells of CloudEvents' binary mode, which no list of optional headers could: all of them
/// are there, or none.
const BINARY_MODE: &str = "x-cloudevents-binary-mode";

/// What any route may answer.
const OF_ALL: [ErrorKind; 1] = [ErrorKind::BadFraming];

/// What any route with a key may answer beside that.
const OF_KEYS: [ErrorKind; 7] = [
    ErrorKind::MissingKey,
    ErrorKind::MalformedKey,
    ErrorKind::UnknownKey,
    ErrorKind::RevokedKey,
    ErrorKind::MissingScope,
    ErrorKind::RateLimited,
    ErrorKind::AuthenticationUnavailable,
];

/// What sending events may be answered beside that.
const OF_CALLS: [ErrorKind; 16] = [
    ErrorKind::InvalidJson,
    ErrorKind::InvalidEvents,
    ErrorKind::BodyTooComplex,
    ErrorKind::InvalidQuery,
    ErrorKind::InvalidIdempotencyKey,
    ErrorKind::IncompleteBody,
    ErrorKind::QuotaExceeded,
    ErrorKind::PlanInactive,
    ErrorKind::BodyTimeout,
    ErrorKind::RequestInProgress,
    ErrorKind::BodyTooLarge,
    ErrorKind::UnsupportedMediaType,
    ErrorKind::SameIdOtherPayload,
    ErrorKind::IdempotencyKeyReused,
    ErrorKind::QueueUnavailable,
    ErrorKind::ReceiptsUnavailable,
];

/// Every error that a route's operation may answer.
fn errors(route: Route) -> Vec<ErrorKind> {
    let own: &[ErrorKind] = match route {
        Route::SendEvents => &OF_CALLS,
        Route::EventStatus => &[ErrorKind::InvalidEventId, ErrorKind::InvalidQuery, ErrorKind::LedgerUnavailable],
        Route::Usage => &[ErrorKind::InvalidQuery, ErrorKind::UsageUnavailable],
        Route::Keys => &[ErrorKind::InvalidQuery, ErrorKind::KeysUnavailable],
        Route::Health | Route::Readiness | Route::Document => &[],
    };
    let of_keys = route.scope().map_or(&[][..], |_| &OF_KEYS);
    OF_ALL.iter().chain(of_keys).chain(own).copied().collect()
}

/// The document as JSON. Made once, when it is first asked for.
pub fn document() -> &'static str {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
        // Nothing in it can fail to be JSON; an empty object would fail every test of it.
        serde_json::to_string(&describe()).unwrap_or_else(|_| "{}".to_owned())
    });
    &DOCUMENT
}

fn describe() -> OpenApi {
    let license = LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build();
    let info = InfoBuilder::new()
        .title("Tollgate")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(ABOUT))
        .license(Some(license))
        .build();
    let paths = Route::ALL.into_iter().fold(PathsBuilder::new(), |paths, route| {
        let method = if route.method() == Method::POST { HttpMethod::Post } else { HttpMethod::Get };
        paths.path(route.path(), PathItem::new(method, operation(route)))
    });
    let tags = [
        ("events", "Send usage events, and ask where they stand."),
        ("space", "What a space has used, and its keys."),
        ("service", "The front door itself."),
    ];
    OpenApiBuilder::new()
        .info(info)
        .servers(Some([ServerBuilder::new().url("/").description(Some("This front door")).build()]))
        .paths(paths)
        .components(Some(components()))
        .tags(Some(tags.map(|(name, what)| TagBuilder::new().name(name).description(Some(what)).build())))
        .build()
}

const ABOUT: &str = "Charges each usage event exactly once.\n\n\
    The space comes from the API key and from nothing else. A query parameter that an operation does not have is \
    refused, and so is one that comes twice; operations without a key ignore them all. Every error is `application/problem+json` (RFC 9457) with a stable `code`; \
    ERRORS.md in the source says what to do about each. Where no operation is, 404 `not_found` or 405 \
    `method_not_allowed` is answered. Every `GET` is also served as `HEAD`. What the server cannot read as HTTP it \
    answers by itself, without a body and without the headers of the others.";

fn components() -> Components {
    let mut schemas = Vec::new();
    add::<AcceptedBody<'_>>(&mut schemas);
    add::<Document<'_>>(&mut schemas);
    add::<Standing>(&mut schemas);
    add::<Usage>(&mut schemas);
    add::<KeyList>(&mut schemas);
    add::<ready::Document>(&mut schemas);
    add::<schema::Health>(&mut schemas);
    add::<schema::Call>(&mut schemas);
    add::<schema::CloudEventBatch>(&mut schemas);
    add::<schema::IdempotencyKey>(&mut schemas);
    let mut components = ComponentsBuilder::new().schemas_from_iter(schemas);
    for (name, header) in answer_headers() {
        components = components.header(name.as_str(), header);
    }
    let scopes: Vec<String> = Scope::ALL.iter().map(|scope| format!("`{scope}`: {}", meaning(*scope))).collect();
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format(format!("{KEY_PREFIX} and 64 lower-case hex digits"))
        .description(Some(format!("An API key, which names its space. Its scopes: {}.", scopes.join("; "))))
        .build();
    components.security_scheme(BEARER, SecurityScheme::Http(scheme)).build()
}

fn add<T: ToSchema>(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}

const fn meaning(scope: Scope) -> &'static str {
    match scope {
        Scope::Ingest => "send events",
        Scope::Read => "ask where events stand and what was used",
        Scope::Admin => "see the space's keys, and do all that the others may",
    }
}

/// One row of the table of operations: the tag, the id, a line, and the rest that is to be known.
const fn words(route: Route) -> [&'static str; 4] {
    match route {
        Route::SendEvents => [
            "events",
            "sendEvents",
            "Send usage events",
            "One event or many, in Tollgate's own form or as CloudEvents 1.0: structured, batched, or binary, of which \
             `x-cloudevents-binary-mode` tells the headers. 202 is answered for what is durably queued and for nothing \
             else. The same bytes may always be sent again: an event is charged once, whatever became of an answer. \
             Equal events of a call are one; two with one id and other facts are refused. Without `partial` a call is \
             taken whole or not at all.",
        ],
        Route::EventStatus => [
            "events",
            "getEvent",
            "Ask where an event stands",
            "Looks into the ledger, for events of the caller's own space. `unknown` is an answer: the event may still \
             be in the queue. With `wait` the answer comes as soon as the event is at its end, or when the time is over.",
        ],
        Route::Usage => [
            "space",
            "getUsage",
            "Ask what the space has used of a month",
            "The plan of now and the use of the month. What does not apply to the plan, or is not known here, is null.",
        ],
        Route::Keys => [
            "space",
            "listKeys",
            "List the space's keys",
            "Oldest first, revoked ones too, without their secrets. One that was made seconds ago may be missing.",
        ],
        Route::Health => ["service", "getHealth", "Ask whether the process is up", "Asks nothing of any other."],
        Route::Readiness => [
            "service",
            "getReadiness",
            "Ask whether the front door can work",
            "Asks the keys table and the event queue, at most once a second, however often it is asked itself.",
        ],
        Route::Document => ["service", "getDocument", "Get this document", "The document that you read."],
    }
}

fn operation(route: Route) -> Operation {
    let [tag, id, summary, description] = words(route);
    let mut operation = OperationBuilder::new()
        .tag(tag)
        .operation_id(Some(id))
        .summary(Some(summary))
        .description(Some(description))
        .parameters(Some(parameters(route)));
    if let Some(scope) = route.scope() {
        operation = operation.security(SecurityRequirement::new(BEARER, [scope.as_str()]));
    }
    if route == Route::SendEvents {
        let binary_mode = Extensions::from_iter([(BINARY_MODE, binary_mode())]);
        operation = operation.request_body(Some(call_body())).extensions(Some(binary_mode));
    }
    let (status, answer) = well(route);
    operation = operation.response(status, answer);
    if route == Route::Readiness {
        operation = operation.response("503", not_ready());
    }
    let mut by_status: BTreeMap<u16, Vec<ErrorKind>> = BTreeMap::new();
    for kind in errors(route) {
        by_status.entry(kind.row().status.as_u16()).or_default().push(kind);
    }
    for (status, kinds) in by_status {
        operation = operation.response(status.to_string(), error_response(route, status, &kinds));
    }
    operation.build()
}

fn parameters(route: Route) -> Vec<Parameter> {
    let header = |name: &str, what: &str, schema: Value| parameter(ParameterIn::Header, name, what, schema);
    let query = |name: &str, what: &str, schema: Value| parameter(ParameterIn::Query, name, what, schema);
    let any_text = || json!({"type": "string"});
    let mut all = match route {
        Route::SendEvents => vec![
            query(
                "partial",
                "Take the good events of a call that has others, and tell of each event what became of it.",
                json!({"type": "boolean", "default": false}),
            ),
            header(
                IDEMPOTENCY_KEY.as_str(),
                "The command's own key: the answer is kept for 24 hours, and told again to the same request. It guards \
                 the command; the events are guarded by their ids, with or without it.",
                reference::<schema::IdempotencyKey>(),
            ),
            header(
                headers::SUBMISSION_ID.as_str(),
                "The client's own submission id, the same for every attempt of a call: `sub_` and 1 to 60 of letters, \
                 digits, `-` and `_`. Anything else is as if absent, and a new one is made.",
                any_text(),
            ),
            header(
                headers::TRACE_PARENT.as_str(),
                "W3C trace context, which goes on with the events if it is well-formed.",
                any_text(),
            ),
        ],
        Route::EventStatus => vec![
            parameter(ParameterIn::Path, "id", "The event's id, as an answer told it.", reference::<schema::EventId>()),
            query(
                "wait",
                "Seconds to wait for the event's end.",
                json!({"type": "integer", "minimum": 0, "maximum": MAX_WAIT_S, "default": 0}),
            ),
        ],
        Route::Usage => vec![query(
            "month",
            "The month; the current one of UTC, if unsaid.",
            json!({"type": "string", "pattern": schema::MONTH}),
        )],
        Route::Keys | Route::Health | Route::Readiness | Route::Document => Vec::new(),
    };
    all.push(header(
        headers::REQUEST_ID.as_str(),
        "Names the request in both sides' logs: 1 to 128 printable ASCII characters without blanks. Anything else is as \
         if absent, and a new one is made.",
        any_text(),
    ));
    all
}

fn parameter(stands_in: ParameterIn, name: &str, what: &str, schema: Value) -> Parameter {
    let required = if stands_in == ParameterIn::Path { Required::True } else { Required::False };
    let example = match name {
        "id" => Some(json!(EVENT_ID)),
        "month" => Some(json!("2026-11")),
        "wait" => Some(json!(10)),
        "partial" => Some(json!(true)),
        _ => header_example(name).map(Value::from),
    };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(stands_in)
        .required(required)
        .description(Some(what))
        .schema(Some(schema_of(schema)))
        .example(example)
        .build()
}

/// What each header looks like, going in or out.
fn header_example(name: &str) -> Option<&'static str> {
    let (_, example) = HEADER_EXAMPLES.into_iter().find(|(named, _)| *named == name)?;
    Some(example)
}

const HEADER_EXAMPLES: [(&str, &str); 11] = [
    ("idempotency-key", "\"order-4711\""),
    ("tollgate-submission-id", "sub_0198a4b2"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("x-request-id", "req_0198a4b2"),
    ("ce-specversion", "1.0"),
    ("ce-id", "req_9"),
    ("ce-source", "/gateway"),
    ("ce-type", "api_request"),
    ("ce-subject", "cus_01"),
    ("ce-time", "2026-08-18T09:15:00Z"),
    ("ce-quantity", "3"),
];

fn call_body() -> RequestBody {
    let IntakeConfig { max_body_bytes, max_events, .. } = IntakeConfig::default();
    let description = format!(
        "At most {max_body_bytes} bytes and {max_events} events, without a Content-Encoding. Without a Content-Type it is \
         `{JSON}`."
    );
    let event = event_example();
    let other = json!({
        "meter": "tokens_out", "subject": "cus_02", "occurredAt": "2026-08-18T11:15:00.250+02:00", "quantity": 1250,
        "source": "gateway", "properties": {"model": "m", "region": "eu"}, "idempotencyKey": "req_8",
    });
    let forms = [
        (
            JSON,
            reference::<schema::Call>(),
            vec![("one", "One event", event.clone()), ("several", "Several events", json!([event, other]))],
        ),
        (
            "application/cloudevents+json",
            reference::<schema::CloudEvent>(),
            vec![("structured", "A CloudEvent", cloud_event_example())],
        ),
        (
            "application/cloudevents-batch+json",
            reference::<schema::CloudEventBatch>(),
            vec![("batch", "A batch of CloudEvents", json!([cloud_event_example()]))],
        ),
    ];
    let body = RequestBodyBuilder::new().description(Some(description)).required(Some(Required::True));
    forms
        .into_iter()
        .fold(body, |body, (media_type, schema, examples)| {
            let examples = examples.into_iter().map(|(name, summary, value)| (name, example(summary, value)));
            body.content(media_type, content(schema, examples))
        })
        .build()
}

fn event_example() -> Value {
    json!({"meter": "api_request", "subject": "cus_01", "occurredAt": "2026-08-18T09:15:00Z", "quantity": 3})
}

fn cloud_event_example() -> Value {
    json!({
        "specversion": "1.0", "id": "req_9", "source": "/gateway", "type": "api_request", "subject": "cus_01",
        "time": "2026-08-18T09:15:00Z", "data": {"quantity": 3, "model": "m"},
    })
}

/// The headers of binary mode as parameters, with the data as the body.
fn binary_mode() -> Value {
    let headers = cloud_event_headers().map(|(name, required, schema)| {
        json!({"name": name, "in": "header", "required": required, "schema": schema, "example": header_example(name)})
    });
    json!({
        "description": "With a header ce-specversion, and a Content-Type that is JSON's or none, the body is the data of \
            one CloudEvent, and these headers are its attributes. A ce-datacontenttype that is not JSON's and any \
            ce-data_base64 are refused, other ce-* headers are ignored. Values are percent-encoded, in double quotes or \
            not.",
        "parameters": headers,
        "requestBody": {
            "content": {JSON: {"schema": reference::<schema::CloudData>(), "example": {"model": "m", "quantity": 3}}},
        },
    })
}

/// The answer of a route that does what it is asked for.
fn well(route: Route) -> (&'static str, Response) {
    let (status, description, schema, examples): (_, _, _, Vec<(&str, Example)>) = match route {
        Route::SendEvents => (
            "202",
            "Every event whose status is `queued` is durably queued: all of them, unless `partial` was asked for.",
            reference::<AcceptedBody<'_>>(),
            vec![
                ("queued", example("A whole call", json_of(&accepted_example().body()))),
                ("partial", example("A call that was taken in part", json_of(&partial_example().body()))),
            ],
        ),
        Route::EventStatus => (
            "200",
            "Where the event stands.",
            reference::<Standing>(),
            vec![
                ("inserted", example("Charged and stored", json_of(&standing_example()))),
                ("unknown", example("Not in the ledger", json_of(&unknown_example()))),
            ],
        ),
        Route::Usage => (
            "200",
            "The plan, and the month's use.",
            reference::<Usage>(),
            vec![("free", example("A free space", json_of(&usage_example())))],
        ),
        Route::Keys => {
            ("200", "The keys.", reference::<KeyList>(), vec![("keys", example("One key", json_of(&keys_example())))])
        }
        Route::Health => (
            "200",
            "The process is up.",
            reference::<schema::Health>(),
            vec![("up", example("Up", json!({"status": "ok"})))],
        ),
        Route::Readiness => {
            let [ready, _] = ready::Document::examples();
            let schema = readiness("ready");
            ("200", "Both engines answer.", schema, vec![("ready", example("Ready", json_of(&ready)))])
        }
        Route::Document => (
            "200",
            "An OpenAPI document.",
            json!({"type": "object", "required": ["openapi", "info", "paths"],
                "properties": {"openapi": {"type": "string", "pattern": r"^3\.1\.[0-9]+$"}}}),
            vec![(
                "document",
                example(
                    "A document without operations",
                    json!({"openapi": "3.1.0", "info": {"title": "Tollgate", "version": "0.1.0"}, "paths": {}}),
                ),
            )],
        ),
    };
    let mut response = with_headers(ResponseBuilder::new().description(description), []);
    if route == Route::SendEvents {
        response = with_header(response, &REPLAYED);
    }
    (status, response.content(JSON, content(schema, examples)).build())
}

/// The one error that is no problem document: whoever asks wants the two words and nothing else.
fn not_ready() -> Response {
    let [_, not_ready] = ready::Document::examples();
    let description = "An engine gives no answer; why, only the log tells.";
    with_headers(ResponseBuilder::new().description(description), [RETRY_AFTER])
        .content(JSON, content(readiness("not_ready"), [("notReady", example("Not ready", json_of(&not_ready)))]))
        .build()
}

fn readiness(status: &str) -> Value {
    let checks: &[&str] = if status == "ready" { &[] } else { &["checks"] };
    json!({"allOf": [
        reference::<ready::Document>(),
        {"properties": {"status": {"const": status}}, "required": checks},
    ]})
}

fn error_response(route: Route, status: u16, kinds: &[ErrorKind]) -> Response {
    let codes: Vec<&str> = kinds.iter().map(|kind| kind.row().code).collect();
    let needs_challenge = matches!(status, 401 | 403);
    let may_retry = kinds.iter().all(|kind| kind.row().retry_after_s.is_some());
    let challenge = needs_challenge.then_some(WWW_AUTHENTICATE);
    let required = challenge.into_iter().chain(may_retry.then_some(RETRY_AFTER));
    let titles: Vec<&str> = kinds.iter().map(|kind| kind.row().title).collect();
    let mut response = with_headers(ResponseBuilder::new().description(titles.join(". ") + "."), required);
    // A kept answer comes back with its status, and one that is told before the body is read is never kept.
    if route == Route::SendEvents && is_terminal(status) && !matches!(status, 413 | 415) {
        response = with_header(response, &REPLAYED);
    }
    let types: Vec<String> = codes.iter().map(|code| format!("{}{code}", crate::answer::TYPE_PREFIX)).collect();
    let schema = json!({"allOf": [
        reference::<Document<'_>>(),
        {"properties": {"status": {"const": status}, "code": {"enum": codes}, "type": {"enum": types}}},
    ]});
    let examples = kinds.iter().map(|kind| {
        let row = kind.row();
        (row.code, example(row.title, json_of(&refusal_example(route, *kind).document())))
    });
    response.content(PROBLEM, content(schema, examples)).build()
}

/// The headers of the answers, under their names in `components`.
fn answer_headers() -> [(HeaderName, Header); 6] {
    let always = |schema, what: &str| header(schema, what, true);
    [
        (
            headers::REQUEST_ID,
            always(json!({"type": "string", "pattern": "^[!-~]{1,128}$"}), "Names the request in both sides' logs."),
        ),
        (CACHE_CONTROL, always(json!({"const": "no-store"}), "No answer is for a cache.")),
        (X_CONTENT_TYPE_OPTIONS, always(json!({"const": "nosniff"}), "The Content-Type is meant.")),
        (
            RETRY_AFTER,
            always(json!({"type": "integer", "minimum": 1}), "Seconds after which the same bytes may be sent again."),
        ),
        (
            WWW_AUTHENTICATE,
            always(json!({"type": "string", "pattern": "^Bearer realm=\"tollgate\""}), "RFC 6750's challenge."),
        ),
        (REPLAYED, header(json!({"const": "true"}), "There when this is a stored answer, told again.", false)),
    ]
}

fn header(schema: Value, what: &str, required: bool) -> Header {
    // The builder has no word for it.
    let required = Extensions::from_iter([("required", required)]);
    HeaderBuilder::new().schema(Some(schema_of(schema))).description(Some(what)).extensions(Some(required)).build()
}

/// The response with the headers that every answer has, and with these.
fn with_headers(response: ResponseBuilder, others: impl IntoIterator<Item = HeaderName>) -> ResponseBuilder {
    let always = [headers::REQUEST_ID, CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS];
    always.into_iter().chain(others).fold(response, |response, name| with_header(response, &name))
}

fn with_header(response: ResponseBuilder, name: &HeaderName) -> ResponseBuilder {
    response.header_ref(name.as_str(), Ref::new(format!("#/components/headers/{name}")))
}

fn content<'a>(schema: Value, examples: impl IntoIterator<Item = (&'a str, Example)>) -> Content {
    ContentBuilder::new().schema(Some(schema_of(schema))).examples_from_iter(examples).build()
}

fn example(summary: &str, value: Value) -> Example {
    ExampleBuilder::new().summary(summary).value(Some(value)).build()
}

/// An answer as it is told; the types here have a JSON form.
fn json_of(answer: &impl Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or_default()
}

const EVENT_ID: &str = "uev_5c8ec3ea62721af70f0521af0552578f89da8d295f45829ec6ab33fa38317745";
const SUBMISSION: &str = "sub_0198a4b2";

fn result(index: usize, status: EventStatus) -> EventResult {
    let id = EventId::parse(EVENT_ID).ok().filter(|_| status != EventStatus::Invalid);
    EventResult { index, id, submission_id: SUBMISSION.to_owned(), status }
}

fn accepted_example() -> Accepted {
    Accepted { results: vec![result(0, EventStatus::Queued)], problems: Vec::new(), quota: None }
}

fn partial_example() -> Accepted {
    let results = vec![result(0, EventStatus::Queued), result(1, EventStatus::Invalid)];
    Accepted { results, problems: vec![problem_example().at(1)], quota: None }
}

fn problem_example() -> Problem {
    Problem::new("missing_field", "meter", "is missing", "send meter as a non-empty text")
}

fn quota_example() -> Quota {
    let resets_at = UtcMillis::parse("2026-12-01T00:00:00Z").ok();
    Quota { plan: "free", limit: Some(Limit::FREE_PLAN.get()), used: Some(Limit::FREE_PLAN.get()), resets_at }
}

fn refusal_example(route: Route, kind: ErrorKind) -> Refusal {
    let of = |problem| Refusal::of_problems(kind, vec![problem]);
    match (kind, route.scope()) {
        (ErrorKind::InvalidEvents, _) => of(problem_example().at(0)),
        (ErrorKind::InvalidQuery, _) => {
            of(Problem::new("unknown_parameter", "colour", "is not known here", "leave it out"))
        }
        (ErrorKind::QuotaExceeded, _) => Refusal::of_quota(quota_example()),
        (ErrorKind::PlanInactive, _) => {
            Refusal::of_quota(Quota { plan: "plus", limit: None, used: None, resets_at: None })
        }
        (ErrorKind::MissingScope, Some(scope)) => Refusal::of_scope(scope),
        (ErrorKind::QueueUnavailable, _) => {
            let results = vec![result(0, EventStatus::Unavailable)];
            let refused = Accepted { results, problems: Vec::new(), quota: None }.or_refusal();
            refused.err().unwrap_or_else(|| Refusal::new(kind))
        }
        _ => Refusal::new(kind),
    }
}

fn unknown_example() -> Option<Standing> {
    let id = EventId::parse(EVENT_ID).ok()?;
    Some(Standing { id, status: StandingStatus::Unknown, terminal: false, known: None, conflicts_seen: 0 })
}

fn standing_example() -> Option<Standing> {
    let known = Known {
        submission_id: SUBMISSION.to_owned(),
        fingerprint: Fingerprint::parse("6f073f32dc04137647c6575286161bd161efb0fe70ca26372aaced307d791631").ok()?,
        period_month: PeriodMonth::parse("2026-08").ok()?,
        claimed_at: "2026-08-18T09:15:01.002Z".to_owned(),
        updated_at: "2026-08-18T09:15:01.044Z".to_owned(),
        billed_as: Some("free".to_owned()),
        billing_accepted_at: Some("2026-08-18T09:15:01.013Z".to_owned()),
        rejection: None,
    };
    Some(Standing { status: StandingStatus::Inserted, terminal: true, known: Some(known), ..unknown_example()? })
}

fn usage_example() -> Option<Usage> {
    Some(Usage {
        space: SpaceId::parse("acme").ok()?,
        month: PeriodMonth::parse("2026-11").ok()?,
        plan: "free",
        active: None,
        used: Some(7),
        limit: Some(1_000),
        remaining: Some(993),
        included: None,
        resets_at: "2026-12-01T00:00:00.000Z".to_owned(),
    })
}

fn keys_example() -> Option<KeyList> {
    let key = KeyEntry {
        key_id: "0198a4b20198a4b2".to_owned(),
        label: "ingest from the gateway".to_owned(),
        scopes: vec![Scope::Ingest.as_str()],
        created_at: "2026-08-01T00:00:00.000Z".to_owned(),
        last_used_at: Some("2026-08-18T09:15:01.002Z".to_owned()),
        revoked_at: None,
    };
    Some(KeyList { space: SpaceId::parse("acme").ok()?, keys: vec![key] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_the_router_s_routes_and_no_other() {
        let document: Value = serde_json::from_str(document()).unwrap();
        let described: Vec<(String, String)> = document["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, item)| {
                item.as_object().unwrap().keys().map(|method| (path.clone(), method.to_uppercase()))
            })
            .collect();
        let mut served = Route::ALL.map(|route| (route.path().to_owned(), route.method().to_string()));
        served.sort();
        assert_eq!(described, served);
    }

    #[test]
    fn an_operation_has_each_of_its_errors_once() {
        for route in Route::ALL {
            let codes: Vec<_> = errors(route).into_iter().map(|kind| kind.row().code).collect();
            let distinct: std::collections::BTreeSet<_> = codes.iter().collect();
            assert_eq!(distinct.len(), codes.len(), "{}", route.path());
        }
    }
}

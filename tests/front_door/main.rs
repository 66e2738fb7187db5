//! The real front door, as a process, over engines that fail: what fails open does, and what fails closed does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::http::request::Parts;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tollgate_domain::key::{ApiKey, KEY_BYTES, KeyRecord, Scope};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::{Limit, SpaceRecord, Subscription};
use tollgate_domain::ports::Clock;
use tollgate_domain::space::SpaceId;
use tollgate_stores::clock::SystemClock;
use tollgate_tests::clients::{Report, Size};
use tollgate_tests::faults::{Endpoints, Fate, Relay};
use tollgate_tests::live::{Engines, FrontDoor, FrontDoorSettings, Program, Queues, WorkerSettings};

/// How long a stalled engine is silent: longer than any of the front door's own times.
const SILENCE: Duration = Duration::from_secs(30);
/// More than the gate's default: on a busy machine that may run out before the meter is asked at all, and the call would
/// pass, rightly.
const AMPLE: (&str, &str) = ("TOLLGATE_GATE_BUDGET_MS", "3000");
/// Far below the silence and far above the gate's budget: a slow machine is no failure.
const PROMPT: Duration = Duration::from_secs(10);
const THROTTLED: Fate = Fate::Answered(
    400,
    r#"{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"injected"}"#,
);
const DOWN: Fate =
    Fate::Answered(500, r#"{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError","message":"injected"}"#);

fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_proof"), &["tollgate"])
}

async fn engines() -> Engines {
    let stack = tollgate_cli::stack::up("tests", Some(std::process::id())).unwrap();
    Engines::connect(stack).await.unwrap()
}

/// A new key of the space.
async fn key(engines: &Engines, space: &SpaceId) -> ApiKey {
    let unique = Engines::unique("key").into_bytes();
    let mut bytes = [0; KEY_BYTES];
    bytes.iter_mut().zip(unique).for_each(|(byte, unique)| *byte = unique);
    let key = ApiKey::from_random(bytes);
    let record = KeyRecord {
        space: space.clone(),
        scopes: [Scope::Ingest].into(),
        created_at: SystemClock.now(),
        revoked_at: None,
        last_used_at: None,
        label: "test".to_owned(),
    };
    engines.stores.keys.create(&key.hash(), &record).await.unwrap();
    key
}

/// A free space whose month is full, and a key of it.
async fn full_space(engines: &Engines) -> (SpaceId, ApiKey) {
    let space = Engines::unique_space("full").unwrap();
    let record = SpaceRecord { subscription: Subscription::Free, monthly_limit: Limit::new(1) };
    engines.stores.spaces.set(&space, &record).await.unwrap();
    let month = PeriodMonth::of(SystemClock.now());
    let count = aws_sdk_dynamodb::types::AttributeValue::N("1".to_owned());
    let text = |text: &str| aws_sdk_dynamodb::types::AttributeValue::S(text.to_owned());
    for month in [month, month.next()] {
        let put = engines.dynamo.put_item().table_name(&engines.config.names.meter_table);
        let put = put.item("pk", text(space.as_str())).item("sk", text(&month.to_string()));
        put.item("eventCount", count.clone()).send().await.unwrap();
    }
    let key = key(engines, &space).await;
    (space, key)
}

struct Answered {
    status: u16,
    retry_after: Option<String>,
    body: Value,
    took: Duration,
}

/// Sends one event of its own.
async fn post(door: &FrontDoor, key: &ApiKey) -> Answered {
    post_traced(door, key, None).await
}

/// The same, within a trace.
async fn post_traced(door: &FrontDoor, key: &ApiKey, trace_parent: Option<&str>) -> Answered {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let event = serde_json::json!({
        "meter": "m", "subject": "s", "occurredAt": "2026-01-01T00:00:00Z", "quantity": 1,
        "idempotencyKey": Engines::unique("event"),
    });
    let request = Request::post(format!("{}/v1/events", door.url))
        .header("authorization", format!("Bearer {}", key.expose()))
        .header("content-type", "application/json");
    let request = trace_parent.into_iter().fold(request, |request, parent| request.header("traceparent", parent));
    let request = request.body(Full::from(event.to_string())).unwrap();
    let start = Instant::now();
    let answer = client.request(request).await.unwrap();
    let took = start.elapsed();
    let status = answer.status().as_u16();
    let retry_after = answer.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    Answered { status, retry_after, body: serde_json::from_slice(&body).unwrap(), took }
}

/// Whether this is a call to the DynamoDB table.
fn is_of(table: &str, parts: &Parts, body: &[u8]) -> bool {
    let target = parts.headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    target.starts_with("DynamoDB") && String::from_utf8_lossy(body).contains(&format!("\"{table}\""))
}

async fn start(engines: &Engines, queues: &Queues, settings: FrontDoorSettings, name: &str) -> FrontDoor {
    let log = engines.stack.state_dir.join("front-door").join(format!("{}.log", Engines::unique(name)));
    FrontDoor::start(engines, &program(), queues, &settings, &log).await.unwrap()
}

/// One event of a full space through a front door whose calls to the meter's table end as `fate` says.
async fn gate_under(fate: Fate, variables: &[(&'static str, &str)]) -> (Answered, u64, u64) {
    let engines = engines().await;
    let (_, key) = full_space(&engines).await;
    let queues = Queues::create(&engines).await.unwrap();
    let meter = engines.config.names.meter_table.clone();
    let judge = move |parts: &Parts, body: &[u8]| if is_of(&meter, parts, body) { fate } else { Fate::Passed };
    let relay = Relay::start(&engines.upstreams().unwrap().aws, judge).await.unwrap();
    let variables = variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    let settings = FrontDoorSettings { aws_url: Some(relay.url.clone()), variables, ..Default::default() };
    let door = start(&engines, &queues, settings, "gate").await;
    let answered = post(&door, &key).await;
    let queued = queues.depth().await.unwrap().visible;
    queues.delete().await.unwrap();
    (answered, queued, relay.struck())
}

#[tokio::test]
async fn with_the_meter_in_order_a_full_space_hears_402_and_nothing_is_queued() {
    let (answered, queued, _) = gate_under(Fate::Passed, &[AMPLE]).await;
    assert_eq!((answered.status, &answered.body["code"], queued), (402, &Value::from("quota_exceeded"), 0));
}

#[tokio::test]
async fn with_the_meter_s_table_missing_ingestion_answers_202() {
    let (answered, queued, _) = gate_under(Fate::Passed, &[("TOLLGATE_METER_TABLE", "tollgate-no-such-table")]).await;
    assert_eq!((answered.status, queued), (202, 1));
    assert!(answered.took < PROMPT, "{:?}", answered.took);
}

#[tokio::test]
async fn with_the_meter_throttled_ingestion_answers_202() {
    let (answered, queued, struck) = gate_under(THROTTLED, &[AMPLE]).await;
    assert_eq!((answered.status, queued), (202, 1));
    assert!(struck >= 1 && answered.took < PROMPT, "{struck} {:?}", answered.took);
}

#[tokio::test]
async fn with_the_meter_stalled_for_30_s_ingestion_answers_202_long_before() {
    let (answered, queued, struck) = gate_under(Fate::Stalled(SILENCE), &[AMPLE]).await;
    assert_eq!((answered.status, queued), (202, 1));
    assert!(struck >= 1 && answered.took < PROMPT, "{struck} {:?}", answered.took);
}

#[tokio::test]
async fn with_the_keys_table_down_unknown_keys_hear_503_and_cached_ones_go_on() {
    let engines = engines().await;
    let space = Engines::unique_space("keys").unwrap();
    let (cached, uncached) = (key(&engines, &space).await, key(&engines, &space).await);
    let queues = Queues::create(&engines).await.unwrap();
    let (table, is_down) = (engines.config.names.keys_table.clone(), Arc::new(AtomicBool::new(false)));
    let down = Arc::clone(&is_down);
    let judge = move |parts: &Parts, body: &[u8]| {
        if down.load(Ordering::Relaxed) && is_of(&table, parts, body) { DOWN } else { Fate::Passed }
    };
    let relay = Relay::start(&engines.upstreams().unwrap().aws, judge).await.unwrap();
    // Kept for no time: the second call has to ask again.
    let variables = vec![("TOLLGATE_KEY_CACHE_MS", "0".to_owned())];
    let settings = FrontDoorSettings { aws_url: Some(relay.url.clone()), variables, ..Default::default() };
    let door = start(&engines, &queues, settings, "keys").await;

    assert_eq!(post(&door, &cached).await.status, 202);
    is_down.store(true, Ordering::Relaxed);
    let refused = post(&door, &uncached).await;
    assert_eq!((refused.status, &refused.body["code"]), (503, &Value::from("authentication_unavailable")));
    assert!(refused.retry_after.is_some());
    let struck = relay.struck();
    assert_eq!(post(&door, &cached).await.status, 202);
    assert!(relay.struck() > struck, "the cached key was asked about, and went on without an answer");
    is_down.store(false, Ordering::Relaxed);
    assert_eq!(post(&door, &uncached).await.status, 202);
    queues.delete().await.unwrap();
}

#[tokio::test]
async fn a_call_s_trace_context_stands_on_every_line_that_the_worker_logs_of_its_event() {
    const TRACE_PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let engines = engines().await;
    let key = key(&engines, &Engines::unique_space("trace").unwrap()).await;
    let queues = Queues::create(&engines).await.unwrap();
    let door = start(&engines, &queues, FrontDoorSettings::default(), "trace").await;
    let mut ids = Vec::new();
    for trace_parent in [Some(TRACE_PARENT), Some("00-not-a-trace"), None] {
        let answered = post_traced(&door, &key, trace_parent).await;
        assert_eq!(answered.status, 202);
        ids.push(answered.body["results"][0]["id"].as_str().unwrap().to_owned());
    }

    let log = engines.stack.state_dir.join("front-door").join(format!("{}.log", Engines::unique("worker")));
    let (aws_url, clickhouse_url) = (engines.stack.aws_endpoint_url.clone(), engines.stack.clickhouse_url.clone());
    let endpoints = Endpoints { aws_url, clickhouse_url };
    let database = engines.config.clickhouse.database.clone();
    let settings = WorkerSettings { variables: Vec::new(), internal_spaces: Vec::new(), database };
    let _worker = program().start_worker(&engines, &queues, &endpoints, &settings, &log).unwrap();
    let decided = |log: &str, id: &str| log.lines().any(|line| line.contains(id) && line.contains("verdict"));
    let start = Instant::now();
    let text = loop {
        let text = std::fs::read_to_string(&log).unwrap();
        if ids.iter().all(|id| decided(&text, id)) {
            break text;
        }
        assert!(start.elapsed() < PROMPT, "{text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let lines = |id: &str| -> Vec<Value> {
        let of_event = text.lines().filter(|line| line.contains(id));
        of_event.map(|line| serde_json::from_str::<Value>(line).unwrap()["span"]["traceparent"].clone()).collect()
    };
    assert_eq!(lines(&ids[0]), [Value::from(TRACE_PARENT)]);
    assert_eq!((lines(&ids[1]), lines(&ids[2])), (vec![Value::Null], vec![Value::Null]), "nothing is made up");
    queues.delete().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_clients_over_a_connection_that_loses_answers_are_told_is_what_the_ledger_holds() {
    let engines = engines().await;
    let told = |line: &str| println!("{line}");
    let report = tollgate_tests::clients::run(Size::Test, 1, &engines, &program(), &told).await.unwrap();
    let Report { findings, disagreements, told, lost_answers, .. } = report;
    assert_eq!((findings, disagreements), (Vec::new(), Vec::<String>::new()));
    assert!(lost_answers > 0);
    for outcome in ["inserted", "duplicate", "conflict"] {
        assert!(told.contains_key(outcome), "{told:?}");
    }
}

//! The same router on Lambda: the real program against a stub of the runtime's API.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The runtime's side: invocations to hand out, answers that came back.
#[derive(Clone)]
struct Runtime {
    invocations: Arc<Mutex<UnboundedReceiver<Value>>>,
    answers: UnboundedSender<Value>,
}

async fn next(State(runtime): State<Runtime>) -> Response {
    let Some(event) = runtime.invocations.lock().await.recv().await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let mut headers = HeaderMap::new();
    headers.insert("lambda-runtime-aws-request-id", "invocation-1".parse().unwrap());
    headers.insert("lambda-runtime-deadline-ms", "9999999999999".parse().unwrap());
    headers.insert("lambda-runtime-invoked-function-arn", "arn:aws:lambda:us-east-1:0:function:f".parse().unwrap());
    (headers, event.to_string()).into_response()
}

async fn answered(State(runtime): State<Runtime>, Path(_): Path<String>, body: String) -> StatusCode {
    let _ = runtime.answers.send(serde_json::from_str(&body).unwrap());
    StatusCode::ACCEPTED
}

/// An HTTP API's event, version 2.0.
fn request(method: &str, path: &str, body: &str) -> Value {
    json!({
        "version": "2.0", "routeKey": "$default", "rawPath": path, "rawQueryString": "",
        "headers": {"content-type": "application/json", "host": "api.example.com"},
        "requestContext": {
            "accountId": "0", "apiId": "a", "domainName": "api.example.com", "domainPrefix": "api",
            "http": {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1", "userAgent": "test"},
            "requestId": "r", "routeKey": "$default", "stage": "$default", "time": "30/Nov/2026:00:00:00 +0000",
            "timeEpoch": 1_796_000_000_000_i64
        },
        "body": body, "isBase64Encoded": false
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_router_answers_lambda_s_events() {
    let (invoke, invocations) = unbounded_channel();
    let (answers, mut answer) = unbounded_channel();
    let runtime = Runtime { invocations: Arc::new(Mutex::new(invocations)), answers };
    let api = Router::new()
        .route("/2018-06-01/runtime/invocation/next", get(next))
        .route("/2018-06-01/runtime/invocation/{id}/response", post(answered))
        .with_state(runtime);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move { axum::serve(listener, api).await });

    let names = ["LEDGER_TABLE", "METER_TABLE", "SPACES_TABLE", "KEYS_TABLE", "RECEIPTS_TABLE", "EVENT_QUEUE_URL"];
    let mut function = Command::new(env!("CARGO_BIN_EXE_tollgate-front-door"))
        .envs(names.map(|name| (format!("TOLLGATE_{name}"), "unused")))
        .env_remove("CLICKHOUSE_URL")
        .env("AWS_LAMBDA_RUNTIME_API", address.to_string())
        .env("AWS_LAMBDA_FUNCTION_NAME", "f")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
        .env("AWS_LAMBDA_FUNCTION_VERSION", "1")
        .env("AWS_LAMBDA_LOG_GROUP_NAME", "g")
        .env("AWS_LAMBDA_LOG_STREAM_NAME", "s")
        .env("AWS_REGION", "us-east-1")
        .stderr(Stdio::null())
        .spawn()
        .unwrap();

    let mut ask = async |event: Value| {
        invoke.send(event).unwrap();
        tokio::time::timeout(Duration::from_secs(20), answer.recv()).await.unwrap().unwrap()
    };
    let healthy = ask(request("GET", "/healthz", "")).await;
    let refused = ask(request("POST", "/v1/events", "{}")).await;
    function.kill().unwrap();
    function.wait().unwrap();
    serving.abort();

    assert_eq!(healthy["statusCode"], 200, "{healthy}");
    assert_eq!(refused["statusCode"], 401, "{refused}");
    let problem: Value = serde_json::from_str(refused["body"].as_str().unwrap()).unwrap();
    assert_eq!(problem["code"], "missing_key", "{problem}");
}

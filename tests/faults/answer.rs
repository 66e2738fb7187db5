//! Answers that an engine gives when it does nothing, each in the engine's own form.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Response, StatusCode};

use crate::faults::{Edge, Engine, WireEffect};

const CANCELLED: &str = r#"{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","Message":"Transaction cancelled, please refer cancellation reasons for specific reasons [TransactionConflict, None]","CancellationReasons":[{"Code":"TransactionConflict","Message":"Transaction is ongoing for the item"},{"Code":"None"}]}"#;

/// What the engine says, where the edge makes it say something.
pub(crate) fn answer(effect: WireEffect, edge: Edge) -> Option<Response<Full<Bytes>>> {
    let answer = match (effect.engine(), edge) {
        (Engine::DynamoDb, Edge::Refused) => dynamodb(500, "InternalServerError"),
        (Engine::DynamoDb, Edge::Throttled) => dynamodb(400, "ProvisionedThroughputExceededException"),
        (Engine::DynamoDb, Edge::Conflicted) if effect == WireEffect::Consume => json(400, CANCELLED.to_owned()),
        (Engine::DynamoDb, Edge::Conflicted) => dynamodb(400, "TransactionConflictException"),
        (Engine::Sqs, Edge::Refused) => sqs(500, "InternalError"),
        (Engine::Sqs, Edge::Throttled) => sqs(403, "RequestThrottled"),
        (Engine::S3, Edge::Refused) => s3(500, "InternalError"),
        (Engine::S3, Edge::Throttled) => s3(503, "SlowDown"),
        (Engine::S3, Edge::Conflicted) => s3(409, "ConditionalRequestConflict"),
        (Engine::ClickHouse, Edge::Refused) => whole(500, "text/plain", "the server shuts down (injected)".to_owned()),
        // TOO_MANY_SIMULTANEOUS_QUERIES
        (Engine::ClickHouse, Edge::Throttled) => clickhouse(202),
        // VIOLATED_CONSTRAINT
        (Engine::ClickHouse, Edge::Poisoned) => clickhouse(469),
        _ => return None,
    };
    Some(answer)
}

fn dynamodb(status: u16, code: &str) -> Response<Full<Bytes>> {
    json(status, format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"injected"}}"#))
}

fn sqs(status: u16, code: &str) -> Response<Full<Bytes>> {
    json(status, format!(r#"{{"__type":"com.amazonaws.sqs#{code}","message":"injected"}}"#))
}

fn s3(status: u16, code: &str) -> Response<Full<Bytes>> {
    let head = r#"<?xml version="1.0" encoding="UTF-8"?>"#;
    whole(status, "application/xml", format!("{head}<Error><Code>{code}</Code><Message>injected</Message></Error>"))
}

fn clickhouse(code: u32) -> Response<Full<Bytes>> {
    whole(500, "text/plain", format!("Code: {code}. DB::Exception: injected"))
}

fn json(status: u16, body: String) -> Response<Full<Bytes>> {
    whole(status, "application/x-amz-json-1.0", body)
}

fn whole(status: u16, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::from(body));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static(content_type));
    answer
}

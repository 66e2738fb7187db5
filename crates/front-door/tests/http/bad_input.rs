//! Each bad input has its own clear error, and nothing of its call is queued.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};
use tollgate_front_door::config::FrontDoorConfig;

use crate::fakes::{Answer, EVENT, World, ask, post};

/// The good event with one member replaced by this JSON text.
fn with(field: &str, text: &str) -> String {
    let mut event: Value = serde_json::from_str(EVENT).unwrap();
    event[field] = json!("@");
    event.to_string().replace("\"@\"", text)
}

fn without(field: &str) -> String {
    let mut event: Value = serde_json::from_str(EVENT).unwrap();
    event.as_object_mut().unwrap().remove(field);
    event.to_string()
}

async fn answer_to(body: String) -> Answer {
    let world = World::new();
    let answer = ask(&world.router(FrontDoorConfig::default()), post(body)).await;
    if answer.status != 202 {
        assert_eq!(world.sent(), [], "nothing is queued");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    }
    answer
}

#[tokio::test]
async fn every_bad_event_has_its_own_error() {
    let long = |chars: usize| format!("\"{}\"", "x".repeat(chars));
    let deep = format!("{}1{}", "[".repeat(40), "]".repeat(40));
    let big_bag = format!(r#"{{"a":"{}"}}"#, "x".repeat(64 * 1024));
    for (body, code, field) in [
        ("null".to_owned(), "not_an_object", ""),
        ("3".to_owned(), "not_an_object", ""),
        (r#""text""#.to_owned(), "not_an_object", ""),
        (without("meter"), "missing_field", "meter"),
        (without("subject"), "missing_field", "subject"),
        (without("occurredAt"), "missing_field", "occurredAt"),
        (without("quantity"), "missing_field", "quantity"),
        (with("meter", "7"), "wrong_type", "meter"),
        (with("subject", "[]"), "wrong_type", "subject"),
        (with("occurredAt", "1767225600"), "wrong_type", "occurredAt"),
        (with("quantity", "\"1\""), "wrong_type", "quantity"),
        (with("properties", "[1]"), "wrong_type", "properties"),
        (with("source", "true"), "wrong_type", "source"),
        (with("meter", r#""a\u001fb""#), "control_character", "meter"),
        (with("subject", r#""a\nb""#), "control_character", "subject"),
        (with("source", r#""a\u0000b""#), "control_character", "source"),
        (with("idempotencyKey", r#""a\u0085b""#), "control_character", "idempotencyKey"),
        (with("meter", "\"\""), "empty_text", "meter"),
        (with("idempotencyKey", "\"\""), "empty_text", "idempotencyKey"),
        (with("meter", &long(129)), "text_too_long", "meter"),
        (with("subject", &long(257)), "text_too_long", "subject"),
        (with("quantity", "0"), "quantity_out_of_range", "quantity"),
        (with("quantity", "-1"), "quantity_out_of_range", "quantity"),
        (with("quantity", "1.5"), "quantity_not_an_integer", "quantity"),
        (with("quantity", "1.0"), "quantity_not_an_integer", "quantity"),
        (with("quantity", "9223372036854775808"), "number_out_of_range", "quantity"),
        (with("quantity", "9007199254740992"), "number_out_of_range", "quantity"),
        (with("quantity", "1e400"), "invalid_json", ""),
        (with("occurredAt", r#""2026-02-30T00:00:00Z""#), "no_such_time", "occurredAt"),
        (with("occurredAt", r#""yesterday""#), "malformed_time", "occurredAt"),
        (with("occurredAt", r#""2026-01-01T00:00:00.1234Z""#), "time_too_fine", "occurredAt"),
        (with("occurredAt", r#""2026-11-30T12:05:00.001Z""#), "time_in_the_future", "occurredAt"),
        (with("space", r#""other""#), "unknown_field", "space"),
        (with("properties", &big_bag), "event_too_large", ""),
        (with("properties", &format!(r#"{{"deep":{deep}}}"#)), "nested_too_deep", "properties.deep"),
        (with("properties", r#"{"a":1,"a":2}"#), "duplicate_key", "properties.a"),
        (with("properties", r#"{"lone":"\ud800"}"#), "invalid_json", ""),
    ] {
        for (is_array, body) in [(false, body.clone()), (true, format!("[{EVENT},{body}]"))] {
            let answer = answer_to(body.clone()).await;
            let shown: String = body.chars().take(120).collect();
            assert_eq!(answer.status, 400, "{shown}");
            let told = answer.body["problems"].as_array().unwrap();
            let problem = &told[0];
            assert_eq!(told.len(), 1, "{shown}: {told:?}");
            assert_eq!(problem["code"], code, "{shown}");
            assert!(problem["field"].as_str().unwrap().starts_with(field), "{shown}: {problem}");
            assert!(!problem["problem"].as_str().unwrap().is_empty(), "{shown}");
            assert!(!problem["mend"].as_str().unwrap().is_empty(), "{shown}");
            if code == "invalid_json" {
                assert_eq!(answer.code(), "invalid_json", "{shown}");
            } else {
                assert_eq!(answer.code(), "invalid_events", "{shown}");
                assert_eq!(problem["index"], u64::from(is_array), "{shown}");
            }
        }
    }
}

#[tokio::test]
async fn what_is_not_json_is_told_so() {
    for body in ["", "{", "not json", "{\"meter\":}", "[1,]", "{} {}", "\u{feff}{}", "NaN"] {
        let answer = answer_to(body.to_owned()).await;
        assert_eq!((answer.status, answer.code()), (400, "invalid_json"), "{body}");
        assert_eq!(answer.body["problems"][0]["code"], "invalid_json", "{body}");
    }
    let world = World::new();
    let answer = ask(&world.router(FrontDoorConfig::default()), post(vec![0xff, 0xfe, b'{'])).await;
    assert_eq!((answer.status, answer.code()), (400, "invalid_json"));
}

#[tokio::test]
async fn bottomless_nesting_is_refused_at_any_depth() {
    for depth in [40, 200, 100_000, 500_000] {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
            let depth = depth.min(1_000_000 / (open.len() + 1));
            for body in [open.repeat(depth), format!("{}1{}", open.repeat(depth), close.repeat(depth))] {
                assert_eq!(answer_to(body).await.status, 400, "{open} {depth}");
            }
        }
    }
}

#[tokio::test]
async fn each_limit_is_told_with_its_value_its_place_and_its_event_before_anything_is_parsed() {
    let members: Vec<String> = (0..1_001).map(|n| format!("\"{n}\":0")).collect();
    for (value, code, told) in [
        (format!("{}1{}", "[".repeat(70), "]".repeat(70)), "nested_too_deep", "64"),
        (format!("{{{}}}", members.join(",")), "too_many_members", "1000"),
        (format!("[{}]", vec!["0"; 10_002].join(",")), "too_many_items", "10000"),
        (format!("\"{}\"", "x".repeat(196_609)), "string_too_long", "196608"),
    ] {
        // What follows is no JSON, and nobody looks.
        for (index, body) in [(0, with("properties", &value)), (1, format!("[{EVENT},{}", with("properties", &value)))]
        {
            let answer = answer_to(body).await;
            assert_eq!((answer.status, answer.code()), (400, "body_too_complex"), "{code}");
            let problem = &answer.body["problems"][0];
            assert_eq!((&problem["code"], &problem["index"]), (&json!(code), &json!(index)));
            let text = problem["problem"].as_str().unwrap();
            assert!(text.contains(told) && text.contains("at byte "), "{text}");
        }
    }
}

#[tokio::test]
async fn nothing_that_a_client_can_send_is_answered_with_a_server_error() {
    let nasty: [&[u8]; 20] = [
        b"",
        b"\0",
        b"\xef\xbb\xbf{}",
        b"\xff\xfe{\0}\0",
        b"\xed\xa0\x80",
        b"[[[[",
        b"]",
        b"}{",
        b"\"",
        b"\"\\",
        b"\"\\u",
        b"{\"\":\"\"}",
        b"{\"a\"",
        b"[,]",
        b"-",
        b"1e99999",
        b"-0",
        b"{\"meter\":{\"meter\":[]}}",
        b"[null,[],{},\"\",0,true]",
        b"{\"quantity\":-9223372036854775809,\"occurredAt\":\"9999-99-99T99:99:99.999+99:99\"}",
    ];
    let names = [
        "content-type",
        "content-encoding",
        "content-length",
        "ce-specversion",
        "ce-id",
        "ce-source",
        "ce-type",
        "ce-subject",
        "ce-time",
        "ce-quantity",
        "ce-data",
        "ce-",
        "traceparent",
        "x-request-id",
        "tollgate-submission-id",
        "accept",
        "expect",
        "te",
    ];
    let values: [&[u8]; 10] = [
        b"",
        b"1.0",
        b"application/json",
        b"application/cloudevents+json",
        b"application/cloudevents-batch+json",
        b"\xff",
        b"%",
        b"%ff%00",
        b"\"",
        b"999999999999999999999999",
    ];
    let world = World::new();
    let router = world.router(FrontDoorConfig::default());
    for body in nasty {
        for name in names {
            for value in values {
                for query in ["", "?partial=true", "?partial=%ff&&==&%", "?%00"] {
                    let mut request = post(body.to_vec());
                    *request.uri_mut() = format!("/v1/events{query}").parse().unwrap();
                    request.headers_mut().insert(name, http::HeaderValue::from_bytes(value).unwrap());
                    let answer = ask(&router, request).await;
                    assert!(
                        (400..500).contains(&answer.status),
                        "{body:?} {name}: {value:?} {query}: {}",
                        answer.status
                    );
                    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
                }
            }
        }
    }
    assert_eq!(world.sent(), []);
}

#[tokio::test]
async fn one_answer_tells_every_problem_of_every_event() {
    let bad = r#"{"meter":7,"subject":"s","occurredAt":"2026-02-30T00:00:00Z","quantity":9223372036854775808,"properties":{"a":1,"a":2}}"#;
    let answer = answer_to(format!("[{bad},{EVENT},{}]", with("quantity", "0"))).await;
    let told: Vec<_> = answer.body["problems"].as_array().unwrap().iter().map(|p| (&p["index"], &p["field"])).collect();
    let expected = [(0, "quantity"), (0, "properties.a"), (0, "meter"), (0, "occurredAt"), (2, "quantity")];
    let expected: Vec<_> = expected.map(|(index, field)| (json!(index), json!(field))).into();
    assert_eq!(told, expected.iter().map(|(index, field)| (index, field)).collect::<Vec<_>>());
    assert_eq!(answer.body["status"], 400);
    assert_eq!(answer.body["type"], "urn:tollgate:error:invalid_events");
}

#[tokio::test]
async fn an_answer_never_outgrows_its_question() {
    let names: Vec<String> = (0..100).map(|n| format!("\"u{n}\":0")).collect();
    let event = format!("{{{}}}", names.join(","));
    let answer = answer_to(format!("[{}]", vec![event; 500].join(","))).await;
    assert_eq!(answer.body["problems"].as_array().unwrap().len(), 1_000);
    assert_eq!(answer.body["problemsOmitted"], 500 * 104 - 1_000);
}

#[tokio::test]
async fn a_call_has_one_to_five_hundred_events() {
    for (events, status, code) in [(0, 400, "empty_call"), (1, 202, ""), (500, 202, ""), (501, 400, "too_many_events")]
    {
        let answer = answer_to(format!("[{}]", vec![EVENT; events].join(","))).await;
        assert_eq!(answer.status, status, "{events}");
        assert_eq!(answer.body["problems"][0]["code"].as_str().unwrap_or_default(), code, "{events}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_over_one_mebibyte_is_refused_unparsed() {
    let world = World::new();
    let router = world.router(FrontDoorConfig::default());
    let fits = format!("{EVENT}{}", " ".repeat(1024 * 1024 - EVENT.len()));
    assert_eq!(ask(&router, post(fits.clone())).await.status, 202);
    let answer = ask(&router, post(format!("{fits} "))).await;
    assert_eq!((answer.status, answer.code(), answer.header("connection")), (413, "body_too_large", Some("close")));

    // Announced too large: refused without a byte of it, at once where the client waits for a word.
    for (expect, seconds) in [(None, 2), (Some("100-continue"), 0)] {
        let mut request = post(Body::from_stream(futures_util::stream::pending::<Result<String, std::io::Error>>()));
        request.headers_mut().insert("content-length", "1048577".parse().unwrap());
        expect.map(|expect| request.headers_mut().insert("expect", expect.parse().unwrap()));
        let asked_at = tokio::time::Instant::now();
        assert_eq!(ask(&router, request).await.status, 413);
        assert_eq!(asked_at.elapsed().as_secs(), seconds);
    }
}

#[tokio::test]
async fn what_is_taken_of_a_body_that_is_refused_has_an_end() {
    let router = World::new().router(FrontDoorConfig::default());
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    let endless = futures_util::stream::repeat_with(move || {
        count.fetch_add(1, Ordering::Relaxed);
        Ok::<_, std::io::Error>(" ".repeat(1024 * 1024))
    });
    assert_eq!(ask(&router, post(Body::from_stream(endless))).await.status, 413);
    assert_eq!(taken.load(Ordering::Relaxed), 1 + 1 + 8, "the body, what is too much, and the rest");
}

#[tokio::test]
async fn a_transfer_coding_other_than_chunked_is_refused_on_every_route() {
    let world = World::new();
    let router = world.router(FrontDoorConfig::default());
    for (codings, status) in [
        (&["chunked"][..], 202),
        (&[" Chunked "], 202),
        (&["gzip, chunked"], 400),
        (&["gzip", "chunked"], 400),
        (&["chunked", "chunked"], 400),
        (&["identity"], 400),
        (&[""], 400),
    ] {
        let mut request = post(EVENT);
        for coding in codings {
            request.headers_mut().append("transfer-encoding", coding.parse().unwrap());
        }
        let answer = ask(&router, request).await;
        assert_eq!(answer.status, status, "{codings:?}");
        if status == 400 {
            assert_eq!((answer.code(), answer.header("connection")), ("bad_framing", Some("close")), "{codings:?}");
        }
    }
    assert_eq!(world.sent().len(), 2);
    let health = Request::get("/healthz").header("transfer-encoding", "gzip, chunked").body(Body::empty()).unwrap();
    assert_eq!(ask(&router, health).await.code(), "bad_framing");
}

#[tokio::test]
async fn the_body_s_kind_is_checked_before_it_is_read() {
    let world = World::new();
    let router = world.router(FrontDoorConfig::default());
    for (name, value, status) in [
        ("content-type", Some("application/json; charset=utf-8"), 202),
        ("content-type", Some("Application/JSON"), 202),
        ("content-type", None, 202),
        ("content-type", Some("text/plain"), 415),
        ("content-type", Some("application/jsonl"), 415),
        ("content-type", Some("\u{e9}"), 415),
        ("content-encoding", Some("identity"), 202),
        ("content-encoding", Some("Identity"), 202),
        ("content-encoding", Some("gzip"), 415),
        ("content-encoding", Some("identity, br"), 415),
        ("content-encoding", Some("zstd"), 415),
        ("content-encoding", Some(""), 415),
    ] {
        let mut request = post(EVENT);
        request.headers_mut().remove(name);
        value.map(|value| request.headers_mut().insert(name, http::HeaderValue::from_bytes(value.as_bytes()).unwrap()));
        let answer = ask(&router, request).await;
        assert_eq!(answer.status, status, "{name}: {value:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_off_or_never_comes_is_refused() {
    let world = World::new();
    let router = world.router(FrontDoorConfig::default());
    let stalled = Body::from_stream(futures_util::stream::pending::<Result<String, std::io::Error>>());
    let answer = ask(&router, post(stalled)).await;
    assert_eq!((answer.status, answer.code(), answer.header("retry-after")), (408, "body_timeout", Some("1")));
    let broken = Body::from_stream(futures_util::stream::iter([Err::<String, _>(std::io::Error::other("reset"))]));
    let answer = ask(&router, post(broken)).await;
    assert_eq!((answer.status, answer.code()), (400, "incomplete_body"));
    assert_eq!(world.sent(), []);
}

#[tokio::test]
async fn other_routes_and_methods_are_told_in_the_same_form() {
    let router = World::new().router(FrontDoorConfig::default());
    for (method, path, status, code) in [
        ("GET", "/", 404, "not_found"),
        ("POST", "/v1/event", 404, "not_found"),
        ("GET", "/v1/events", 405, "method_not_allowed"),
        ("DELETE", "/v1/events", 405, "method_not_allowed"),
        ("POST", "/healthz", 405, "method_not_allowed"),
    ] {
        let answer = ask(&router, Request::builder().method(method).uri(path).body(Body::empty()).unwrap()).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{method} {path}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert_eq!(answer.header("allow").is_some(), status == 405, "{method} {path}");
    }
}

#[tokio::test]
async fn one_id_for_two_facts_is_refused_on_each_of_them() {
    let keyed = |quantity: u64| json!({"meter":"m","subject":"s","occurredAt":"2026-01-01T00:00:00Z","quantity":quantity,"idempotencyKey":"k"});
    let answer =
        answer_to(json!([keyed(1), serde_json::from_str::<Value>(EVENT).unwrap(), keyed(2), keyed(1)]).to_string())
            .await;
    assert_eq!((answer.status, answer.code()), (422, "same_id_other_payload"));
    let indexes: Vec<_> = answer.body["problems"].as_array().unwrap().iter().map(|p| p["index"].as_u64()).collect();
    assert_eq!(indexes, [Some(0), Some(2), Some(3)]);
    assert!(answer.body["problems"][0]["problem"].as_str().unwrap().contains("event 2"));

    // Beside an event that is invalid by itself, both are told in one answer.
    let answer = answer_to(json!([keyed(1), keyed(2), {}]).to_string()).await;
    assert_eq!((answer.status, answer.code()), (400, "invalid_events"));
    assert_eq!(answer.body["problems"].as_array().unwrap().len(), 2 + 4);
}

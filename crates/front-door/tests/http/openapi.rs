//! The OpenAPI document: it describes this router and nothing else, and what it shows works.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use axum::body::Body;
use http::{HeaderName, HeaderValue, Request};
use serde_json::{Value, json};
use tollgate_domain::call::{self, Form};
use tollgate_domain::event::{Event, MAX_METER_CHARS, MAX_TEXT_CHARS};
use tollgate_domain::key::Scope;
use tollgate_domain::plan::{SpaceRecord, Subscription};
use tollgate_domain::time::UtcMillis;
use tollgate_front_door::answer::ErrorKind;
use tollgate_front_door::config::{FrontDoorConfig, RateConfig};
use tollgate_front_door::openapi;

use crate::document::{DOCUMENT, operations, validator};
use crate::fakes::{Answer, EVENT, Mood, NOW, World, ask, get_as, key, post_as};

const ID: &str = "uev_5c8ec3ea62721af70f0521af0552578f89da8d295f45829ec6ab33fa38317745";

/// A request that is answered well, by the key that may do everything.
fn good(operation: &str) -> Request<Body> {
    match operation {
        "sendEvents" => post_as(&key(1), EVENT),
        "getEvent" => get_as(&key(1), &format!("/v1/events/{ID}")),
        "getUsage" => get_as(&key(1), "/v1/usage"),
        "listKeys" => get_as(&key(1), "/v1/keys"),
        "getHealth" => Request::get("/healthz").body(Body::empty()).unwrap(),
        "getReadiness" => Request::get("/readyz").body(Body::empty()).unwrap(),
        "getDocument" => Request::get("/openapi.json").body(Body::empty()).unwrap(),
        other => unreachable!("no request for {other}"),
    }
}

fn world() -> World {
    let world = World::new();
    world.add_key(&key(1), &[Scope::Admin], None);
    world
}

fn with(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    request.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    request
}

fn at(mut request: Request<Body>, path_and_query: &str) -> Request<Body> {
    *request.uri_mut() = path_and_query.parse().unwrap();
    request
}

/// Every member of this name, however deep.
fn members<'v>(value: &'v Value, name: &str, found: &mut Vec<&'v Value>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(name));
            fields.values().for_each(|value| members(value, name, found));
        }
        Value::Array(items) => items.iter().for_each(|value| members(value, name, found)),
        _ => {}
    }
}

#[tokio::test]
async fn the_document_is_served_to_everybody() {
    let answer = ask(&World::new().router(FrontDoorConfig::default()), good("getDocument")).await;
    assert_eq!((answer.status, &answer.body), (200, &*DOCUMENT));
    assert_eq!(answer.body["openapi"], "3.1.0");
    assert!(std::ptr::eq(openapi::document(), openapi::document()), "made once");
}

#[tokio::test]
async fn each_operation_is_served_and_needs_exactly_the_scope_that_it_names() {
    for (operation, described) in operations() {
        let needed = described["security"][0]["key"][0].as_str();
        for scope in [Scope::Ingest, Scope::Read, Scope::Admin] {
            let world = World::new();
            world.add_key(&key(1), &[scope], None);
            let answer = ask(&world.router(FrontDoorConfig::default()), good(operation)).await;
            let may = needed.is_none_or(|needed| scope.covers(Scope::from_stored(needed).unwrap()));
            assert_eq!(answer.status < 400, may, "{operation} with {scope}");
            assert!(may || answer.code() == "missing_scope", "{operation} with {scope}");
        }
    }
}

#[test]
fn house_rules() {
    let mut ids = BTreeSet::new();
    for (operation, described) in operations() {
        assert!(ids.insert(operation), "{operation} twice");
        for member in ["summary", "description"] {
            assert!(described[member].as_str().is_some_and(|text| !text.is_empty()), "{operation}: {member}");
        }
        assert_eq!(described["tags"].as_array().unwrap().len(), 1, "{operation}");
        for parameter in described["parameters"].as_array().unwrap() {
            let schema = validator(&parameter["schema"]);
            assert!(schema.is_valid(&parameter["example"]), "{operation}: {parameter}");
            assert!(parameter["description"].is_string(), "{operation}: {parameter}");
        }
        for (status, response) in described["responses"].as_object().unwrap() {
            let contents = response["content"].as_object().unwrap();
            let media_types: Vec<_> = contents.keys().map(String::as_str).collect();
            let is_error = status.as_str() >= "400" && (operation, status.as_str()) != ("getReadiness", "503");
            let expected = if is_error { "application/problem+json" } else { "application/json" };
            assert_eq!(media_types, [expected], "{operation} {status}");
            let content = &contents[expected];
            let schema = validator(&content["schema"]);
            let examples = content["examples"].as_object().unwrap();
            assert!(!examples.is_empty(), "{operation} {status}");
            for (name, example) in examples {
                let wrong: Vec<_> = schema.iter_errors(&example["value"]).map(|error| error.to_string()).collect();
                assert!(wrong.is_empty(), "{operation} {status} {name}: {wrong:?}");
            }
        }
    }
    let (mut references, mut patterns) = (Vec::new(), Vec::new());
    members(&DOCUMENT, "$ref", &mut references);
    members(&DOCUMENT, "pattern", &mut patterns);
    let used: BTreeSet<&str> = references.iter().map(|reference| reference.as_str().unwrap()).collect();
    for reference in &used {
        assert!(DOCUMENT.pointer(&reference[1..]).is_some(), "{reference} leads nowhere");
    }
    for kind in ["schemas", "headers"] {
        for name in DOCUMENT["components"][kind].as_object().unwrap().keys() {
            assert!(used.contains(format!("#/components/{kind}/{name}").as_str()), "nothing uses {kind}/{name}");
        }
    }
    for pattern in patterns {
        let pattern = pattern.as_str().unwrap();
        assert!(pattern.starts_with('^'), "{pattern} is not of the whole text");
    }
}

#[test]
fn every_error_is_of_an_operation_or_told_where_there_is_none() {
    let mut told = BTreeSet::new();
    for (_, described) in operations() {
        for response in described["responses"].as_object().unwrap().values() {
            for content in response["content"].as_object().unwrap().values() {
                told.extend(
                    content["examples"].as_object().unwrap().values().filter_map(|e| e["value"]["code"].as_str()),
                );
            }
        }
    }
    let all: BTreeSet<&str> = ErrorKind::ALL.iter().map(|kind| kind.row().code).collect();
    assert_eq!(all.difference(&told).copied().collect::<Vec<_>>(), ["method_not_allowed", "not_found"]);
    assert_eq!(told.difference(&all).count(), 0);
}

#[tokio::test]
async fn every_request_that_is_shown_is_taken() {
    let (_, described) = operations().find(|(operation, _)| *operation == "sendEvents").unwrap();
    let mut shown = 0;
    for (media_type, content) in described["requestBody"]["content"].as_object().unwrap() {
        for (name, example) in content["examples"].as_object().unwrap() {
            let world = world();
            let request = with(post_as(&key(1), example["value"].to_string()), "content-type", media_type);
            let answer = ask(&world.router(FrontDoorConfig::default()), request).await;
            assert_eq!((answer.status, world.sent().is_empty()), (202, false), "{name}: {}", answer.body);
            assert!(validator(&content["schema"]).is_valid(&example["value"]), "{name}");
            shown += 1;
        }
    }
    let binary = &described["x-cloudevents-binary-mode"];
    let content = &binary["requestBody"]["content"]["application/json"];
    let mut request = post_as(&key(1), content["example"].to_string());
    for header in binary["parameters"].as_array().unwrap() {
        assert!(validator(&header["schema"]).is_valid(&header["example"]), "{header}");
        let (name, value) = (header["name"].as_str().unwrap(), header["example"].as_str().unwrap());
        request.headers_mut().insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    let world = world();
    let answer = ask(&world.router(FrontDoorConfig::default()), request).await;
    assert_eq!((answer.status, shown), (202, 4), "{}", answer.body);
    let structured = &described["requestBody"]["content"]["application/cloudevents+json"]["examples"]["structured"];
    let read = call::read(structured["value"].to_string().as_bytes(), &Form::CloudEvent, 1, now()).unwrap();
    assert_eq!(world.sent()[0].event, read.events[0].event, "both modes show the same event");
}

fn now() -> UtcMillis {
    UtcMillis::parse(NOW).unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_answer_that_is_described_can_come() {
    for (operation, described) in operations() {
        for (status, response) in described["responses"].as_object().unwrap() {
            let content = response["content"].as_object().unwrap().values().next().unwrap();
            for example in content["examples"].as_object().unwrap().values() {
                let code = example["value"]["code"].as_str();
                let answer = match (code, status.as_str()) {
                    (Some(code), _) => provoked(operation, code).await,
                    (None, "503") => unready().await,
                    (None, _) => ask(&world().router(FrontDoorConfig::default()), good(operation)).await,
                };
                // That it is of its form, `ask` has checked.
                let told = (answer.status.to_string(), answer.body["code"].as_str());
                assert_eq!(told, (status.clone(), code), "{operation}");
            }
        }
    }
}

async fn unready() -> Answer {
    let world = world();
    world.with(|state| state.queue_mood = Mood::Failing);
    ask(&world.router(FrontDoorConfig::default()), good("getReadiness")).await
}

/// The answer to a request that is made to be told of this error.
async fn provoked(operation: &str, code: &str) -> Answer {
    let (world, mut config) = (world(), FrontDoorConfig::default());
    let mut request = good(operation);
    let bearer = |byte: u8| format!("Bearer {}", key(byte).expose());
    let path = request.uri().path().to_owned();
    match code {
        "missing_key" => drop(request.headers_mut().remove("authorization")),
        "malformed_key" => request = with(request, "authorization", "Bearer x"),
        "unknown_key" => request = with(request, "authorization", &bearer(9)),
        "revoked_key" => {
            world.add_key(&key(9), &[Scope::Admin], Some(NOW));
            request = with(request, "authorization", &bearer(9));
        }
        "missing_scope" => {
            world.add_key(&key(9), &[if operation == "sendEvents" { Scope::Read } else { Scope::Ingest }], None);
            request = with(request, "authorization", &bearer(9));
        }
        "rate_limited" => config.rate = RateConfig { per_second: 1, burst: 1 },
        "authentication_unavailable" | "keys_unavailable" => world.with(|state| state.keys_mood = Mood::Failing),
        "invalid_query" => request = at(request, &format!("{path}?colour=1")),
        "bad_framing" => request = with(request, "transfer-encoding", "gzip, chunked"),
        "invalid_event_id" => request = at(request, "/v1/events/1"),
        "ledger_unavailable" => world.with(|state| state.ledger_mood = Mood::Failing),
        "usage_unavailable" => world.with(|state| state.spaces_mood = Mood::Failing),
        "invalid_json" => request = post_as(&key(1), "{"),
        "invalid_events" => request = post_as(&key(1), "{}"),
        "body_too_complex" => request = post_as(&key(1), "[".repeat(100)),
        "body_too_large" => request = with(request, "content-length", "1048577"),
        "unsupported_media_type" => request = with(request, "content-type", "text/plain"),
        "incomplete_body" => {
            let broken = futures_util::stream::iter([Err::<String, _>(std::io::Error::other("reset"))]);
            request = post_as(&key(1), Body::from_stream(broken));
        }
        "body_timeout" => {
            let stalled = futures_util::stream::pending::<Result<String, std::io::Error>>();
            request = post_as(&key(1), Body::from_stream(stalled));
        }
        "same_id_other_payload" => {
            let keyed = |quantity: u8| EVENT.replace(":3", &format!(":{quantity},\"idempotencyKey\":\"k\""));
            request = post_as(&key(1), format!("[{},{}]", keyed(1), keyed(2)));
        }
        "quota_exceeded" => world.with(|state| state.count = 1_000),
        "plan_inactive" => {
            let lapsed = SpaceRecord { subscription: Subscription::PlusInactive, monthly_limit: None };
            world.with(|state| state.space = Some(lapsed));
        }
        "queue_unavailable" => world.with(|state| state.queue_mood = Mood::Failing),
        "invalid_idempotency_key" => request = with(request, "idempotency-key", "a b"),
        "receipts_unavailable" => {
            world.with(|state| state.receipts_mood = Mood::Failing);
            request = with(request, "idempotency-key", "k");
        }
        "idempotency_key_reused" | "request_in_progress" => request = with(request, "idempotency-key", "k"),
        other => unreachable!("nothing provokes {other}"),
    }
    let router = world.router(config);
    match code {
        "rate_limited" => drop(ask(&router, good(operation)).await),
        "keys_unavailable" => {
            // The caller's own key is known already.
            world.with(|state| state.keys_mood = Mood::Well);
            ask(&router, good(operation)).await;
            world.with(|state| state.keys_mood = Mood::Failing);
        }
        "idempotency_key_reused" => drop(ask(&router, with(post_as(&key(1), "{}"), "idempotency-key", "k")).await),
        "request_in_progress" => {
            world.with(|state| state.queue_mood = Mood::Stalled);
            let (router, first) = (router.clone(), with(good(operation), "idempotency-key", "k"));
            tokio::spawn(async move { ask(&router, first).await });
            while world.with(|state| state.receipts.is_empty()) {
                tokio::task::yield_now().await;
            }
        }
        _ => {}
    }
    ask(&router, request).await
}

/// Texts, each twice: as the parser takes it and as the schema does.
#[test]
fn the_schema_of_an_event_takes_what_the_parser_takes() {
    let schema = validator(&json!({"$ref": "#/components/schemas/Event"}));
    let base: Value = serde_json::from_str(EVENT).unwrap();
    let long = |chars: usize| "é".repeat(chars);
    let mut cases = vec![json!(null), json!([]), json!("x"), json!({}), base.clone()];
    let mut put = |field: &str, values: Vec<Value>| {
        for value in values {
            let mut event = base.clone();
            event[field] = value;
            cases.push(event);
        }
    };
    let texts = |max: usize| {
        let control = ["\u{0}", "a\u{1f}", "\u{7f}", "\u{85}b", "\u{9f}", "a\n"].map(|text| json!(text));
        let fine = ["a", " ", "\u{a0}", "🦀", "\"", "\\", "\u{2028}", "\u{ad}"].map(|text| json!(text));
        let others = [json!(null), json!(7), json!([]), json!({}), json!(true)];
        let limits = [json!(""), json!(long(max)), json!(long(max + 1))];
        control.into_iter().chain(fine).chain(others).chain(limits).collect::<Vec<_>>()
    };
    put("meter", texts(MAX_METER_CHARS));
    for field in ["subject", "source", "idempotencyKey"] {
        put(field, texts(MAX_TEXT_CHARS));
    }
    put("colour", vec![json!(1), json!(null)]);
    let quantities =
        [json!(0), json!(1), json!(-1), json!(9_007_199_254_740_991_u64), json!(9_007_199_254_740_992_u64)];
    put("quantity", quantities.into_iter().chain([json!(1.5), json!("1"), json!(null), json!(true)]).collect());
    let moments = [
        "2026-08-18T09:15:00Z",
        "2026-08-18T09:15:00.1Z",
        "2026-08-18T09:15:00.123+02:00",
        "0000-01-01T00:00:00Z",
        "9999-01-01T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-01-32T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:60Z",
        "2026-01-01T00:00:00.1234Z",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00",
        "2026-01-01t00:00:00z",
        "2026-01-01 00:00:00Z",
        "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00+00:60",
        "2026-01-01T00:00:00+0100",
        "2026-01-01T00:00:00Z\n",
        "",
    ];
    put("occurredAt", moments.into_iter().map(|text| json!(text)).chain([json!(null), json!(7)]).collect());
    let safe = 9_007_199_254_740_991_i64;
    let nested =
        [json!(safe), json!(-safe), json!(safe + 1), json!(1e300), json!([{"a": [safe + 1]}]), json!({"a": -1.5})];
    let bags = nested.into_iter().map(|value| json!({"a": value}));
    put("properties", bags.chain([json!({}), json!(null), json!([]), json!("x"), json!(1)]).collect());
    for case in &cases {
        let text = case.to_string();
        let read = call::read(text.as_bytes(), &Form::Tollgate, 500, now());
        let is_taken = read.is_ok_and(|call| call.flaw().is_none());
        assert_eq!(schema.is_valid(case), is_taken, "{text:.200}");
    }
    assert!(cases.len() > 120, "{}", cases.len());
    // Its members are an event's, and no other.
    let whole = json!({"meter":"m","subject":"s","occurredAt":"2026-01-01T00:00:00Z","quantity":1,"source":"s",
        "idempotencyKey":"k","properties":{"a":1}});
    let canonical: Value = serde_json::from_str(&Event::from_value(&whole, now()).unwrap().canonical_json()).unwrap();
    let described = &DOCUMENT["components"]["schemas"]["Event"]["properties"];
    assert_eq!(
        canonical.as_object().unwrap().keys().collect::<Vec<_>>(),
        described.as_object().unwrap().keys().collect::<Vec<_>>()
    );
}

#[test]
fn the_schema_of_a_cloud_event_takes_what_the_parser_takes() {
    let schema = validator(&json!({"$ref": "#/components/schemas/CloudEvent"}));
    let base =
        json!({"specversion":"1.0","id":"1","source":"s","type":"m","subject":"c","time":"2026-08-18T09:15:00Z"});
    let mut taken = 0;
    for (field, values) in [
        ("specversion", vec![json!("1.0"), json!("1"), json!(1.0), json!(null)]),
        ("id", vec![json!("x"), json!(""), json!("\u{1}"), json!("x".repeat(248)), json!("x".repeat(249)), json!(1)]),
        ("source", vec![json!("x"), json!(""), json!("x".repeat(248)), json!("x".repeat(249)), json!(null)]),
        ("type", vec![json!("x".repeat(128)), json!("x".repeat(129)), json!(null)]),
        ("subject", vec![json!("x".repeat(256)), json!("x".repeat(257)), json!("")]),
        ("time", vec![json!("2026-08-18T09:15:00.1+01:00"), json!("2026-08-18"), json!(null)]),
        (
            "datacontenttype",
            [
                "application/json",
                "Application/JSON; charset=utf-8",
                " text/json ",
                "a/b+json",
                "a/+json",
                "/b+json",
                " /b+json",
                "a/b/c+json",
                "text/plain",
                "application/jsonl",
                "",
                ";",
                "a/b+json;x\n",
            ]
            .map(|text| json!(text))
            .into_iter()
            .chain([json!(null), json!(1)])
            .collect(),
        ),
        ("data", vec![json!(null), json!({}), json!([]), json!("x"), json!({"a": 1e300}), json!({"quantity": null})]),
        (
            "data",
            vec![json!({"quantity": 1}), json!({"quantity": 0}), json!({"quantity": "1"}), json!({"quantity": 1.5})],
        ),
        ("data_base64", vec![json!(null), json!("e30="), json!("")]),
        ("quantity", vec![json!(1), json!(0), json!(null), json!(true), json!(9_007_199_254_740_992_u64)]),
        (
            "quantity",
            [
                "1",
                "0",
                "01",
                "",
                "+1",
                "1.0",
                "999999999999999",
                "1000000000000000",
                "8999999999999999",
                "9007199254740990",
                "9007199254740991",
                "9007199254740992",
                "9007199254741000",
                "9999999999999999",
                "10000000000000000",
            ]
            .map(|text| json!(text))
            .into(),
        ),
        ("traceparent", vec![json!("x"), json!(null), json!(1e300), json!([[9_007_199_254_740_992_u64]])]),
    ] {
        for value in values {
            let mut event = base.clone();
            event[field] = value;
            let text = event.to_string();
            let read = call::read(text.as_bytes(), &Form::CloudEvent, 500, now());
            let is_taken = read.is_ok_and(|call| call.flaw().is_none());
            assert_eq!(schema.is_valid(&event), is_taken, "{text}");
            taken += usize::from(is_taken);
        }
    }
    assert!(taken > 20, "{taken}");
}

#[tokio::test]
async fn the_schema_of_an_idempotency_key_takes_what_the_header_s_reader_takes() {
    let schema = validator(&json!({"$ref": "#/components/schemas/IdempotencyKey"}));
    let router = world().router(FrontDoorConfig::default());
    let quoted = |length: usize| format!("\"{}\"", "x".repeat(length));
    for text in [
        "a",
        "a-b_c.d~e:/=+",
        "",
        "\"\"",
        "\"a\"",
        "\"a b\"",
        "a b",
        "a,b",
        "\"a",
        "a\"",
        "\"a\\\"b\"",
        "\"a\\\\\"",
        "\"a\\b\"",
        "\"a\"b\"",
        "(",
        "\"(\"",
        "@",
        &quoted(255),
        &quoted(256),
        &"x".repeat(255),
        &"x".repeat(256),
    ] {
        let answer = ask(&router, with(good("sendEvents"), "idempotency-key", text)).await;
        assert_eq!(answer.code() != "invalid_idempotency_key", schema.is_valid(&json!(text)), "{text}");
    }
}

/// The table of `ERRORS.md`.
fn errors_table() -> String {
    let mut table = "| code | status | retry? | what happened | what to do |\n|---|---|---|---|---|\n".to_owned();
    for row in ErrorKind::ALL.iter().map(|kind| kind.row()) {
        let retry = row.retry_after_s.map_or_else(|| "no".to_owned(), |seconds| format!("after {seconds} s"));
        let status = row.status.as_u16();
        let mend = row.mend.replace('<', "&lt;");
        writeln!(table, "| `{}` | {status} | {retry} | {} | {mend} |", row.code, row.title).unwrap();
    }
    table
}

#[test]
fn the_page_of_errors_is_the_code_s() {
    let page = include_str!("../../ERRORS.md");
    assert!(page.contains(&errors_table()), "ERRORS.md lacks:\n{}", errors_table());
    assert_eq!(page.matches("\n| `").count(), ErrorKind::ALL.len(), "no other row");
}

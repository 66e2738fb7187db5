//! `?partial=true`: the good events of a call are taken, and each event has its own result.

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};
use tollgate_domain::plan::{SpaceRecord, Subscription};
use tollgate_front_door::config::{FrontDoorConfig, GateMode};

use crate::fakes::{Answer, EVENT, Mood, World, ask, post};

fn keyed(key: &str, quantity: u64) -> Value {
    json!({"meter":"m","subject":"s","occurredAt":"2026-01-01T00:00:00Z","quantity":quantity,"idempotencyKey":key})
}

fn partial(body: &Value) -> Request<Body> {
    with_query("partial=true", body)
}

fn with_query(query: &str, body: &Value) -> Request<Body> {
    let mut request = post(body.to_string());
    *request.uri_mut() = format!("/v1/events?{query}").parse().unwrap();
    request
}

async fn answer_to(world: &World, body: &Value) -> Answer {
    ask(&world.router(FrontDoorConfig::default()), partial(body)).await
}

fn statuses(answer: &Answer) -> Vec<&str> {
    answer.body["results"].as_array().unwrap().iter().map(|result| result["status"].as_str().unwrap()).collect()
}

fn problems(answer: &Answer) -> Vec<(u64, &str)> {
    let told = answer.body["problems"].as_array().map(Vec::as_slice).unwrap_or_default();
    told.iter().map(|problem| (problem["index"].as_u64().unwrap(), problem["code"].as_str().unwrap())).collect()
}

/// The id under which the ledger would know this event.
async fn id_of(event: &Value) -> String {
    let answer = answer_to(&World::new(), event).await;
    answer.body["results"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_good_events_are_queued_and_each_event_has_its_result_in_order() {
    let world = World::new();
    let body = json!([keyed("a", 1), {"meter": 1}, keyed("b", 1), keyed("c", 1), keyed("a", 1), keyed("c", 2)]);
    let answer = answer_to(&world, &body).await;
    assert_eq!((answer.status, answer.header("content-type")), (202, Some("application/json")));
    assert_eq!(statuses(&answer), ["queued", "invalid", "queued", "conflict", "queued", "conflict"]);
    let results = answer.body["results"].as_array().unwrap();
    for (index, result) in results.iter().enumerate() {
        assert_eq!(result["index"], index);
        assert_eq!(result["submissionId"], results[0]["submissionId"]);
        assert_eq!(result.get("id").is_some(), index != 1, "only what is no event has no id");
    }
    assert_eq!((&results[0]["id"], &results[3]["id"]), (&results[4]["id"], &results[5]["id"]));
    let told: Vec<_> = problems(&answer).into_iter().map(|(index, _)| index).collect();
    assert_eq!(told, [1, 1, 1, 1, 3, 5]);
    let sent: Vec<_> = world.sent().into_iter().map(|sent| sent.event.id().as_str().to_owned()).collect();
    assert_eq!(sent, [results[0]["id"].as_str().unwrap(), results[2]["id"].as_str().unwrap()]);
}

#[tokio::test]
async fn a_good_call_is_answered_as_without_partial() {
    let answer = answer_to(&World::new(), &json!([keyed("a", 1)])).await;
    assert_eq!(answer.status, 202);
    assert_eq!(answer.body.as_object().unwrap().keys().collect::<Vec<_>>(), ["results"]);
}

#[tokio::test]
async fn when_nothing_is_queued_the_status_says_why_and_the_results_say_it_of_each() {
    for (body, status, code, expected) in [
        (json!([{}, keyed("c", 1), keyed("c", 2)]), 400, "invalid_events", &["invalid", "conflict", "conflict"][..]),
        (json!({}), 400, "invalid_events", &["invalid"]),
        (json!([keyed("c", 1), keyed("c", 2)]), 422, "same_id_other_payload", &["conflict", "conflict"]),
    ] {
        let world = World::new();
        let answer = answer_to(&world, &body).await;
        assert_eq!((answer.status, answer.code()), (status, code));
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert_eq!(statuses(&answer), expected);
        assert!(!problems(&answer).is_empty());
        assert_eq!((world.sent().len(), world.with(|state| state.space_reads.len())), (0, 0), "nobody is asked");
    }
}

#[tokio::test]
async fn a_call_that_cannot_be_read_is_refused_as_a_whole() {
    for (body, code) in [
        ("[", "invalid_json"),
        ("[]", "invalid_events"),
        (&format!("[{}]", vec!["0"; 501].join(",")), "invalid_events"),
        (&"[".repeat(100), "body_too_complex"),
    ] {
        let mut request = post(body.to_owned());
        *request.uri_mut() = "/v1/events?partial=true".parse().unwrap();
        let answer = ask(&World::new().router(FrontDoorConfig::default()), request).await;
        assert_eq!((answer.status, answer.code(), answer.body.get("results")), (400, code, None), "{body:.20}");
    }
}

#[tokio::test]
async fn what_the_queue_did_not_take_is_unavailable_beside_every_other_result() {
    let world = World::new();
    world.with(|state| state.refused_messages = ["\"b\"".to_owned()].into());
    let answer = answer_to(&world, &json!([keyed("a", 1), keyed("b", 1), {}, keyed("b", 1)])).await;
    assert_eq!((answer.status, answer.code(), answer.header("retry-after")), (503, "queue_unavailable", Some("1")));
    assert_eq!(statuses(&answer), ["queued", "unavailable", "invalid", "unavailable"]);
    assert!(problems(&answer).iter().all(|(index, _)| *index == 2) && problems(&answer).len() == 4);
    assert!(answer.body["detail"].as_str().unwrap().starts_with("1 of 4"));
    assert_eq!(world.sent().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_queued_before_the_queue_stalled_is_queued_in_whole_and_in_part() {
    for query in ["partial=true", "partial=false"] {
        let world = World::new();
        world.with(|state| state.queue_stalls_at = Some(2));
        let body = json!([keyed("a", 1), keyed("b", 1), keyed("c", 1), keyed("a", 1), keyed("d", 1)]);
        let router = world.router(FrontDoorConfig::default());
        let answer = ask(&router, with_query(query, &body)).await;
        assert_eq!((answer.status, answer.code()), (503, "queue_unavailable"), "{query}");
        assert_eq!(statuses(&answer), ["queued", "queued", "unavailable", "queued", "unavailable"], "{query}");
        assert!(answer.body["detail"].as_str().unwrap().starts_with("3 of 5"), "{query}");
        assert_eq!(world.sent().len(), 2, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_fails_or_stalls_makes_every_good_event_unavailable() {
    for mood in [Mood::Failing, Mood::Stalled] {
        let world = World::new();
        world.with(|state| state.queue_mood = mood);
        let answer = answer_to(&world, &json!([keyed("a", 1), {}])).await;
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{mood:?}");
        assert_eq!(statuses(&answer), ["unavailable", "invalid"]);
    }
}

#[tokio::test]
async fn in_a_full_space_known_events_are_queued_and_the_others_told_of_the_quota() {
    let (known, other) = (keyed("known", 1), keyed("other", 1));
    let world = World::new();
    let id = id_of(&known).await;
    world.with(|state| (state.count, state.known) = (1_000, [id].into()));

    let answer = answer_to(&world, &json!([other, known, {}, other])).await;
    assert_eq!(answer.status, 202);
    assert_eq!(statuses(&answer), ["quota_exceeded", "queued", "invalid", "quota_exceeded"]);
    assert_eq!((&answer.body["plan"], &answer.body["limit"]), (&json!("free"), &json!(1_000)));
    assert_eq!((&answer.body["used"], &answer.body["resetsAt"]), (&json!(1_000), &json!("2026-12-01T00:00:00.000Z")));
    assert_eq!(world.sent().len(), 1);
    assert_eq!(world.with(|state| state.ledger_reads), 1, "all events are asked for at once");

    // Without partial the one known event takes the call with it, unless another event stops it.
    let answer = ask(&world.router(FrontDoorConfig::default()), post(json!([other, known]).to_string())).await;
    assert_eq!((answer.status, statuses(&answer)), (202, vec!["queued", "queued"]));

    // A retry of known events alone never hears of a quota, a call without one hears 402.
    let answer = answer_to(&world, &json!([known, known])).await;
    assert_eq!((answer.status, statuses(&answer), answer.body.get("plan")), (202, vec!["queued", "queued"], None));
    let answer = answer_to(&world, &json!([other, {}])).await;
    assert_eq!((answer.status, answer.code()), (402, "quota_exceeded"));
    assert_eq!(statuses(&answer), ["quota_exceeded", "invalid"]);
    assert_eq!((&answer.body["plan"], problems(&answer).len()), (&json!("free"), 4));
    let lapsed = SpaceRecord { subscription: Subscription::PlusInactive, monthly_limit: None };
    world.with(|state| state.space = Some(lapsed));
    let answer = answer_to(&world, &json!([other])).await;
    assert_eq!((answer.status, answer.code(), &answer.body["plan"]), (402, "plan_inactive", &json!("plus")));
}

#[tokio::test]
async fn an_unavailable_event_outranks_the_quota() {
    let (known, other) = (keyed("known", 1), keyed("other", 1));
    let world = World::new();
    let id = id_of(&known).await;
    world.with(|state| (state.count, state.known, state.queue_mood) = (1_000, [id].into(), Mood::Failing));
    let answer = answer_to(&world, &json!([known, other])).await;
    assert_eq!((answer.status, answer.code()), (503, "queue_unavailable"));
    assert_eq!((statuses(&answer), &answer.body["plan"]), (vec!["unavailable", "quota_exceeded"], &json!("free")));
}

#[tokio::test]
async fn a_gate_that_only_observes_lets_partial_calls_pass() {
    let world = World::new();
    world.with(|state| state.count = 1_000);
    let mut config = FrontDoorConfig::default();
    config.gate.mode = GateMode::Observe;
    let answer = ask(&world.router(config), partial(&json!([keyed("a", 1)]))).await;
    assert_eq!((answer.status, statuses(&answer)), (202, vec!["queued"]));
}

#[tokio::test]
async fn cloud_events_are_taken_in_part_too() {
    let cloud =
        json!({"specversion":"1.0","id":"1","source":"/s","type":"m","subject":"c","time":"2026-01-01T00:00:00Z"});
    let mut request = partial(&json!([cloud, {}]));
    request.headers_mut().insert("content-type", "application/cloudevents-batch+json".parse().unwrap());
    let answer = ask(&World::new().router(FrontDoorConfig::default()), request).await;
    assert_eq!((answer.status, statuses(&answer)), (202, vec!["queued", "invalid"]));
}

#[tokio::test]
async fn the_query_is_read_strictly_and_before_the_body() {
    let body: Value = serde_json::from_str(EVENT).unwrap();
    let router = World::new().router(FrontDoorConfig::default());
    for (query, status, told) in [
        ("partial=true", 202, vec![]),
        ("partial=false", 202, vec![]),
        ("", 202, vec![]),
        ("partial", 400, vec!["malformed_parameter"]),
        ("partial=1", 400, vec!["malformed_parameter"]),
        ("partial=TRUE", 400, vec!["malformed_parameter"]),
        ("partial=true&partial=true", 400, vec!["repeated_parameter"]),
        ("Partial=true", 400, vec!["unknown_parameter"]),
        ("partial=yes&colour=red&wait=1", 400, vec!["malformed_parameter", "unknown_parameter", "unknown_parameter"]),
    ] {
        let answer = ask(&router, with_query(query, &body)).await;
        assert_eq!(answer.status, status, "{query}");
        let problems = answer.body["problems"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert_eq!(
            problems.iter().map(|problem| problem["code"].as_str().unwrap()).collect::<Vec<_>>(),
            told,
            "{query}"
        );
        assert!(status == 202 || answer.code() == "invalid_query");
        assert!(problems.iter().all(|problem| !problem["field"].as_str().unwrap().is_empty()));
    }
    let mut request = post(Body::from_stream(futures_util::stream::pending::<Result<String, std::io::Error>>()));
    *request.uri_mut() = "/v1/events?x=1".parse().unwrap();
    assert_eq!(ask(&router, request).await.code(), "invalid_query");
}

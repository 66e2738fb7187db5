//! What is accepted, and what the queue then holds.

use serde_json::json;
use tollgate_front_door::config::FrontDoorConfig;

use crate::fakes::{EVENT, Mood, NOW, World, ask, key, logged, post};

const ID: &str = "uev_5c8ec3ea62721af70f0521af0552578f89da8d295f45829ec6ab33fa38317745";

fn numbered(number: usize) -> String {
    EVENT.replace("cus_01", &format!("cus_{number}"))
}

#[tokio::test]
async fn one_event_is_one_message_with_all_that_came_with_it() {
    let world = World::new();
    let mut request = post(EVENT);
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (name, value) in [("traceparent", trace), ("x-request-id", "abc"), ("tollgate-submission-id", "sub_mine")] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let answer = ask(&world.router(FrontDoorConfig::default()), request).await;
    assert_eq!(answer.status, 202);
    assert_eq!(answer.body, json!({"results":[{"index":0,"id":ID,"submissionId":"sub_mine","status":"queued"}]}));
    assert_eq!(answer.header("x-request-id"), Some("abc"));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let sent = world.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].space.as_str(), "acme");
    assert_eq!(sent[0].event.id().as_str(), ID);
    assert_eq!(sent[0].accepted_at.to_string(), NOW.replace('Z', ".000Z"));
    assert_eq!(sent[0].submission_id, "sub_mine");
    assert_eq!(sent[0].trace_parent.as_deref(), Some(trace));
}

#[tokio::test]
async fn a_call_has_one_submission_id_and_its_results_keep_their_order() {
    let world = World::new();
    let events: Vec<String> = (0..30).map(numbered).collect();
    let answer = ask(&world.router(FrontDoorConfig::default()), post(format!("[{}]", events.join(",")))).await;
    let results = answer.body["results"].as_array().unwrap();
    assert_eq!(results.len(), 30);
    for (index, (result, sent)) in results.iter().zip(world.sent()).enumerate() {
        assert_eq!(result["index"], index);
        assert_eq!(result["id"], sent.event.id().as_str());
        assert_eq!(result["submissionId"], sent.submission_id.as_str());
        assert_eq!(sent.event.subject(), format!("cus_{index}"));
        assert_eq!(result["submissionId"], results[0]["submissionId"]);
    }
    assert!(results[0]["submissionId"].as_str().unwrap().starts_with("sub_"));
}

#[tokio::test]
async fn equal_events_of_a_call_fold_into_one_message() {
    let world = World::new();
    // The same fact in another spelling: offset instead of Z, an empty bag instead of none.
    let respelled = r#"{"properties":{},"quantity":3,"subject":"cus_01","occurredAt":"2026-08-18T11:15:00.000+02:00","meter":"api_request"}"#;
    let body = format!("[{EVENT},{},{respelled}]", numbered(2));
    let answer = ask(&world.router(FrontDoorConfig::default()), post(body)).await;
    let ids: Vec<_> = answer.body["results"].as_array().unwrap().iter().map(|result| result["id"].as_str()).collect();
    assert_eq!(ids[0], Some(ID));
    assert_eq!(ids[2], Some(ID));
    assert_ne!(ids[1], Some(ID));
    assert_eq!(world.sent().len(), 2);
}

#[tokio::test]
async fn a_queue_that_takes_a_part_is_told_event_by_event() {
    let world = World::new();
    world.with(|state| state.refused_messages = ["cus_2\"".to_owned()].into());
    let router = world.router(FrontDoorConfig::default());
    let body = format!("[{},{},{},{}]", numbered(1), numbered(2), numbered(3), numbered(2));
    let answer = ask(&router, post(body.clone())).await;
    assert_eq!((answer.status, answer.code()), (503, "queue_unavailable"));
    assert_eq!(answer.header("retry-after"), Some("1"));
    let states: Vec<_> =
        answer.body["results"].as_array().unwrap().iter().map(|r| r["status"].as_str().unwrap()).collect();
    assert_eq!(states, ["queued", "unavailable", "queued", "unavailable"]);

    // The client sends the same bytes again: the ids are the same, so the second copies are redeliveries.
    world.with(|state| state.refused_messages.clear());
    assert_eq!(ask(&router, post(body)).await.status, 202);
    let distinct: std::collections::BTreeSet<_> = world.sent().iter().map(|sent| sent.event.id()).collect();
    assert_eq!((world.sent().len(), distinct.len()), (5, 3));
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_fails_or_stalls_is_503_with_every_event_unavailable() {
    for mood in [Mood::Failing, Mood::Stalled] {
        let world = World::new();
        world.with(|state| state.queue_mood = mood);
        let started = tokio::time::Instant::now();
        let answer = ask(&world.router(FrontDoorConfig::default()), post(EVENT)).await;
        assert_eq!((answer.status, answer.code()), (503, "queue_unavailable"), "{mood:?}");
        assert_eq!(answer.body["results"][0]["status"], "unavailable");
        assert!(started.elapsed().as_secs() <= 8, "{mood:?}");
    }
}

#[tokio::test]
async fn the_log_has_one_line_a_request_without_payload_or_key() {
    let world = World::new();
    let router = world.router(FrontDoorConfig::default());
    for (body, outcome) in
        [(EVENT.to_owned(), "queued"), (EVENT.replace("quantity\":3", "quantity\":0"), "invalid_events")]
    {
        ask(&router, post(body)).await;
        let text = logged();
        let line = text.lines().rfind(|line| line.contains("request decided")).unwrap();
        assert!(line.contains("space=\"acme\"") && line.contains(outcome) && line.contains("request_id="), "{line}");
    }
    let mut request = post(EVENT);
    request.headers_mut().insert("authorization", "Bearer tollgate_sk_not_a_key".parse().unwrap());
    ask(&router, request).await;
    let text = logged();
    assert_eq!(text.matches("request decided").count(), 3);
    for secret in [key(7).expose(), "tollgate_sk_", "cus_01", "api_request"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

#[tokio::test]
async fn a_sane_request_id_comes_back_and_another_is_replaced() {
    let router = World::new().router(FrontDoorConfig::default());
    for (sent, kept) in [("abc", true), ("a b", false)] {
        let mut request = post(EVENT);
        request.headers_mut().insert("x-request-id", sent.parse().unwrap());
        let answer = ask(&router, request).await;
        assert_eq!(answer.header("x-request-id") == Some(sent), kept, "{sent}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
}

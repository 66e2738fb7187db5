//! `Idempotency-Key`: one command, one answer.

use std::time::Duration;

use axum::body::Body;
use http::{HeaderName, HeaderValue, Request};
use serde_json::Value;
use tokio::time::Instant;
use tollgate_domain::key::Scope;
use tollgate_domain::receipt::{KEPT_MS, Progress};
use tollgate_front_door::config::FrontDoorConfig;

use crate::fakes::{Answer, EVENT, Mood, World, ask, key, post, post_as};

/// A post under the idempotency key `name`.
fn once(name: &str, body: &str) -> Request<Body> {
    with(post(body.to_owned()), "idempotency-key", name)
}

fn with(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    request.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    request
}

fn told(answer: &Answer) -> (u16, Value, bool) {
    let replayed = answer.header("idempotency-replayed");
    assert!(matches!(replayed, None | Some("true")));
    (answer.status, answer.body.clone(), replayed.is_some())
}

#[tokio::test]
async fn the_stored_answer_is_replayed_and_nothing_is_queued_again() {
    let world = World::new();
    let router = world.router(FrontDoorConfig::default());
    let first = ask(&router, once("\"order-1\"", EVENT)).await;
    assert_eq!((first.status, first.header("idempotency-replayed")), (202, None));
    // Another process, and the bare spelling of the same key; ids and traces of the attempt are no part of the command.
    let again = with(with(once("order-1", EVENT), "tollgate-submission-id", "sub_other"), "x-request-id", "r2");
    let second = ask(&world.router(FrontDoorConfig::default()), again).await;
    assert_eq!(told(&second), (202, first.body.clone(), true));
    assert_eq!(second.header("content-type"), first.header("content-type"));
    assert_eq!(second.header("x-request-id"), Some("r2"), "that of the exchange");
    assert_eq!(second.header("cache-control"), Some("no-store"));
    assert_eq!(world.sent().len(), 1);
}

#[tokio::test]
async fn an_answer_is_kept_for_a_day() {
    let world = World::new();
    let router = world.router(FrontDoorConfig::default());
    ask(&router, once("k", EVENT)).await;
    for (ahead_ms, replayed) in [(KEPT_MS, true), (KEPT_MS + 1_000, false), (KEPT_MS + 1_001, true)] {
        world.with(|state| state.ahead_ms = ahead_ms);
        assert_eq!(told(&ask(&router, once("k", EVENT)).await).2, replayed, "{ahead_ms}");
    }
    assert_eq!(world.sent().len(), 2);
}

#[tokio::test]
async fn refusals_that_the_same_bytes_would_meet_again_are_replayed_too() {
    let contradiction = format!("[{0},{1}]", named("k", 1), named("k", 2));
    for (body, status) in [("not JSON", 400), ("{}", 400), (contradiction.as_str(), 422)] {
        let world = World::new();
        let router = world.router(FrontDoorConfig::default());
        let first = ask(&router, once("k", body)).await;
        assert_eq!((first.status, told(&first).2), (status, false), "{body}");
        let second = ask(&router, once("k", body)).await;
        assert_eq!(told(&second), (status, first.body, true));
        assert_eq!(second.header("content-type"), Some("application/problem+json"));
    }
}

fn named(key: &str, quantity: u8) -> String {
    EVENT.replace("\"quantity\":3", &format!("\"quantity\":{quantity},\"idempotencyKey\":\"{key}\""))
}

#[tokio::test]
async fn another_request_under_the_key_is_422() {
    let world = World::new();
    let router = world.router(FrontDoorConfig::default());
    assert_eq!(ask(&router, once("k", EVENT)).await.status, 202);
    let mut elsewhere = once("k", EVENT);
    *elsewhere.uri_mut() = "/v1/events?partial=true".parse().unwrap();
    for other in [
        once("k", &EVENT.replace("cus_01", "cus_02")),
        once("k", &format!("{EVENT} ")),
        with(once("k", EVENT), "content-type", "application/json; charset=utf-8"),
        with(once("k", EVENT), "ce-id", "1"),
        elsewhere,
    ] {
        let answer = ask(&router, other).await;
        assert_eq!((answer.status, answer.code()), (422, "idempotency_key_reused"));
    }
    assert_eq!(world.sent().len(), 1);
}

#[tokio::test]
async fn a_key_is_its_space_s_own_and_shared_by_the_space_s_keys() {
    let world = World::new();
    world.add_key_of("globex", &key(8), &[Scope::Ingest]);
    world.add_key(&key(9), &[Scope::Ingest], None);
    let router = world.router(FrontDoorConfig::default());
    for (byte, replayed) in [(7, false), (8, false), (9, true)] {
        let answer = ask(&router, with(post_as(&key(byte), EVENT), "idempotency-key", "k")).await;
        assert_eq!((answer.status, told(&answer).2), (202, replayed), "{byte}");
    }
    assert_eq!(world.sent().len(), 2);
}

#[tokio::test]
async fn what_is_no_key_is_told_before_the_body_is_read() {
    let world = World::new();
    let router = world.router(FrontDoorConfig::default());
    let long = "x".repeat(256);
    for value in ["", "\"", "\"\"", "a b", "a,b", &long] {
        let answer = ask(&router, once(value, EVENT)).await;
        assert_eq!((answer.status, answer.code()), (400, "invalid_idempotency_key"), "{value:?}");
    }
    let mut twice = once("a", EVENT);
    twice.headers_mut().append("idempotency-key", HeaderValue::from_static("b"));
    assert_eq!(ask(&router, twice).await.code(), "invalid_idempotency_key");
    assert!(world.sent().is_empty() && world.with(|state| state.receipts.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn what_depends_on_the_moment_is_not_kept_and_the_retry_runs() {
    // A full month, then an upgrade of the limit; a queue that is down, then up.
    let world = World::new();
    let router = world.router(FrontDoorConfig::default());
    world.with(|state| state.count = 1_000);
    assert_eq!(ask(&router, once("k", EVENT)).await.status, 402);
    world.with(|state| (state.count, state.queue_mood) = (0, Mood::Failing));
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(ask(&router, once("k", EVENT)).await.status, 503);
    world.with(|state| state.queue_mood = Mood::Well);
    let answer = ask(&router, once("k", EVENT)).await;
    assert_eq!((answer.status, told(&answer).2), (202, false));
    assert_eq!(world.sent().len(), 1);
    // The key stands for that request from its first attempt on.
    assert_eq!(ask(&router, once("k", "{}")).await.code(), "idempotency_key_reused");
}

#[tokio::test(start_paused = true)]
async fn a_command_in_progress_is_409_with_a_short_pause_or_the_rest_of_its_lease() {
    let world = World::new();
    world.with(|state| state.queue_mood = Mood::Stalled);
    let router = world.router(FrontDoorConfig::default());
    let running = tokio::spawn({
        let router = router.clone();
        async move { ask(&router, once("k", EVENT)).await }
    });
    while world.with(|state| state.receipts.is_empty()) {
        tokio::task::yield_now().await;
    }
    for (ahead_ms, seconds) in [(0, "2"), (28_000, "2"), (28_999, "2"), (29_000, "1"), (29_999, "1")] {
        world.with(|state| state.ahead_ms = ahead_ms);
        let answer = ask(&router, once("k", EVENT)).await;
        assert_eq!((answer.status, answer.code()), (409, "request_in_progress"));
        assert_eq!(answer.header("retry-after"), Some(seconds));
    }
    assert_eq!(ask(&router, once("k", "{}")).await.code(), "idempotency_key_reused");
    assert_eq!(running.await.unwrap().status, 503, "the queue did not answer in time");
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_command_is_taken_over_after_its_lease_and_its_first_owner_keeps_nothing() {
    let world = World::new();
    world.with(|state| state.queue_mood = Mood::Stalled);
    let mut config = FrontDoorConfig::default();
    config.intake.enqueue_timeout = Duration::from_mins(1);
    let router = world.router(config);
    let slow = tokio::spawn({
        let router = router.clone();
        async move { ask(&router, once("k", EVENT)).await }
    });
    while world.with(|state| state.receipts.is_empty()) {
        tokio::task::yield_now().await;
    }
    let first_owner = owner(&world);
    world.with(|state| (state.queue_mood, state.ahead_ms) = (Mood::Well, 30_000));
    let answer = ask(&router, once("k", EVENT)).await;
    assert_eq!((answer.status, told(&answer).2), (202, false));
    assert_ne!(owner(&world), first_owner, "a new owner");
    // The first one comes to its end after all: its client is answered, and the other's answer stays.
    let late = slow.await.unwrap();
    assert_eq!((late.status, told(&late).2), (202, false));
    assert_ne!(late.body["results"][0]["submissionId"], answer.body["results"][0]["submissionId"]);
    assert_eq!(told(&ask(&router, once("k", EVENT)).await), (202, answer.body, true));
    // Twice in the queue, and the same event: charged once.
    let sent = world.sent();
    assert_eq!((sent.len(), sent[0].event.id()), (2, sent[1].event.id()));
}

fn owner(world: &World) -> String {
    world.with(|state| state.receipts.values().next().unwrap().owner.as_str().to_owned())
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_of_the_table_a_guarded_command_is_503_and_an_unguarded_one_runs() {
    for mood in [Mood::Failing, Mood::Stalled] {
        let world = World::new();
        world.with(|state| state.receipts_mood = mood);
        let router = world.router(FrontDoorConfig::default());
        let started = Instant::now();
        let answer = ask(&router, once("k", EVENT)).await;
        assert_eq!((answer.status, answer.code()), (503, "receipts_unavailable"), "{mood:?}");
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert!(started.elapsed() <= Duration::from_secs(4));
        assert!(world.sent().is_empty());
        assert_eq!(ask(&router, post(EVENT)).await.status, 202);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_kept_is_given_all_the_same() {
    for mood in [Mood::Failing, Mood::Stalled] {
        let world = World::new();
        world.with(|state| state.finish_mood = mood);
        let router = world.router(FrontDoorConfig::default());
        let answer = ask(&router, once("k", EVENT)).await;
        assert_eq!((answer.status, told(&answer).2), (202, false), "{mood:?}");
        assert_eq!(ask(&router, once("k", EVENT)).await.status, 409, "until the lease is over");
        world.with(|state| (state.finish_mood, state.ahead_ms) = (Mood::Well, 30_000));
        assert!(!told(&ask(&router, once("k", EVENT)).await).2);
        assert!(told(&ask(&router, once("k", EVENT)).await).2);
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_to_keep_is_not_kept() {
    let world = World::new();
    let mut config = FrontDoorConfig::default();
    config.receipts.max_answer_bytes = 10;
    let router = world.router(config);
    for _ in 0..2 {
        assert!(!told(&ask(&router, once("k", EVENT)).await).2);
    }
    assert!(
        world.with(|state| {
            state.receipts.values().all(|receipt| matches!(receipt.progress, Progress::Running { .. }))
        })
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_leaves_no_command_half_run() {
    let world = World::new();
    world.with(|state| state.queue_mood = Mood::Stalled);
    let mut config = FrontDoorConfig::default();
    config.intake.enqueue_timeout = Duration::from_mins(1);
    let router = world.router(config);
    let gone = tokio::time::timeout(Duration::from_secs(1), ask(&router, once("k", EVENT))).await;
    assert!(gone.is_err());
    tokio::time::sleep(Duration::from_secs(30)).await;
    let answer = ask(&router, once("k", EVENT)).await;
    assert_eq!((answer.status, told(&answer).2), (202, true));
    assert_eq!(world.sent().len(), 1);
}

#[tokio::test]
async fn neither_keys_nor_answers_are_logged() {
    let world = World::new();
    let router = world.router(FrontDoorConfig::default());
    for _ in 0..2 {
        ask(&router, once("\"my secret order\"", EVENT)).await;
    }
    let text = crate::fakes::logged();
    assert!(text.contains("replayed") && !text.contains("secret") && !text.contains("cus_01"), "{text}");
}

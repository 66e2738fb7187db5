//! Whether the front door is ready.

use std::time::Duration;

use axum::body::Body;
use http::Request;
use serde_json::json;
use tokio::time::Instant;
use tollgate_front_door::config::FrontDoorConfig;

use crate::fakes::{Mood, World, ask};

fn readyz() -> Request<Body> {
    Request::get("/readyz").body(Body::empty()).unwrap()
}

#[tokio::test]
async fn with_both_engines_it_is_ready_and_needs_no_key() {
    let answer = ask(&World::new().router(FrontDoorConfig::default()), readyz()).await;
    assert_eq!((answer.status, answer.body), (200, json!({"status": "ready"})));
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_gives_no_answer_is_named_and_its_error_is_not() {
    for mood in [Mood::Failing, Mood::Stalled] {
        for (keys, queue) in [(mood, Mood::Well), (Mood::Well, mood), (mood, mood)] {
            let world = World::new();
            world.with(|state| (state.keys_mood, state.queue_mood) = (keys, queue));
            let started = Instant::now();
            let answer = ask(&world.router(FrontDoorConfig::default()), readyz()).await;
            let told = |mood| if mood == Mood::Well { "ok" } else { "unavailable" };
            let checks = json!({"keys": told(keys), "queue": told(queue)});
            assert_eq!((answer.status, &answer.body), (503, &json!({"status": "not_ready", "checks": checks})));
            assert_eq!(answer.header("retry-after"), Some("1"));
            assert!(started.elapsed() <= Duration::from_secs(1), "side by side, a second each");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_often_does_not_load_the_engines() {
    let world = World::new();
    let router = world.router(FrontDoorConfig::default());
    let asked = || world.with(|state| (state.key_reads, state.queue_probes));
    for _ in 0..20 {
        assert_eq!(ask(&router, readyz()).await.status, 200);
    }
    assert_eq!(asked(), (1, 1));
    world.with(|state| state.queue_mood = Mood::Stalled);
    assert_eq!(ask(&router, readyz()).await.status, 200, "for a second");
    tokio::time::advance(Duration::from_secs(1)).await;
    // Those who come while it is asked wait for the same answer.
    let answers = tokio::join!(ask(&router, readyz()), ask(&router, readyz()), ask(&router, readyz()));
    assert_eq!((answers.0.status, answers.1.status, answers.2.status), (503, 503, 503));
    assert_eq!(asked(), (2, 2));
    world.with(|state| state.queue_mood = Mood::Well);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(ask(&router, readyz()).await.status, 200);
}

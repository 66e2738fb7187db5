//! Keys: listed, used, and asking too often.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use tollgate_domain::key::Scope;
use tollgate_domain::time::UtcMillis;
use tollgate_front_door::config::{FrontDoorConfig, RateConfig};

use crate::fakes::{EVENT, Mood, World, ask, get_as, key, post, post_as};

/// Lets the tasks that no request waits for run.
async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

fn uses(world: &World) -> usize {
    world.with(|state| state.touches.len())
}

#[tokio::test]
async fn an_admin_sees_the_keys_of_its_space_without_their_secrets() {
    let world = World::new();
    world.add_key(&key(1), &[Scope::Admin], None);
    world.add_key(&key(2), &[Scope::Ingest, Scope::Read], Some("2026-12-01T00:00:00Z"));
    world.add_key_of("globex", &key(3), &[Scope::Ingest]);
    world.with(|state| {
        state.keys.get_mut(&key(2).hash()).unwrap().last_used_at = UtcMillis::new(3_600_000);
    });
    let router = world.router(FrontDoorConfig::default());
    let answer = ask(&router, get_as(&key(1), "/v1/keys")).await;
    assert_eq!((answer.status, &answer.body["space"]), (200, &json!("acme")));
    let entry = |byte: u8| {
        let id = key(byte).hash().as_str()[..16].to_owned();
        answer.body["keys"].as_array().unwrap().iter().find(|entry| entry["keyId"] == id.as_str()).cloned()
    };
    assert_eq!(
        entry(2).unwrap(),
        json!({
            "keyId": &key(2).hash().as_str()[..16], "label": "test", "scopes": ["ingest", "read"],
            "createdAt": "1970-01-01T00:00:00.000Z", "lastUsedAt": "1970-01-01T01:00:00.000Z",
            "revokedAt": "2026-12-01T00:00:00.000Z",
        })
    );
    assert_eq!(entry(7).unwrap()["lastUsedAt"], json!(null));
    assert_eq!(entry(3), None, "another space's");
    let text = answer.body.to_string();
    assert!(!text.contains(key(2).expose()) && !text.contains(key(2).hash().as_str()), "{text}");
    for byte in [7, 2] {
        assert_eq!(ask(&router, get_as(&key(byte), "/v1/keys")).await.code(), "missing_scope");
    }
    assert_eq!(ask(&router, get_as(&key(1), "/v1/keys?all=1")).await.code(), "invalid_query");
    for mood in [Mood::Failing, Mood::Stalled] {
        tokio::time::pause();
        world.with(|state| state.keys_mood = mood);
        let answer = ask(&router, get_as(&key(1), "/v1/keys")).await;
        assert_eq!((answer.status, answer.code()), (503, "keys_unavailable"));
        tokio::time::resume();
    }
}

#[tokio::test]
async fn a_use_is_noted_at_most_once_an_hour_and_only_of_keys_that_may() {
    let world = World::new();
    world.add_key(&key(2), &[Scope::Ingest], Some("2026-11-30T12:00:00Z"));
    let router = world.router(FrontDoorConfig::default());
    for _ in 0..3 {
        assert_eq!(ask(&router, post(EVENT)).await.status, 202);
        settle().await;
    }
    assert_eq!(world.with(|state| state.touches.clone()), [(key(7).hash(), 3_600_000)]);
    world.with(|state| state.ahead_ms = 3_599_999);
    ask(&router, post(EVENT)).await;
    settle().await;
    assert_eq!(uses(&world), 1);
    world.with(|state| state.ahead_ms = 3_600_000);
    ask(&router, post(EVENT)).await;
    settle().await;
    assert_eq!(uses(&world), 2);
    // Another process noted it a minute ago.
    world.with(|state| {
        state.keys.get_mut(&key(7).hash()).unwrap().last_used_at = UtcMillis::parse("2026-11-30T12:59:00Z").ok();
    });
    ask(&world.router(FrontDoorConfig::default()), post(EVENT)).await;
    for refused in [post_as(&key(2), EVENT), post_as(&key(9), EVENT), get_as(&key(7), "/v1/keys")] {
        assert!(ask(&router, refused).await.status >= 400);
    }
    settle().await;
    assert_eq!(uses(&world), 2);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_use_to_be_noted_and_a_failure_is_made_up_for() {
    for mood in [Mood::Failing, Mood::Stalled] {
        let world = World::new();
        world.with(|state| state.touch_mood = mood);
        let router = world.router(FrontDoorConfig::default());
        let started = Instant::now();
        assert_eq!(ask(&router, post(EVENT)).await.status, 202, "{mood:?}");
        assert_eq!(started.elapsed(), Duration::ZERO, "{mood:?}");
        settle().await;
        assert_eq!(uses(&world), 1);
        // Once the table was asked about the key again.
        world.with(|state| state.touch_mood = Mood::Well);
        tokio::time::advance(Duration::from_secs(30)).await;
        ask(&router, post(EVENT)).await;
        settle().await;
        assert_eq!(uses(&world), 2, "{mood:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_asks_too_often_is_told_when_to_come_back() {
    let world = World::new();
    world.add_key(&key(8), &[Scope::Ingest], None);
    let config = FrontDoorConfig { rate: RateConfig { per_second: 2, burst: 3 }, ..FrontDoorConfig::default() };
    let router = world.router(config);
    for _ in 0..3 {
        assert_eq!(ask(&router, post(EVENT)).await.status, 202);
    }
    let answer = ask(&router, post(EVENT)).await;
    assert_eq!((answer.status, answer.code()), (429, "rate_limited"));
    assert_eq!(answer.header("retry-after"), Some("1"), "half a second, in whole seconds");
    assert_eq!(world.sent().len(), 3);
    // Every route takes from the same bucket, whatever the scope; other keys have their own.
    assert_eq!(ask(&router, get_as(&key(7), "/v1/usage")).await.code(), "rate_limited");
    assert_eq!(ask(&router, post_as(&key(8), EVENT)).await.status, 202);
    assert_eq!(ask(&router, post_as(&key(9), EVENT)).await.code(), "unknown_key");
    tokio::time::advance(Duration::from_millis(500)).await;
    assert_eq!(ask(&router, post(EVENT)).await.status, 202);
    assert_eq!(ask(&router, post(EVENT)).await.status, 429);
}

#[tokio::test(start_paused = true)]
async fn a_slow_rate_tells_its_whole_wait_and_none_limits_nothing() {
    let world = World::new();
    let config = FrontDoorConfig { rate: RateConfig { per_second: 1, burst: 1 }, ..FrontDoorConfig::default() };
    let router = world.router(config);
    assert_eq!(ask(&router, post(EVENT)).await.status, 202);
    assert_eq!(ask(&router, post(EVENT)).await.header("retry-after"), Some("1"));
    let config = FrontDoorConfig { rate: RateConfig { per_second: 0, burst: 1 }, ..FrontDoorConfig::default() };
    let router = world.router(config);
    for _ in 0..50 {
        assert_eq!(ask(&router, post(EVENT)).await.status, 202);
    }
}

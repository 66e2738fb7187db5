//! Who may send, also while the keys table is down.

use std::time::Duration;

use http::HeaderValue;
use tollgate_domain::key::Scope;
use tollgate_front_door::config::FrontDoorConfig;

use crate::fakes::{EVENT, Mood, World, ask, key, post, post_as};

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn every_bad_key_has_its_own_error_and_queues_nothing() {
    let world = World::new();
    world.add_key(&key(1), &[Scope::Read], None);
    world.add_key(&key(2), &[Scope::Ingest], Some("2026-11-30T12:00:00Z"));
    let router = world.router(FrontDoorConfig::default());
    let bearer = |byte: u8| format!("Bearer {}", key(byte).expose());
    for (value, status, code) in [
        (None, 401, "missing_key"),
        (Some(String::new()), 401, "malformed_key"),
        (Some("Bearer".to_owned()), 401, "malformed_key"),
        (Some("Bearer tollgate_sk_short".to_owned()), 401, "malformed_key"),
        (Some(bearer(7).to_uppercase()), 401, "malformed_key"),
        (Some(format!("Basic {}", key(7).expose())), 401, "malformed_key"),
        (Some("Bearer \u{e9}".to_owned()), 401, "malformed_key"),
        (Some(bearer(9)), 401, "unknown_key"),
        (Some(bearer(2)), 401, "revoked_key"),
        (Some(bearer(1)), 403, "missing_scope"),
    ] {
        let mut request = post(EVENT);
        request.headers_mut().remove("authorization");
        value.as_ref().map(|value| {
            request.headers_mut().insert("authorization", HeaderValue::from_bytes(value.as_bytes()).unwrap())
        });
        let answer = ask(&router, request).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{value:?}");
        assert!(answer.header("www-authenticate").unwrap().starts_with("Bearer "), "{value:?}");
        assert!(!answer.body["mend"].as_str().unwrap().is_empty());
    }
    let mut twice = post(EVENT);
    twice.headers_mut().append("authorization", HeaderValue::from_static("Bearer other"));
    assert_eq!(ask(&router, twice).await.code(), "malformed_key");
    assert_eq!(world.sent(), []);
    let mut lower = post(EVENT);
    lower.headers_mut().insert("authorization", format!("bearer {}", key(7).expose()).parse().unwrap());
    assert_eq!(ask(&router, lower).await.status, 202);
}

#[tokio::test]
async fn a_revocation_in_the_future_is_not_one_yet() {
    let world = World::new();
    world.add_key(&key(2), &[Scope::Ingest], Some("2026-11-30T12:00:00.001Z"));
    assert_eq!(ask(&world.router(FrontDoorConfig::default()), post_as(&key(2), EVENT)).await.status, 202);
}

#[tokio::test(start_paused = true)]
async fn a_found_key_is_not_asked_about_again_for_a_while() {
    let world = World::new();
    let router = world.router(FrontDoorConfig::default());
    for _ in 0..3 {
        assert_eq!(ask(&router, post(EVENT)).await.status, 202);
        tokio::time::advance(secs(9)).await;
    }
    assert_eq!(world.with(|state| state.key_reads), 1);
    // Revoked meanwhile: takes effect when the entry is 30 s old.
    world.add_key(&key(7), &[Scope::Ingest], Some("2026-11-30T11:00:00Z"));
    assert_eq!(ask(&router, post(EVENT)).await.status, 202);
    tokio::time::advance(secs(4)).await;
    assert_eq!(ask(&router, post(EVENT)).await.code(), "revoked_key");
    assert_eq!(world.with(|state| state.key_reads), 2);
}

#[tokio::test(start_paused = true)]
async fn unknown_keys_are_asked_about_every_time() {
    let world = World::new();
    let router = world.router(FrontDoorConfig::default());
    assert_eq!(ask(&router, post_as(&key(9), EVENT)).await.code(), "unknown_key");
    world.add_key(&key(9), &[Scope::Ingest], None);
    assert_eq!(ask(&router, post_as(&key(9), EVENT)).await.status, 202);
    // A deleted one is unknown as soon as it is asked about again.
    world.with(|state| state.keys.clear());
    tokio::time::advance(secs(31)).await;
    assert_eq!(ask(&router, post_as(&key(9), EVENT)).await.code(), "unknown_key");
}

#[tokio::test(start_paused = true)]
async fn while_the_table_is_down_cached_keys_go_on_and_others_are_told_503() {
    for mood in [Mood::Failing, Mood::Stalled] {
        let world = World::new();
        world.add_key(&key(8), &[Scope::Ingest], None);
        let router = world.router(FrontDoorConfig::default());
        assert_eq!(ask(&router, post(EVENT)).await.status, 202);
        world.with(|state| state.keys_mood = mood);

        let started = tokio::time::Instant::now();
        let answer = ask(&router, post_as(&key(8), EVENT)).await;
        assert_eq!((answer.status, answer.code()), (503, "authentication_unavailable"), "{mood:?}");
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert!(started.elapsed() <= secs(2));

        tokio::time::advance(secs(60)).await;
        let before = world.with(|state| state.key_reads);
        for _ in 0..5 {
            assert_eq!(ask(&router, post(EVENT)).await.status, 202, "{mood:?}");
        }
        assert_eq!(world.with(|state| state.key_reads), before + 1, "one question, then a pause");
        tokio::time::advance(secs(331)).await;
        assert_eq!(ask(&router, post(EVENT)).await.status, 503, "{mood:?}: the grace is over");
        world.with(|state| state.keys_mood = Mood::Well);
        assert_eq!(ask(&router, post(EVENT)).await.status, 202, "{mood:?}");
    }
}

#[tokio::test]
async fn the_cache_is_bounded() {
    let world = World::new();
    let mut config = FrontDoorConfig::default();
    config.auth.max_cached_keys = 2;
    let router = world.router(config);
    for byte in 1..=4 {
        world.add_key(&key(byte), &[Scope::Ingest], None);
        assert_eq!(ask(&router, post_as(&key(byte), EVENT)).await.status, 202);
    }
    // The two that came last are held, the first is asked about again.
    for (byte, reads) in [(4, 4), (3, 4), (1, 5)] {
        ask(&router, post_as(&key(byte), EVENT)).await;
        assert_eq!(world.with(|state| state.key_reads), reads, "{byte}");
    }
}

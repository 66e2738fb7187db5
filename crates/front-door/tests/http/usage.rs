//! What a space has used of a month.

use serde_json::{Value, json};
use tokio::time::Instant;
use tollgate_domain::key::Scope;
use tollgate_domain::plan::{Limit, SpaceRecord, Subscription};
use tollgate_domain::ports::Freshness;
use tollgate_domain::space::SpaceId;
use tollgate_front_door::config::FrontDoorConfig;

use crate::fakes::{Mood, World, ask, get_as, key};

fn world(subscription: Option<Subscription>, limit: Option<u64>) -> World {
    let world = World::new();
    world.add_key(&key(1), &[Scope::Read], None);
    let record = |subscription| SpaceRecord { subscription, monthly_limit: limit.and_then(Limit::new) };
    world.with(|state| state.space = subscription.map(record));
    world
}

async fn used(world: &World, query: &str) -> (u16, Value) {
    used_by(world, FrontDoorConfig::default(), query).await
}

async fn used_by(world: &World, config: FrontDoorConfig, query: &str) -> (u16, Value) {
    let answer = ask(&world.router(config), get_as(&key(1), &format!("/v1/usage{query}"))).await;
    (answer.status, answer.body)
}

fn with(told: &Value) -> Value {
    let mut usage = json!({
        "space": "acme", "month": "2026-11", "used": null, "limit": null, "remaining": null, "included": null,
        "resetsAt": "2026-12-01T00:00:00.000Z",
    });
    usage.as_object_mut().unwrap().extend(told.as_object().unwrap().clone());
    usage
}

#[tokio::test]
async fn a_free_space_is_told_its_meter_and_what_remains() {
    for (subscription, own, count, told) in [
        (None, None, 0, json!({"plan": "free", "used": 0, "limit": 1_000, "remaining": 1_000})),
        (Some(Subscription::Free), None, 7, json!({"plan": "free", "used": 7, "limit": 1_000, "remaining": 993})),
        (Some(Subscription::Free), Some(5), 5, json!({"plan": "free", "used": 5, "limit": 5, "remaining": 0})),
        // The limit was lowered meanwhile.
        (Some(Subscription::Free), Some(5), 9, json!({"plan": "free", "used": 9, "limit": 5, "remaining": 0})),
    ] {
        let world = world(subscription, own);
        world.with(|state| state.count = count);
        assert_eq!(used(&world, "").await, (200, with(&told)));
        assert_eq!(world.with(|state| state.space_reads.clone()), [Freshness::Strong]);
    }
}

#[tokio::test]
async fn a_plus_space_is_told_what_it_is_billed_for_where_that_can_be_asked() {
    for (subscription, active) in [(Subscription::PlusActive, true), (Subscription::PlusInactive, false)] {
        for plus in [None, Some(100_001)] {
            let world = world(Some(subscription), Some(5));
            world.with(|state| (state.plus, state.count) = (plus, 77));
            let told = json!({"plan": "plus", "active": active, "used": plus, "included": 100_000});
            assert_eq!(used(&world, "").await, (200, with(&told)), "{subscription} {plus:?}");
        }
    }
}

#[tokio::test]
async fn an_internal_space_uses_nothing() {
    let world = world(Some(Subscription::Free), Some(5));
    let mut config = FrontDoorConfig::default();
    config.gate.policy.internal_spaces.insert(SpaceId::parse("acme").unwrap());
    assert_eq!(used_by(&world, config, "").await, (200, with(&json!({"plan": "internal"}))));
}

#[tokio::test]
async fn the_month_is_the_current_one_unless_another_is_asked_for() {
    for subscription in [Subscription::Free, Subscription::PlusActive] {
        let world = world(Some(subscription), None);
        world.with(|state| state.plus = Some(1));
        let (_, usage) = used(&world, "?month=2025-12").await;
        assert_eq!((&usage["month"], &usage["resetsAt"]), (&json!("2025-12"), &json!("2026-01-01T00:00:00.000Z")));
        used(&world, "").await;
        assert_eq!(
            world.with(|state| state.counted.iter().map(ToString::to_string).collect::<Vec<_>>()),
            ["2025-12", "2026-11"]
        );
    }
    for query in ["?month=2026-13", "?month=2026-1", "?month=", "?month=2026-11&month=2026-11", "?year=2026"] {
        let (status, body) = used(&world(None, None), query).await;
        assert_eq!((status, &body["code"]), (400, &json!("invalid_query")), "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_gives_no_answer_is_503_and_not_a_number() {
    for mood in [Mood::Failing, Mood::Stalled] {
        for store in ["spaces", "meter", "clickhouse"] {
            let plus = (store == "clickhouse").then_some(Subscription::PlusActive);
            let world = world(plus, None);
            world.with(|state| match store {
                "spaces" => state.spaces_mood = mood,
                "meter" => state.billing_mood = mood,
                _ => (state.plus, state.plus_mood) = (Some(1), mood),
            });
            let started = Instant::now();
            let (status, body) = used(&world, "").await;
            assert_eq!((status, &body["code"]), (503, &json!("usage_unavailable")), "{store} {mood:?}");
            assert!(started.elapsed().as_secs() <= 2);
        }
    }
}

#[tokio::test]
async fn usage_needs_the_scope_read() {
    let world = world(None, None);
    let answer = ask(&world.router(FrontDoorConfig::default()), get_as(&key(7), "/v1/usage")).await;
    assert_eq!((answer.status, answer.code()), (403, "missing_scope"));
}

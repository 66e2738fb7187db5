//! The advisory gate: a courtesy that never stands in the way of a doubtful case.

use std::time::Duration;

use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::{Limit, SpaceRecord, Subscription};
use tollgate_domain::ports::Freshness;
use tollgate_domain::space::SpaceId;
use tollgate_front_door::config::{FrontDoorConfig, GateMode};

use crate::fakes::{EVENT, Mood, World, ask, logged, post};

const ID: &str = "uev_5c8ec3ea62721af70f0521af0552578f89da8d295f45829ec6ab33fa38317745";

fn record(subscription: Subscription, limit: Option<u64>) -> SpaceRecord {
    SpaceRecord { subscription, monthly_limit: limit.and_then(Limit::new) }
}

fn full() -> World {
    let world = World::new();
    world.with(|state| state.count = 1_000);
    world
}

fn config(mode: GateMode) -> FrontDoorConfig {
    let mut config = FrontDoorConfig::default();
    config.gate.mode = mode;
    config
}

#[tokio::test]
async fn each_plan_is_taken_or_told_402() {
    for (space, count, status, code) in [
        (None, 999, 202, ""),
        (None, 1_000, 402, "quota_exceeded"),
        (Some(record(Subscription::Free, None)), 1_001, 402, "quota_exceeded"),
        (Some(record(Subscription::Free, Some(5))), 4, 202, ""),
        (Some(record(Subscription::Free, Some(5))), 5, 402, "quota_exceeded"),
        (Some(record(Subscription::PlusActive, Some(5))), 100_000, 202, ""),
        (Some(record(Subscription::PlusInactive, None)), 0, 402, "plan_inactive"),
    ] {
        let world = World::new();
        world.with(|state| (state.space, state.count) = (space, count));
        let answer = ask(&world.router(config(GateMode::Enforce)), post(EVENT)).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{space:?} {count}");
        assert_eq!(world.sent().is_empty(), status == 402);
    }
}

#[tokio::test]
async fn a_402_tells_plan_limit_use_and_reset() {
    let answer = ask(&full().router(config(GateMode::Enforce)), post(EVENT)).await;
    assert_eq!(answer.body["plan"], "free");
    assert_eq!(answer.body["limit"], 1_000);
    assert_eq!(answer.body["used"], 1_000);
    assert_eq!(answer.body["resetsAt"], "2026-12-01T00:00:00.000Z");
    assert_eq!(answer.header("retry-after"), None);
}

#[tokio::test]
async fn the_month_that_is_asked_for_is_the_month_of_acceptance() {
    let world = full();
    ask(&world.router(config(GateMode::Enforce)), post(EVENT)).await;
    let november = PeriodMonth::parse("2026-11").unwrap();
    assert_eq!(world.with(|state| state.counted.clone()), [november, november]);
}

#[tokio::test]
async fn observing_lets_everything_pass_and_says_what_it_saw() {
    let world = full();
    assert_eq!(ask(&world.router(config(GateMode::Observe)), post(EVENT)).await.status, 202);
    assert_eq!(world.sent().len(), 1);
    let text = logged();
    assert!(text.contains("would refuse") && text.contains("gate=\"observed\""), "{text}");
}

#[tokio::test]
async fn off_and_internal_spaces_ask_nothing() {
    let mut internal = config(GateMode::Enforce);
    internal.gate.policy.internal_spaces.insert(SpaceId::parse("acme").unwrap());
    for config in [config(GateMode::Off), internal] {
        let world = full();
        assert_eq!(ask(&world.router(config), post(EVENT)).await.status, 202);
        assert!(world.with(|state| state.space_reads.is_empty() && state.counted.is_empty()));
    }
}

#[tokio::test(start_paused = true)]
async fn any_failing_or_stalled_dependency_lets_the_call_pass_in_time() {
    for mood in [Mood::Failing, Mood::Stalled] {
        for dependency in ["spaces", "billing", "ledger"] {
            let world = full();
            world.with(|state| match dependency {
                "spaces" => state.spaces_mood = mood,
                "billing" => state.billing_mood = mood,
                _ => state.ledger_mood = mood,
            });
            let started = tokio::time::Instant::now();
            let answer = ask(&world.router(config(GateMode::Enforce)), post(EVENT)).await;
            assert_eq!(answer.status, 202, "{dependency} {mood:?}");
            assert!(started.elapsed() <= Duration::from_millis(151), "{dependency} {mood:?}: {:?}", started.elapsed());
            assert_eq!(world.sent().len(), 1);
        }
    }
}

#[tokio::test]
async fn a_retry_of_an_event_that_the_ledger_knows_is_never_told_402() {
    let world = full();
    world.with(|state| state.known = [ID.to_owned()].into());
    let router = world.router(config(GateMode::Enforce));
    assert_eq!(ask(&router, post(EVENT)).await.status, 202);
    let other = EVENT.replace("cus_01", "cus_02");
    assert_eq!(ask(&router, post(other.clone())).await.status, 402);
    // A whole call is one decision: a known event takes the others with it, and the worker decides on each.
    let before = world.with(|state| state.ledger_reads);
    assert_eq!(ask(&router, post(format!("[{other},{EVENT}]"))).await.status, 202);
    assert_eq!(world.with(|state| state.ledger_reads), before + 1, "one question for all events");
}

#[tokio::test(start_paused = true)]
async fn answers_are_kept_briefly_and_never_refuse_when_old() {
    let world = World::new();
    let router = world.router(config(GateMode::Enforce));
    for _ in 0..5 {
        assert_eq!(ask(&router, post(EVENT)).await.status, 202);
    }
    assert_eq!(world.with(|state| (state.space_reads.clone(), state.counted.len())), (vec![Freshness::Cached], 1));

    world.with(|state| state.count = 1_000);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(ask(&router, post(EVENT)).await.status, 402);
    let reads = world.with(|state| std::mem::take(&mut state.space_reads));
    assert_eq!(reads, [Freshness::Cached, Freshness::Cached, Freshness::Strong], "a refusal rests on a strong read");
    assert_eq!(ask(&router, post(EVENT)).await.status, 402);
    assert_eq!(world.with(|state| state.space_reads.len()), 0, "which is itself kept for two seconds");

    world.with(|state| state.space = Some(record(Subscription::PlusActive, None)));
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(ask(&router, post(EVENT)).await.status, 202, "an upgrade opens the gate");
}

//! The proxy between the real clients and an upstream that only counts.

mod calls;
mod edges;
mod upstream;

use futures_util::StreamExt;
use tollgate_domain::ports::PortError;

use self::calls::Calls;
use super::{Chance, Edge, Engine, Rule, Script, WireEffect};

#[tokio::test]
async fn every_effect_is_told_by_its_request_and_each_answer_is_the_engine_s_own() {
    let mut tried = Vec::new();
    for effect in WireEffect::ALL {
        // An insert is sent only once ClickHouse has told the table's columns: the kill matrix covers it.
        for edge in [Edge::Refused, Edge::Throttled, Edge::Conflicted] {
            if effect != WireEffect::Insert && edge.inapplicable(effect).is_none() {
                tried.push((effect, edge));
            }
        }
    }
    let answers = futures_util::stream::iter(tried).map(|(effect, edge)| async move {
        let calls = Calls::struck(Rule { effect, edge, times: u32::MAX }).await;
        let answer = calls.call(effect).await;
        assert!(calls.script.has_struck(), "{effect} has another name: {answer:?}");
        let is_right = match (edge, &answer) {
            // The reasons of a cancellation are no facts.
            (Edge::Conflicted, Ok(told)) => effect == WireEffect::Consume && told.contains("Cancelled"),
            (Edge::Conflicted, Err(PortError::Contended(_))) => effect != WireEffect::Consume,
            (Edge::Refused, Err(PortError::NotNow(_))) => effect.engine() == Engine::ClickHouse,
            (Edge::Refused, Err(PortError::Unknown(_))) => effect.engine() != Engine::ClickHouse,
            (Edge::Throttled, Err(PortError::NotNow(_))) => true,
            _ => false,
        };
        assert!(is_right, "{effect} {edge}: {answer:?}");
    });
    assert!(answers.buffer_unordered(8).count().await > 40);
}

#[test]
fn a_rule_strikes_so_often_and_those_that_never_did_are_told() {
    let rule = |effect, times| Rule { effect, edge: Edge::Dropped, times };
    let script = Script::new([rule(WireEffect::Claim, 2), rule(WireEffect::Consume, 1)]);
    let struck: Vec<bool> = (0..3).map(|_| script.next(WireEffect::Claim).is_some()).collect();
    assert_eq!(struck, [true, true, false]);
    assert_eq!(script.next(WireEffect::Delete), None);
    assert_eq!(script.missed(), [rule(WireEffect::Consume, 1)]);
}

#[test]
fn the_same_seed_throws_the_same_dice_and_each_kind_of_fault_comes_up() {
    let throws = |seed| {
        let chance = Chance::new(seed, 5);
        (0..10_000).map(|_| chance.next(WireEffect::Consume)).collect::<Vec<_>>()
    };
    assert_eq!(throws(1), throws(1));
    assert_ne!(throws(1), throws(2));
    let (first, count) =
        (throws(1), |wanted: fn(&Edge) -> bool| throws(1).iter().flatten().filter(|edge| wanted(edge)).count());
    assert_eq!(first.len(), 10_000);
    for kind in [
        (|edge| *edge == Edge::Throttled) as fn(&Edge) -> bool,
        |edge| *edge == Edge::Refused,
        |edge| *edge == Edge::Conflicted,
        |edge| matches!(edge, Edge::Stalled(_)),
        |edge| matches!(edge, Edge::StalledAfter(_)),
    ] {
        assert!((400..600).contains(&count(kind)), "{} of some 500", count(kind));
    }
}

#[test]
fn dice_that_were_stopped_strike_nothing_and_a_fault_that_cannot_be_is_none() {
    let chance = Chance::new(1, 20);
    let conflicts = (0..1_000).filter(|_| chance.next(WireEffect::Probe) == Some(Edge::Conflicted)).count();
    assert_eq!(conflicts, 0, "a read conflicts with nobody");
    let before = chance.struck();
    chance.stop();
    assert!((0..1_000).all(|_| chance.next(WireEffect::Claim).is_none()));
    assert!(before > 0 && chance.struck() == before);
}

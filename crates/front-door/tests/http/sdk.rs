//! The SDK against the real router: each answer of the front door is the outcome that it should be.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_client::{Client, Outcome, RetryPolicy, UsageEvent, UtcMillis};
use tollgate_domain::key::Scope;
use tollgate_front_door::config::ServerConfig;

use crate::fakes::{EVENT, Mood, World, key};
use crate::serving::start;

fn event() -> UsageEvent {
    let occurred_at = UtcMillis::parse("2026-08-18T09:15:00Z").unwrap();
    UsageEvent::builder("api_request", "cus_01", occurred_at).quantity(3).build().unwrap()
}

/// The outcome of [`event`], sent with the key of this byte.
async fn outcome_in(world: &World, byte: u8) -> Outcome {
    let (address, shutdown, served) = start(world, ServerConfig::default()).await;
    let retry = RetryPolicy { max_attempts: 2, base: Duration::from_millis(1), ..RetryPolicy::default() };
    let client = Client::builder(format!("http://{address}"), &key(byte)).retry(retry).build().unwrap();
    let outcome = client.record(&event()).await;
    shutdown.cancel();
    drop(client);
    served.await.unwrap();
    outcome
}

#[tokio::test]
async fn every_decision_of_the_front_door_reaches_the_caller() {
    let world = World::new();
    world.add_key(&key(1), &[Scope::Read], None);
    let Outcome::Queued { id, submission_id } = outcome_in(&world, 7).await else { panic!("not queued") };
    assert_eq!(id, event().id());
    assert_eq!(world.sent()[0].submission_id, submission_id);
    assert_eq!(world.sent()[0].event.canonical_json(), event().to_json());

    for (byte, code) in [(9, "unknown_key"), (1, "missing_scope")] {
        let outcome = outcome_in(&world, byte).await;
        assert!(matches!(&outcome, Outcome::Unauthorized { code: told, .. } if told == code), "{outcome:?}");
    }
    world.with(|state| state.count = 1_000);
    let outcome = outcome_in(&world, 7).await;
    assert!(
        matches!(&outcome, Outcome::QuotaExceeded { quota } if quota.plan == "free" && quota.limit == Some(1_000)
            && quota.resets_at.as_deref() == Some("2026-12-01T00:00:00.000Z")),
        "{outcome:?}"
    );
    world.with(|state| (state.count, state.queue_mood) = (0, Mood::Failing));
    let outcome = outcome_in(&world, 7).await;
    assert!(
        matches!(&outcome, Outcome::Unavailable { attempts: 2, retry_after: Some(_), reason } if reason.contains("queue_unavailable")),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn problems_of_a_raw_batch_reach_their_own_events() {
    let world = World::new();
    let (address, _shutdown, _served) = start(&world, ServerConfig::default()).await;
    let client = Client::builder(format!("http://{address}"), &key(7)).build().unwrap();
    let good: Value = serde_json::from_str(EVENT).unwrap();
    let keyed = |quantity: u64| json!({"meter":"m","subject":"s","occurredAt":"2026-01-01T00:00:00Z","quantity":quantity,"idempotencyKey":"k"});
    let outcomes = client.record_json_batch(&[good.clone(), json!({"meter": 1}), keyed(1), keyed(2)]).await;
    assert!(
        matches!(
            outcomes.as_slice(),
            [Outcome::HeldBack, Outcome::Invalid { .. }, Outcome::Conflict { .. }, Outcome::Conflict { .. }]
        ),
        "{outcomes:?}"
    );
    assert_eq!(world.sent(), []);
    let outcomes = client.record_json_batch(&[good.clone(), keyed(1), good]).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Queued { .. })), "{outcomes:?}");
    assert_eq!(world.sent().len(), 2);
}

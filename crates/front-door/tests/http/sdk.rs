//! The SDK against the real router: each answer of the front door is the outcome that it should be.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tollgate_client::{
    BilledAs, Client, LookError, Outcome, PeriodMonth, PlanName, Recorded, Recorder, RejectedReason, RetryPolicy,
    Settled, Standing, UsageEvent, UtcMillis,
};
use tollgate_domain::envelope::Envelope;
use tollgate_domain::key::Scope;
use tollgate_domain::ledger::{Checkpoint, LedgerItem, NewClaim, Rejection, Status};
use tollgate_domain::plan::{Limit, SpaceRecord, Subscription};
use tollgate_front_door::config::ServerConfig;

use crate::fakes::{EVENT, Mood, World, key};
use crate::serving::start;

fn event() -> UsageEvent {
    let occurred_at = UtcMillis::parse("2026-08-18T09:15:00Z").unwrap();
    UsageEvent::builder("api_request", "cus_01", occurred_at).quantity(3).build().unwrap()
}

/// The event of `key`; another quantity makes other facts.
fn keyed(key: &str, quantity: u64) -> UsageEvent {
    let occurred_at = UtcMillis::parse("2026-08-18T09:15:00Z").unwrap();
    UsageEvent::builder("api_request", "cus_01", occurred_at).quantity(quantity).idempotency_key(key).build().unwrap()
}

/// An event that its builder takes, since it knows no time of day, and the front door does not.
fn of_next_year() -> UsageEvent {
    let occurred_at = UtcMillis::parse("2027-08-18T09:15:00Z").unwrap();
    UsageEvent::builder("api_request", "cus_01", occurred_at).build().unwrap()
}

/// The real router on a socket, and clients of it.
struct Door {
    url: String,
    shutdown: CancellationToken,
    served: JoinHandle<()>,
}

impl Door {
    async fn of(world: &World) -> Self {
        let (address, shutdown, served) = start(world, ServerConfig::default()).await;
        Self { url: format!("http://{address}"), shutdown, served }
    }

    /// A client with the key of this byte, that asks twice at most.
    fn client(&self, byte: u8) -> Client {
        self.client_at("", byte)
    }

    fn client_at(&self, prefix: &str, byte: u8) -> Client {
        let retry = RetryPolicy { max_attempts: 2, base: Duration::from_millis(1), ..RetryPolicy::default() };
        Client::builder(format!("{}{prefix}", self.url), &key(byte)).retry(retry).build().unwrap()
    }

    async fn close(self) {
        self.shutdown.cancel();
        self.served.await.unwrap();
    }
}

/// A world whose key may send and read.
fn world() -> World {
    let world = World::new();
    world.add_key(&key(7), &[Scope::Ingest, Scope::Read], None);
    world
}

fn claimed(envelope: &Envelope) -> LedgerItem {
    NewClaim {
        key: envelope.key(),
        fingerprint: envelope.event.fingerprint(),
        submission_id: envelope.submission_id.clone(),
        period_month: PeriodMonth::of(envelope.accepted_at),
        now: envelope.accepted_at,
    }
    .into_item()
}

fn inserted(envelope: &Envelope) -> LedgerItem {
    let checkpoint =
        Checkpoint { accepted_at: envelope.accepted_at, billed_as: BilledAs::Free, limit: Limit::new(1_000) };
    LedgerItem { status: Status::Inserted, checkpoint: Some(checkpoint), ..claimed(envelope) }
}

fn by_somebody_else(envelope: &Envelope) -> LedgerItem {
    LedgerItem { submission_id: "sub_earlier".to_owned(), ..inserted(envelope) }
}

fn with_other_facts(envelope: &Envelope) -> LedgerItem {
    LedgerItem { fingerprint: keyed("k", 2).fingerprint(), ..inserted(envelope) }
}

fn rejected(envelope: &Envelope) -> LedgerItem {
    let rejection =
        Rejection { reason: RejectedReason::LimitExhausted, limit_seen: Limit::new(1_000), count_seen: Some(1_000) };
    LedgerItem { status: Status::Rejected, rejection: Some(rejection), ..claimed(envelope) }
}

fn uninsertable(envelope: &Envelope) -> LedgerItem {
    LedgerItem { status: Status::Uninsertable, ..inserted(envelope) }
}

/// The outcome of [`event`], sent with the key of this byte.
async fn outcome_in(world: &World, byte: u8) -> Outcome {
    let door = Door::of(world).await;
    let outcome = door.client(byte).record(&event()).await;
    door.close().await;
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
    let door = Door::of(&world).await;
    let client = door.client(7);
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

#[tokio::test]
async fn each_event_of_a_batch_that_is_taken_in_part_has_its_own_outcome() {
    let world = world();
    let (queued, stuck) = (keyed("queued", 1), keyed("stuck", 1));
    world.with(|state| {
        state.count = 1_000;
        state.known = [&queued, &stuck].map(|event| event.id().as_str().to_owned()).into();
        state.refused_messages = ["\"stuck\"".to_owned()].into();
    });
    let door = Door::of(&world).await;
    let batch = [queued, of_next_year(), keyed("twice", 1), keyed("twice", 2), keyed("late", 1), stuck.clone()];
    let outcomes = door.client(7).record_batch_partial(&batch).await;
    let [
        Outcome::Queued { id, submission_id },
        Outcome::Invalid { problems: invalid },
        Outcome::Conflict { problems: one },
        Outcome::Conflict { problems: other },
        Outcome::QuotaExceeded { quota },
        Outcome::Unavailable { retry_after: Some(_), attempts: 2, .. },
    ] = outcomes.as_slice()
    else {
        panic!("{outcomes:?}")
    };
    assert_eq!((id, quota.plan.as_str(), quota.limit), (&batch[0].id(), "free", Some(1_000)));
    let told = [invalid, one, other].map(|problems| problems.iter().map(|p| p.code.as_str()).collect::<Vec<_>>());
    assert_eq!(told, [["time_in_the_future"], ["same_id_other_payload"], ["same_id_other_payload"]]);
    // What had its outcome was not sent again with what had none.
    assert_eq!(world.sent().iter().map(|sent| &sent.submission_id).collect::<Vec<_>>(), [submission_id]);

    // Once the queue takes it, the same event is queued, and nothing else is asked of its sender.
    world.with(|state| state.refused_messages.clear());
    let outcomes = door.client(7).record_batch_partial(&[stuck]).await;
    assert!(matches!(outcomes.as_slice(), [Outcome::Queued { .. }]), "{outcomes:?}");
    door.close().await;
}

/// What becomes of an event that `worker` is done with as soon as it is queued.
async fn recorded_by(worker: fn(&Envelope) -> LedgerItem) -> (Recorded, World) {
    let world = world();
    world.with(|state| state.worker = Some(worker));
    let door = Door::of(&world).await;
    let recorded = door.client(7).record_and_wait(&keyed("k", 1), Duration::from_secs(20)).await;
    door.close().await;
    (recorded, world)
}

#[tokio::test]
async fn each_end_that_the_ledger_tells_is_what_was_recorded() {
    let (recorded, world) = recorded_by(inserted).await;
    let Recorded::Inserted { status } = recorded else { panic!("{recorded:?}") };
    let sent = &world.sent()[0];
    assert_eq!((status.standing, status.terminal, status.billed_as), (Standing::Inserted, true, Some(BilledAs::Free)));
    assert_eq!(status.submission_id.as_ref(), Some(&sent.submission_id));
    assert_eq!(status.claimed_at, Some(sent.accepted_at));

    let (recorded, _) = recorded_by(by_somebody_else).await;
    assert!(matches!(&recorded, Recorded::Duplicate { by, .. } if by == "sub_earlier"), "{recorded:?}");

    let (recorded, _) = recorded_by(with_other_facts).await;
    let Recorded::Conflict { existing: Some(existing), problems } = recorded else { panic!("{recorded:?}") };
    assert_eq!((existing.terminal, existing.fingerprint), (true, Some(keyed("k", 2).fingerprint())));
    assert_eq!(problems, []);

    let (recorded, _) = recorded_by(rejected).await;
    let Recorded::Rejected { rejection, .. } = recorded else { panic!("{recorded:?}") };
    assert_eq!(rejection.reason, RejectedReason::LimitExhausted);
    assert_eq!((rejection.limit, rejection.count), (Some(1_000), Some(1_000)));

    let (recorded, _) = recorded_by(uninsertable).await;
    assert!(matches!(recorded, Recorded::Uninsertable { .. }), "{recorded:?}");
}

#[tokio::test]
async fn what_is_not_taken_or_not_told_in_time_is_no_end() {
    let world = world();
    let door = Door::of(&world).await;
    let record = async |client: Client, event: &UsageEvent, timeout_ms: u64| {
        client.record_and_wait(event, Duration::from_millis(timeout_ms)).await
    };

    let recorded = record(door.client(7), &of_next_year(), 5_000).await;
    assert!(matches!(&recorded, Recorded::Invalid { problems } if problems.len() == 1), "{recorded:?}");
    let recorded = record(door.client(9), &event(), 5_000).await;
    assert!(
        matches!(&recorded, Recorded::Unauthorized { code, queued: false, .. } if code == "unknown_key"),
        "{recorded:?}"
    );
    let recorded = record(door.client_at("/elsewhere", 7), &event(), 5_000).await;
    assert!(
        matches!(&recorded, Recorded::Refused { status: 404, code: Some(code), queued: false, .. } if code == "not_found"),
        "{recorded:?}"
    );
    assert_eq!(world.sent(), []);

    world.with(|state| state.queue_mood = Mood::Failing);
    let recorded = record(door.client(7), &event(), 5_000).await;
    assert!(matches!(&recorded, Recorded::Unavailable { queued: false, attempts: 2, .. }), "{recorded:?}");
    world.with(|state| state.queue_mood = Mood::Well);

    // Queued, and then nobody claims it, the ledger does not tell, or the key may not ask.
    let recorded = record(door.client(7), &event(), 300).await;
    assert!(
        matches!(&recorded, Recorded::Unavailable { queued: true, reason, .. } if reason.contains("not yet terminal")),
        "{recorded:?}"
    );
    world.with(|state| state.ledger_mood = Mood::Failing);
    let recorded = record(door.client(7), &event(), 5_000).await;
    assert!(
        matches!(&recorded, Recorded::Unavailable { queued: true, reason, .. } if reason.contains("ledger_unavailable")),
        "{recorded:?}"
    );
    world.add_key(&key(8), &[Scope::Ingest], None);
    let recorded = record(door.client(8), &event(), 5_000).await;
    assert!(
        matches!(&recorded, Recorded::Unauthorized { code, queued: true, .. } if code == "missing_scope"),
        "{recorded:?}"
    );
    assert_eq!(world.sent().len(), 3);
    door.close().await;

    // A front door of its own, which has not asked for the month's count yet.
    world.with(|state| (state.ledger_mood, state.count) = (Mood::Well, 1_000));
    let door = Door::of(&world).await;
    let recorded = record(door.client(7), &event(), 5_000).await;
    assert!(matches!(&recorded, Recorded::QuotaExceeded { quota } if quota.used == Some(1_000)), "{recorded:?}");
    door.close().await;
}

#[tokio::test]
async fn questions_are_answered_as_the_router_answers_them() {
    let world = world();
    let door = Door::of(&world).await;
    let (client, id) = (door.client(7), event().id());
    let status = client.event_status(&id, Duration::ZERO).await.unwrap();
    assert_eq!((status.id, status.standing, status.terminal), (id.clone(), Standing::Unknown, false));
    assert_eq!((status.fingerprint, status.conflicts_seen), (None, 0));

    world.with(|state| state.worker = Some(rejected));
    client.record(&event()).await;
    let status = client.event_status(&id, Duration::from_secs(20)).await.unwrap();
    assert_eq!((status.standing, status.fingerprint), (Standing::Rejected, Some(event().fingerprint())));
    assert_eq!(status.period_month, PeriodMonth::parse("2026-11").ok());
    assert_eq!(status.rejection.unwrap().limit, Some(1_000));

    world.with(|state| state.count = 7);
    let usage = client.usage(None).await.unwrap();
    assert_eq!((usage.space.as_str(), usage.plan, usage.active), ("acme", PlanName::Free, None));
    assert_eq!((usage.used, usage.limit, usage.remaining, usage.included), (Some(7), Some(1_000), Some(993), None));
    assert_eq!(usage.resets_at, UtcMillis::parse("2026-12-01T00:00:00Z").ok());
    let lapsed = SpaceRecord { subscription: Subscription::PlusInactive, monthly_limit: None };
    world.with(|state| (state.space, state.plus) = (Some(lapsed), Some(41)));
    let usage = client.usage(PeriodMonth::parse("2026-10").ok()).await.unwrap();
    assert_eq!((usage.plan, usage.active, usage.used), (PlanName::Plus, Some(false), Some(41)));
    assert_eq!(
        (usage.month, usage.limit, usage.included),
        (PeriodMonth::parse("2026-10").unwrap(), None, Some(100_000))
    );

    world.add_key(&key(8), &[Scope::Ingest], None);
    let error = door.client(8).usage(None).await.unwrap_err();
    assert!(matches!(&error, LookError::Unauthorized { code, .. } if code == "missing_scope"), "{error:?}");
    let error = door.client_at("/elsewhere", 7).event_status(&id, Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, LookError::Refused { status: 404, .. }), "{error:?}");
    world.with(|state| (state.ledger_mood, state.spaces_mood) = (Mood::Failing, Mood::Failing));
    for error in
        [client.event_status(&id, Duration::from_secs(1)).await.unwrap_err(), client.usage(None).await.unwrap_err()]
    {
        assert!(matches!(error, LookError::Unavailable { attempts: 2, retry_after: Some(_), .. }), "{error:?}");
    }
    drop(client);
    door.close().await;
}

#[tokio::test]
async fn a_recorder_s_events_are_queued_in_few_calls_and_each_is_settled_once() {
    let world = world();
    let door = Door::of(&world).await;
    let settled = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&settled);
    let observer = move |Settled { event, outcome }: Settled| told.lock().unwrap().push((event.id(), outcome));
    let recorder =
        Recorder::builder(door.client(7), observer).batch_events(50).batch_age(Duration::from_mins(1)).start().unwrap();
    let events: Vec<UsageEvent> = (0..120).map(|number| keyed(&format!("event-{number}"), 1)).collect();
    for event in &events {
        recorder.record(event.clone()).await.unwrap();
    }
    recorder.record(of_next_year()).await.unwrap();
    let counts = recorder.flush().await.unwrap();
    assert_eq!((counts.queued, counts.invalid), (120, 1));
    let closed = recorder.close().await.unwrap();
    assert_eq!((closed.counts, closed.unsent), (counts, Vec::new()));

    let sent = world.sent();
    assert_eq!(sent.iter().map(|sent| &sent.submission_id).collect::<BTreeSet<_>>().len(), 3);
    let ids = |ids: &mut dyn Iterator<Item = String>| ids.collect::<BTreeSet<_>>();
    let recorded = ids(&mut events.iter().map(|event| event.id().to_string()));
    assert_eq!(ids(&mut sent.iter().map(|sent| sent.event.id().to_string())), recorded);
    assert_eq!(sent.len(), 120);
    let settled = settled.lock().unwrap().clone();
    assert_eq!(settled.len(), 121);
    let queued = settled.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Queued { .. }));
    assert_eq!(ids(&mut queued.map(|(id, _)| id.to_string())), recorded);
    door.close().await;
}

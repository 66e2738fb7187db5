//! Where an event stands, and waiting for its end.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tollgate_domain::identity::{EventId, Fingerprint};
use tollgate_domain::key::Scope;
use tollgate_domain::ledger::{Checkpoint, EventKey, LedgerItem, NewClaim, Rejection, Status};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::{BilledAs, Limit, RejectedReason};
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;
use tollgate_front_door::config::{FrontDoorConfig, ServerConfig};

use crate::fakes::{Mood, World, ask, get_as, key};
use crate::serving::start_as;

const ID: &str = "uev_5c8ec3ea62721af70f0521af0552578f89da8d295f45829ec6ab33fa38317745";

fn at(ms: i64) -> UtcMillis {
    UtcMillis::parse("2026-11-30T11:00:00Z").unwrap().saturating_add_ms(ms)
}

fn fingerprint(digit: &str) -> Fingerprint {
    Fingerprint::parse(&digit.repeat(64)).unwrap()
}

/// A claimed event of `space`.
fn claimed(space: &str) -> LedgerItem {
    NewClaim {
        key: EventKey { space: SpaceId::parse(space).unwrap(), id: EventId::parse(ID).unwrap() },
        fingerprint: fingerprint("a"),
        submission_id: "sub_winner".to_owned(),
        period_month: PeriodMonth::parse("2026-11").unwrap(),
        now: at(0),
    }
    .into_item()
}

fn inserted() -> LedgerItem {
    let checkpoint = Checkpoint { accepted_at: at(1), billed_as: BilledAs::Free, limit: Limit::new(9) };
    LedgerItem { status: Status::Inserted, checkpoint: Some(checkpoint), updated_at: at(2), ..claimed("acme") }
}

fn rejected(reason: RejectedReason, limit: Option<u64>) -> LedgerItem {
    let rejection = Rejection { reason, limit_seen: limit.and_then(Limit::new), count_seen: limit };
    LedgerItem { status: Status::Rejected, rejection: Some(rejection), ..claimed("acme") }
}

/// A world whose key may read.
fn world() -> World {
    let world = World::new();
    world.add_key(&key(1), &[Scope::Read], None);
    world
}

fn put(world: &World, item: LedgerItem) {
    world.with(|state| state.items.insert(item.key.clone(), item));
}

async fn stands(world: &World, rest: &str) -> (u16, Value) {
    let router = world.router(FrontDoorConfig::default());
    let answer = ask(&router, get_as(&key(1), &format!("/v1/events/{ID}{rest}"))).await;
    (answer.status, answer.body)
}

#[tokio::test]
async fn an_event_that_the_ledger_does_not_know_is_unknown_and_may_still_come() {
    let unknown = json!({"id": ID, "status": "unknown", "terminal": false, "conflictsSeen": 0});
    assert_eq!(stands(&world(), "").await, (200, unknown));
}

#[tokio::test]
async fn each_standing_tells_what_the_ledger_holds() {
    let facts = json!({
        "id": ID, "submissionId": "sub_winner", "fingerprint": "a".repeat(64), "periodMonth": "2026-11",
        "claimedAt": "2026-11-30T11:00:00.000Z", "updatedAt": "2026-11-30T11:00:00.000Z", "conflictsSeen": 0,
    });
    let uninsertable = LedgerItem { status: Status::Uninsertable, ..inserted() };
    let mut contested = claimed("acme");
    contested.conflicts = [fingerprint("b"), fingerprint("c")].into();
    for (item, told) in [
        (claimed("acme"), json!({"status": "inserting", "terminal": false})),
        (contested, json!({"status": "inserting", "terminal": false, "conflictsSeen": 2})),
        (
            inserted(),
            json!({
                "status": "inserted", "terminal": true, "updatedAt": "2026-11-30T11:00:00.002Z",
                "billedAs": "free", "billingAcceptedAt": "2026-11-30T11:00:00.001Z",
            }),
        ),
        (
            uninsertable,
            json!({
                "status": "uninsertable", "terminal": true, "updatedAt": "2026-11-30T11:00:00.002Z",
                "billedAs": "free", "billingAcceptedAt": "2026-11-30T11:00:00.001Z",
            }),
        ),
        (
            rejected(RejectedReason::LimitExhausted, Some(7)),
            json!({
                "status": "rejected", "terminal": true,
                "rejection": {"reason": "limit_exhausted", "limit": 7, "count": 7},
            }),
        ),
        (
            rejected(RejectedReason::PlusInactive, None),
            json!({"status": "rejected", "terminal": true, "rejection": {"reason": "plus_inactive"}}),
        ),
    ] {
        let world = world();
        put(&world, item);
        let mut expected = facts.clone();
        expected.as_object_mut().unwrap().extend(told.as_object().unwrap().clone());
        assert_eq!(stands(&world, "").await, (200, expected));
    }
}

#[tokio::test]
async fn another_space_s_event_is_unknown() {
    let world = world();
    put(&world, claimed("globex"));
    assert_eq!(stands(&world, "").await.1["status"], "unknown");
    world.add_key_of("globex", &key(2), &[Scope::Read]);
    let router = world.router(FrontDoorConfig::default());
    let path = format!("/v1/events/{ID}");
    assert_eq!(ask(&router, get_as(&key(2), &path)).await.body["status"], "inserting");
    // Nothing that a client sends but its key names a space.
    for space in ["?space=globex", "?spaceId=globex"] {
        assert_eq!(ask(&router, get_as(&key(1), &format!("{path}{space}"))).await.code(), "invalid_query");
    }
}

#[tokio::test]
async fn reading_needs_the_scope_read_or_admin() {
    let world = World::new();
    for (byte, scope, status) in [(1, Scope::Read, 200), (2, Scope::Admin, 200), (3, Scope::Ingest, 403)] {
        world.add_key(&key(byte), &[scope], None);
        let router = world.router(FrontDoorConfig::default());
        let answer = ask(&router, get_as(&key(byte), &format!("/v1/events/{ID}"))).await;
        assert_eq!(answer.status, status, "{scope}");
        if status == 403 {
            assert!(answer.header("www-authenticate").unwrap().contains(r#"scope="read""#));
            assert!(answer.body["detail"].as_str().unwrap().contains("read"));
        }
    }
}

#[tokio::test]
async fn what_is_no_id_or_no_query_of_this_route_is_told() {
    let world = world();
    let router = world.router(FrontDoorConfig::default());
    for (path, code) in [
        ("/v1/events/1".to_owned(), "invalid_event_id"),
        (format!("/v1/events/{}", ID.to_uppercase()), "invalid_event_id"),
        ("/v1/events/%FF".to_owned(), "invalid_event_id"),
        (format!("/v1/events/{ID}/"), "not_found"),
        (format!("/v1/events/{ID}?wait=21"), "invalid_query"),
        (format!("/v1/events/{ID}?wait=-1"), "invalid_query"),
        (format!("/v1/events/{ID}?wait=%2B1"), "invalid_query"),
        (format!("/v1/events/{ID}?wait=1.5"), "invalid_query"),
        (format!("/v1/events/{ID}?wait="), "invalid_query"),
        (format!("/v1/events/{ID}?wait=1&wait=1"), "invalid_query"),
    ] {
        let answer = ask(&router, get_as(&key(1), &path)).await;
        assert_eq!(answer.code(), code, "{path}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    }
    let answer = ask(&router, get_as(&key(1), &format!("/v1/events/{ID}?wait=x&colour=1"))).await;
    assert_eq!(answer.body["problems"].as_array().unwrap().len(), 2, "all at once");
    assert_eq!(world.with(|state| state.ledger_reads), 0);
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_does_not_tell_is_503_and_never_unknown() {
    for break_it in [
        (|state| state.ledger_mood = Mood::Failing) as fn(&mut crate::fakes::State),
        |state| state.ledger_mood = Mood::Stalled,
        |state| state.known = [ID.to_owned()].into(),
    ] {
        let world = world();
        world.with(break_it);
        let started = Instant::now();
        let router = world.router(FrontDoorConfig::default());
        let answer = ask(&router, get_as(&key(1), &format!("/v1/events/{ID}?wait=20"))).await;
        assert_eq!((answer.status, answer.code()), (503, "ledger_unavailable"));
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert!(started.elapsed() <= Duration::from_secs(2));
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_at_once_when_the_event_has_come_to_its_end() {
    let world = world();
    put(&world, inserted());
    let started = Instant::now();
    assert_eq!(stands(&world, "?wait=20").await.1["status"], "inserted");
    assert_eq!((started.elapsed(), world.with(|state| state.ledger_reads)), (Duration::ZERO, 1));
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_soon_after_the_event_has_come_to_its_end() {
    for after_ms in [1, 40, 700, 3_210, 19_000] {
        let world = world();
        put(&world, claimed("acme"));
        let started = Instant::now();
        let later = async {
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            put(&world, inserted());
        };
        let ((status, body), ()) = tokio::join!(stands(&world, "?wait=20"), later);
        assert_eq!((status, &body["terminal"]), (200, &json!(true)));
        assert!(started.elapsed() <= Duration::from_millis(after_ms + 500), "{after_ms}: {:?}", started.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn at_the_end_of_the_wait_what_is_is_told() {
    for item in [None, Some(claimed("acme"))] {
        let world = world();
        if let Some(item) = item {
            put(&world, item);
        }
        let started = Instant::now();
        let (status, body) = stands(&world, "?wait=3").await;
        assert_eq!((status, &body["terminal"]), (200, &json!(false)));
        assert_eq!(started.elapsed(), Duration::from_secs(3));
        // 50 ms, 100, 200, 400, then every 500: the looks grow rare.
        assert_eq!(world.with(|state| state.ledger_reads), 10);
    }
}

#[tokio::test(start_paused = true)]
async fn beyond_so_many_waiters_nobody_waits() {
    let world = world();
    let mut config = FrontDoorConfig::default();
    config.reads.max_waiters = 1;
    let router = world.router(config);
    let started = Instant::now();
    let wait = async || {
        assert_eq!(ask(&router, get_as(&key(1), &format!("/v1/events/{ID}?wait=5"))).await.status, 200);
        started.elapsed()
    };
    let (one, other) = tokio::join!(wait(), wait());
    let mut took = [one, other];
    took.sort();
    assert_eq!(took, [Duration::ZERO, Duration::from_secs(5)]);
    assert_eq!(wait().await, Duration::from_secs(10), "a place is free again");
}

#[tokio::test]
async fn a_client_that_goes_away_waits_no_longer() {
    let world = world();
    let mut config = FrontDoorConfig::default();
    config.reads.max_waiters = 1;
    let (address, shutdown, served) = start_as(&world, config, ServerConfig::default()).await;
    let request = |wait: u8| {
        let key = key(1);
        format!(
            "GET /v1/events/{ID}?wait={wait} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {}\r\n\r\n",
            key.expose()
        )
    };
    let mut gone = TcpStream::connect(address).await.unwrap();
    gone.write_all(request(20).as_bytes()).await.unwrap();
    while world.with(|state| state.ledger_reads) == 0 {
        tokio::task::yield_now().await;
    }
    drop(gone);
    // The one place to wait in is free long before the 20 s are over: somebody else's wait is one again.
    let started = Instant::now();
    loop {
        let asked = Instant::now();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request(1).as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        if asked.elapsed() >= Duration::from_secs(1) {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(10), "the one that went away still waits");
    }
    shutdown.cancel();
    served.await.unwrap();
}

//! API.md says what is so: its limits, times, statuses, words and routes are the code's.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use tollgate_domain::json::MAX_DEPTH;
use tollgate_domain::ledger::{MAX_CONFLICTS_KEPT, Status};
use tollgate_domain::receipt::{KEPT_MS, MAX_KEY_CHARS};
use tollgate_domain::scan::{MAX_ITEMS, MAX_LEVELS, MAX_MEMBERS, MAX_STRING_BYTES};
use tollgate_domain::time::UtcMillis;
use tollgate_domain::{event::MAX_EVENT_BYTES, key::Scope};
use tollgate_front_door::answer::{Accepted, ErrorKind, EventResult, EventStatus, MAX_PROBLEMS_TOLD, Quota};
use tollgate_front_door::config::FrontDoorConfig;
use tollgate_front_door::status::{MAX_WAIT_S, StandingStatus};

use crate::fakes::{World, ask, key};

/// The words of an enum's variants. One that has none here does not compile.
macro_rules! words {
    ($all:ident, $of:ident: $($variant:ident = $word:literal),+) => {
        fn $all() -> Vec<($of, &'static str)> {
            let word = |variant: $of| match variant { $($of::$variant => $word),+ };
            [$($of::$variant),+].map(|variant| (variant, word(variant))).to_vec()
        }
    };
}

words!(results, EventStatus: Queued = "queued", Unavailable = "unavailable", QuotaExceeded = "quota_exceeded",
    Invalid = "invalid", Conflict = "conflict");
words!(standings, StandingStatus: Unknown = "unknown", Inserting = "inserting", Inserted = "inserted",
    Rejected = "rejected", Uninsertable = "uninsertable");
words!(ledger_statuses, Status: Inserting = "inserting", Inserted = "inserted", Rejected = "rejected",
    Uninsertable = "uninsertable");

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/API.md")).unwrap()
}

/// The page as one line, so that no break of a line stands in a sentence's way.
fn text() -> String {
    page().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The cells of the table that has this head, row by row.
fn table(head: &str) -> Vec<Vec<String>> {
    let page = page();
    let (_, rest) = page.split_once(&format!("| {head} |")).unwrap();
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rest.lines().skip(2).take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// What stands in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let lead = digits.len() % 3;
    let groups = digits.as_bytes()[lead..].chunks(3).map(|group| std::str::from_utf8(group).unwrap());
    let groups: Vec<&str> = Some(&digits[..lead]).filter(|lead| !lead.is_empty()).into_iter().chain(groups).collect();
    groups.join(",")
}

#[test]
fn the_limits_are_the_code_s() {
    let FrontDoorConfig { intake, reads, rate, .. } = FrontDoorConfig::default();
    let [per_second, burst] = [rate.per_second, rate.burst].map(|limit| usize::try_from(limit).unwrap());
    let expected = [
        ("body", grouped(intake.max_body_bytes) + " bytes, never compressed"),
        ("events of a call", grouped(intake.max_events)),
        ("one event, as canonical JSON", grouped(MAX_EVENT_BYTES) + " bytes"),
        ("levels that an event nests", grouped(MAX_DEPTH)),
        ("levels that a body nests", grouped(MAX_LEVELS)),
        ("members of all objects of one event", grouped(MAX_MEMBERS)),
        ("items of all arrays of one event, without the first of each", grouped(MAX_ITEMS)),
        ("one string, as sent", grouped(MAX_STRING_BYTES) + " bytes"),
        ("time for the body to arrive", format!("{} s", intake.body_timeout.as_secs())),
        ("requests a second of one key, to one process", grouped(per_second)),
        ("requests of one key at once, to one process", grouped(burst)),
        ("seconds of a `wait`", MAX_WAIT_S.to_string()),
        ("requests of one process that wait", grouped(reads.max_waiters)),
        ("characters of an `Idempotency-Key`", grouped(MAX_KEY_CHARS)),
        // The router says what it takes: see below.
        ("characters of an `X-Request-Id`", "128".to_owned()),
    ];
    let told = table("what | limit");
    let told: Vec<(&str, String)> = told.iter().map(|row| (row[0].as_str(), row[1].clone())).collect();
    assert_eq!(told, expected);
}

#[tokio::test]
async fn the_longest_request_id_is_as_told() {
    let router = World::new().router(FrontDoorConfig::default());
    for (length, kept) in [(128, true), (129, false)] {
        let id = "x".repeat(length);
        let request = Request::get("/healthz").header("x-request-id", &id).body(Body::empty()).unwrap();
        assert_eq!(ask(&router, request).await.header("x-request-id") == Some(&id), kept);
    }
}

#[test]
fn the_times_and_counts_in_its_sentences_are_the_code_s() {
    let FrontDoorConfig { auth, gate, receipts, rate, .. } = FrontDoorConfig::default();
    let text = text();
    let s = |time: Duration| time.as_secs();
    for sentence in [
        format!("At most {} are told", grouped(MAX_PROBLEMS_TOLD)),
        format!("each once, up to {MAX_CONFLICTS_KEPT}"),
        format!("1 to {MAX_KEY_CHARS} printable ASCII characters"),
        format!("its lease of {} s is over", s(receipts.lease)),
        format!("Kept for {} hours after the answer", KEPT_MS / 3_600_000),
        format!("An answer beyond {} KiB is not kept", receipts.max_answer_bytes / 1_024),
        format!("no answer within {} ms for all its questions", gate.budget.as_millis()),
        format!("What it read is kept for {} s", s(gate.cache_ttl)),
        format!("takes effect within {} s, the time", s(auth.cache_ttl)),
        format!("for up to {} minutes more", s(auth.outage_grace) / 60),
        format!(
            "{} requests at once, filled with {} a second",
            grouped(rate.burst.try_into().unwrap()),
            rate.per_second
        ),
    ] {
        assert!(text.contains(&sentence), "{sentence}");
    }
    assert_eq!(auth.use_spacing, Duration::from_hours(1), "noted about once an hour");
}

#[test]
fn every_code_stands_beside_its_own_status() {
    let text = text();
    let words: Vec<&str> = text.split(' ').collect();
    let mut checked = 0;
    for pair in words.windows(2) {
        let (Ok(status), Some(code)) = (pair[0].parse::<u16>(), quoted(pair[1]).next()) else { continue };
        let Some(kind) = ErrorKind::ALL.iter().find(|kind| kind.row().code == code) else { continue };
        assert_eq!(kind.row().status.as_u16(), status, "{code}");
        checked += 1;
    }
    assert!(checked >= 12, "{checked}");
}

#[test]
fn the_results_make_the_status_that_the_table_tells() {
    let rows = table("a result | status | code");
    let status_of = |word: &str| results().into_iter().find(|(_, told)| *told == word).unwrap().0;
    let order: Vec<EventStatus> = rows.iter().map(|row| status_of(quoted(&row[0]).next().unwrap())).collect();
    assert_eq!(order.len(), results().len());
    for (place, row) in rows.iter().enumerate() {
        // The row's own result with all of those below it: the first row decides.
        let result = |(index, status): (usize, &EventStatus)| EventResult {
            index,
            id: None,
            submission_id: "sub_1".to_owned(),
            status: *status,
        };
        let results: Vec<EventResult> = order[place..].iter().rev().enumerate().map(result).collect();
        let mut codes = BTreeSet::new();
        for limit in [Some(1), None] {
            let quota = Quota { plan: "free", limit, used: limit, resets_at: limit.map(|_| UtcMillis::EPOCH) };
            let accepted = Accepted { results: results.clone(), problems: Vec::new(), quota: Some(quota) };
            let (status, code) = match accepted.or_refusal() {
                Ok(_) => (202, None),
                Err(refusal) => (refusal.kind().row().status.as_u16(), Some(refusal.kind().row().code)),
            };
            assert_eq!(row[1], status.to_string(), "{row:?}");
            codes.extend(code);
        }
        assert_eq!(quoted(&row[2]).collect::<BTreeSet<_>>(), codes, "{row:?}");
    }
}

#[test]
fn every_word_of_an_answer_stands_in_the_tables() {
    let outcomes = table(
        "result of the event | status of the event | `Outcome` of `record…` | `Recorded` of `record_and_wait…` | send again?",
    );
    let words = |column: usize| -> BTreeSet<String> {
        outcomes.iter().flat_map(|row| quoted(&row[column])).map(str::to_owned).collect()
    };
    assert_eq!(words(0), results().into_iter().map(|(_, word)| word.to_owned()).collect());
    assert_eq!(words(1), standings().into_iter().map(|(_, word)| word.to_owned()).collect());
    for (status, word) in results() {
        assert_eq!(serde_json::to_value(status).unwrap(), word);
    }
    for (status, word) in standings() {
        assert_eq!(serde_json::to_value(status).unwrap(), word);
    }
    let told = table("`status` | `terminal` | meaning");
    let told: Vec<(&str, &str)> = told.iter().map(|row| (quoted(&row[0]).next().unwrap(), row[1].as_str())).collect();
    let ends = ledger_statuses().into_iter().map(|(status, word)| (word, status.is_terminal()));
    let expected = std::iter::once(("unknown", false)).chain(ends);
    assert_eq!(told, expected.map(|(word, ends)| (word, if ends { "true" } else { "false" })).collect::<Vec<_>>());
}

#[tokio::test]
async fn every_route_is_there_and_asks_for_the_scope_that_the_table_tells() {
    let world = World::new();
    let scopes = [Scope::Ingest, Scope::Read, Scope::Admin];
    for (scope, byte) in scopes.into_iter().zip(1..) {
        world.add_key(&key(byte), &[scope], None);
    }
    let router = world.router(FrontDoorConfig::default());
    let mut routes = 0;
    for row in table("route | scope | answers") {
        let needed = quoted(&row[1]).next();
        for route in quoted(&row[0]) {
            let (method, path) = route.split_once(' ').unwrap();
            let path = path.split('[').next().unwrap().replace("{id}", &format!("uev_{}", "0".repeat(64)));
            let request = || Request::builder().method(method).uri(&path);
            for (scope, byte) in scopes.into_iter().zip(1..) {
                let request = request().header("authorization", format!("Bearer {}", key(byte).expose()));
                let status = ask(&router, request.body(Body::empty()).unwrap()).await.status;
                let may = needed.is_none_or(|needed| scope.covers(Scope::from_stored(needed).unwrap()));
                assert_eq!(status != 403, may, "{route} {scope} {status}");
                assert_ne!(status, 404, "{route}");
            }
            let without = ask(&router, request().body(Body::empty()).unwrap()).await.status;
            assert_eq!(without, if needed.is_none() { 200 } else { 401 }, "{route}");
            routes += 1;
        }
    }
    assert_eq!(routes, 7);
}

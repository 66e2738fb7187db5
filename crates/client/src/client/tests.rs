//! Tests of `client`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tollgate_domain::time::UtcMillis;

use super::*;

fn event(number: usize) -> UsageEvent {
    let at = UtcMillis::parse("2026-01-01T00:00:00Z").unwrap();
    UsageEvent::builder("api_request", "cus_01", at).property("n", number).build().unwrap()
}

/// What the service does with one request.
enum Step {
    /// Every event is queued.
    Queue,
    /// The answer is lost, after this time.
    Lose(Duration),
    /// Answers with a status and a body, in which `$SUB` stands for the submission of the last call.
    Say(u16, String),
    /// As before, after this time.
    Late(Duration, String),
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Ask>>>);

impl Log {
    fn paths(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|ask| ask.path.clone()).collect()
    }

    /// Of each call, the numbers of its events.
    fn numbers(&self) -> Vec<Vec<u64>> {
        let of = |ask: &Ask| {
            let events: Vec<Value> = serde_json::from_slice(ask.body.as_ref()?).ok()?;
            Some(events.iter().map(|event| event["properties"]["n"].as_u64().unwrap()).collect())
        };
        self.0.lock().unwrap().iter().filter_map(of).collect()
    }

    fn submissions(&self) -> std::collections::BTreeSet<String> {
        let asks = self.0.lock().unwrap();
        asks.iter().filter_map(|ask| Some(ask.submission.as_ref()?.to_str().ok()?.to_owned())).collect()
    }
}

/// A client whose service takes these steps, the last one for ever.
fn client(steps: Vec<Step>) -> (Client, Log) {
    let (log, steps) = (Log::default(), Arc::new(Mutex::new(VecDeque::from(steps))));
    let seen = log.clone();
    let transport = Transport::scripted(move |ask| {
        let (mut asks, mut steps) = (seen.0.lock().unwrap(), steps.lock().unwrap());
        asks.push(ask.clone());
        let submission = asks.iter().rev().find_map(|ask| Some(ask.submission.as_ref()?.to_str().unwrap().to_owned()));
        let last = steps.len() == 1;
        let (wait, reply) = match steps.front().unwrap() {
            Step::Queue => {
                let events: Vec<Value> = serde_json::from_slice(ask.body.as_ref().unwrap()).unwrap();
                let rows = events.iter().enumerate().map(|(index, event)| {
                    let id = UsageEvent::from_json(&event.to_string()).unwrap().id();
                    serde_json::json!({"index": index, "id": id, "submissionId": submission, "status": "queued"})
                });
                let body = serde_json::json!({"results": rows.collect::<Vec<_>>()}).to_string();
                (Duration::ZERO, Reply::of(202, body))
            }
            Step::Lose(after) => (*after, Reply::Unknown("lost".to_owned())),
            Step::Say(status, body) => {
                (Duration::ZERO, Reply::of(*status, body.replace("$SUB", &submission.unwrap_or_default())))
            }
            Step::Late(after, body) => (*after, Reply::of(200, body.replace("$SUB", &submission.unwrap_or_default()))),
        };
        if !last {
            steps.pop_front();
        }
        async move {
            tokio::time::sleep(wait).await;
            reply
        }
    });
    (Client::of(transport), log)
}

fn status(standing: &str, facts: &UsageEvent, by: &str) -> String {
    let terminal = standing != "inserting";
    format!(
        r#"{{"id":"{}","status":"{standing}","terminal":{terminal},"submissionId":"{by}","fingerprint":"{}"}}"#,
        event(1).id(),
        facts.fingerprint()
    )
}

fn unknown() -> String {
    format!(r#"{{"id":"{}","status":"unknown","terminal":false}}"#, event(1).id())
}

#[tokio::test(start_paused = true)]
async fn the_end_is_waited_for_and_a_lost_answer_s_retry_is_no_duplicate() {
    let (client, log) = client(vec![
        Step::Lose(Duration::ZERO),
        Step::Say(503, String::new()),
        Step::Queue,
        Step::Say(200, unknown()),
        Step::Lose(Duration::ZERO),
        Step::Late(Duration::from_secs(20), status("inserting", &event(1), "$SUB")),
        Step::Say(503, String::new()),
        Step::Say(200, "<html>".to_owned()),
        Step::Say(200, status("inserted", &event(1), "$SUB")),
    ]);
    let recorded = client.record_and_wait(&event(1), Duration::from_mins(1)).await;
    assert!(matches!(&recorded, Recorded::Inserted { status } if status.terminal), "{recorded:?}");
    assert_eq!(log.submissions().len(), 1, "one call has one submission id");
    assert_eq!(log.numbers(), [[1], [1], [1]]);
    let paths = log.paths();
    assert_eq!(paths[0], "/v1/events");
    let waits: Vec<_> = paths[3..5].iter().filter_map(|path| path.split_once("?wait=")).map(|(_, s)| s).collect();
    assert_eq!(waits, ["2", "4"], "short turns first");
    assert_eq!(paths.len(), 9);
}

#[tokio::test(start_paused = true)]
async fn an_answer_ends_a_row_of_failures() {
    // More failures than the policy has attempts, but never so many in a row.
    let mut steps = vec![Step::Queue];
    for _ in 0..3 {
        steps.extend((0..7).map(|_| Step::Lose(Duration::ZERO)));
        steps.push(Step::Say(200, unknown()));
    }
    steps.push(Step::Say(200, status("inserted", &event(1), "$SUB")));
    let recorded = client(steps).0.record_and_wait(&event(1), Duration::from_mins(10)).await;
    assert!(matches!(recorded, Recorded::Inserted { .. }), "{recorded:?}");

    // Divisions are answers, too.
    let mut steps: Vec<Step> = (0..9).map(|_| Step::Say(413, String::new())).collect();
    steps.extend([Step::Lose(Duration::ZERO), Step::Queue]);
    let outcomes = client(steps).0.record_batch_partial(&(0..500).map(event).collect::<Vec<_>>()).await;
    let refused = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Refused { .. })).count();
    let queued = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Queued { .. })).count();
    assert_eq!((refused, queued), (1, 499));
}

#[tokio::test(start_paused = true)]
async fn each_end_is_told_apart() {
    let rejected = status("rejected", &event(1), "$SUB")
        .replace('}', r#","rejection":{"reason":"limit_exhausted","limit":10,"count":10}}"#);
    for (steps, expected) in [
        (
            vec![Step::Queue, Step::Say(200, status("inserted", &event(1), "sub_other"))],
            "Duplicate { by: \"sub_other\"",
        ),
        (vec![Step::Queue, Step::Say(200, status("inserting", &event(2), "sub_other"))], "Conflict { existing: Some"),
        (
            vec![Step::Queue, Step::Say(200, rejected)],
            "Rejected { rejection: Rejection { reason: LimitExhausted, limit: Some(10)",
        ),
        (vec![Step::Queue, Step::Say(200, status("uninsertable", &event(1), "$SUB"))], "Uninsertable"),
        (
            vec![Step::Queue, Step::Say(403, r#"{"code":"missing_scope","detail":"d"}"#.to_owned())],
            "Unauthorized { code: \"missing_scope\", detail: \"d\", queued: true",
        ),
        (
            vec![Step::Queue, Step::Say(404, String::new())],
            "Refused { status: 404, code: None, detail: \"\", queued: true",
        ),
        (vec![Step::Say(401, String::new())], "Unauthorized { code: \"\", detail: \"\", queued: false"),
        (vec![Step::Say(402, r#"{"plan":"plus"}"#.to_owned())], "QuotaExceeded"),
        (vec![Step::Say(400, r#"{"problems":[{"code":"c","index":0}]}"#.to_owned())], "Invalid"),
        (vec![Step::Say(404, String::new())], "Refused { status: 404, code: None, detail: \"\", queued: false"),
        (vec![Step::Lose(Duration::ZERO)], "Unavailable { reason: \"lost\", queued: false"),
    ] {
        let recorded = client(steps).0.record_and_wait(&event(1), Duration::from_secs(30)).await;
        assert!(format!("{recorded:?}").starts_with(expected), "{recorded:?} is not {expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_over_when_its_time_is_and_says_what_is_known() {
    for (steps, timeout_ms) in [
        (vec![Step::Queue, Step::Say(200, unknown())], 30_000),
        (vec![Step::Queue, Step::Late(Duration::from_secs(20), unknown())], 30_000),
        (vec![Step::Queue, Step::Say(200, unknown())], 700),
        (vec![Step::Queue, Step::Lose(Duration::from_secs(7))], 30_000),
        (vec![Step::Queue, Step::Say(200, unknown())], 0),
    ] {
        let (client, log) = client(steps);
        let (started, timeout) = (Instant::now(), Duration::from_millis(timeout_ms));
        let recorded = client.record_and_wait(&event(1), timeout).await;
        assert!(matches!(&recorded, Recorded::Unavailable { queued: true, .. }), "{recorded:?}");
        assert!(started.elapsed() <= timeout + Duration::from_millis(1), "{:?}", started.elapsed());
        assert!(log.paths().len() < 100, "{} questions in {timeout:?}", log.paths().len());
    }
    // Nothing is known of an event that never got through, and the wait is no longer for it.
    let started = Instant::now();
    let (client, _) = client(vec![Step::Lose(Duration::from_secs(4))]);
    let recorded = client.record_and_wait(&event(1), Duration::from_secs(9)).await;
    assert!(matches!(&recorded, Recorded::Unavailable { queued: false, .. }), "{recorded:?}");
    assert!(started.elapsed() <= Duration::from_secs(9) + Duration::from_millis(1));
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_waited_for_ends_event_by_event() {
    let rows = format!(
        r#"{{"problems":[{{"code":"same_id_other_payload","index":1}}],"results":[
            {{"index":0,"id":"{0}","submissionId":"sub_1","status":"queued"}},
            {{"index":1,"id":"{0}","submissionId":"sub_1","status":"conflict"}}]}}"#,
        event(1).id()
    );
    let (client, log) = client(vec![Step::Say(202, rows), Step::Say(200, status("inserted", &event(1), "sub_1"))]);
    let recorded = client.record_and_wait_batch(&[event(1), event(2)], Duration::from_secs(5)).await;
    assert!(
        matches!(recorded.as_slice(), [Recorded::Inserted { .. }, Recorded::Conflict { existing: None, problems }] if problems.len() == 1),
        "{recorded:?}"
    );
    assert_eq!(log.paths()[0], "/v1/events?partial=true");
}

#[tokio::test(start_paused = true)]
async fn only_what_has_no_outcome_is_sent_again() {
    let row = |index: usize, status: &str| {
        format!(r#"{{"index":{index},"id":"{}","submissionId":"sub_1","status":"{status}"}}"#, event(1).id())
    };
    let mixed = |rows: &[String]| format!(r#"{{"code":"queue_unavailable","results":[{}]}}"#, rows.join(","));
    let (client, log) = client(vec![
        Step::Say(503, mixed(&[row(0, "queued"), row(1, "unavailable"), row(2, "invalid"), row(3, "unavailable")])),
        Step::Lose(Duration::ZERO),
        Step::Say(503, mixed(&[row(0, "unavailable"), row(1, "queued")])),
        Step::Queue,
    ]);
    let outcomes = client.record_batch_partial(&[event(0), event(1), event(2), event(3)]).await;
    for (number, outcome) in outcomes.iter().enumerate() {
        let fits = matches!((number, outcome), (2, Outcome::Invalid { .. }) | (0 | 1 | 3, Outcome::Queued { .. }));
        assert!(fits, "{number}: {outcome:?}");
    }
    assert_eq!(outcomes.len(), 4);
    assert_eq!(log.numbers(), [vec![0, 1, 2, 3], vec![1, 3], vec![1, 3], vec![1]]);
    assert_eq!(log.submissions().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_refused_as_a_whole_is_divided_down_to_the_event_to_blame() {
    let log = Log::default();
    let seen = log.clone();
    let transport = Transport::scripted(move |ask| {
        seen.0.lock().unwrap().push(ask.clone());
        let events: Vec<Value> = serde_json::from_slice(ask.body.as_ref().unwrap()).unwrap();
        let rows: Vec<Value> = (0..events.len())
            .map(|index| serde_json::json!({"index": index, "id": event(0).id(), "submissionId": "sub_1", "status": "queued"}))
            .collect();
        let bad = events.iter().any(|event| event["properties"]["n"] == 5);
        let (status, body) = if bad {
            (400, r#"{"code":"body_too_complex"}"#.to_owned())
        } else {
            (202, serde_json::json!({"results": rows}).to_string())
        };
        std::future::ready(Reply::of(status, body))
    });
    let events: Vec<_> = (0..16).map(event).collect();
    let outcomes = Client::of(transport).record_batch_partial(&events).await;
    for (number, outcome) in outcomes.iter().enumerate() {
        let fits = match number {
            5 => matches!(outcome, Outcome::Refused { status: 400, code: Some(_), .. }),
            _ => matches!(outcome, Outcome::Queued { .. }),
        };
        assert!(fits, "{number}: {outcome:?}");
    }
    assert_eq!(log.paths().len(), 9, "1 + 2 for each halving of 16");
}

/// A client of a service that answers by the numbers of a call's events.
fn client_of(answer: impl Fn(&[u64]) -> Reply + Send + Sync + 'static) -> (Client, Log) {
    let log = Log::default();
    let seen = log.clone();
    let transport = Transport::scripted(move |ask| {
        seen.0.lock().unwrap().push(ask.clone());
        std::future::ready(answer(seen.numbers().last().unwrap()))
    });
    (Client::of(transport), log)
}

/// Of a call's events the first so many are queued, and the others not.
fn queue_some(numbers: &[u64], some: usize) -> Reply {
    let row = |index: usize| {
        let status = if index < some { "queued" } else { "unavailable" };
        serde_json::json!({"index": index, "id": event(0).id(), "submissionId": "sub_1", "status": status})
    };
    let status = if numbers.len() > some { 503 } else { 202 };
    let rows: Vec<Value> = (0..numbers.len()).map(row).collect();
    Reply::of(status, serde_json::json!({ "results": rows }).to_string())
}

fn sizes(log: &Log) -> Vec<usize> {
    log.numbers().iter().map(Vec::len).collect()
}

fn count(outcomes: &[Outcome], fits: fn(&Outcome) -> bool) -> usize {
    outcomes.iter().filter(|outcome| fits(outcome)).count()
}

const IS_QUEUED: fn(&Outcome) -> bool = |outcome| matches!(outcome, Outcome::Queued { .. });

#[tokio::test(start_paused = true)]
async fn problems_that_an_answer_has_no_room_for_are_asked_for_and_nothing_is_taken_meanwhile() {
    // Every fifth event is good, and so would the last be, if it did not contradict the fifth. The first bad one has
    // one problem, each other one four.
    let problems_of = |numbers: &[u64], index: usize| match numbers[index] {
        5 | 499 if numbers.contains(&5) && numbers.contains(&499) => vec!["same_id_other_payload"],
        499 => Vec::new(),
        number if number % 5 == 0 => Vec::new(),
        1 => vec!["missing_field"],
        _ => vec!["missing_field"; 4],
    };
    let (client, log) = client_of(move |numbers| {
        let told = |index| problems_of(numbers, index).into_iter().map(move |code| (index, code));
        let problems: Vec<Value> = (0..numbers.len())
            .flat_map(told)
            .map(|(index, code)| serde_json::json!({"index": index, "code": code}))
            .collect();
        assert_ne!(problems.len(), 0, "the service would take {numbers:?}");
        let told = &problems[..problems.len().min(1_000)];
        let omitted = problems.len() - told.len();
        Reply::of(400, serde_json::json!({"problems": told, "problemsOmitted": omitted}).to_string())
    });
    let outcomes = client.record_batch(&(0..500).map(event).collect::<Vec<_>>()).await;
    for (number, outcome) in outcomes.iter().enumerate() {
        let fits = match number {
            5 | 499 => matches!(outcome, Outcome::Conflict { .. }),
            number if number % 5 == 0 => *outcome == Outcome::HeldBack,
            _ => matches!(outcome, Outcome::Invalid { problems } if !problems.is_empty()),
        };
        assert!(fits, "{number}: {outcome:?}");
    }
    assert_eq!(outcomes.len(), 500);
    assert_eq!(log.paths(), [EVENTS_PATH; 2]);
    assert_eq!(log.numbers()[1][..2], [1, 5], "the mildest, and the one that the last contradicts");
    assert_eq!(log.submissions().len(), 1);

    // One event that fills every answer ends the asking.
    let endless = r#"{"problems":[{"code":"missing_field","index":0}],"problemsOmitted":9}"#;
    let (client, log) = client_of(move |_| Reply::of(400, endless));
    let outcomes = client.record_batch(&[event(0), event(1), event(2)]).await;
    assert!(
        matches!(outcomes.as_slice(), [Outcome::Invalid { .. }, Outcome::HeldBack, Outcome::HeldBack]),
        "{outcomes:?}"
    );
    assert_eq!(log.numbers(), [[0, 1, 2], [0, 1, 2]]);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_queues_a_few_of_a_call_at_a_time_ends_all_of_it() {
    let events: Vec<_> = (0..100).map(event).collect();
    for whole in [true, false] {
        let (mut client, log) = client_of(|numbers| queue_some(numbers, 10));
        let record = async |client: &Client| {
            if whole { client.record_batch(&events).await } else { client.record_batch_partial(&events).await }
        };
        // After three failures the rest goes in halves; an end of one is no failure.
        let outcomes = record(&client).await;
        assert_eq!(sizes(&log), [100, 90, 80, 35, 25, 15, 5, 35, 25, 15, 5]);
        assert_eq!(count(&outcomes, IS_QUEUED), 100);
        assert_eq!(log.submissions().len(), 1);
        // What is queued when the attempts end is said to be.
        client.retry.max_attempts = 4;
        assert_eq!(count(&record(&client).await, IS_QUEUED), 40);
    }
    // Twice a half, and no answer that takes the whole.
    let (client, log) = client_of(|numbers| {
        let reply = queue_some(numbers, 1);
        match reply {
            Reply::Answered { retry_after, body, .. } => Reply::Answered { status: 503, retry_after, body },
            unknown @ Reply::Unknown(_) => unknown,
        }
    });
    assert_eq!(count(&client.record_batch(&[event(0), event(1)]).await, IS_QUEUED), 2);
    assert_eq!(log.numbers(), [vec![0, 1], vec![1]]);
}

#[tokio::test(start_paused = true)]
async fn a_call_too_large_for_its_time_is_divided_unless_it_is_taken_whole_or_too_often() {
    let events: Vec<_> = (0..500).map(event).collect();
    let slow = |numbers: &[u64]| match numbers.len() {
        0..=150 => queue_some(numbers, 150),
        _ => Reply::Unknown("no answer in time".to_owned()),
    };
    let (client, log) = client_of(slow);
    assert_eq!(count(&client.record_batch_partial(&events).await, IS_QUEUED), 500);
    assert_eq!(sizes(&log), [500, 500, 500, 250, 250, 250, 125, 125, 250, 250, 250, 125, 125]);

    let (client, log) = client_of(slow);
    assert_eq!(count(&client.record_batch(&events).await, IS_QUEUED), 0);
    assert_eq!(sizes(&log), [500; 8], "a half may be good where the whole is not");

    let (client, log) = client_of(|_| Reply::of(429, ""));
    assert_eq!(count(&client.record_batch_partial(&events).await, IS_QUEUED), 0);
    assert_eq!(sizes(&log), [500; 8]);

    let (client, log) = client_of(|_| Reply::of(503, ""));
    client.record_batch_partial(&events[..50]).await;
    assert_eq!(sizes(&log), [50; 8], "small enough");
}

#[tokio::test(start_paused = true)]
async fn an_ended_policy_leaves_no_event_of_a_partial_call_without_an_outcome() {
    let (mut client, log) = client(vec![Step::Lose(Duration::ZERO)]);
    client.retry.max_attempts = 3;
    let outcomes = client.record_batch_partial(&(0..501).map(event).collect::<Vec<_>>()).await;
    assert_eq!(outcomes.len(), 501);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unavailable { attempts: 3, .. })));
    assert_eq!(log.paths().len(), 6);
    assert_eq!(client.record_batch_partial(&[]).await, []);
}

#[tokio::test(start_paused = true)]
async fn questions_are_asked_again_while_there_is_no_answer() {
    let usage = r#"{"space":"acme","month":"2026-11","plan":"internal","used":null}"#;
    let (asker, log) =
        client(vec![Step::Lose(Duration::ZERO), Step::Say(503, String::new()), Step::Say(200, usage.to_owned())]);
    let month = PeriodMonth::parse("2026-11").unwrap();
    assert_eq!(asker.usage(Some(month)).await.unwrap().month, month);
    assert_eq!(log.paths(), ["/v1/usage?month=2026-11"; 3]);
    assert!(asker.usage(None).await.is_ok());
    assert_eq!(log.paths()[3], "/v1/usage");

    let (asker, log) = client(vec![Step::Late(Duration::from_secs(20), unknown())]);
    let found = asker.event_status(&event(1).id(), Duration::from_millis(99_999)).await;
    assert_eq!(found.map(|status| status.standing), Ok(crate::Standing::Unknown), "the wait is not the call's time");
    assert_eq!(log.paths(), [format!("/v1/events/{}?wait=20", event(1).id())]);

    for (status, expected) in
        [(401, "Unauthorized"), (403, "Unauthorized"), (404, "Refused"), (400, "Refused"), (402, "Refused")]
    {
        let (asker, log) = client(vec![Step::Say(status, r#"{"code":"c"}"#.to_owned())]);
        let error = asker.event_status(&event(1).id(), Duration::ZERO).await.unwrap_err();
        assert!(format!("{error:?}").starts_with(expected), "{status}: {error:?}");
        assert_eq!(log.paths(), [format!("/v1/events/{}", event(1).id())], "{status}");
    }
    let (asker, log) = client(vec![Step::Lose(Duration::ZERO)]);
    assert!(matches!(asker.usage(None).await, Err(LookError::Unavailable { attempts: 8, .. })));
    assert_eq!(log.paths().len(), 8);
}

fn key() -> ApiKey {
    ApiKey::from_random([7; 32])
}

#[test]
fn the_endpoint_is_checked_before_a_key_travels_to_it() {
    for (endpoint, expected) in [
        ("http://127.0.0.1:8080", Ok(())),
        ("http://localhost:8080/", Ok(())),
        ("http://[::1]:8080/stage", Ok(())),
        ("http://tollgate.example.com", Err("use https")),
        ("tollgate.example.com", Err("not of the form")),
        ("ftp://tollgate.example.com", Err("not of the form")),
        ("http://127.0.0.1/?a=b", Err("not of the form")),
        ("", Err("not of the form")),
    ] {
        let built = Client::builder(endpoint, &key()).build().map(|_| ()).map_err(|error| error.to_string());
        match (&built, expected) {
            (Ok(()), Ok(())) => {}
            (Err(told), Err(part)) if told.contains(part) => {}
            _ => panic!("{endpoint}: {built:?}"),
        }
    }
    assert!(Client::builder("http://tollgate.internal", &key()).allow_plain_text().build().is_ok());
}

#[test]
fn https_needs_root_certificates_and_nothing_else() {
    let built = Client::builder("https://tollgate.example.com", &key()).build();
    assert!(matches!(built, Ok(_) | Err(BuildError::RootCertificates(_))), "{built:?}");
}

#[test]
fn nobody_prints_the_key() {
    let builder = Client::builder("http://127.0.0.1:1", &key());
    let told = format!("{builder:?} {:?}", builder.clone().build().unwrap());
    assert!(!told.contains("0707"), "{told}");
}

//! The client against a scripted server on loopback: what is sent again, with which bytes, and when it ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tollgate_client::{ApiKey, Client, LookError, Outcome, Recorded, RetryPolicy, UsageEvent};

use crate::support::{Server, Step, event, queued, quick};

#[tokio::test]
async fn a_lost_answer_is_followed_by_the_same_bytes_under_the_same_submission_id() {
    let broken = Step::Answer(202, "", "not json".to_owned());
    let server = Server::start(vec![Step::Drop, Step::Stall, broken, Step::Queue]).await;
    let outcome = server.client(quick()).record(&event(1)).await;
    assert!(matches!(outcome, Outcome::Queued { .. }), "{outcome:?}");
    let seen = server.seen.lock().unwrap();
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(|request| request == &seen[0]), "every attempt is the same request");
    assert!(seen[0].0.contains("tollgate-submission-id: sub_"));
    assert!(seen[0].0.contains("authorization: Bearer tollgate_sk_"));
    assert!(seen[0].0.starts_with("POST /v1/events HTTP/1.1"));
    assert_eq!(seen[0].1, format!("[{}]", event(1).to_json()));
}

#[tokio::test]
async fn unavailable_ends_after_the_attempts_of_the_policy() {
    let server = Server::start(vec![Step::Answer(503, "", r#"{"code":"queue_unavailable"}"#.to_owned())]).await;
    let outcome = server.client(quick()).record(&event(1)).await;
    assert!(
        matches!(&outcome, Outcome::Unavailable { attempts: 5, reason, .. } if reason.contains("queue_unavailable")),
        "{outcome:?}"
    );
    assert_eq!(server.bodies().len(), 5);
}

#[tokio::test]
async fn unavailable_ends_when_its_time_is_over() {
    let server = Server::start(vec![Step::Stall]).await;
    let policy = RetryPolicy { max_elapsed: Duration::from_millis(500), max_attempts: u32::MAX, ..quick() };
    let started = Instant::now();
    let outcome = server.client(policy).record(&event(1)).await;
    assert!(matches!(outcome, Outcome::Unavailable { .. }), "{outcome:?}");
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[tokio::test]
async fn nobody_listens_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Server { endpoint: format!("http://{}", listener.local_addr().unwrap()), seen: Arc::default() };
    drop(listener);
    let outcome = server.client(RetryPolicy { max_attempts: 2, ..quick() }).record(&event(1)).await;
    assert!(matches!(outcome, Outcome::Unavailable { attempts: 2, .. }), "{outcome:?}");
}

#[tokio::test]
async fn the_service_says_how_long_to_wait() {
    let busy = Step::Answer(429, "retry-after: 1\r\n", String::new());
    let server = Server::start(vec![busy.clone(), Step::Queue]).await;
    let started = Instant::now();
    assert!(matches!(server.client(quick()).record(&event(1)).await, Outcome::Queued { .. }));
    assert!(started.elapsed() >= Duration::from_secs(1));

    // A wait that ends after the policy does is not begun.
    let server = Server::start(vec![Step::Answer(503, "retry-after: 120\r\n", String::new())]).await;
    let outcome = server.client(quick()).record(&event(1)).await;
    assert!(
        matches!(outcome, Outcome::Unavailable { attempts: 1, retry_after: Some(wait), .. } if wait.as_secs() == 120),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn what_is_refused_is_sent_once() {
    let problems = r#"{"code":"invalid_events","problems":[{"code":"missing_field","index":0,"field":"meter"}]}"#;
    for status in [400, 401, 402, 403, 404, 405, 409, 413, 415, 422, 301] {
        let server = Server::start(vec![Step::Answer(status, "", problems.to_owned())]).await;
        let outcome = server.client(quick()).record(&event(1)).await;
        assert!(!matches!(outcome, Outcome::Queued { .. } | Outcome::Unavailable { .. }), "{status}: {outcome:?}");
        assert_eq!(server.bodies().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_batch_is_split_and_its_outcomes_keep_their_order() {
    let refused = r#"{"problems":[{"code":"missing_field","index":1,"field":"meter"}]}"#.to_owned();
    let server = Server::start(vec![Step::Queue, Step::Answer(400, "", refused), Step::Queue]).await;
    let events: Vec<UsageEvent> = (0..1_200).map(event).collect();
    let outcomes = server.client(quick()).record_batch(&events).await;
    assert_eq!(outcomes.len(), 1_200);
    for (index, outcome) in outcomes.iter().enumerate() {
        let fits = match index {
            500..1_000 if index != 501 => matches!(outcome, Outcome::HeldBack),
            501 => matches!(outcome, Outcome::Invalid { .. }),
            _ => matches!(outcome, Outcome::Queued { .. }),
        };
        assert!(fits, "{index}: {outcome:?}");
    }
    let bodies = server.bodies();
    let sizes: Vec<usize> =
        bodies.iter().map(|body| serde_json::from_str::<Vec<serde_json::Value>>(body).unwrap().len()).collect();
    assert_eq!(sizes, [500, 500, 200]);
}

#[tokio::test]
async fn large_events_make_more_calls_and_one_that_fits_in_none_stops_no_other() {
    let server = Server::start(vec![Step::Queue]).await;
    let large = serde_json::json!({"properties": "x".repeat(600 * 1024)});
    let huge = serde_json::json!({"properties": "x".repeat(1024 * 1024)});
    let client = Client::builder(&server.endpoint, &ApiKey::from_random([7; 32])).build().unwrap();
    let outcomes = client.record_json_batch(&[large.clone(), huge, large]).await;
    assert!(
        matches!(
            outcomes.as_slice(),
            [Outcome::Queued { .. }, Outcome::Invalid { problems }, Outcome::Queued { .. }] if problems[0].code == "event_too_large"
        ),
        "{outcomes:?}"
    );
    assert!(server.bodies().iter().all(|body| body.len() <= 1024 * 1024));
}

#[tokio::test]
async fn what_is_known_to_be_queued_is_said_when_the_attempts_end() {
    let half = queued(1..2).replace("}]}", r#"}],"code":"queue_unavailable"}"#);
    let server = Server::start(vec![Step::Answer(503, "", half)]).await;
    let outcomes = server.client(RetryPolicy { max_attempts: 2, ..quick() }).record_batch(&[event(1), event(2)]).await;
    assert!(matches!(outcomes.as_slice(), [Outcome::Unavailable { .. }, Outcome::Queued { .. }]), "{outcomes:?}");
    let (both, rest) =
        (format!("[{},{}]", event(1).to_json(), event(2).to_json()), format!("[{}]", event(1).to_json()));
    assert_eq!(server.bodies(), [both, rest]);
}

#[tokio::test]
async fn an_event_is_recorded_and_followed_to_its_end() {
    let id = event(1).id();
    let status = |standing: &str, terminal: bool| {
        let facts = event(1).fingerprint();
        let body = format!(
            r#"{{"id":"{id}","status":"{standing}","terminal":{terminal},"submissionId":"sub_1","fingerprint":"{facts}"}}"#
        );
        Step::Answer(200, "", body)
    };
    let steps = vec![Step::Drop, Step::Queue, Step::Drop, status("inserting", false), status("inserted", true)];
    let server = Server::start(steps).await;
    let recorded = server.client(quick()).record_and_wait(&event(1), Duration::from_secs(30)).await;
    assert!(matches!(recorded, Recorded::Inserted { .. }), "{recorded:?}");
    let seen = server.seen.lock().unwrap();
    let lines: Vec<&str> = seen.iter().map(|(head, _)| head.lines().next().unwrap()).collect();
    let question = format!("GET /v1/events/{id}?wait=2 HTTP/1.1");
    assert_eq!(lines[..2], ["POST /v1/events HTTP/1.1"; 2]);
    assert_eq!(lines[2..4], [&question, &question]);
    assert!(seen[2].0.contains("authorization: Bearer tollgate_sk_"));
    assert!(seen[2..].iter().all(|(head, body)| body.is_empty() && !head.contains("content-type")));
}

#[tokio::test]
async fn a_question_below_a_path_goes_there_and_a_refusal_is_told() {
    let server = Server::start(vec![Step::Answer(403, "", r#"{"code":"missing_scope"}"#.to_owned())]).await;
    let client = Client::builder(format!("{}/stage/", server.endpoint), &ApiKey::from_random([7; 32])).build().unwrap();
    let error = client.usage(None).await.unwrap_err();
    assert!(matches!(&error, LookError::Unauthorized { code, .. } if code == "missing_scope"), "{error}");
    assert!(server.seen.lock().unwrap()[0].0.starts_with("GET /stage/v1/usage HTTP/1.1"));
}

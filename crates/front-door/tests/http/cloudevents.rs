//! CloudEvents 1.0 in its three modes: each is one event, and the same as in Tollgate's own form.

use axum::body::Body;
use http::{HeaderName, HeaderValue, Request};
use serde_json::{Value, json};
use tollgate_domain::event::Event;
use tollgate_domain::json;
use tollgate_front_door::config::FrontDoorConfig;

use crate::fakes::{Answer, World, ask, post};

const CLOUD: &str = r#"{"specversion":"1.0","id":"req_9","source":"/gateway","type":"api_request","subject":"cus_01","time":"2026-08-18T09:15:00Z","data":{"quantity":3,"model":"m"}}"#;
const SAME: &str = r#"{"meter":"api_request","subject":"cus_01","occurredAt":"2026-08-18T09:15:00Z","quantity":3,"source":"/gateway","idempotencyKey":"[\"/gateway\",\"req_9\"]","properties":{"quantity":3,"model":"m"}}"#;
const ID: &str = "uev_aec3495aa7c7d0703cdc258465f08ebc6bfa5bf912b58b4c6370e8ec1ff5caa9";
const HEADERS: [(&str, &str); 6] = [
    ("ce-specversion", "1.0"),
    ("ce-id", "req_9"),
    ("ce-source", "/gateway"),
    ("ce-type", "api_request"),
    ("ce-subject", "cus_01"),
    ("ce-time", "2026-08-18T09:15:00Z"),
];

fn typed(content_type: &str, body: impl Into<Body>) -> Request<Body> {
    let mut request = post(body);
    request.headers_mut().insert("content-type", content_type.parse().unwrap());
    request
}

fn structured(body: &str) -> Request<Body> {
    typed("application/cloudevents+json; charset=utf-8", body.to_owned())
}

fn batch(body: String) -> Request<Body> {
    typed("application/cloudevents-batch+json", body)
}

/// A binary request with these headers put over the good ones; an empty value takes one away.
fn binary(over: &[(&str, &str)], body: &str) -> Request<Body> {
    let mut request = post(body.to_owned());
    for (name, value) in HEADERS.iter().chain(over) {
        let name: HeaderName = name.parse().unwrap();
        match *value {
            "" => drop(request.headers_mut().remove(name)),
            value => drop(request.headers_mut().insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap())),
        }
    }
    request
}

async fn answer_to(request: Request<Body>) -> (Answer, Vec<Event>) {
    let world = World::new();
    let answer = ask(&world.router(FrontDoorConfig::default()), request).await;
    (answer, world.sent().into_iter().map(|sent| sent.event).collect())
}

fn told(answer: &Answer) -> Vec<(u64, &str, &str)> {
    let told = answer.body["problems"].as_array().map(Vec::as_slice).unwrap_or_default();
    told.iter()
        .map(|p| (p["index"].as_u64().unwrap(), p["field"].as_str().unwrap(), p["code"].as_str().unwrap()))
        .collect()
}

#[tokio::test]
async fn every_mode_and_tollgate_s_own_form_queue_the_same_event() {
    let data = r#"{"model":"m","quantity":3}"#;
    let mut queued = Vec::new();
    for request in [
        structured(CLOUD),
        batch(format!("[{CLOUD}]")),
        binary(&[], data),
        binary(&[("content-type", "")], data),
        binary(&[("content-type", "application/vnd.acme+json")], data),
        binary(&[("ce-quantity", "3"), ("ce-traceparent", "%"), ("ce-data", "{}")], data),
        binary(&[("ce-subject", "%63us%5F01"), ("ce-source", "\"/gateway\"")], data),
        post(SAME),
    ] {
        let (answer, sent) = answer_to(request).await;
        assert_eq!((answer.status, &answer.body["results"][0]["id"]), (202, &json!(ID)), "{}", answer.body);
        queued.extend(sent);
    }
    assert_eq!(queued.len(), 8);
    assert!(queued.iter().all(|event| *event == queued[0]));
    assert_eq!(queued[0].properties(), Some(data));
    assert_eq!(queued[0].quantity(), 3);
}

#[tokio::test]
async fn a_batch_folds_keeps_its_order_and_refuses_one_id_for_two_facts() {
    let other = CLOUD.replace("req_9", "req_10");
    let (answer, sent) = answer_to(batch(format!("[{CLOUD},{other},{CLOUD}]"))).await;
    let ids: Vec<_> = answer.body["results"].as_array().unwrap().iter().map(|result| &result["id"]).collect();
    assert_eq!((answer.status, ids.len(), ids[0] == ids[2], ids[0] == ids[1]), (202, 3, true, false));
    assert_eq!(sent.len(), 2);

    let (answer, sent) = answer_to(batch(format!("[{CLOUD},{}]", CLOUD.replace("09:15", "09:16")))).await;
    assert_eq!((answer.status, answer.code()), (422, "same_id_other_payload"));
    assert_eq!(told(&answer), [(0, "id", "same_id_other_payload"), (1, "id", "same_id_other_payload")]);
    assert!(sent.is_empty());
}

#[tokio::test]
async fn names_beyond_ascii_travel_percent_encoded() {
    let headers =
        [("ce-subject", "Zo%C3%AB%20%F0%9F%A6%80"), ("ce-id", "100%25"), ("ce-datacontenttype", "application/json")];
    let (answer, sent) = answer_to(binary(&headers, "")).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    assert_eq!((sent[0].subject(), sent[0].idempotency_key()), ("Zoë 🦀", Some(r#"["/gateway","100%"]"#)));
    assert_eq!((sent[0].quantity(), sent[0].properties()), (1, None));
}

#[tokio::test]
async fn every_bad_cloud_event_is_told_by_the_name_of_its_attribute() {
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(40), "]".repeat(40));
    let with = |name: &str, value: &str| {
        let mut event: Value = serde_json::from_str(CLOUD).unwrap();
        event[name] = json!("@");
        event.to_string().replace("\"@\"", value)
    };
    for (request, expected) in [
        (structured("[]"), (0, "", "not_an_object")),
        (structured(&format!("[{CLOUD}]")), (0, "", "not_an_object")),
        (structured("7"), (0, "", "not_an_object")),
        (structured(&with("specversion", "\"0.3\"")), (0, "specversion", "unknown_version")),
        (structured(&with("subject", "null")), (0, "subject", "missing_field")),
        (structured(&with("time", "null")), (0, "time", "missing_field")),
        (structured(&with("data_base64", "\"e30=\"")), (0, "data_base64", "data_not_json")),
        (structured(&with("datacontenttype", "\"text/xml\"")), (0, "datacontenttype", "data_not_json")),
        (structured(&with("quantity", "4")), (0, "quantity", "quantities_differ")),
        (structured(&with("data", r#"{"a":1,"a":2}"#)), (0, "data.a", "duplicate_key")),
        (structured(&with("data", &deep)), (0, "data.a[0]", "nested_too_deep")),
        (batch(format!("[{CLOUD},{}]", with("id", "\"\""))), (1, "id", "empty_text")),
        (batch(format!("[{CLOUD},{}]", with("data", r#"{"q":1e300}"#))), (1, "data.q", "number_out_of_range")),
        (binary(&[("ce-time", "")], "{}"), (0, "time", "missing_field")),
        (binary(&[("ce-specversion", "2.0")], "{}"), (0, "specversion", "unknown_version")),
        (binary(&[("ce-source", "%C0%A0")], "{}"), (0, "source", "malformed_header")),
        (binary(&[("ce-id", "é")], "{}"), (0, "id", "malformed_header")),
        (binary(&[("ce-type", "a%0Ab")], "{}"), (0, "type", "control_character")),
        (binary(&[("ce-quantity", "1e3")], "{}"), (0, "quantity", "quantity_not_an_integer")),
        (binary(&[("ce-data_base64", "e30=")], "{}"), (0, "data_base64", "data_not_json")),
        (binary(&[("ce-datacontenttype", "text/xml")], "{}"), (0, "datacontenttype", "data_not_json")),
        (binary(&[], "[1]"), (0, "data", "wrong_type")),
        (binary(&[], r#"{"a":1,"a":2}"#), (0, "data.a", "duplicate_key")),
    ] {
        let (answer, sent) = answer_to(request).await;
        assert_eq!((answer.status, answer.code()), (400, "invalid_events"), "{expected:?}: {}", answer.body);
        let told = told(&answer);
        assert_eq!(told.len(), 1, "{expected:?}: {told:?}");
        assert!(
            told[0].0 == expected.0 && told[0].1.starts_with(expected.1) && told[0].2 == expected.2,
            "{expected:?}: {told:?}"
        );
        assert!(sent.is_empty());
    }
    let mut twice = binary(&[], "{}");
    twice.headers_mut().append("ce-id", HeaderValue::from_static("req_9"));
    assert_eq!(told(&answer_to(twice).await.0), [(0, "id", "repeated_header")]);
}

#[tokio::test]
async fn every_problem_of_every_cloud_event_is_told_at_once() {
    let (answer, _) = answer_to(batch(format!("[{{}},{CLOUD},{{\"specversion\":\"1.0\",\"data\":[]}}]"))).await;
    let expected: Vec<(u64, &str)> = ["specversion", "id", "source", "type", "subject", "time"]
        .map(|field| (0, field))
        .into_iter()
        .chain(["id", "source", "type", "subject", "data", "time"].map(|field| (2, field)))
        .collect();
    assert_eq!(told(&answer).into_iter().map(|(index, field, _)| (index, field)).collect::<Vec<_>>(), expected);

    let (answer, _) = answer_to(binary(&[("ce-id", "%"), ("ce-time", "")], r#"{"quantity":0,"a":1,"a":2}"#)).await;
    let fields: Vec<_> = told(&answer).into_iter().map(|(_, field, _)| field).collect();
    assert_eq!(fields, ["data.a", "id", "time", "data.quantity"]);
}

#[tokio::test]
async fn a_batch_is_an_array_of_one_to_five_hundred() {
    for (body, code) in [
        (CLOUD.to_owned(), "not_an_array"),
        ("[]".to_owned(), "empty_call"),
        (format!("[{}]", vec![CLOUD; 501].join(",")), "too_many_events"),
    ] {
        let (answer, sent) = answer_to(batch(body)).await;
        assert_eq!((answer.status, answer.code()), (400, "invalid_events"), "{code}");
        assert_eq!((&answer.body["problems"][0]["code"], sent.len()), (&json!(code), 0));
    }
}

#[tokio::test]
async fn the_mode_is_told_by_content_type_and_version_and_nothing_is_guessed() {
    let data = r#"{"quantity":3,"model":"m"}"#;
    for (request, status, code) in [
        // Structured, whatever headers an intermediary put beside it.
        (
            {
                let mut request = binary(&[], CLOUD);
                request.headers_mut().insert("content-type", HeaderValue::from_static("Application/CloudEvents+JSON"));
                request
            },
            202,
            "",
        ),
        (binary(&[("content-type", "text/plain")], data), 415, "unsupported_media_type"),
        (binary(&[("content-type", "application/cloudevents+avro")], data), 415, "unsupported_media_type"),
        (binary(&[("content-encoding", "gzip")], data), 415, "unsupported_media_type"),
        (typed("application/vnd.acme+json", data), 415, "unsupported_media_type"),
        // Without a version the headers are nobody's, and the body is an event in Tollgate's own form.
        (binary(&[("ce-specversion", "")], data), 400, "invalid_events"),
        (post(CLOUD), 400, "invalid_events"),
        (structured(json::canonical(&json!({"a": 1})).as_str()), 400, "invalid_events"),
        (structured("{"), 400, "invalid_json"),
        (binary(&[], "{"), 400, "invalid_json"),
    ] {
        let shown = format!("{:?}", request.headers().get("content-type"));
        let (answer, _) = answer_to(request).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{shown}");
    }
    let mut twice = structured(CLOUD);
    twice.headers_mut().append("content-type", HeaderValue::from_static("application/json"));
    assert_eq!(answer_to(twice).await.0.code(), "unsupported_media_type");
}

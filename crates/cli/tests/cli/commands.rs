//! The commands, as a script sees them: streams, JSON and exit codes.

use std::fs;

use crate::support::{OwnStack, run, told, tollgate};
use serde_json::Value;

/// A stack that nobody started, so that nothing can answer.
const NO_STACK: &str = "never-started";
const GOOD: &str = r#"{"meter":"m","subject":"s","occurredAt":"2026-01-01T00:00:00Z","quantity":1}"#;

#[test]
fn the_scenarios_need_no_stack() {
    let output = run(NO_STACK, &["scenarios"]);
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), tollgate_domain::scenario::markdown_table());
}

#[test]
fn missing_configuration_is_told_all_at_once() {
    let mut command = tollgate(NO_STACK, &["worker"]);
    for name in ["CLICKHOUSE_URL", "TOLLGATE_LEDGER_TABLE"] {
        command.env_remove(name);
    }
    let output = command.env("TOLLGATE_POLLERS", "none").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    for variable in ["TOLLGATE_LEDGER_TABLE", "TOLLGATE_EVENT_QUEUE_URL", "CLICKHOUSE_URL", "TOLLGATE_POLLERS"] {
        assert!(told(&output).contains(variable), "{variable}: {}", told(&output));
    }
}

#[test]
fn a_month_is_pinned_on_the_local_stack_alone() {
    let mut command = tollgate(NO_STACK, &["front-door", "--listen", "127.0.0.1:0", "--pin-month", "2026-11"]);
    for (variable, value) in [
        ("TOLLGATE_LEDGER_TABLE", "x"),
        ("TOLLGATE_METER_TABLE", "x"),
        ("TOLLGATE_SPACES_TABLE", "x"),
        ("TOLLGATE_KEYS_TABLE", "x"),
        ("TOLLGATE_RECEIPTS_TABLE", "x"),
        ("TOLLGATE_EVENT_QUEUE_URL", "x"),
        ("CLICKHOUSE_URL", "http://127.0.0.1:1"),
        ("AWS_ENDPOINT_URL", "https://dynamodb.example.com"),
    ] {
        command.env(variable, value);
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("loopback"), "{}", told(&output));
    // ClickHouse counts as well.
    let elsewhere = [("AWS_ENDPOINT_URL", "http://127.0.0.1:1"), ("CLICKHOUSE_URL", "http://192.0.2.1:8123")];
    let output = command.envs(elsewhere).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("loopback"), "{}", told(&output));
}

#[test]
fn every_bad_line_is_told_before_any_line_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let lines = [GOOD, "not JSON", &GOOD.replace(":1}", ":0}"), &GOOD.replace("01-01", "02-30"), GOOD];
    fs::write(&file, lines.join("\n")).unwrap();
    let key = format!("tollgate_sk_{}", "ab".repeat(32));
    let output = tollgate(NO_STACK, &["send", file.to_str().unwrap(), "--url", "http://127.0.0.1:1"])
        .env("TOLLGATE_API_KEY", &key)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    for part in ["line 2: body: is not valid JSON", "line 3: quantity: is 0", "line 4: occurredAt", "nothing was sent"]
    {
        assert!(told(&output).contains(part), "{part}: {}", told(&output));
    }
    assert!(!told(&output).contains(&key));
}

#[test]
fn a_file_of_several_spaces_needs_a_key_a_space() {
    let folder = tempfile::tempdir().unwrap();
    let (file, keys) = (folder.path().join("events.jsonl"), folder.path().join("keys.json"));
    fs::write(&file, GOOD.replace('{', r#"{"space":"acme","#)).unwrap();
    fs::write(&keys, r#"{"globex":"tollgate_sk_0"}"#).unwrap();
    let send = |arguments: &[&str]| {
        let arguments = [&["send", file.to_str().unwrap(), "--url", "http://127.0.0.1:1"], arguments].concat();
        tollgate(NO_STACK, &arguments)
            .env("TOLLGATE_API_KEY", format!("tollgate_sk_{}", "ab".repeat(32)))
            .output()
            .unwrap()
    };
    let output = send(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("--key-file"), "{}", told(&output));
    let output = send(&["--key-file", keys.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("the key of globex is not an API key"), "{}", told(&output));
}

#[test]
fn spaces_keys_usage_and_events_speak_json_and_exit_codes() {
    let stack = OwnStack::started("commands");
    let json = |arguments: &[&str]| -> (Option<i32>, Value) {
        let output = run(&stack.0, arguments);
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        (output.status.code(), serde_json::from_str(&text).unwrap_or_else(|_| panic!("{}", told(&output))))
    };
    assert!(run(&stack.0, &["spaces", "set", "tiny", "--plan", "free", "--limit", "2"]).status.success());
    let (code, usage) = json(&["usage", "tiny", "--month", "2026-11", "--json"]);
    assert_eq!(code, Some(0));
    assert_eq!(usage["limit"], 2);
    assert_eq!(usage["remaining"], 2);
    assert_eq!(usage["resetsAt"], "2026-12-01T00:00:00.000Z");

    let (code, key) = json(&["keys", "create", "tiny", "--scope", "ingest", "--scope", "read", "--json"]);
    assert_eq!(code, Some(0));
    assert_eq!(key["scopes"], serde_json::json!(["ingest", "read"]));
    let revoke = || {
        tollgate(&stack.0, &["keys", "revoke"]).env("TOLLGATE_API_KEY", key["key"].as_str().unwrap()).output().unwrap()
    };
    assert_eq!(revoke().status.code(), Some(0));
    let unknown = tollgate(&stack.0, &["keys", "revoke"])
        .env("TOLLGATE_API_KEY", format!("tollgate_sk_{}", "00".repeat(32)))
        .output()
        .unwrap();
    assert_eq!(unknown.status.code(), Some(1));

    // Rotated by its name: two keys work for a while, and the leaked one is refused at once all the same.
    let (_, old) = json(&["keys", "create", "tiny", "--scope", "admin", "--label", "gateway", "--json"]);
    let old_id = key_id(old["key"].as_str().unwrap());
    let by_id = ["--space", "tiny", "--id", &old_id];
    let (code, new) = json(&[&["keys", "rotate", "--json"], &by_id[..]].concat());
    assert_eq!((code, &new["oldKeyId"]), (Some(0), &Value::from(old_id.as_str())));
    assert_ne!(new["key"], old["key"]);
    let listed = |id: &str| {
        let (code, list) = json(&["keys", "list", "tiny", "--json"]);
        assert_eq!(code, Some(0));
        list["keys"].as_array().unwrap().iter().find(|key| key["keyId"] == id).cloned().unwrap()
    };
    let (was, is) = (listed(&old_id), listed(new["keyId"].as_str().unwrap()));
    assert_eq!(key_id(new["key"].as_str().unwrap()), new["keyId"]);
    assert_eq!((&is["label"], &is["scopes"], &is["revokedAt"]), (&was["label"], &was["scopes"], &Value::Null));
    assert_eq!((&was["revokedAt"], &was["label"]), (&new["oldRevokedAt"], &Value::from("gateway")));
    assert!(was["revokedAt"].as_str() > is["createdAt"].as_str(), "in a day");
    let again = run(&stack.0, &[&["keys", "rotate"], &by_id[..]].concat());
    assert_eq!(again.status.code(), Some(1), "{}", told(&again));
    assert!(run(&stack.0, &[&["keys", "revoke"], &by_id[..]].concat()).status.success());
    assert!(listed(&old_id)["revokedAt"].as_str() < was["revokedAt"].as_str(), "the earlier revocation holds");
    let text = run(&stack.0, &["keys", "list", "tiny"]);
    assert!(told(&text).contains(&old_id) && !told(&text).contains(old["key"].as_str().unwrap()));
    let nobody = run(&stack.0, &["keys", "rotate", "--space", "tiny", "--id", "0123456789abcdef"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert_eq!(run(&stack.0, &["keys", "revoke", "--id", "0123456789abcdef"]).status.code(), Some(2), "of no space");
    let by_key = tollgate(&stack.0, &["keys", "rotate", "--overlap", "0", "--json"])
        .env("TOLLGATE_API_KEY", new["key"].as_str().unwrap())
        .output()
        .unwrap();
    assert_eq!(by_key.status.code(), Some(0), "{}", told(&by_key));

    let id = format!("uev_{}", "00".repeat(32));
    let (code, event) = json(&["event", "--space", "tiny", &id, "--json"]);
    assert_eq!(code, Some(1), "an event that nobody sent");
    assert_eq!(event["ledger"], Value::Null);
    assert_eq!(event["rows"], serde_json::json!([]));

    // Up again finds the same stack; its variables are what the binaries read.
    let (code, variables) = json(&["up", "--json"]);
    assert_eq!(code, Some(0));
    assert!(variables["AWS_ENDPOINT_URL"].as_str().unwrap().starts_with("http://127.0.0.1:"));
    assert!(variables["TOLLGATE_LEDGER_TABLE"].is_string());
}

/// A key's name: what the list shows of it.
fn key_id(key: &str) -> String {
    tollgate_domain::key::ApiKey::parse(key).unwrap().hash().id().as_str().to_owned()
}

#[test]
fn an_engine_that_is_down_is_another_exit_code_than_a_wrong_question() {
    let stack = OwnStack::started("down");
    let output = tollgate(&stack.0, &["usage", "acme"])
        .env("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    // One service elsewhere, the others on the stack.
    let output =
        tollgate(&stack.0, &["usage", "acme"]).env("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:1").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    assert!(run(&stack.0, &["usage", "acme"]).status.success(), "the stack itself answers");
    let output = run(&stack.0, &["usage", "NOT A SPACE"]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
}

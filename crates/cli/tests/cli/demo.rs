//! The main job: real servers, real kills, exact counts.

use std::fs;
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{OwnStack, one_demo, repository, run, told, tollgate};
use serde_json::Value;

fn result(stack: &OwnStack, arguments: &[&str]) -> Value {
    let output = run(&stack.0, &[&["demo", "--json"], arguments].concat());
    assert!(output.status.success(), "{}", told(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn workers_are_killed_and_every_count_is_as_an_independent_program_says_twice() {
    let _alone = one_demo();
    let stack = OwnStack::named("demo-input");
    let arguments = ["--input", "tests/data/events.jsonl", "--expected", "tests/data/expected.json"];
    let first = result(&stack, &arguments);
    assert_eq!(first["ok"], true, "{first}");
    assert!(first["kills"].as_u64().unwrap() > 0, "{first}");
    let second = result(&stack, &arguments);
    assert_eq!(second["spaces"], first["spaces"], "a second pass changes nothing");
}

#[test]
fn without_a_file_it_makes_seeded_traffic_with_repeats_and_conflicts() {
    let _alone = one_demo();
    let stack = OwnStack::named("demo-seed");
    let told = result(&stack, &["--seed", "7"]);
    assert_eq!(told["ok"], true, "{told}");
    let lines: u64 = told["spaces"].as_object().unwrap().values().map(|space| space["lines"].as_u64().unwrap()).sum();
    assert!((1_000..=1_500).contains(&lines), "{lines}");
    assert_eq!(told["spaces"]["plus-7"]["conflicting_ids"], 5);
    assert_eq!(told["spaces"]["capped-7"]["meter"], 100);

    // Which spaces are internal is kept with the stack: another worker on it would bill alike.
    let usage = run(&stack.0, &["usage", "canary-7", "--json"]);
    assert!(
        String::from_utf8_lossy(&usage.stdout).contains(r#""plan":"internal""#),
        "{}",
        crate::support::told(&usage)
    );

    // What Plus is billed from: one row too many there is a charge too many, and nothing else shows it.
    let clickhouse = tollgate_cli::stack::running(&stack.0).unwrap().unwrap().clickhouse_url;
    let stray = "INSERT INTO tollgate.events_billing SELECT 'plus-7', 'uev_stray', 1, 0, period_month, 'PLUS' \
                 FROM tollgate.events_billing WHERE space = 'plus-7' LIMIT 1";
    let inserted = Command::new("curl").args(["--silent", "--fail", &clickhouse, "--data-binary", stray]).status();
    assert!(inserted.unwrap().success());
    let again = run(&stack.0, &["demo", "--seed", "7"]);
    assert_eq!(again.status.code(), Some(1), "{}", crate::support::told(&again));
    assert!(crate::support::told(&again).contains("plus-7: billing_rows is 321, must be 320"));
}

#[test]
fn an_interrupted_demo_leaves_no_process_and_is_resumed() {
    let _alone = one_demo();
    let stack = OwnStack::named("demo-resume");
    let mut demo = tollgate(&stack.0, &["demo", "--seed", "3"]).spawn().unwrap();
    let folder = repository().join(".tollgate/stacks").join(&stack.0).join("demo");
    // Until something was sent, and so a front door and workers are there.
    until("the demo sends", || {
        fs::read_to_string(folder.join("synthetic-3.state.json")).is_ok_and(|text| text.contains("-3\":"))
    });
    demo.kill().unwrap();
    demo.wait().unwrap();
    let address = fs::read_to_string(folder.join("front-door.address")).unwrap();
    until("the front door goes with the demo", || TcpStream::connect(&address).is_err());

    let told = result(&stack, &["--seed", "3", "--resume"]);
    assert_eq!(told["ok"], true, "{told}");
}

/// Looks until it is so, for at most a minute.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_count_that_differs_fails_the_demo_and_is_named() {
    let _alone = one_demo();
    let stack = OwnStack::named("demo-differs");
    let folder = tempfile::tempdir().unwrap();
    let (input, expected) = (folder.path().join("events.jsonl"), folder.path().join("expected.json"));
    let event = r#"{"space":"solo","meter":"m","subject":"s","occurredAt":"2026-01-01T00:00:00Z","quantity":1}"#;
    std::fs::write(&input, event).unwrap();
    let wrong = r#"{"spaces":{"solo":{"plan":"free","lines":1,"distinct":1,"inserted":2,"rejected":0,"meter":1}}}"#;
    std::fs::write(&expected, wrong).unwrap();
    let (input, expected) = (input.to_str().unwrap(), expected.to_str().unwrap());
    let output = run(&stack.0, &["demo", "--input", input, "--expected", expected]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    for difference in ["inserted is 1, must be 2", "archived is 1, must be 2", "rows is 1, must be 2"] {
        assert!(told(&output).contains(difference), "{}", told(&output));
    }
    let resumed = run(&stack.0, &["demo", "--resume", "--seed", "99"]);
    assert_eq!(resumed.status.code(), Some(2), "nothing to resume: {}", told(&resumed));
}

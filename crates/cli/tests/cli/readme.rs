//! The README says what is so: its table is the code's, its variables are the code's, its commands run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{OwnStack, one_demo, repository};
use tollgate_domain::scenario::markdown_table;

/// The id of the CloudEvent of the examples: of the key `["/gateway","req_9"]`.
const CLOUD_EVENT: &str = "uev_aec3495aa7c7d0703cdc258465f08ebc6bfa5bf912b58b4c6370e8ec1ff5caa9";

fn readme() -> String {
    fs::read_to_string(repository().join("README.md")).unwrap()
}

/// The examples: language, section and text of each fenced block, in order.
fn examples() -> Vec<(String, String, String)> {
    let readme = readme();
    let (mut section, mut found) = ("", Vec::new());
    let mut lines = readme.lines();
    while let Some(line) = lines.next() {
        section = line.strip_prefix("## ").unwrap_or(section);
        if let Some(language) = line.strip_prefix("```") {
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            found.push((language.to_owned(), section.to_owned(), text.join("\n") + "\n"));
        }
    }
    found
}

/// The shell examples of a section.
fn shell(section: &str) -> Vec<String> {
    let of_section = |example: &(String, String, String)| example.0 == "sh" && example.1 == section;
    examples().into_iter().filter(of_section).map(|(.., text)| text).collect()
}

/// Builds the SDK's examples as this test was built, and tells where they lie.
fn built_examples() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_tollgate")).parent().unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    // The whole workspace: so the crates below them are those that are built already.
    cargo.args(["build", "--quiet", "--locked", "--workspace", "--examples", "--target-dir"]);
    cargo.arg(folder.parent().unwrap()).args(folder.ends_with("release").then_some("--release"));
    let built = cargo.current_dir(repository()).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    folder.join("examples")
}

/// Runs a block with this build's programs in place of the release build's.
fn run_block(block: &str, stack: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_tollgate"));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut script = block
        .replace("cargo run --release --bin tollgate --", "tollgate")
        .replace("cargo build --release --workspace\n", "")
        .replace("$PWD/target/release", program.parent().unwrap().to_str().unwrap())
        .replace("--stack example", &format!("--stack {stack}"))
        .replace("127.0.0.1:8787", &format!("127.0.0.1:{port}"));
    if script.contains("--example ") {
        let folder = built_examples();
        for name in ["record", "recorder"] {
            let built = folder.join(name);
            script = script.replace(&format!("cargo run --release --example {name} --"), built.to_str().unwrap());
        }
    }
    // What a failed script leaves running must not outlive it.
    let script = format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}");
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-e", "-u", "-o", "pipefail", "-m", "-c", &script])
        .current_dir(repository())
        .env("PATH", path)
        .env("TOLLGATE_STACK", stack)
        .env("TOLLGATE_LISTEN", format!("127.0.0.1:{port}"))
        .output()
        .unwrap();
    let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}\n{told}");
    told
}

#[test]
fn every_example_is_run_by_a_test_or_is_what_runs_the_tests() {
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (language, section, _) in examples() {
        *counts.entry((section, language)).or_default() += 1;
    }
    let run_below = [
        ("By hand", "sh", 2),
        ("HTTP API", "rust", 1),
        ("HTTP API", "sh", 2),
        ("The proof", "sh", 1),
        ("What the front door costs", "sh", 1),
        ("Two commands", "sh", 2),
        ("What the demo shows", "sh", 1),
    ];
    let run_below = run_below.map(|(section, language, count)| ((section.to_owned(), language.to_owned()), count));
    assert_eq!(counts, run_below.into());
    assert_eq!(shell("Two commands")[1].trim(), "cargo test --workspace");
    // Too long for a test: the script that must pass before anything lands runs it.
    assert_eq!(shell("The proof")[0].trim(), "cargo run --release --bin proof -- --ci");
    let script = fs::read_to_string(repository().join(".ci/run")).unwrap();
    assert!(script.lines().any(|line| line == "target/release/proof --ci"));
    assert_eq!(shell("What the front door costs")[0].trim(), "cargo run --release --bin bench -- front-door");
    assert!(script.lines().any(|line| line == "target/release/bench front-door --short --json"));
}

#[test]
fn the_demo_on_the_repository_s_file_runs_as_written() {
    let _alone = one_demo();
    let stack = OwnStack::named("readme-demo");
    assert!(run_block(&shell("What the demo shows")[0], &stack.0).contains("Every event was charged exactly once"));
}

#[test]
fn the_demo_runs_as_written() {
    let _alone = one_demo();
    let stack = OwnStack::named("readme-seed");
    assert!(run_block(&shell("Two commands")[0], &stack.0).contains("Every event was charged exactly once"));
}

#[test]
fn the_pipeline_by_hand_and_the_http_api_run_as_written() {
    let _alone = one_demo();
    let stack = OwnStack::named("readme-hand");
    let by_hand = shell("By hand");
    let [begin, end] = by_hand.as_slice() else { panic!("{by_hand:?}") };
    let told = run_block(&[begin.as_str(), &shell("HTTP API").concat(), end].concat(), &stack.0);
    let queued = r#""status":"queued"}]}"#;
    let accepted = &format!("{queued} 202");
    let mut rest = told.as_str();
    for next in [
        queued,
        r#""status": "INSERTED""#,
        "1 of 1000 events used, 999 remain",
        // One event; a call in part; two forms of one CloudEvent.
        accepted,
        r#""status":"queued"},{"index":1,"#,
        r#""status":"invalid"}],"problems":[{"code":"missing_field","index":1,"field":"subject","#,
        " 202",
        // The event that IDENTITY.md would derive, twice.
        CLOUD_EVENT,
        accepted,
        CLOUD_EVENT,
        accepted,
        // The first answer, and the same again.
        "HTTP/1.1 202",
        accepted,
        "HTTP/1.1 202",
        "idempotency-replayed: true",
        accepted,
        r#""status":"inserted","terminal":true,"#,
        " 200",
        r#"{"space":"acme","month":""#,
        r#""plan":"free","used":"#,
        r#""limit":1000,"#,
        " 200",
        r#""scopes":["admin"],"#,
        " 200",
        r#"{"status":"ready"} 200"#,
        " 200",
        // The SDK's examples.
        "req_1: charged and stored",
        ": queued",
        ": queued",
        ": Inserted, ",
        "0 event(s) of an earlier run, 0 unreadable",
        "0 left on disk",
    ] {
        let found = rest.find(next).unwrap_or_else(|| panic!("no {next} in {rest}\nof {told}"));
        rest = &rest[found + next.len()..];
    }
    assert_eq!(told.matches("idempotency-replayed").count(), 1, "{told}");
    let replays: Vec<&str> = told.lines().filter(|line| line.contains("\"submissionId\"")).collect();
    let is_told_twice = |answer: &&str| replays.iter().filter(|other| other == &answer).count() == 2;
    assert!(replays.iter().any(is_told_twice), "one submission, told twice: {replays:?}");
    let document = fs::read(repository().join(".tollgate/openapi.json")).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    assert!(document["paths"]["/v1/events"].is_object());
    // The binary CloudEvent's trace reached the worker, and no other event's did.
    let log = fs::read_to_string(repository().join(".tollgate/worker.log")).unwrap();
    let traced: Vec<&str> = log.lines().filter(|line| line.contains("0af7651916cd43dd8448eb211c80319c")).collect();
    assert!(!traced.is_empty() && traced.iter().all(|line| line.contains(CLOUD_EVENT)), "{log}");
}

#[test]
fn the_rust_example_is_part_of_one_that_is_run() {
    let (.., shown) = examples().into_iter().find(|(language, ..)| language == "rust").unwrap();
    let file = fs::read_to_string(repository().join("crates/client/examples/record.rs")).unwrap();
    let plain = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    assert!(plain(&file).contains(&plain(&shown)), "{shown}");
}

#[test]
fn the_table_of_scenarios_is_the_code_s() {
    assert!(readme().contains(&markdown_table()));
}

#[test]
fn every_variable_that_the_code_reads_is_documented_and_no_other() {
    let mut read = BTreeSet::new();
    for file in sources(&repository().join("crates")).into_iter().chain(sources(&repository().join("localstack"))) {
        read.extend(variables(&fs::read_to_string(file).unwrap()));
    }
    let documented: BTreeSet<String> = variables(&readme()).collect();
    assert_eq!(read.difference(&documented).collect::<Vec<_>>(), Vec::<&String>::new(), "read, not documented");
    assert_eq!(documented.difference(&read).collect::<Vec<_>>(), Vec::<&String>::new(), "documented, not read");
}

/// Names in quotes or backticks that look like Tollgate's or ClickHouse's variables.
fn variables(text: &str) -> impl Iterator<Item = String> {
    text.split(['"', '`', '\''])
        .filter(|word| {
            let ours = word.starts_with("TOLLGATE_") || word.starts_with("CLICKHOUSE_");
            ours && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        })
        .map(str::to_owned)
}

/// Sources that ship: tests set variables of their own.
fn sources(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && name != "tests" {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs" || end == "py") && !name.starts_with("test_") {
            found.push(path);
        }
    }
    found
}

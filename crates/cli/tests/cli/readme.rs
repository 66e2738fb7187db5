//! The README says what is so: its table is the code's, its variables are the code's, its commands run.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::support::{OwnStack, one_demo, repository};
use tollgate_domain::scenario::markdown_table;

fn readme() -> String {
    fs::read_to_string(repository().join("README.md")).unwrap()
}

/// The shell blocks, in order.
fn blocks() -> Vec<String> {
    readme().split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// Runs a block with this build's program in place of the release build's.
fn run_block(block: &str, stack: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_tollgate"));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let script = block
        .replace("cargo run --release --bin tollgate --", "tollgate")
        .replace("cargo build --release --workspace\n", "")
        .replace("$PWD/target/release", program.parent().unwrap().to_str().unwrap())
        .replace("--stack example", &format!("--stack {stack}"))
        .replace("127.0.0.1:8787", &format!("127.0.0.1:{port}"));
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
    let blocks = blocks();
    assert_eq!(blocks.len(), 5);
    assert_eq!(blocks[1].trim(), "cargo test --workspace");
    // Too long for a test: the script that must pass before anything lands runs it.
    assert_eq!(blocks[4].trim(), "cargo run --release --bin proof -- --ci");
    let script = fs::read_to_string(repository().join(".ci/run")).unwrap();
    assert!(script.lines().any(|line| line == "target/release/proof --ci"));
}

#[test]
fn the_demo_on_the_repository_s_file_runs_as_written() {
    let _alone = one_demo();
    let stack = OwnStack::named("readme-demo");
    assert!(run_block(&blocks()[2], &stack.0).contains("Every event was charged exactly once"));
}

#[test]
fn the_demo_runs_as_written() {
    let _alone = one_demo();
    let stack = OwnStack::named("readme-seed");
    assert!(run_block(&blocks()[0], &stack.0).contains("Every event was charged exactly once"));
}

#[test]
fn the_pipeline_by_hand_runs_as_written() {
    let _alone = one_demo();
    let stack = OwnStack::named("readme-hand");
    let told = run_block(&blocks()[3], &stack.0);
    assert!(told.contains(r#""status":"queued""#), "{told}");
    assert!(told.contains(r#""status": "INSERTED""#), "{told}");
    assert!(told.contains("1 of 1000 events used, 999 remain"), "{told}");
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

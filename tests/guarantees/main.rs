//! The page of guarantees names tests that exist, and every invariant.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tollgate_domain::invariant::Invariant;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page() -> String {
    fs::read_to_string(repository().join("tests/GUARANTEES.md")).unwrap()
}

/// What stands between backticks on the page.
fn quoted(page: &str) -> BTreeSet<&str> {
    page.split('`').skip(1).step_by(2).collect()
}

/// Names of all tests in the sources below `folder`: functions under a test's attribute, and the cases that the contract's
/// list runs on both benches. A helper, or a case that nobody runs, is none.
fn tests_below(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests_below(&path, names);
        } else if path.extension().is_some_and(|end| end == "rs") {
            names.extend(tests_of(&fs::read_to_string(&path).unwrap()));
        }
    }
}

fn tests_of(text: &str) -> Vec<String> {
    let (mut names, mut is_test, mut is_list) = (Vec::new(), false, false);
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            continue;
        }
        if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) {
            names.extend(rest.split(['(', '<']).next().map(str::to_owned));
        }
        is_list = (is_list || line == "on_both_benches! {") && line != "}";
        if is_list {
            names.push(line.trim_end_matches([';', ':']).to_owned());
        }
        is_test &= line.starts_with("//");
    }
    names
}

#[test]
fn a_test_is_what_runs() {
    let text = "#[test]\nfn one() {}\n// fn two() {}\nfn three() {}\n#[tokio::test(start_paused = true)]\n#[expect(x)]\n\
                async fn four() {}\non_both_benches! {\n    ledger:\n        five\n        six;\n}\nfn seven() {}";
    let found = tests_of(text);
    for (name, is_test) in [
        ("one", true),
        ("two", false),
        ("three", false),
        ("four", true),
        ("five", true),
        ("six", true),
        ("seven", false),
    ] {
        assert_eq!(found.iter().any(|found| found == name), is_test, "{name}: {found:?}");
    }
}

#[test]
fn every_test_that_the_page_names_exists() {
    let mut names = BTreeSet::new();
    tests_below(&repository().join("crates"), &mut names);
    tests_below(&repository().join("tests"), &mut names);
    let page = page();
    let tests: Vec<&str> =
        quoted(&page).into_iter().filter(|word| word.len() > 25 && !word.contains([' ', '-', '(', '/'])).collect();
    assert!(tests.len() > 40, "{}", tests.len());
    let missing: Vec<&&str> = tests.iter().filter(|name| !names.contains(**name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_promise_names_at_least_one_test() {
    let page = page();
    let promises: Vec<&str> =
        page.lines().filter(|line| line.starts_with("| ") && line.matches(" | ").count() == 4).collect();
    assert!(promises.len() > 15, "{}", promises.len());
    for promise in promises.iter().skip(1) {
        let tests = promise.rsplit(" | ").next().unwrap();
        assert!(tests.contains('`'), "{promise}");
    }
}

#[test]
fn every_invariant_is_promised() {
    let page = page();
    for invariant in Invariant::ALL {
        assert!(quoted(&page).contains(invariant.id()), "{}", invariant.id());
    }
}

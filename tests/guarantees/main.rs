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

/// Names of all functions in the sources below `folder`.
fn functions(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, names);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let named = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
            names.extend(named.map(str::to_owned));
        }
    }
}

#[test]
fn every_test_that_the_page_names_exists() {
    let mut names = BTreeSet::new();
    functions(&repository().join("crates"), &mut names);
    functions(&repository().join("tests"), &mut names);
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
    let promises = page.lines().filter(|line| line.starts_with("| ") && line.matches(" | ").count() == 4);
    for promise in promises.skip(1) {
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

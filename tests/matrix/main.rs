//! Some cases of the kill matrix, on real worker processes: one of each edge. `proof matrix` runs them all.

use std::process::id;

use tollgate_cli::stack::up;
use tollgate_tests::live::{Engines, Program};
use tollgate_tests::matrix::{Outcome, Selection, Size, run};

#[tokio::test]
async fn an_event_is_charged_and_stored_once_whatever_happens_around_an_effect() {
    let engines = Engines::connect(up("tests", Some(id())).unwrap()).await.unwrap();
    let program = Program::new(env!("CARGO_BIN_EXE_proof"), &["tollgate"]);
    let selection = Selection { size: Size::Test, only: None, parallel: 8 };
    let report = run(&selection, &engines, &program, &|line| println!("{line}")).await.unwrap();
    let failed: Vec<String> = report.failed().map(Outcome::line).collect();
    assert_eq!(failed, Vec::<String>::new());
    assert!(report.outcomes.len() >= 6, "{}", report.outcomes.len());
}

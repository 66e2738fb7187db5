//! The worker as its own process.

use std::process::Command;

#[test]
fn the_process_tells_everything_that_is_missing_at_once() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_tollgate-worker")).env_clear().env("TOLLGATE_POLLERS", "0").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    for part in ["TOLLGATE_LEDGER_TABLE is not set", "CLICKHOUSE_URL is not set", "TOLLGATE_POLLERS", "from 1 to 64"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

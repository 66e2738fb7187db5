//! The local stack's own tests, which are in Python as it is: here so that one command passes all tests.

use std::path::Path;
use std::process::Command;

#[test]
fn the_local_stack_passes_its_own_tests() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new("python3")
        .args(["-m", "unittest", "discover", "--start-directory", "localstack"])
        .current_dir(repository)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

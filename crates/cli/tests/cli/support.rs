//! What the tests of the command share: the program, and a stack that goes away with the test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The program, in the repository, on `stack`.
pub(crate) fn tollgate(stack: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.current_dir(repository()).args(["--stack", stack]).args(arguments).stdin(Stdio::null());
    command
}

/// Demos are heavy, and this machine may be small: one at a time.
pub(crate) fn one_demo() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the program to its end.
pub(crate) fn run(stack: &str, arguments: &[&str]) -> Output {
    tollgate(stack, arguments).output().unwrap()
}

/// What the program said, on both streams.
pub(crate) fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A stack of this test's own: its data is deleted with it, also when the test fails.
pub(crate) struct OwnStack(pub(crate) String);

impl OwnStack {
    /// A name that no other test process has. Nothing is started: the commands under test do that.
    pub(crate) fn named(name: &str) -> Self {
        Self(format!("test-{name}-{}", std::process::id()))
    }

    /// The same, started, and leased to this process.
    pub(crate) fn started(name: &str) -> Self {
        let stack = Self::named(name);
        tollgate_cli::stack::up(&stack.0, Some(std::process::id())).unwrap();
        stack
    }
}

impl Drop for OwnStack {
    fn drop(&mut self) {
        let _ = tollgate_cli::stack::down(&self.0, true);
    }
}

//! Trouble for the ClickHouse server of a local stack.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tokio::process::Command;
use tollgate_cli::stack::StackRecord;

/// The script beside this package that owns the stack.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../localstack/stack.py");

/// The ClickHouse server of a stack that this process started.
#[derive(Debug, Clone)]
pub struct ClickHouseServer(StackRecord);

/// The supervisor's record of its children.
#[derive(Deserialize)]
struct Supervisor {
    children: Children,
}

#[derive(Deserialize)]
struct Children {
    clickhouse: Process,
}

#[derive(Deserialize)]
struct Process {
    pid: i32,
}

impl ClickHouseServer {
    /// The server of this stack.
    pub fn of(stack: &StackRecord) -> Self {
        Self(stack.clone())
    }

    /// Kills the server by SIGKILL and starts it again; returns once it answers.
    pub async fn restart_killed(&self) -> anyhow::Result<()> {
        let mut command = Command::new("python3");
        command.arg(SCRIPT).args(["restart", "clickhouse", "--kill", "--name", &self.0.name]);
        let state = self.0.state_dir.ancestors().nth(2).unwrap_or_else(|| Path::new("."));
        command.env("TOLLGATE_STATE_DIR", state).stdin(Stdio::null()).kill_on_drop(true);
        let output = command.output().await.context("python3 cannot be started")?;
        ensure!(output.status.success(), "ClickHouse: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Stops the server for a while by SIGSTOP: it accepts connections and answers none.
    pub async fn stop_for(&self, pause: Duration) -> anyhow::Result<()> {
        let path = self.0.state_dir.join("supervisor.json");
        let text = tokio::fs::read(&path).await.with_context(|| format!("{} cannot be read", path.display()))?;
        let Supervisor { children: Children { clickhouse } } = serde_json::from_slice(&text)?;
        let stopped = Stopped(Pid::from_raw(clickhouse.pid).context("a pid of 0")?);
        kill_process(stopped.0, Signal::STOP).context("ClickHouse cannot be stopped")?;
        tokio::time::sleep(pause).await;
        drop(stopped);
        Ok(())
    }
}

/// A stopped server: goes on when this is dropped, however that comes.
struct Stopped(Pid);

impl Drop for Stopped {
    fn drop(&mut self) {
        // A server that died meanwhile needs no signal.
        let _ = kill_process(self.0, Signal::CONT);
    }
}

//! Real worker processes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context;
use tokio::process::{Child, Command};
use tollgate_domain::space::SpaceId;

use super::{Engines, Queues};
use crate::faults::Endpoints;

/// The program that is a worker: the command `tollgate`, under whatever name it was built.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<String>,
}

/// How a worker is set up, where it differs from one run to the next.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// Variables over the defaults.
    pub variables: Vec<(&'static str, String)>,
    /// Spaces that are the canary's.
    pub internal_spaces: Vec<SpaceId>,
    /// The ClickHouse database.
    pub database: String,
}

impl Program {
    /// The program at `path`; `arguments` come before the command's own.
    pub fn new(path: impl Into<PathBuf>, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Self { path: path.into(), arguments }
    }

    /// Starts a worker. It dies with its handle, and stops by itself when this process has gone.
    pub fn start_worker(
        &self,
        engines: &Engines,
        queues: &Queues,
        endpoints: &Endpoints,
        settings: &WorkerSettings,
        log: &Path,
    ) -> anyhow::Result<Child> {
        let names = &engines.config.names;
        let mut command = self.command(engines, queues, &endpoints.aws_url, log)?;
        command
            .args(["worker", "--with-parent"])
            .env("CLICKHOUSE_URL", &endpoints.clickhouse_url)
            .env("CLICKHOUSE_DATABASE", &settings.database)
            .env("TOLLGATE_ARCHIVE_BUCKET", &names.archive_bucket)
            .env("TOLLGATE_INTERNAL_SPACES", joined(&settings.internal_spaces))
            .envs(settings.variables.iter().map(|(name, value)| (*name, value.as_str())));
        command.spawn().with_context(|| format!("{} cannot be started", self.path.display()))
    }

    /// What every process is told: everything, so that nothing of this process's environment may point it past its
    /// proxy.
    pub(super) fn command(
        &self,
        engines: &Engines,
        queues: &Queues,
        aws_url: &str,
        log: &Path,
    ) -> anyhow::Result<Command> {
        if let Some(folder) = log.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        }
        let file = File::options().create(true).append(true).open(log);
        let file = file.with_context(|| format!("{} cannot be written", log.display()))?;
        let names = &engines.config.names;
        let mut command = Command::new(&self.path);
        command
            .args(&self.arguments)
            .args(["--stack", &engines.stack.name])
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("AWS_ENDPOINT_URL", aws_url)
            .envs([("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test"), ("AWS_REGION", "us-east-1")])
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("TOLLGATE_LEDGER_TABLE", &names.ledger_table)
            .env("TOLLGATE_METER_TABLE", &names.meter_table)
            .env("TOLLGATE_SPACES_TABLE", &names.spaces_table)
            .env("TOLLGATE_KEYS_TABLE", &names.keys_table)
            .env("TOLLGATE_EVENT_QUEUE_URL", &queues.url)
            .env("TOLLGATE_DEAD_LETTER_QUEUE_URL", &queues.dead_letter_url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .kill_on_drop(true);
        Ok(command)
    }
}

pub(super) fn joined(spaces: &[SpaceId]) -> String {
    spaces.iter().map(SpaceId::as_str).collect::<Vec<_>>().join(",")
}

//! Real worker processes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context;
use tokio::process::{Child, Command};
use tollgate_domain::space::SpaceId;

use super::{Engines, Queues};
use crate::faults::Proxy;

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

    /// Starts a worker behind `proxy`. It dies with its handle, and stops by itself when this process has gone.
    pub fn start_worker(
        &self,
        engines: &Engines,
        queues: &Queues,
        proxy: &Proxy,
        settings: &WorkerSettings,
        log: &Path,
    ) -> anyhow::Result<Child> {
        if let Some(folder) = log.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        }
        let file = File::options().create(true).append(true).open(log);
        let file = file.with_context(|| format!("{} cannot be written", log.display()))?;
        let names = &engines.config.names;
        let internal: Vec<&str> = settings.internal_spaces.iter().map(SpaceId::as_str).collect();
        let mut command = Command::new(&self.path);
        command
            .args(&self.arguments)
            .args(["--stack", &engines.stack.name, "worker", "--with-parent"])
            // Everything is said here: nothing of this process's environment may point a worker past its proxy.
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("AWS_ENDPOINT_URL", &proxy.aws_url)
            .envs([("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test"), ("AWS_REGION", "us-east-1")])
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("CLICKHOUSE_URL", &proxy.clickhouse_url)
            .env("CLICKHOUSE_DATABASE", &settings.database)
            .env("TOLLGATE_LEDGER_TABLE", &names.ledger_table)
            .env("TOLLGATE_METER_TABLE", &names.meter_table)
            .env("TOLLGATE_SPACES_TABLE", &names.spaces_table)
            .env("TOLLGATE_KEYS_TABLE", &names.keys_table)
            .env("TOLLGATE_ARCHIVE_BUCKET", &names.archive_bucket)
            .env("TOLLGATE_EVENT_QUEUE_URL", &queues.url)
            .env("TOLLGATE_DEAD_LETTER_QUEUE_URL", &queues.dead_letter_url)
            .env("TOLLGATE_INTERNAL_SPACES", internal.join(","))
            .envs(settings.variables.iter().map(|(name, value)| (*name, value.as_str())))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .kill_on_drop(true);
        command.spawn().with_context(|| format!("{} cannot be started", self.path.display()))
    }
}

//! The local stack: an AWS emulator and a real ClickHouse, started and stopped by `localstack/stack.py`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::Deserialize;

/// What a running stack says of itself: the file `stack.json` in its state directory.
#[derive(Debug, Clone, Deserialize)]
pub struct StackRecord {
    /// The stack's name.
    pub name: String,
    /// Where its data, logs and records are.
    pub state_dir: PathBuf,
    /// The AWS emulator.
    pub aws_endpoint_url: String,
    /// ClickHouse's HTTP interface.
    pub clickhouse_url: String,
    /// The database that holds the tables.
    pub clickhouse_database: String,
    /// Outputs of the deployed template.
    pub outputs: BTreeMap<String, String>,
}

const INTERNAL_SPACES: &str = "TOLLGATE_INTERNAL_SPACES";

/// Template outputs and the variables that the binaries read them from.
const VARIABLES: [(&str, &str); 8] = [
    ("TOLLGATE_LEDGER_TABLE", "LedgerTableName"),
    ("TOLLGATE_METER_TABLE", "MeterTableName"),
    ("TOLLGATE_SPACES_TABLE", "SpacesTableName"),
    ("TOLLGATE_KEYS_TABLE", "KeysTableName"),
    ("TOLLGATE_RECEIPTS_TABLE", "ReceiptsTableName"),
    ("TOLLGATE_ARCHIVE_BUCKET", "ArchiveBucketName"),
    ("TOLLGATE_EVENT_QUEUE_URL", "EventQueueUrl"),
    ("TOLLGATE_DEAD_LETTER_QUEUE_URL", "DeadLetterQueueUrl"),
];

/// Every variable that a stack has a value for.
pub(crate) const VARIABLE_NAMES: [&str; 10] = {
    let mut names = ["CLICKHOUSE_URL", "CLICKHOUSE_DATABASE", "", "", "", "", "", "", "", ""];
    let mut at = 0;
    while at < VARIABLES.len() {
        names[at + 2] = VARIABLES[at].0;
        at += 1;
    }
    names
};

impl StackRecord {
    /// Where the stack keeps which spaces are internal on it, so that every worker on it bills alike.
    fn internal_spaces_file(&self) -> PathBuf {
        self.state_dir.join("internal-spaces")
    }

    /// Makes spaces internal on this stack, beside those that are already.
    pub fn add_internal_spaces(&self, spaces: impl IntoIterator<Item = String>) -> anyhow::Result<()> {
        let before = self.variable(INTERNAL_SPACES).unwrap_or_default();
        let before = before.split(',').filter(|name| !name.is_empty()).map(str::to_owned);
        let all: BTreeSet<String> = before.chain(spaces).collect();
        let path = self.internal_spaces_file();
        let text = all.into_iter().collect::<Vec<_>>().join(",");
        std::fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))
    }

    /// The value that this stack gives to one of the binaries' variables.
    pub fn variable(&self, name: &str) -> Option<String> {
        match name {
            "CLICKHOUSE_URL" => Some(self.clickhouse_url.clone()),
            "CLICKHOUSE_DATABASE" => Some(self.clickhouse_database.clone()),
            INTERNAL_SPACES => std::fs::read_to_string(self.internal_spaces_file()).ok(),
            _ => {
                let (_, output) = VARIABLES.iter().find(|(variable, _)| *variable == name)?;
                self.outputs.get(*output).cloned()
            }
        }
    }
}

/// A name that a stack may have: it becomes a directory.
fn check_name(name: &str) -> anyhow::Result<()> {
    let fits = !name.is_empty()
        && name.len() <= 40
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !name.starts_with('-');
    if !fits {
        bail!("the stack's name {name:?} does not fit: use 1 to 40 of a-z, 0-9 and -, not starting with -");
    }
    Ok(())
}

/// Starts the stack called `name`, or finds it running. Progress goes to stderr. With `lease`, it stops by itself some
/// 15 s after that process has gone.
pub fn up(name: &str, lease: Option<u32>) -> anyhow::Result<StackRecord> {
    check_name(name)?;
    let mut command = script("up", name)?;
    command.arg("--json");
    if let Some(pid) = lease {
        command.args(["--lease", &pid.to_string()]);
    }
    let output =
        command.stdout(Stdio::piped()).output().context("python3 cannot be started: install Python 3.10 or newer")?;
    if !output.status.success() {
        bail!("the local stack {name:?} did not start (its message is above)");
    }
    serde_json::from_slice(&output.stdout).context("the local stack's answer cannot be read")
}

/// Stops the stack called `name`; with `wipe`, its data goes too.
pub fn down(name: &str, wipe: bool) -> anyhow::Result<()> {
    check_name(name)?;
    let mut command = script("down", name)?;
    if wipe {
        command.arg("--wipe");
    }
    let status = command.status().context("python3 cannot be started: install Python 3.10 or newer")?;
    if !status.success() {
        bail!("the local stack {name:?} did not stop (its message is above)");
    }
    Ok(())
}

/// The record of the stack called `name`, if it is up.
pub fn running(name: &str) -> anyhow::Result<Option<StackRecord>> {
    check_name(name)?;
    let state = match std::env::var_os("TOLLGATE_STATE_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => match home() {
            Ok(home) => home.join(".tollgate"),
            // Without the repository there is no local stack; the environment must say where everything is.
            Err(_) => return Ok(None),
        },
    };
    let path = state.join("stacks").join(name).join("stack.json");
    match std::fs::read(&path) {
        Ok(text) => {
            serde_json::from_slice(&text).map(Some).with_context(|| format!("{} cannot be read", path.display()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

fn script(verb: &str, name: &str) -> anyhow::Result<Command> {
    let mut command = Command::new("python3");
    command.arg(home()?.join("localstack").join("stack.py")).args([verb, "--name", name]);
    command.stdin(Stdio::null());
    Ok(command)
}

/// The repository: `TOLLGATE_HOME`, or the nearest folder above the working directory or the program that holds
/// `localstack/stack.py`.
fn home() -> anyhow::Result<PathBuf> {
    let candidates = [
        std::env::var_os("TOLLGATE_HOME").map(PathBuf::from),
        std::env::current_dir().ok(),
        std::env::current_exe().ok(),
    ];
    let holds = |folder: &&Path| folder.join("localstack").join("stack.py").is_file();
    candidates
        .iter()
        .flatten()
        .find_map(|start| start.ancestors().find(holds).map(Path::to_path_buf))
        .context("no folder with localstack/stack.py found: run this inside the repository, or set TOLLGATE_HOME to it")
}

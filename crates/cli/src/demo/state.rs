//! What a run leaves for the next one on the same stack: the month, the keys, and how far it sent.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use tollgate_client::ApiKey;
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::ports::Clock;
use tollgate_domain::space::SpaceId;
use tollgate_stores::clock::SystemClock;

use crate::demo::folder;
use crate::demo::traffic::Source;
use crate::stack::StackRecord;

/// The state of the demo of one input on one stack.
pub(crate) struct DemoState {
    path: PathBuf,
    keys_path: PathBuf,
    saved: Saved,
    keys: BTreeMap<SpaceId, String>,
}

#[derive(Serialize, Deserialize)]
struct Saved {
    /// Pinned by the first run, so that midnight on the 1st changes nothing.
    month: PeriodMonth,
    /// Lines of each space that are queued, from the beginning of the file.
    sent: BTreeMap<SpaceId, u64>,
}

impl DemoState {
    /// The state of an earlier run of this input, or a new one. Without `resume`, everything is sent again.
    pub(crate) fn open(record: &StackRecord, source: &Source, resume: bool) -> anyhow::Result<Self> {
        let folder = folder(record);
        fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        let path = folder.join(format!("{}.state.json", source.name));
        let keys_path = folder.join(format!("{}.keys.json", source.name));
        let mut saved = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .with_context(|| format!("{} cannot be read: delete it to begin anew", path.display()))?,
            Err(_) if resume => bail!("nothing to resume: no earlier run of this input on this stack"),
            Err(_) => Saved { month: PeriodMonth::of(SystemClock.now()), sent: BTreeMap::new() },
        };
        if !resume {
            saved.sent.clear();
        }
        let keys = fs::read(&keys_path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let state = Self { path, keys_path, saved, keys };
        state.save()?;
        Ok(state)
    }

    /// The month in which everything is accepted.
    pub(crate) fn month(&self) -> PeriodMonth {
        self.saved.month
    }

    /// Lines of each space that are queued already.
    pub(crate) fn sent(&self) -> &BTreeMap<SpaceId, u64> {
        &self.saved.sent
    }

    /// Notes that `lines` more of a space's lines are queued.
    pub(crate) fn add_sent(&mut self, space: &SpaceId, lines: u64) -> anyhow::Result<()> {
        *self.saved.sent.entry(space.clone()).or_default() += lines;
        self.save()
    }

    /// Notes that everything was sent: the next run sends everything again, resumed or not.
    pub(crate) fn finished(&mut self) -> anyhow::Result<()> {
        self.saved.sent.clear();
        self.save()
    }

    pub(crate) fn has_key(&self, space: &SpaceId) -> bool {
        self.keys.contains_key(space)
    }

    /// Keeps a space's key, in a file that only this user can read.
    pub(crate) fn add_key(&mut self, space: &SpaceId, key: &ApiKey) -> anyhow::Result<()> {
        self.keys.insert(space.clone(), key.expose().to_owned());
        write_private(&self.keys_path, &serde_json::to_vec(&self.keys)?)
    }

    /// The file of all keys, in the form that `send --key-file` takes.
    pub(crate) fn key_file(&self) -> &Path {
        &self.keys_path
    }

    fn save(&self) -> anyhow::Result<()> {
        write_private(&self.path, &serde_json::to_vec(&self.saved)?)
    }
}

/// Held while a demo runs on a stack: a second one would count the first one's events.
pub(crate) fn only_demo(record: &StackRecord) -> anyhow::Result<fs::File> {
    let folder = folder(record);
    fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let lock = fs::File::create(folder.join("lock")).context("the demo's lock cannot be made")?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => {
            bail!("another demo runs on the stack {:?}: wait for it, or use --stack NAME", record.name)
        }
        Err(fs::TryLockError::Error(error)) => Err(error).context("the demo's lock cannot be taken"),
    }
}

/// Writes a file whole or not at all.
fn write_private(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let context = || format!("{} cannot be written", path.display());
    let new = path.with_extension("new");
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new).with_context(context)?;
    file.write_all(bytes).with_context(context)?;
    fs::rename(&new, path).with_context(context)
}

//! A worker's post: a proxy with its script, and whichever process works behind it at the moment.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;

use super::run::Bench;
use crate::faults::{Faults, Proxy, Rule, Script, Victim};
use crate::live::{Queues, WorkerSettings};

/// A worker's post.
pub(super) struct Post {
    pub(super) script: Arc<Script>,
    pub(super) proxy: Proxy,
    victim: Arc<Victim>,
    settings: WorkerSettings,
    log: PathBuf,
}

impl Post {
    /// A post whose worker is not there yet.
    pub(super) async fn new(
        bench: &Bench,
        rules: impl IntoIterator<Item = Rule>,
        settings: WorkerSettings,
        log: &str,
    ) -> anyhow::Result<Self> {
        let (script, victim) = (Arc::new(Script::new(rules)), Arc::new(Victim::default()));
        let faults = Faults::Script(Arc::clone(&script));
        let proxy = Proxy::start(&bench.engines.upstreams()?, &faults, &victim).await?;
        Ok(Self { script, proxy, victim, settings, log: bench.logs.join(format!("{log}.log")) })
    }

    /// Starts a worker, in the place of one that died.
    pub(super) async fn start(&self, bench: &Bench, queues: &Queues) -> anyhow::Result<()> {
        let child =
            bench.program.start_worker(&bench.engines, queues, &self.proxy.endpoints, &self.settings, &self.log)?;
        Ok(self.victim.replace(child).await?)
    }

    /// Fails if the worker ended by itself.
    pub(super) async fn check(&self) -> anyhow::Result<()> {
        if let Some(status) = self.victim.ended().await? {
            bail!("a worker ended by itself ({status}); see {}", self.log.display());
        }
        Ok(())
    }

    /// Ends the worker.
    pub(super) async fn end(&self) -> anyhow::Result<()> {
        self.victim.kill().await?;
        Ok(())
    }
}

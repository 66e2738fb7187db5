//! The workers, each behind dice of its own, and whoever kills them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio_util::sync::CancellationToken;

use crate::faults::{Chance, Faults, Proxy, Victim};
use crate::live::{Engines, Program, Queues, WorkerSettings};
use crate::traffic::Random;

const WORKERS: u64 = 4;
/// Of 100 calls, how many each kind of fault strikes.
const PERCENT: usize = 5;
/// Milliseconds between two kills: at least, and how much more at most.
const KILL_EVERY_MS: (u64, usize) = (300, 700);
/// A short visibility, so that what a killed worker held comes again soon; little in work, since the emulator answers one
/// call after the other: more than it can answer within a time-out would all have to be asked again.
const SETTINGS: [(&str, &str); 4] = [
    ("TOLLGATE_VISIBILITY_S", "6"),
    ("TOLLGATE_RECEIVE_WAIT_S", "1"),
    ("TOLLGATE_MAX_IN_WORK", "30"),
    ("RUST_LOG", "warn"),
];

/// A worker's place: its proxy and its dice stay when it is killed.
struct Place {
    proxy: Proxy,
    chance: Arc<Chance>,
    victim: Arc<Victim>,
    log: PathBuf,
}

/// The running workers.
pub(super) struct Fleet {
    engines: Engines,
    program: Program,
    queues: Queues,
    settings: WorkerSettings,
    places: Vec<Place>,
    kills: AtomicU64,
    /// Kills that the traffic is good for so far.
    due: AtomicU64,
}

impl Fleet {
    /// Starts every worker.
    pub(super) async fn start(
        engines: &Engines,
        program: &Program,
        queues: &Queues,
        plans: &crate::auditor::Plans,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let settings = WorkerSettings {
            variables: SETTINGS.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
            internal_spaces: plans.policy.internal_spaces.iter().cloned().collect(),
            database: engines.config.clickhouse.database.clone(),
        };
        let mut places = Vec::new();
        for number in 0..WORKERS {
            let chance = Arc::new(Chance::new(seed.wrapping_add(number), PERCENT));
            let victim = Arc::new(Victim::default());
            let faults = Faults::Chance(Arc::clone(&chance));
            let proxy = Proxy::start(&engines.upstreams()?, &faults, &victim).await?;
            let log = engines.stack.state_dir.join("chaos").join(format!("worker-{number}.log"));
            places.push(Place { proxy, chance, victim, log });
        }
        let fleet = Self {
            engines: engines.clone(),
            program: program.clone(),
            queues: queues.clone(),
            settings,
            places,
            kills: AtomicU64::new(0),
            due: AtomicU64::new(0),
        };
        for place in &fleet.places {
            fleet.start_worker(place).await?;
        }
        Ok(fleet)
    }

    async fn start_worker(&self, place: &Place) -> anyhow::Result<()> {
        let Self { engines, program, queues, settings, .. } = self;
        let child = program.start_worker(engines, queues, &place.proxy.endpoints, settings, &place.log)?;
        Ok(place.victim.replace(child).await?)
    }

    /// There is traffic for so many kills, those before included.
    pub(super) fn allow_kills(&self, kills: u64) {
        self.due.store(kills, Ordering::Relaxed);
    }

    /// Kills one worker after the other by SIGKILL, and starts another in its place, until told to stop. Kills that
    /// meet no traffic would prove nothing, and too many at once would let nobody come to an end.
    pub(super) async fn kill_until(&self, stop: &CancellationToken, seed: u64) -> anyhow::Result<()> {
        let mut random = Random::new(seed);
        loop {
            let (least, more) = KILL_EVERY_MS;
            let pause = Duration::from_millis(least.saturating_add(u64::try_from(random.below(more))?));
            if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return Ok(());
            }
            if self.kills() >= self.due.load(Ordering::Relaxed) {
                continue;
            }
            let place = self.places.get(random.below(self.places.len())).context("a fleet without workers")?;
            self.check(place).await?;
            place.victim.kill().await?;
            self.kills.fetch_add(1, Ordering::Relaxed);
            self.start_worker(place).await?;
        }
    }

    async fn check(&self, place: &Place) -> anyhow::Result<()> {
        if let Some(status) = place.victim.ended().await? {
            bail!("a worker ended by itself ({status}); see {}", place.log.display());
        }
        Ok(())
    }

    /// Workers killed so far.
    pub(super) fn kills(&self) -> u64 {
        self.kills.load(Ordering::Relaxed)
    }

    /// Faults on the wire so far.
    pub(super) fn faults(&self) -> u64 {
        self.places.iter().map(|place| place.chance.struck()).sum()
    }

    /// No more faults on the wire; waits for those that are under way.
    pub(super) async fn calm(&self) {
        for place in &self.places {
            place.chance.stop();
        }
        for place in &self.places {
            place.proxy.until_quiet().await;
        }
    }

    /// Ends every worker, none of which may have ended by itself.
    pub(super) async fn end(&self) -> anyhow::Result<()> {
        for place in &self.places {
            self.check(place).await?;
            place.victim.kill().await?;
        }
        Ok(())
    }
}

//! ClickHouse comes and goes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::live::ClickHouseServer;
use crate::traffic::Random;

/// Milliseconds of a stop: at least, and how much more at most.
const STOPPED_MS: (u64, usize) = (1_000, 3_000);

/// Stops and kills so far.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    stops: AtomicU64,
    kills: AtomicU64,
}

impl Troubles {
    /// Stops ClickHouse by SIGSTOP and kills it by SIGKILL, in turn, until told to stop. It runs when this returns.
    pub(super) async fn make(
        &self,
        server: &ClickHouseServer,
        every_ms: (u64, usize),
        stop: &CancellationToken,
        seed: u64,
    ) -> anyhow::Result<()> {
        let mut random = Random::new(seed);
        let mut between = |(least, more): (u64, usize)| {
            Duration::from_millis(least.saturating_add(u64::try_from(random.below(more)).unwrap_or_default()))
        };
        loop {
            if stop.run_until_cancelled(tokio::time::sleep(between(every_ms))).await.is_none() {
                return Ok(());
            }
            if self.stops() <= self.kills() {
                server.stop_for(between(STOPPED_MS)).await?;
                self.stops.fetch_add(1, Ordering::Relaxed);
            } else {
                server.restart_killed().await?;
                self.kills.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// How often it was stopped.
    pub(super) fn stops(&self) -> u64 {
        self.stops.load(Ordering::Relaxed)
    }

    /// How often it was killed.
    pub(super) fn kills(&self) -> u64 {
        self.kills.load(Ordering::Relaxed)
    }
}

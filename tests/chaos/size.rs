//! How much chaos.

use std::time::Duration;

/// How much chaos.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Some two minutes: what every change must pass.
    Ci,
    /// What the proof promises.
    Full,
}

/// What a size means.
pub(super) struct Bounds {
    /// Distinct events.
    pub(super) events: usize,
    /// Spaces.
    pub(super) spaces: usize,
    /// Workers killed, spread over the traffic.
    pub(super) kills: u64,
    /// Stops and kills of ClickHouse at least, each.
    pub(super) troubles: u64,
    /// Milliseconds between two of them: at least, and how much more at most.
    pub(super) trouble_every_ms: (u64, usize),
    /// Until all was sent and everybody was killed so often.
    pub(super) storm: Duration,
    /// Until everything is terminal after that.
    pub(super) calm: Duration,
}

impl Size {
    pub(super) fn bounds(self) -> Bounds {
        let (events, spaces, kills, troubles, trouble_every_ms, storm_s, calm_s) = match self {
            Self::Ci => (1_500, 12, 40, 2, (3_000, 6_000), 240, 120),
            Self::Full => (20_000, 50, 240, 8, (8_000, 12_000), 3_000, 600),
        };
        let (storm, calm) = (Duration::from_secs(storm_s), Duration::from_secs(calm_s));
        Bounds { events, spaces, kills, troubles, trouble_every_ms, storm, calm }
    }
}

//! The worker's settings.

use tollgate_domain::plan::PlanPolicy;
use tollgate_stores::config::{ConfigProblems, Env, StoreConfig, plan_policy};

use crate::batch::BatchSettings;

/// What the worker needs to know.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// Engines, names, queue.
    pub stores: StoreConfig,
    /// Internal spaces and the default limit.
    pub policy: PlanPolicy,
    /// How the loop runs.
    pub run: RunSettings,
    /// When rows are inserted together.
    pub batch: BatchSettings,
    /// Milliseconds between two quarantines of one event that both count.
    pub quarantine_spacing_ms: u64,
}

/// How the receive loop runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunSettings {
    /// Receives under way at once.
    pub pollers: usize,
    /// Deliveries in work at once.
    pub max_in_work: usize,
    /// Milliseconds for which a received message is hidden, and which a heartbeat renews.
    pub visibility_ms: u64,
    /// Milliseconds that deliveries in work get to finish when the worker is told to stop.
    pub stop_grace_ms: u64,
}

impl WorkerConfig {
    /// Reads the environment; all problems come at once.
    pub fn from_env(mut env: Env<'_>) -> Result<Self, ConfigProblems> {
        let stores = StoreConfig::from_env(&mut env);
        let mut size = |variable, default, range| {
            let value = env.integer_or(variable, default, range, "a number");
            usize::try_from(value).unwrap_or(usize::MAX)
        };
        let pollers = size("TOLLGATE_POLLERS", 2, 1..=64);
        let max_in_work = size("TOLLGATE_MAX_IN_WORK", 64, 10..=10_000);
        let max_rows = size("TOLLGATE_BATCH_ROWS", 1_000, 1..=100_000);
        let concurrency = size("TOLLGATE_BATCH_CONCURRENCY", 2, 1..=64);
        let mut milliseconds = |variable, default, range| env.integer_or(variable, default, range, "milliseconds");
        let linger_ms = milliseconds("TOLLGATE_BATCH_LINGER_MS", 10, 0..=10_000);
        let quarantine_spacing_ms = milliseconds("TOLLGATE_QUARANTINE_SPACING_MS", 60_000, 0..=3_600_000);
        let stop_grace_ms = milliseconds("TOLLGATE_STOP_GRACE_MS", 20_000, 0..=600_000);
        let run = RunSettings {
            pollers,
            max_in_work,
            visibility_ms: u64::try_from(stores.queue.visibility_s).unwrap_or_default() * 1_000,
            stop_grace_ms,
        };
        let policy = plan_policy(&mut env);
        let batch = BatchSettings { max_rows, linger_ms, concurrency };
        env.finish(Self { stores, policy, run, batch, quarantine_spacing_ms })
    }
}

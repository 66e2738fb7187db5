//! The front door's settings, one struct a concern.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate_domain::plan::{Limit, PlanPolicy};
use tollgate_stores::config::{Env, plan_policy};

/// Every setting of the front door.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FrontDoorConfig {
    /// What a call may carry.
    pub intake: IntakeConfig,
    /// How keys are looked up.
    pub auth: AuthConfig,
    /// The courtesy 402.
    pub gate: GateConfig,
    /// What is told of events, usage and keys.
    pub reads: ReadsConfig,
    /// Receipts of commands with an `Idempotency-Key`.
    pub receipts: ReceiptsConfig,
    /// How often a key may ask.
    pub rate: RateConfig,
    /// The plain server's time-outs; Lambda has its own.
    pub server: ServerConfig,
}

impl FrontDoorConfig {
    /// Reads the settings that a deployment may change; each one's default is its field's.
    ///
    /// `TOLLGATE_GATE_MODE` and, in milliseconds, `TOLLGATE_GATE_BUDGET_MS`, `TOLLGATE_GATE_CACHE_MS`,
    /// `TOLLGATE_KEY_CACHE_MS`, `TOLLGATE_KEY_GRACE_MS`, `TOLLGATE_KEY_TIMEOUT_MS`, `TOLLGATE_ENQUEUE_TIMEOUT_MS`,
    /// `TOLLGATE_READ_TIMEOUT_MS`, `TOLLGATE_RECEIPT_LEASE_MS`, `TOLLGATE_RECEIPT_TIMEOUT_MS`, `TOLLGATE_DRAIN_MS`; in
    /// numbers, `TOLLGATE_MAX_WAITERS`, `TOLLGATE_PLUS_INCLUDED`, `TOLLGATE_RATE_PER_KEY`, `TOLLGATE_BURST_PER_KEY`;
    /// plans as [`plan_policy`] reads them.
    pub fn from_env(env: &mut Env<'_>) -> Self {
        let mut config = Self::default();
        config.gate.policy = plan_policy(env);
        config.gate.mode =
            env.parse_or("TOLLGATE_GATE_MODE", config.gate.mode, "enforce, observe or off", |text| text.parse().ok());
        for (variable, at_most_ms, setting) in [
            ("TOLLGATE_GATE_BUDGET_MS", 10_000, &mut config.gate.budget),
            ("TOLLGATE_GATE_CACHE_MS", 60_000, &mut config.gate.cache_ttl),
            ("TOLLGATE_KEY_CACHE_MS", 3_600_000, &mut config.auth.cache_ttl),
            ("TOLLGATE_KEY_GRACE_MS", 3_600_000, &mut config.auth.outage_grace),
            ("TOLLGATE_KEY_TIMEOUT_MS", 30_000, &mut config.auth.lookup_timeout),
            ("TOLLGATE_ENQUEUE_TIMEOUT_MS", 30_000, &mut config.intake.enqueue_timeout),
            ("TOLLGATE_READ_TIMEOUT_MS", 30_000, &mut config.reads.timeout),
            ("TOLLGATE_RECEIPT_LEASE_MS", 3_600_000, &mut config.receipts.lease),
            ("TOLLGATE_RECEIPT_TIMEOUT_MS", 30_000, &mut config.receipts.timeout),
            ("TOLLGATE_DRAIN_MS", 600_000, &mut config.server.drain_timeout),
        ] {
            let within = |ms: &u64| *ms <= at_most_ms;
            *setting = env.parse_or(variable, *setting, "a number of milliseconds, within reason", |text| {
                text.parse().ok().filter(within).map(Duration::from_millis)
            });
        }
        let waiters = env.integer_or("TOLLGATE_MAX_WAITERS", 1_000, 0..=1_000_000, "requests");
        config.reads.max_waiters = usize::try_from(waiters).unwrap_or(usize::MAX);
        config.reads.plus_included =
            env.integer_or("TOLLGATE_PLUS_INCLUDED", config.reads.plus_included, 0..=u64::MAX, "events a month");
        for (variable, least, setting) in [
            ("TOLLGATE_RATE_PER_KEY", 0, &mut config.rate.per_second),
            ("TOLLGATE_BURST_PER_KEY", 1, &mut config.rate.burst),
        ] {
            let value = env.integer_or(variable, u64::from(*setting), least..=1_000_000, "requests");
            *setting = u32::try_from(value).unwrap_or(*setting);
        }
        config
    }
}

/// What a call may carry, and how long its durable queueing may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntakeConfig {
    /// Bytes of a request's body; enforced before anything is parsed. Default 1 MiB.
    pub max_body_bytes: usize,
    /// Events of one call. Default 500.
    pub max_events: usize,
    /// Time for a body to arrive. Default 10 s.
    pub body_timeout: Duration,
    /// Time for the queue to answer; later, nothing is known and the client is told to send again. Default 8 s.
    pub enqueue_timeout: Duration,
}

impl Default for IntakeConfig {
    fn default() -> Self {
        Self {
            max_body_bytes: 1024 * 1024,
            max_events: 500,
            body_timeout: Duration::from_secs(10),
            enqueue_timeout: Duration::from_secs(8),
        }
    }
}

/// How keys are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthConfig {
    /// For how long a key that was found is not asked about again: a revocation takes effect within it. Default 30 s.
    pub cache_ttl: Duration,
    /// For how long after that a key goes on working while the table gives no answer. Default 5 minutes.
    pub outage_grace: Duration,
    /// Time for the table to answer. Default 2 s.
    pub lookup_timeout: Duration,
    /// While the table gives no answer, the pause between two questions about one cached key. Default 1 s.
    pub outage_pause: Duration,
    /// Keys held in memory. Default 10,000.
    pub max_cached_keys: usize,
    /// Time between two uses of a key that are both noted. Default 1 hour.
    pub use_spacing: Duration,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            cache_ttl: Duration::from_secs(30),
            outage_grace: Duration::from_mins(5),
            lookup_timeout: Duration::from_secs(2),
            outage_pause: Duration::from_secs(1),
            max_cached_keys: 10_000,
            use_spacing: Duration::from_hours(1),
        }
    }
}

/// What the advisory gate does with what it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GateMode {
    /// Answers 402.
    #[default]
    Enforce,
    /// Logs what it would refuse, and lets it pass.
    Observe,
    /// Asks nothing.
    Off,
}

impl std::str::FromStr for GateMode {
    type Err = NotAGateMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "enforce" => Ok(Self::Enforce),
            "observe" => Ok(Self::Observe),
            "off" => Ok(Self::Off),
            _ => Err(NotAGateMode),
        }
    }
}

/// The text is not a mode of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not a mode of the gate: use enforce, observe or off")]
pub struct NotAGateMode;

/// The courtesy 402.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateConfig {
    /// What it does with what it finds. Default enforce.
    pub mode: GateMode,
    /// Time for all of its questions together; past it the call passes. Default 150 ms.
    pub budget: Duration,
    /// For how long a space's plan and count are not asked for again. Default 2 s.
    pub cache_ttl: Duration,
    /// Spaces held in memory. Default 10,000.
    pub max_cached_spaces: usize,
    /// What the deployment says about plans: internal spaces and the default limit. Default no space and 1,000 events.
    pub policy: PlanPolicy,
}

impl Default for GateConfig {
    fn default() -> Self {
        Self {
            mode: GateMode::default(),
            budget: Duration::from_millis(150),
            cache_ttl: Duration::from_secs(2),
            max_cached_spaces: 10_000,
            policy: PlanPolicy { internal_spaces: BTreeSet::new(), default_free_limit: Limit::FREE_PLAN },
        }
    }
}

/// What is told of events, usage and keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadsConfig {
    /// Time for an answer's stores. Default 2 s.
    pub timeout: Duration,
    /// Requests of this process that may wait for an event's end at once; beyond, nobody waits. Default 1,000.
    pub max_waiters: usize,
    /// Events a month that the Plus plan's price includes. Default 100,000.
    pub plus_included: u64,
}

impl Default for ReadsConfig {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(2), max_waiters: 1_000, plus_included: 100_000 }
    }
}

/// Receipts of commands with an `Idempotency-Key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptsConfig {
    /// Time after which a command that nobody finished may be taken over: longer than a command takes. Default 30 s.
    pub lease: Duration,
    /// Time for the receipts table to answer. Default 2 s.
    pub timeout: Duration,
    /// Bytes of an answer that is kept: an item of the table holds 400 KB. Default 300 KiB.
    pub max_answer_bytes: usize,
}

impl Default for ReceiptsConfig {
    fn default() -> Self {
        Self { lease: Duration::from_secs(30), timeout: Duration::from_secs(2), max_answer_bytes: 300 * 1024 }
    }
}

/// How often a key may ask one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateConfig {
    /// Requests a second; 0 for no limit. Default 500.
    pub per_second: u32,
    /// Requests at once. Default 1,000.
    pub burst: u32,
}

impl Default for RateConfig {
    fn default() -> Self {
        Self { per_second: 500, burst: 1_000 }
    }
}

/// The plain server's time-outs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Time for a request's head to arrive, and for which an idle connection is kept. Default 30 s.
    pub header_timeout: Duration,
    /// Time for open requests to finish once the server stops: by default longer than any takes, those that wait for an
    /// event's end included, and shorter than the 30 s that most who stop a process grant it. Default 25 s.
    pub drain_timeout: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self { header_timeout: Duration::from_secs(30), drain_timeout: Duration::from_secs(25) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::MAX_WAIT_S;

    fn read(set: &[(&str, &str)]) -> Result<FrontDoorConfig, Vec<String>> {
        let mut env = Env::new(|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()));
        let config = FrontDoorConfig::from_env(&mut env);
        env.finish(config).map_err(|problems| problems.0.into_iter().map(|problem| problem.variable).collect())
    }

    #[test]
    fn an_empty_environment_is_the_default() {
        assert_eq!(read(&[]), Ok(FrontDoorConfig::default()));
    }

    #[test]
    fn a_stop_cuts_no_request_off() {
        let FrontDoorConfig { intake, auth, gate, reads, receipts, server, .. } = FrontDoorConfig::default();
        let asking = auth.lookup_timeout + Duration::from_secs(MAX_WAIT_S) + reads.timeout;
        let guard = receipts.timeout * 2;
        let sending = auth.lookup_timeout + intake.body_timeout + gate.budget + intake.enqueue_timeout + guard;
        assert!(asking.max(sending) < server.drain_timeout, "{asking:?} {sending:?}");
    }

    #[test]
    fn settings_are_read_and_all_wrong_ones_are_told() {
        let config = read(&[("TOLLGATE_GATE_MODE", "observe"), ("TOLLGATE_GATE_BUDGET_MS", "80")]).unwrap();
        assert_eq!((config.gate.mode, config.gate.budget), (GateMode::Observe, Duration::from_millis(80)));
        let config = read(&[("TOLLGATE_RATE_PER_KEY", "0"), ("TOLLGATE_BURST_PER_KEY", "7")]).unwrap();
        assert_eq!(config.rate, RateConfig { per_second: 0, burst: 7 });
        let config = read(&[("TOLLGATE_MAX_WAITERS", "5"), ("TOLLGATE_PLUS_INCLUDED", "9")]).unwrap();
        assert_eq!((config.reads.max_waiters, config.reads.plus_included), (5, 9));
        let wrong = [
            ("TOLLGATE_GATE_MODE", "on"),
            ("TOLLGATE_KEY_CACHE_MS", "-1"),
            ("TOLLGATE_DRAIN_MS", "9999999"),
            ("TOLLGATE_MAX_WAITERS", "many"),
            ("TOLLGATE_BURST_PER_KEY", "0"),
        ];
        assert_eq!(read(&wrong), Err(wrong.map(|(variable, _)| variable.to_owned()).into()));
    }
}

//! The advisory gate: a 402 instead of an event that the worker would reject silently. Fails open.
//!
//! It consumes nothing and decides nothing: the worker does. So every doubt lets the call pass: an error, a slow
//! dependency, a call of which any event is known to the ledger (whatever became of it: a retry of an accepted event
//! must not hear 402, and the granularity is the call). An event that is queued but not yet claimed is not known to
//! the ledger: its retry can hear 402 once the month is full, and the first delivery is none the worse for it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use futures_util::StreamExt as _;
use tokio::time::{Instant, timeout};
use tollgate_domain::identity::EventId;
use tollgate_domain::ledger::EventKey;
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::Plan;
use tollgate_domain::ports::{Billing, Freshness, Image, Ledger, PortResult, Spaces};
use tollgate_domain::space::SpaceId;

use crate::answer::{Quota, Refusal};
use crate::config::{GateConfig, GateMode};
use crate::ports::FrontDoorPorts;

/// Why a call passed; its name stands in the request's log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passage {
    /// Nothing was asked.
    Unasked,
    /// The plan takes the events.
    Open,
    /// The plan does not, but the ledger knows an event of the call.
    Known,
    /// The plan does not, and the gate only observes.
    Observed,
    /// No answer in time, or an error.
    FailedOpen,
}

impl Passage {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Unasked => "unasked",
            Self::Open => "open",
            Self::Known => "known",
            Self::Observed => "observed",
            Self::FailedOpen => "failed_open",
        }
    }
}

/// What the gate found, before its mode is applied.
enum Finding {
    Open,
    Known,
    Full(Quota),
}

/// A space's plan and its month's count, as they were read.
#[derive(Debug, Clone, Copy)]
struct Reading {
    plan: Plan,
    /// A free space's only.
    used: u64,
    freshness: Freshness,
    read_at: Instant,
}

/// The gate, with what it read lately.
pub(crate) struct Gate {
    config: GateConfig,
    readings: Mutex<HashMap<(SpaceId, PeriodMonth), Reading>>,
}

impl Gate {
    pub(crate) fn new(config: GateConfig) -> Self {
        Self { config, readings: Mutex::default() }
    }

    /// Lets the call pass, saying why, or refuses it with 402 when the plan takes no more events now.
    pub(crate) async fn check_advisory_gate<P: FrontDoorPorts>(
        &self,
        ports: &P,
        space: &SpaceId,
        month: PeriodMonth,
        ids: &[EventId],
    ) -> Result<Passage, Refusal> {
        if self.config.mode == GateMode::Off || self.config.policy.internal_spaces.contains(space) {
            return Ok(Passage::Unasked);
        }
        let failure = match timeout(self.config.budget, self.find(ports, space, month, ids)).await {
            Ok(Ok(Finding::Open)) => return Ok(Passage::Open),
            Ok(Ok(Finding::Known)) => return Ok(Passage::Known),
            Ok(Ok(Finding::Full(quota))) if self.config.mode == GateMode::Observe => {
                tracing::info!(%space, %month, ?quota, "the gate would refuse; it only observes");
                return Ok(Passage::Observed);
            }
            Ok(Ok(Finding::Full(quota))) => return Err(Refusal::of_quota(quota)),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer within the gate's budget".to_owned(),
        };
        tracing::warn!(%space, error = failure, "the gate could not ask: the call passes");
        Ok(Passage::FailedOpen)
    }

    async fn find<P: FrontDoorPorts>(
        &self,
        ports: &P,
        space: &SpaceId,
        month: PeriodMonth,
        ids: &[EventId],
    ) -> PortResult<Finding> {
        let mut reading = match self.recall(space, month) {
            Some(reading) => reading,
            None => self.read(ports, space, month, Freshness::Cached).await?,
        };
        // An old answer is good enough to pass, not to refuse: the space may have upgraded since.
        if quota_of(reading, month).is_some() && reading.freshness == Freshness::Cached {
            reading = self.read(ports, space, month, Freshness::Strong).await?;
        }
        match quota_of(reading, month) {
            None => Ok(Finding::Open),
            Some(_) if self.any_known(ports, space, ids).await? => Ok(Finding::Known),
            Some(quota) => Ok(Finding::Full(quota)),
        }
    }

    async fn read<P: FrontDoorPorts>(
        &self,
        ports: &P,
        space: &SpaceId,
        month: PeriodMonth,
        freshness: Freshness,
    ) -> PortResult<Reading> {
        let record = ports.spaces().read(space, freshness).await?;
        let plan = self.config.policy.plan_of(space, record.as_ref());
        let used = match plan {
            Plan::Free(_) => ports.billing().count(space, month).await?,
            Plan::Internal | Plan::PlusActive | Plan::PlusInactive => 0,
        };
        let reading = Reading { plan, used, freshness, read_at: Instant::now() };
        self.keep(space, month, reading);
        Ok(reading)
    }

    async fn any_known<P: FrontDoorPorts>(&self, ports: &P, space: &SpaceId, ids: &[EventId]) -> PortResult<bool> {
        let keys: Vec<EventKey> = ids.iter().map(|id| EventKey { space: space.clone(), id: id.clone() }).collect();
        let mut reads = Vec::with_capacity(keys.len());
        for key in &keys {
            reads.push(ports.ledger().read(key));
        }
        let mut images = futures_util::stream::iter(reads).buffer_unordered(self.config.ledger_concurrency.max(1));
        while let Some(image) = images.next().await {
            // One that this version cannot read is known all the same.
            if image? != Image::Absent {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn recall(&self, space: &SpaceId, month: PeriodMonth) -> Option<Reading> {
        let readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        let reading = readings.get(&(space.clone(), month))?;
        (reading.read_at.elapsed() < self.config.cache_ttl).then_some(*reading)
    }

    fn keep(&self, space: &SpaceId, month: PeriodMonth, reading: Reading) {
        let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        if readings.len() >= self.config.max_cached_spaces {
            readings.retain(|_, reading| reading.read_at.elapsed() < self.config.cache_ttl);
        }
        if readings.len() < self.config.max_cached_spaces {
            readings.insert((space.clone(), month), reading);
        }
    }
}

/// Why the plan takes no more events in `month`; `None` while it does.
fn quota_of(reading: Reading, month: PeriodMonth) -> Option<Quota> {
    match reading.plan {
        Plan::Internal | Plan::PlusActive => None,
        Plan::PlusInactive => Some(Quota { plan: "plus", limit: None, used: None, resets_at: None }),
        Plan::Free(limit) => (reading.used >= limit.get()).then(|| Quota {
            plan: "free",
            limit: Some(limit.get()),
            used: Some(reading.used),
            resets_at: Some(month.next().start()),
        }),
    }
}

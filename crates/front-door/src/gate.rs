//! The advisory gate: a 402 instead of an event that the worker would reject silently. Fails open.
//!
//! It consumes nothing and decides nothing: the worker does. So every doubt lets the call pass: an error, a slow
//! dependency, an event that is known to the ledger (whatever became of it: a retry of an accepted event must not hear
//! 402). One known event takes a whole call with it; of a partial call the known ones pass. An event that is queued but
//! not yet claimed is not known to the ledger: its retry can hear 402 once the month is full, and the first delivery is
//! none the worse for it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;
use tollgate_domain::identity::EventId;
use tollgate_domain::ledger::EventKey;
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::Plan;
use tollgate_domain::ports::{Billing, EventLookup as _, Freshness, Image, PortResult, Spaces};
use tollgate_domain::space::SpaceId;

use crate::answer::Quota;
use crate::config::{GateConfig, GateMode};
use crate::intake::Taking;
use crate::ports::{FrontDoorPorts, in_time};

/// Why a call passed; its name stands in the request's log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passage {
    /// Nothing was asked.
    Unasked,
    /// The plan takes the events.
    Open,
    /// The plan does not, but the ledger knows an event of the call; or all of them, if they are taken one by one.
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

/// A plan that takes no more events now.
#[derive(Debug)]
pub(crate) struct Full {
    pub(crate) quota: Quota,
    /// For each id, whether the ledger knows it.
    pub(crate) known: Vec<bool>,
}

/// What the gate found, before its mode is applied.
enum Finding {
    Open,
    Full(Full),
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

    /// Lets the call pass, saying why, unless the plan takes no more events now.
    pub(crate) async fn check_advisory_gate<P: FrontDoorPorts>(
        &self,
        ports: &P,
        space: &SpaceId,
        month: PeriodMonth,
        ids: &[EventId],
        taking: Taking,
    ) -> Result<Passage, Full> {
        let is_internal = self.config.policy.internal_spaces.contains(space);
        if self.config.mode == GateMode::Off || is_internal || ids.is_empty() {
            return Ok(Passage::Unasked);
        }
        let error = match in_time(self.config.budget, self.find(ports, space, month, ids)).await {
            Ok(Finding::Open) => return Ok(Passage::Open),
            Ok(Finding::Full(full)) if passes(&full.known, taking) => return Ok(Passage::Known),
            Ok(Finding::Full(full)) if self.config.mode == GateMode::Observe => {
                tracing::info!(%space, %month, quota = ?full.quota, "the gate would refuse; it only observes");
                return Ok(Passage::Observed);
            }
            Ok(Finding::Full(full)) => return Err(full),
            Err(error) => error,
        };
        tracing::warn!(%space, error, "the gate could not ask: the call passes");
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
        let Some(quota) = quota_of(reading, month) else { return Ok(Finding::Open) };
        let keys: Vec<EventKey> = ids.iter().map(|id| EventKey { space: space.clone(), id: id.clone() }).collect();
        let images = ports.ledger().read_many(&keys).await?;
        // One that this version cannot read is known all the same.
        let known = images.iter().map(|image| *image != Image::Absent).collect();
        Ok(Finding::Full(Full { quota, known }))
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

/// Whether what the ledger knows lets all events of the call pass.
fn passes(known: &[bool], taking: Taking) -> bool {
    match taking {
        Taking::Whole => known.contains(&true),
        Taking::Partial => !known.contains(&false),
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

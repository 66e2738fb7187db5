//! One run: the storm, the calm after it, and the audit.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio_util::sync::CancellationToken;
use tollgate_domain::envelope::Envelope;
use tollgate_domain::ledger::Status;
use tollgate_domain::ports::Clock;
use tollgate_stores::clock::SystemClock;

use super::Size;
use super::fleet::Fleet;
use super::size::Bounds;
use super::trouble::Troubles;
use crate::auditor::{Finding, Kind, audit};
use crate::live::{ClickHouseServer, Engines, Program, Queues, snapshot};
use crate::sent::{Sent, by_key};
use crate::tenants::Tenants;
use crate::traffic::Traffic;

/// Waves in which the traffic is sent: spread over the kills, so that each kill meets traffic.
const WAVES: usize = 40;
/// Messages that may wait when the next wave is sent; a longer queue only slows the emulator.
const BACKLOG: u64 = 400;
const POLL: Duration = Duration::from_millis(200);
const TELL_EVERY: Duration = Duration::from_secs(5);

/// What a run came to.
#[derive(Debug, Clone)]
pub struct Report {
    /// What decided traffic, dice and kills.
    pub seed: u64,
    /// Distinct events.
    pub events: usize,
    /// Messages sent: duplicates and conflicting payloads included.
    pub messages: usize,
    /// Workers killed.
    pub kills: u64,
    /// Faults on the wire, and stops and kills of ClickHouse.
    pub faults: u64,
    /// Events that were rejected, past their cap or their plan.
    pub rejected: usize,
    /// Events under whose id another payload came.
    pub conflicts: usize,
    /// What the auditor found.
    pub findings: Vec<Finding>,
    /// How long it took.
    pub took: Duration,
}

impl Report {
    /// Findings of one kind.
    pub fn count(&self, kind: Kind) -> usize {
        self.findings.iter().filter(|finding| finding.kind == kind).count()
    }
}

/// Runs the chaos; an error is a run that could not be judged, or in which not everything became terminal.
pub async fn run(
    size: Size,
    seed: u64,
    engines: &Engines,
    program: &Program,
    progress: &dyn Fn(&str),
) -> anyhow::Result<Report> {
    let start = Instant::now();
    let bounds = size.bounds();
    let tenants = Tenants::new("chaos", bounds.spaces, bounds.events)?;
    tenants.register(engines).await?;
    let envelopes = Traffic {
        seed,
        spaces: tenants.spaces.clone(),
        distinct: bounds.events,
        duplicates_percent: 20,
        conflicts_percent: 1,
        accepted_at: SystemClock.now(),
    }
    .envelopes();
    let queues = Queues::create(engines).await?;
    let (messages, spaces) = (envelopes.len(), tenants.spaces.len());
    progress(&format!("chaos: seed {seed}: {} events of {spaces} spaces in {messages} messages", bounds.events));

    let fleet = Fleet::start(engines, program, &queues, &tenants.plans, seed).await?;
    let (server, troubles, stop) =
        (ClickHouseServer::of(&engines.stack), Troubles::default(), CancellationToken::new());
    let storm = Storm { bounds: &bounds, queues: &queues, fleet: &fleet, troubles: &troubles, progress };
    let raging = async {
        let raged = tokio::time::timeout(bounds.storm, storm.send(&envelopes)).await;
        stop.cancel();
        match raged {
            Ok(raged) => raged,
            Err(_) => bail!("the storm did not pass within {} s", bounds.storm.as_secs()),
        }
    };
    let (killing, troubling) =
        (fleet.kill_until(&stop, seed), troubles.make(&server, bounds.trouble_every_ms, &stop, seed));
    tokio::try_join!(raging, killing, troubling)?;
    let faults = fleet.faults() + troubles.stops() + troubles.kills();
    fleet.calm().await;
    progress(&format!("chaos: the faults stop: {} kills, {faults} faults", fleet.kills()));

    storm.until_empty(bounds.calm).await?;
    fleet.end().await?;
    let snapshot = snapshot(engines, &queues, &tenants.spaces.iter().cloned().collect::<BTreeSet<_>>()).await?;
    let sent: Vec<Sent> = envelopes.iter().map(Sent::from).collect();
    let findings = audit(&sent, &tenants.plans, &snapshot);
    queues.delete().await?;
    let items = || snapshot.ledger.values();
    let report = Report {
        seed,
        events: by_key(&sent).len(),
        messages,
        kills: fleet.kills(),
        faults,
        rejected: items().filter(|item| item.status == Status::Rejected).count(),
        conflicts: items().filter(|item| !item.conflicts.is_empty()).count(),
        findings,
        took: start.elapsed(),
    };
    ensure!(report.rejected > 0 && report.conflicts > 0, "nothing was rejected, or nothing conflicted: {report:?}");
    Ok(report)
}

/// What sending needs.
struct Storm<'a> {
    bounds: &'a Bounds,
    queues: &'a Queues,
    fleet: &'a Fleet,
    troubles: &'a Troubles,
    progress: &'a dyn Fn(&str),
}

impl Storm<'_> {
    /// Sends everything, one wave after the other, each once enough was killed and little waits.
    async fn send(&self, envelopes: &[Envelope]) -> anyhow::Result<()> {
        let waves = envelopes.chunks(envelopes.len().div_ceil(WAVES).max(1));
        let (all, mut sent, mut told) = (waves.len(), 0, Instant::now());
        for (number, wave) in waves.enumerate() {
            let kills_after =
                |waves: usize| anyhow::Ok(self.bounds.kills * u64::try_from(waves)? / u64::try_from(all)?);
            while self.fleet.kills() < kills_after(number)? || self.waiting().await? > BACKLOG {
                if told.elapsed() > TELL_EVERY {
                    told = Instant::now();
                    self.tell(&format!("{sent} of {} sent", envelopes.len())).await?;
                }
                tokio::time::sleep(POLL).await;
            }
            self.queues.send(&wave.iter().map(Envelope::encode).collect::<Vec<_>>()).await?;
            self.fleet.allow_kills(kills_after(number + 1)?);
            sent += wave.len();
        }
        let (bounds, troubles) = (self.bounds, self.troubles);
        while self.fleet.kills() < bounds.kills
            || troubles.stops().min(troubles.kills()) < bounds.troubles
            || self.waiting().await? > BACKLOG
        {
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    async fn waiting(&self) -> anyhow::Result<u64> {
        Ok(self.queues.depth().await?.visible)
    }

    async fn tell(&self, what: &str) -> anyhow::Result<()> {
        let depth = self.queues.depth().await?;
        let (kills, faults, troubles) = (self.fleet.kills(), self.fleet.faults(), self.troubles);
        (self.progress)(&format!(
            "chaos: {what}, {} waiting, {} in flight; {kills} kills, {faults} faults, ClickHouse stopped {} times and \
             killed {} times",
            depth.visible,
            depth.in_flight,
            troubles.stops(),
            troubles.kills()
        ));
        Ok(())
    }

    /// Waits until every message is acknowledged.
    async fn until_empty(&self, patience: Duration) -> anyhow::Result<()> {
        let empty = async {
            let mut told = Instant::now();
            while !self.queues.is_empty().await? {
                if told.elapsed() > TELL_EVERY {
                    told = Instant::now();
                    self.tell("after the faults").await?;
                }
                tokio::time::sleep(POLL).await;
            }
            anyhow::Ok(())
        };
        let late = || format!("not everything became terminal within {} s of calm", patience.as_secs());
        tokio::time::timeout(patience, empty).await.with_context(late)?
    }
}

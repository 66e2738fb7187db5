//! Meters against checkpoints, limits and plans.

use std::collections::BTreeMap;

use tollgate_domain::invariant::Invariant;
use tollgate_domain::ledger::{LedgerItem, Status};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::{BilledAs, Limit, Plan};
use tollgate_domain::space::SpaceId;

use super::{Findings, Kind, Plans};
use crate::snapshot::Snapshot;

pub(super) fn audit_meters(plans: &Plans, snapshot: &Snapshot, findings: &mut Findings) {
    let mut months: BTreeMap<(&SpaceId, PeriodMonth), Vec<&LedgerItem>> = BTreeMap::new();
    for (space, month) in snapshot.meters.keys() {
        months.entry((space, *month)).or_default();
    }
    for item in snapshot.ledger.values() {
        months.entry((&item.key.space, item.period_month)).or_default().push(item);
    }
    for ((space, month), items) in months {
        let about = format!("{space} in {month}");
        let meter = snapshot.meters.get(&(space.clone(), month)).copied().unwrap_or_default();
        audit_consumptions(&about, meter, &items, findings);
        if let Some(Plan::Free(limit)) = plans.fixed_plan_of(space) {
            audit_fixed_limit(&about, meter, limit.get(), &items, findings);
        }
    }
}

/// What holds under every plan.
fn audit_consumptions(about: &String, meter: u64, items: &[&LedgerItem], findings: &mut Findings) {
    let free =
        items.iter().filter_map(|item| item.checkpoint.filter(|checkpoint| checkpoint.billed_as == BilledAs::Free));
    let mut limits: Vec<u64> = free.map(|checkpoint| checkpoint.limit.map(Limit::get).unwrap_or_default()).collect();
    let checkpoints = limits.len() as u64;
    if meter != checkpoints {
        let detail = format!("the meter is {meter}, its FREE checkpoints are {checkpoints}");
        findings.breach(Invariant::MeterEqualsCheckpoints, about, detail.clone());
        if meter > checkpoints {
            findings.add(Kind::DoubleCharged, about, detail);
        }
    }
    // The n-th consumption saw n − 1 below its limit. In whatever order they came, that can only be if the n-th
    // smallest limit is at least n.
    limits.sort_unstable();
    for (number, limit) in (1..).zip(limits) {
        if limit < number {
            let detail = format!("{number} consumptions have no limit above {limit}");
            findings.breach(Invariant::ConsumedBelowLimit, about, detail);
            break;
        }
    }
}

/// How many are accepted and how many are rejected; which ones is chance.
fn audit_fixed_limit(about: &String, meter: u64, limit: u64, items: &[&LedgerItem], findings: &mut Findings) {
    let distinct = items.len() as u64;
    let room = distinct.min(limit);
    if meter > room {
        let detail = format!("the meter is {meter}, of {distinct} distinct events under a limit of {limit}");
        findings.add(Kind::DoubleCharged, about, detail);
    }
    let rejected = items.iter().filter(|item| item.status == Status::Rejected).count() as u64;
    let surplus = distinct - room;
    if rejected > surplus {
        let detail = format!("{rejected} rejected, of {distinct} distinct events under a limit of {limit}");
        findings.add(Kind::WronglyRejected, about, detail);
    }
    let accepted = items.iter().filter(|item| item.checkpoint.is_some()).count() as u64;
    if accepted > room {
        let detail = format!("{accepted} accepted, of {distinct} distinct events under a limit of {limit}");
        findings.add(Kind::WronglyAccepted, about, detail);
    }
}

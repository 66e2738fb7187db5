//! One moment's facts against a later one's: what was final stays.

use std::collections::BTreeSet;

use tollgate_domain::invariant::Invariant;
use tollgate_domain::ledger::{EventKey, LedgerItem, Status};

use super::{Finding, Findings, Kind};
use crate::snapshot::Snapshot;

/// Everything that changed and must not have. `redriven` are the events that an operator reopened in between.
pub fn audit_change(before: &Snapshot, after: &Snapshot, redriven: &BTreeSet<EventKey>) -> Vec<Finding> {
    let mut findings = Findings::default();
    for (key, earlier) in &before.ledger {
        match after.ledger.get(key) {
            None => findings.add(Kind::Lost, key, "the ledger forgot it"),
            Some(later) => audit_item(earlier, later, redriven.contains(key), &mut findings),
        }
    }
    for ((space, month), earlier) in &before.meters {
        let later = after.meters.get(&(space.clone(), *month)).copied().unwrap_or_default();
        if later < *earlier {
            let detail = format!("the meter fell from {earlier} to {later}");
            findings.add(Kind::StampChanged, &format!("{space} in {month}"), detail);
        }
    }
    for (key, earlier) in &before.objects {
        if after.objects.get(key) != Some(earlier) {
            findings.add(Kind::WrongPayload, key, "the object is gone or has other bytes");
        }
    }
    findings.0
}

fn audit_item(earlier: &LedgerItem, later: &LedgerItem, is_redriven: bool, findings: &mut Findings) {
    let reopened = is_redriven && earlier.status == Status::Uninsertable && later.status != Status::Rejected;
    if earlier.status.is_terminal() && earlier.status != later.status && !reopened {
        let detail = format!("{} became {}", earlier.status, later.status);
        findings.breach(Invariant::TerminalIsFinal, &earlier.key, detail);
    }
    let stamps = |item: &LedgerItem| {
        (item.created_at, item.row_inserted_at, item.period_month, item.fingerprint.clone(), item.submission_id.clone())
    };
    let checkpoint_changed = earlier.checkpoint.is_some() && earlier.checkpoint != later.checkpoint;
    let rejection_changed = earlier.rejection.is_some() && earlier.rejection != later.rejection;
    if stamps(earlier) != stamps(later) || checkpoint_changed || rejection_changed {
        findings.add(Kind::StampChanged, &earlier.key, "claim, checkpoint or rejection");
    }
}

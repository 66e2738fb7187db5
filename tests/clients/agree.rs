//! Whether what a client was told is what the ledger holds.

use tollgate_client::Recorded;
use tollgate_domain::event::Event;
use tollgate_domain::ledger::{LedgerItem, Status};
use tollgate_domain::plan::Limit;

/// What is wrong with `told` of `event`, given its ledger item once everything is terminal; `None` if nothing is.
///
/// A plan that is full or lapsed tells nothing of the item: an attempt whose answer was lost may have been queued, and
/// its retry may hear 402.
pub(super) fn disagreement(event: &Event, told: &Recorded, item: Option<&LedgerItem>) -> Option<String> {
    if matches!(told, Recorded::QuotaExceeded { .. }) {
        return None;
    }
    let Some(item) = item else { return Some(format!("{told:?}, and the ledger has no item")) };
    let is_first = item.fingerprint == event.fingerprint();
    let agrees = match told {
        Recorded::Inserted { status } => {
            is_first && item.status == Status::Inserted && status.submission_id.as_ref() == Some(&item.submission_id)
        }
        Recorded::Duplicate { by, .. } => is_first && item.status == Status::Inserted && *by == item.submission_id,
        Recorded::Rejected { rejection, .. } => {
            is_first
                && item.status == Status::Rejected
                && item.rejection.is_some_and(|held| {
                    held.reason == rejection.reason
                        && held.limit_seen.map(Limit::get) == rejection.limit
                        && held.count_seen == rejection.count
                })
        }
        Recorded::Conflict { existing: Some(existing), .. } => {
            !is_first
                && item.conflicts.contains(&event.fingerprint())
                && existing.fingerprint.as_ref() == Some(&item.fingerprint)
        }
        // Nothing here is poison, malformed, or without a key; and patience outlasts the losses.
        _ => false,
    };
    (!agrees).then(|| format!("{told:?}, and the ledger holds {:?} of {}", item.status, item.submission_id))
}

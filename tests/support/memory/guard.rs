//! The conditions of the twins' writes, by name: so that a test can show what each one is for by taking it away.

use tollgate_domain::ledger::{LedgerItem, Status, Write, next_status};

/// One condition of one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Guard {
    /// Everything that a write demands.
    Whole(Write),
    /// That the item is still `INSERTING`.
    Open(Write),
    /// What a write demands of the checkpoint: that it stands, or that it does not.
    Checkpoint(Write),
    /// That the month's counter is below the limit.
    Limit,
    /// That the quarantine count is still the one seen.
    SeenCount,
    /// That the last quarantine is a spacing ago.
    Spacing,
    /// That a row was refused often enough to be given up.
    QuarantineCount,
}

impl Guard {
    /// Whether a write does without this part of its condition when `self` is taken away.
    fn covers(self, part: Self, write: Write) -> bool {
        self == part || self == Self::Whole(write)
    }
}

/// Whether the part of a write's condition stands.
pub(super) fn stands(removed: Option<Guard>, part: Guard, write: Write) -> bool {
    !removed.is_some_and(|guard| guard.covers(part, write))
}

/// The status after a write whose condition may lack a part; `None` when what is left of it fails.
pub(super) fn status_after(removed: Option<Guard>, item: &LedgerItem, write: Write) -> Option<Status> {
    let charged = item.checkpoint.is_some();
    let allowed = next_status(Some(item.status), charged, write);
    if allowed.is_ok() || removed.is_none() {
        return allowed.ok();
    }
    let assumed_status = if stands(removed, Guard::Open(write), write) { item.status } else { Status::Inserting };
    // Only one of the two answers is the one that the write demands.
    let assumed_charged: &[bool] =
        if stands(removed, Guard::Checkpoint(write), write) { &[charged] } else { &[false, true] };
    let mut answers =
        assumed_charged.iter().filter_map(|charged| next_status(Some(assumed_status), *charged, write).ok());
    // An update that leaves the status alone leaves whatever stands there.
    answers.next().map(|status| if status == assumed_status { item.status } else { status })
}

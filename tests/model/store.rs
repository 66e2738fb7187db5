//! The ledger's and the meter's conditional writes: condition, effect, and the monitors of what was applied.

use tollgate_domain::ledger::{MAX_QUARANTINES, Status, Write, next_status};
use tollgate_domain::plan::BilledAs;

use super::breach::Breach;
use super::mutant::Mutant;
use super::state::{Item, LimitRead, Rejection, State};

/// Refusals after which an event may be given up.
pub(super) const MAX: u8 = MAX_QUARANTINES.to_le_bytes()[0];

/// A conditional write with what it carries.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    /// The new item.
    Claim(Item),
    /// The checkpoint of a consumption; the counter's half is in [`Store::consume`].
    Consume,
    /// As what the checkpoint is billed.
    Stamp(BilledAs),
    /// What justifies the rejection.
    Reject(Rejection),
    /// The count that was seen.
    RecordQuarantine(u8),
    /// Give the row up.
    MarkUninsertable,
    /// Close the event.
    MarkInserted,
    /// Count the other payload.
    RecordConflict,
    /// Re-drive.
    Reopen,
}

impl Change {
    fn write(self) -> Write {
        match self {
            Self::Claim(_) => Write::Claim,
            Self::Consume => Write::Consume,
            Self::Stamp(_) => Write::Stamp,
            Self::Reject(_) => Write::Reject,
            Self::RecordQuarantine(_) => Write::RecordQuarantine,
            Self::MarkUninsertable => Write::MarkUninsertable,
            Self::MarkInserted => Write::MarkInserted,
            Self::RecordConflict => Write::RecordConflict,
            Self::Reopen => Write::Reopen,
        }
    }
}

/// Outcome of a conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The condition held.
    Applied,
    /// It did not; the item that it was held against.
    Refused(Option<Item>),
}

/// Outcome of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consumption {
    /// Both halves moved.
    Consumed,
    /// Neither moved; what came along of those whose condition failed.
    Cancelled {
        /// The ledger's item.
        ledger: Option<Item>,
        /// The counter.
        count: Option<u8>,
    },
}

/// The tables, under the conditions of the protocol or of a mutant.
pub(super) struct Store<'a> {
    /// The durable state.
    pub(super) state: &'a mut State,
    /// What is taken away.
    pub(super) mutant: Option<Mutant>,
}

impl Store<'_> {
    /// Applies the change if its condition holds.
    pub(super) fn write(&mut self, event: u8, change: Change) -> Answer {
        let old = self.state.ledger[usize::from(event)];
        if !self.holds(old.as_ref(), change) {
            return Answer::Refused(old);
        }
        let new = self.changed(old, change);
        self.watch(old.as_ref(), &new, change);
        self.state.ledger[usize::from(event)] = Some(new);
        Answer::Applied
    }

    /// Moves the counter of `month` and stamps the checkpoint, both or neither.
    pub(super) fn consume(&mut self, event: u8, month: u8, read: LimitRead) -> Consumption {
        let old = self.state.ledger[usize::from(event)];
        let count = self.state.meter[usize::from(month)];
        let is_below = count < read.limit || self.lacks(Mutant::ConsumeAnyCount);
        let is_open = self.holds(old.as_ref(), Change::Consume);
        if !(is_below && is_open) {
            return Consumption::Cancelled { ledger: old.filter(|_| !is_open), count: (!is_below).then_some(count) };
        }
        if count >= read.limit {
            self.state.breaches.note(Breach::ConsumedAtLimit);
        }
        self.state.meter[usize::from(month)] += 1;
        self.state.charges[usize::from(event)] += 1;
        self.write(event, Change::Consume);
        Consumption::Consumed
    }

    fn lacks(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// The conditions, one line a clause; a mutant lacks one.
    fn holds(&self, item: Option<&Item>, change: Change) -> bool {
        let Some(item) = item else {
            return matches!(change, Change::Claim(_));
        };
        let (inserting, billed) = (item.status == Status::Inserting, item.checkpoint.is_some());
        match change {
            Change::Claim(_) => self.lacks(Mutant::ClaimOverwrites),
            Change::Consume => {
                (inserting || self.lacks(Mutant::ConsumeAnyStatus)) && (!billed || self.lacks(Mutant::ConsumeTwice))
            }
            Change::Stamp(_) => {
                (inserting || self.lacks(Mutant::StampAnyStatus)) && (!billed || self.lacks(Mutant::StampTwice))
            }
            Change::Reject(_) => {
                (inserting || self.lacks(Mutant::RejectAnyStatus)) && (!billed || self.lacks(Mutant::RejectCharged))
            }
            Change::RecordQuarantine(seen) => {
                (inserting || self.lacks(Mutant::QuarantineAnyStatus))
                    && (billed || self.lacks(Mutant::QuarantineUnbilled))
                    && (item.quarantines == seen || self.lacks(Mutant::QuarantineAnyCount))
                    && (seen == 0 || !item.is_quarantine_recent || self.lacks(Mutant::QuarantineAnyTime))
            }
            Change::MarkUninsertable => {
                (inserting || self.lacks(Mutant::UninsertableAnyStatus))
                    && (billed || self.lacks(Mutant::UninsertableUnbilled))
                    && (item.quarantines >= MAX || self.lacks(Mutant::UninsertableAnyCount))
            }
            Change::MarkInserted => {
                (inserting || self.lacks(Mutant::InsertedAnyStatus)) && (billed || self.lacks(Mutant::InsertedUnbilled))
            }
            Change::RecordConflict => true,
            Change::Reopen => item.status == Status::Uninsertable || self.lacks(Mutant::ReopenAnyStatus),
        }
    }

    fn changed(&self, old: Option<Item>, change: Change) -> Item {
        let item = match (old, change) {
            (_, Change::Claim(new)) => return new,
            (Some(item), _) => item,
            // No condition but the claim's holds without an item.
            (None, _) => Item::claimed(0, 0, 0),
        };
        match change {
            Change::Claim(new) => new,
            Change::Consume => Item { checkpoint: Some(BilledAs::Free), ..item },
            Change::Stamp(billed_as) => Item { checkpoint: Some(billed_as), ..item },
            Change::Reject(rejection) => Item { status: Status::Rejected, rejection: Some(rejection), ..item },
            Change::RecordQuarantine(seen) => Item { quarantines: seen + 1, is_quarantine_recent: true, ..item },
            Change::MarkUninsertable => Item { status: Status::Uninsertable, is_redriving: false, ..item },
            Change::MarkInserted => Item {
                status: Status::Inserted,
                is_redriving: item.is_redriving && self.lacks(Mutant::InsertedKeepsRedriving),
                ..item
            },
            Change::RecordConflict if self.lacks(Mutant::ConflictsAdded) => {
                Item { conflicts: item.conflicts + 1, ..item }
            }
            // A set: one other payload is in it once.
            Change::RecordConflict => Item { conflicts: 1, ..item },
            Change::Reopen => Item {
                status: Status::Inserting,
                checkpoint: item.checkpoint.filter(|_| !self.lacks(Mutant::ReopenDropsCheckpoint)),
                quarantines: 0,
                is_quarantine_recent: false,
                spacings: 0,
                is_redriving: !self.lacks(Mutant::ReopenUnmarked),
                ..item
            },
        }
    }

    /// What an applied write must not have done, whatever its condition was.
    fn watch(&mut self, old: Option<&Item>, new: &Item, change: Change) {
        let write = change.write();
        let mut note = |breach| self.state.breaches.note(breach);
        let checkpoint = old.is_some_and(|item| item.checkpoint.is_some());
        if next_status(old.map(|item| item.status), checkpoint, write) != Ok(new.status) {
            note(Breach::IllegalTransition);
        }
        let Some(old) = old else { return };
        let is_reopened = write == Write::Reopen && old.status == Status::Uninsertable;
        let is_changed = (old.status, old.rejection) != (new.status, new.rejection);
        if old.status.is_terminal() && is_changed && !is_reopened {
            note(Breach::TerminalChanged);
        }
        let is_billing = matches!(write, Write::Consume | Write::Stamp);
        if is_billing && checkpoint {
            note(Breach::CheckpointRewritten);
        }
        if is_billing && old.is_redriving {
            note(Breach::RedriveBilled);
        }
        if write == Write::RecordQuarantine {
            if new.quarantines != old.quarantines + 1 {
                note(Breach::CountNotRaised);
            }
            if self.state.is_breaker_open {
                note(Breach::CountedUnderBreaker);
            }
        }
    }
}

//! The ledger's item of one event, and the writes that may move it.

use std::collections::BTreeSet;
use std::fmt;

use crate::identity::{EventId, Fingerprint};
use crate::period::PeriodMonth;
use crate::plan::{BilledAs, Limit, RejectedReason, stored_as};
use crate::space::SpaceId;
use crate::time::UtcMillis;

/// Quarantines of one event after which it is uninsertable.
pub const MAX_QUARANTINES: u64 = 3;
/// Other fingerprints that one item keeps: enough to see a pattern, bounded so that an item never outgrows its store.
pub const MAX_CONFLICTS_KEPT: usize = 16;

/// (space, event id): what identifies an event everywhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventKey {
    /// Who is billed.
    pub space: SpaceId,
    /// Which event.
    pub id: EventId,
}

impl EventKey {
    /// The ledger's partition key: `{space}#{first two hex digits of the id}`.
    pub fn partition(&self) -> String {
        partition(&self.space, self.id.shard())
    }
}

/// The ledger's partition key of one of a space's 256 shards; `shard` is two lower-case hex digits.
pub fn partition(space: &SpaceId, shard: &str) -> String {
    format!("{space}#{shard}")
}

impl fmt::Display for EventKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.space, self.id)
    }
}

/// Where an event stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Claimed; some step may be missing.
    Inserting,
    /// Charged, archived, stored and closed.
    Inserted,
    /// Refused for ever, with the limit and the count that were seen.
    Rejected,
    /// Charged and archived, but ClickHouse refuses its row; only a re-drive reopens it.
    Uninsertable,
}

stored_as!(Status { Inserting = "INSERTING", Inserted = "INSERTED", Rejected = "REJECTED", Uninsertable = "UNINSERTABLE" });

impl Status {
    /// No worker will change it by itself.
    pub fn is_terminal(self) -> bool {
        self != Self::Inserting
    }
}

/// Why a person or a re-drive is needed; ordered, the highest open reason wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attention {
    /// Another payload came under the same id.
    Conflict,
    /// A re-drive reopened the event and has not finished.
    Redriving,
    /// ClickHouse refuses the row.
    Uninsertable,
}

stored_as!(Attention { Conflict = "CONFLICT", Redriving = "REDRIVING", Uninsertable = "UNINSERTABLE" });

/// The bill's acceptance: the one field that says *never bill this again*.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Checkpoint {
    /// When billing was accepted.
    pub accepted_at: UtcMillis,
    /// As what.
    pub billed_as: BilledAs,
    /// The limit that was applied; a free space's only.
    pub limit: Option<Limit>,
}

/// A rejection, with what justified it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rejection {
    /// Why.
    pub reason: RejectedReason,
    /// The limit seen; only of [`RejectedReason::LimitExhausted`].
    pub limit_seen: Option<Limit>,
    /// The month's count seen, at least the limit; only of [`RejectedReason::LimitExhausted`].
    pub count_seen: Option<u64>,
}

/// How often ClickHouse refused this row, and why last.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Quarantine {
    /// Times, each a spacing apart from the one before.
    pub count: u64,
    /// When last.
    pub last_at: Option<UtcMillis>,
    /// ClickHouse's own words, bounded.
    pub last_error: Option<String>,
}

/// The ledger's item of one event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LedgerItem {
    /// Whose item.
    pub key: EventKey,
    /// Where the event stands.
    pub status: Status,
    /// When it was claimed.
    pub created_at: UtcMillis,
    /// When the item last changed.
    pub updated_at: UtcMillis,
    /// Stamps row and archive for ever: read from the clock once, by the claim.
    pub row_inserted_at: UtcMillis,
    /// The month that pays: from the time of acceptance, computed once, by the claim.
    pub period_month: PeriodMonth,
    /// The facts that were claimed.
    pub fingerprint: Fingerprint,
    /// The submission that won the claim.
    pub submission_id: String,
    /// Present once the bill was accepted.
    pub checkpoint: Option<Checkpoint>,
    /// Present once rejected.
    pub rejection: Option<Rejection>,
    /// How often its row was refused.
    pub quarantine: Quarantine,
    /// Other fingerprints seen under the same id.
    pub conflicts: BTreeSet<Fingerprint>,
    /// Why somebody is needed, if anybody is.
    pub attention: Option<Attention>,
}

/// What a claim writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewClaim {
    /// Whose item.
    pub key: EventKey,
    /// The facts that are claimed.
    pub fingerprint: Fingerprint,
    /// The submission that carries them.
    pub submission_id: String,
    /// The month that pays.
    pub period_month: PeriodMonth,
    /// Now: the item's creation, and the stamp of row and archive.
    pub now: UtcMillis,
}

impl NewClaim {
    /// The item as it stands right after the claim.
    pub fn into_item(self) -> LedgerItem {
        LedgerItem {
            key: self.key,
            status: Status::Inserting,
            created_at: self.now,
            updated_at: self.now,
            row_inserted_at: self.now,
            period_month: self.period_month,
            fingerprint: self.fingerprint,
            submission_id: self.submission_id,
            checkpoint: None,
            rejection: None,
            quarantine: Quarantine::default(),
            conflicts: BTreeSet::new(),
            attention: None,
        }
    }
}

/// The writes that the protocol knows; each is conditional.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Write {
    /// First writer wins, for all time.
    Claim,
    /// Move the month's counter and stamp the checkpoint, in one transaction.
    Consume,
    /// Stamp the checkpoint alone: internal and active Plus spaces.
    Stamp,
    /// Refuse for ever.
    Reject,
    /// Count one refusal of the row.
    RecordQuarantine,
    /// Give the row up.
    MarkUninsertable,
    /// Close a stored event.
    MarkInserted,
    /// Keep another fingerprint.
    RecordConflict,
    /// Re-drive.
    Reopen,
}

impl Write {
    /// Every write.
    pub const ALL: [Self; 9] = [
        Self::Claim,
        Self::Consume,
        Self::Stamp,
        Self::Reject,
        Self::RecordQuarantine,
        Self::MarkUninsertable,
        Self::MarkInserted,
        Self::RecordConflict,
        Self::Reopen,
    ];
}

/// The write's condition does not hold for an item in this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{write:?} is not allowed when the status is {status:?} and the checkpoint is {}", if *checkpoint { "present" } else { "absent" })]
pub struct IllegalTransition {
    /// The status before; `None` when there is no item.
    pub status: Option<Status>,
    /// Whether the checkpoint stands.
    pub checkpoint: bool,
    /// What was tried.
    pub write: Write,
}

/// The status after `write`, or that it is not allowed.
///
/// Total: every combination has an answer. Conditions on other attributes (the counter's limit, the quarantine count
/// and its spacing) come on top of this one and are the stores' to check.
#[expect(clippy::match_same_arms, reason = "one line a write, as in the protocol")]
pub fn next_status(status: Option<Status>, checkpoint: bool, write: Write) -> Result<Status, IllegalTransition> {
    use Status::{Inserted, Inserting, Rejected, Uninsertable};
    match (write, status, checkpoint) {
        (Write::Claim, None, _) => Ok(Inserting),
        (Write::Consume | Write::Stamp, Some(Inserting), false) => Ok(Inserting),
        (Write::Reject, Some(Inserting), false) => Ok(Rejected),
        (Write::RecordQuarantine, Some(Inserting), true) => Ok(Inserting),
        (Write::MarkUninsertable, Some(Inserting), true) => Ok(Uninsertable),
        (Write::MarkInserted, Some(Inserting), true) => Ok(Inserted),
        (Write::RecordConflict, Some(unchanged), _) => Ok(unchanged),
        (Write::Reopen, Some(Uninsertable), _) => Ok(Inserting),
        _ => Err(IllegalTransition { status, checkpoint, write }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The protocol's lines, as text: status, checkpoint, the writes that are allowed and where they lead.
    const ALLOWED: &str = "
        absent        no   Claim>INSERTING
        INSERTING     no   Consume>INSERTING Stamp>INSERTING Reject>REJECTED RecordConflict>INSERTING
        INSERTING     yes  RecordQuarantine>INSERTING MarkUninsertable>UNINSERTABLE MarkInserted>INSERTED RecordConflict>INSERTING
        INSERTED      yes  RecordConflict>INSERTED
        INSERTED      no   RecordConflict>INSERTED
        REJECTED      no   RecordConflict>REJECTED
        REJECTED      yes  RecordConflict>REJECTED
        UNINSERTABLE  yes  RecordConflict>UNINSERTABLE Reopen>INSERTING
        UNINSERTABLE  no   RecordConflict>UNINSERTABLE Reopen>INSERTING
    ";

    #[test]
    fn every_status_answers_every_write_as_the_protocol_says() {
        let mut lines = 0;
        for line in ALLOWED.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (status, checkpoint) = (Status::from_stored(words[0]), words[1] == "yes");
            for write in Write::ALL {
                let expected = words[2..]
                    .iter()
                    .filter_map(|word| word.split_once('>'))
                    .find(|(name, _)| *name == format!("{write:?}"));
                let reached = next_status(status, checkpoint, write).ok().map(Status::as_str);
                assert_eq!(reached, expected.map(|(_, status)| status), "{line}: {write:?}");
                lines += 1;
            }
        }
        assert_eq!(lines, 9 * Write::ALL.len());
    }

    #[test]
    fn only_an_inserting_event_still_has_a_worker_s_step_before_it() {
        let open: Vec<_> = Status::ALL.iter().filter(|status| !status.is_terminal()).collect();
        assert_eq!(open, [&Status::Inserting]);
    }

    #[test]
    fn a_space_is_256_partitions() {
        let id = EventId::parse(&format!("uev_{}", "0f".repeat(32))).unwrap();
        let key = EventKey { space: SpaceId::parse("acme").unwrap(), id };
        assert_eq!(key.partition(), "acme#0f");
        assert_eq!(key.to_string(), format!("acme/{}", key.id));
    }
}

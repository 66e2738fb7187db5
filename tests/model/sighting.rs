//! What a run must have seen at least once: a search that never meets a race proves nothing about it.
//!
//! They are noted by the steps themselves and kept beside the search, not in the state: remembering the past in the
//! state would multiply the states without adding one that behaves differently.

use std::sync::atomic::{AtomicU64, Ordering};

use super::named::named;

named! {
    /// Something that some explored step did.
    pub enum Sighting {
        Scenario1 = "scenario 1: first delivery",
        Scenario2 = "scenario 2: already inserted",
        Scenario3 = "scenario 3: already rejected",
        Scenario4 = "scenario 4: already uninsertable",
        Scenario5 = "scenario 5: stored but not marked",
        Scenario6 = "scenario 6: claimed but not billed",
        Scenario7 = "scenario 7: billed but not stored",
        Scenario8 = "scenario 8: anything else",
        VerdictInserted = "verdict: inserted",
        VerdictLimitExhausted = "verdict: rejected, limit exhausted",
        VerdictPlusInactive = "verdict: rejected, plan inactive",
        VerdictUninsertable = "verdict: uninsertable",
        VerdictConflict = "verdict: conflict",
        VerdictAlreadyInserted = "verdict: already inserted",
        VerdictAlreadyRejected = "verdict: already rejected",
        VerdictAlreadyUninsertable = "verdict: already uninsertable",
        VerdictQuarantined = "verdict: handed back, quarantined",
        VerdictBreaker = "verdict: handed back, the breaker is open",
        VerdictHalted = "verdict: halted",
        ClaimLost = "race: a first delivery lost the claim",
        ConsumeAtLimit = "race: a consumption met the cap",
        ConsumePaid = "race: a consumption met a checkpoint",
        ConsumeRejected = "race: a consumption met a rejection",
        ConsumeContended = "race: a consumption was cancelled by contention and the month had room",
        StampPaid = "race: a stamp met a checkpoint",
        StampRejected = "race: a stamp met a rejection",
        RejectPaid = "race: a rejection met a checkpoint",
        RejectRejected = "race: a rejection met another",
        QuarantineCounted = "race: a refusal met a count that had moved",
        QuarantineTooSoon = "race: a refusal came within the spacing",
        QuarantineClosed = "race: a refusal met a closed event",
        UninsertableTooEarly = "race: giving up met a count that a re-drive had removed",
        UninsertableClosed = "race: giving up met a closed event",
        InsertedAlready = "race: a mark met somebody faster",
        InsertedUninsertable = "race: a mark met an event given up",
        InsertedUnbilled = "race: a mark met an event that nobody billed",
        ConflictAgain = "race: a conflict was counted before",
        ReopenOpen = "race: a re-drive met a reopened event and resumed",
        ReopenClosed = "race: a re-drive met a finished event",
        RowBeforeCheckpoint = "race: the probe saw a row whose checkpoint the image had not",
        CacheForgiven = "race: a cached plan would have rejected and the strong read accepted",
        LimitRaised = "race: the limit was raised before a rejection",
        PlanChanged = "race: the plan changed between the cancellation and the strong read",
        HalfInsert = "race: the base row was stored without its twin",
        InsertAgain = "race: a row was inserted again",
        ArchivedAlready = "race: the same object was archived before",
        RetryPaidOldMonth = "race: a retry of the next month consumed the old one",
        LateInsert = "race: a row was stored of an event given up",
    }
}

/// The sightings of one step, or of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sightings(u64);

impl Sightings {
    /// Notes one.
    pub(super) fn note(&mut self, sighting: Sighting) {
        self.0 |= 1 << sighting as u64;
    }

    /// Adds those of another.
    pub(super) fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether it was noted.
    pub(super) fn has(self, sighting: Sighting) -> bool {
        self.0 & (1 << sighting as u64) != 0
    }
}

/// The sightings of a search, from all of its threads.
#[derive(Debug, Default)]
pub(super) struct Seen(AtomicU64);

impl Seen {
    /// Adds a step's.
    pub(super) fn add(&self, step: Sightings) {
        // Most steps show nothing new: reading first keeps the threads from fighting over the line.
        if step.0 & !self.0.load(Ordering::Relaxed) != 0 {
            self.0.fetch_or(step.0, Ordering::Relaxed);
        }
    }

    /// All so far.
    pub(super) fn all(&self) -> Sightings {
        Sightings(self.0.load(Ordering::Relaxed))
    }
}

//! The protocol with one thing taken away: each must break a promise, or the thing was not needed.

use super::named::named;

named! {
    /// One change that makes the protocol wrong.
    pub enum Mutant {
        ClaimOverwrites = "claim: without attribute_not_exists(pk)",
        ConsumeAnyCount = "consume: the counter without eventCount < :limit",
        ConsumeAnyStatus = "consume: the ledger without status = INSERTING",
        ConsumeTwice = "consume: the ledger without attribute_not_exists(billingAcceptedAtMs)",
        StampAnyStatus = "stamp: without status = INSERTING",
        StampTwice = "stamp: without attribute_not_exists(billingAcceptedAtMs)",
        RejectAnyStatus = "reject: without status = INSERTING",
        RejectCharged = "reject: without attribute_not_exists(billingAcceptedAtMs)",
        QuarantineAnyStatus = "record quarantine: without status = INSERTING",
        QuarantineAnyCount = "record quarantine: without the count that was seen",
        QuarantineAnyTime = "record quarantine: without the spacing",
        QuarantineUnderBreaker = "record quarantine: also while the breaker is open",
        UninsertableAnyStatus = "mark uninsertable: without status = INSERTING",
        UninsertableAnyCount = "mark uninsertable: without quarantineCount >= :max",
        InsertedAnyStatus = "mark inserted: without status = INSERTING",
        InsertedUnbilled = "mark inserted: without attribute_exists(billingAcceptedAtMs)",
        InsertedKeepsRedriving = "mark inserted: leaves attention = REDRIVING behind",
        ConflictsAdded = "record conflict: a number instead of a set",
        ReopenAnyStatus = "reopen: without status = UNINSERTABLE",
        ReopenDropsCheckpoint = "reopen: drops the checkpoint",
        ReopenUnmarked = "reopen: without attention = REDRIVING",
        InsertBeforeArchive = "the row is inserted before the payload is archived",
        CheckpointIgnored = "a redelivery ignores the checkpoint",
        FingerprintIgnored = "a delivery's fingerprint is not compared",
        CancelledMeansExhausted = "the seed's rule: cancelled and no checkpoint means rejected",
        CachedPlanRejects = "an inactive plan from the cache rejects",
        CachedLimitRejects = "the limit that was sent rejects, without a strong read",
        MonthOfNow = "periodMonth is computed again from now()",
        StampOfNow = "rowInsertedAtMs is read from the clock again by a redelivery",
        ProbeOfOneTable = "the probe asks events and not events_billing",

        QuarantineUnbilled = "record quarantine: without attribute_exists(billingAcceptedAtMs)",
        UninsertableUnbilled = "mark uninsertable: without attribute_exists(billingAcceptedAtMs)",
    }
}

impl Mutant {
    /// Clauses that other clauses imply while nobody tampers with the tables: a count stands only on an item that has a
    /// checkpoint, and storing is entered only with one. They are kept as a second line, and nothing fails without them.
    pub const IMPLIED: [Self; 2] = [Self::QuarantineUnbilled, Self::UninsertableUnbilled];

    /// Those that some property must catch.
    pub fn load_bearing() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|mutant| !Self::IMPLIED.contains(mutant))
    }
}

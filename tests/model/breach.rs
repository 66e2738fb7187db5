//! What a single step can break: seen when it happens, since the states before and after do not tell.

/// A promise about a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Breach {
    /// A consumption was applied with a count that was not below its limit.
    ConsumedAtLimit,
    /// A terminal item changed its status or its facts without a re-drive.
    TerminalChanged,
    /// A checkpoint was written over another.
    CheckpointRewritten,
    /// A rejection was applied on a plan or limit that was behind, or while the month had room.
    RejectedOnOldFacts,
    /// A conflict was acknowledged before it was kept and counted.
    ConflictForgotten,
    /// A re-driven event was billed.
    RedriveBilled,
    /// A counted refusal did not raise the count by one.
    CountNotRaised,
    /// A refusal was counted while the breaker was open.
    CountedUnderBreaker,
    /// A delivery that saw the checkpoint went to billing all the same.
    BilledAgain,
    /// A worker halted although nobody had tampered with the stores.
    Halted,
    /// A write was applied that the ledger's transitions do not allow.
    IllegalTransition,
}

/// The breaches so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Breaches(u16);

impl Breaches {
    /// Remembers a breach.
    pub(super) fn note(&mut self, breach: Breach) {
        self.0 |= 1 << breach as u16;
    }

    /// Whether it was ever noted.
    pub(super) fn has(self, breach: Breach) -> bool {
        self.0 & (1 << breach as u16) != 0
    }
}

//! What must hold, whatever was killed, repeated or reordered: one id each, used wherever a breach can be seen.

/// An invariant of the pipeline. A breach stops the delivery, raises an alarm and is never repaired by a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// Each consumption saw a count below the limit as of its attempt.
    ConsumedBelowLimit,
    /// Each rejection records a count seen that is at least the limit seen.
    RejectedAtLimit,
    /// The meter of (space, month) equals the number of its checkpoints billed as FREE.
    MeterEqualsCheckpoints,
    /// Nothing is both charged and rejected.
    NeverChargedAndRejected,
    /// Inserted implies checkpoint, archive object, row and twin.
    InsertedIsComplete,
    /// A row implies an archive object, with the same bytes for every delivery.
    RowImpliesArchive,
    /// At most one distinct row an event.
    OneRowAnEvent,
    /// Terminal statuses change by re-drive only.
    TerminalIsFinal,
}

impl Invariant {
    /// Every invariant.
    pub const ALL: [Self; 8] = [
        Self::ConsumedBelowLimit,
        Self::RejectedAtLimit,
        Self::MeterEqualsCheckpoints,
        Self::NeverChargedAndRejected,
        Self::InsertedIsComplete,
        Self::RowImpliesArchive,
        Self::OneRowAnEvent,
        Self::TerminalIsFinal,
    ];

    /// Its stable id, for logs, metrics and reports.
    pub fn id(self) -> &'static str {
        match self {
            Self::ConsumedBelowLimit => "consumed-below-limit",
            Self::RejectedAtLimit => "rejected-at-limit",
            Self::MeterEqualsCheckpoints => "meter-equals-checkpoints",
            Self::NeverChargedAndRejected => "never-charged-and-rejected",
            Self::InsertedIsComplete => "inserted-is-complete",
            Self::RowImpliesArchive => "row-implies-archive",
            Self::OneRowAnEvent => "one-row-an-event",
            Self::TerminalIsFinal => "terminal-is-final",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique_and_name_metrics() {
        let ids: BTreeSet<_> = Invariant::ALL.iter().map(|invariant| invariant.id()).collect();
        assert_eq!(ids.len(), Invariant::ALL.len());
        assert!(ids.iter().all(|id| id.len() > 3 && id.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')));
    }
}

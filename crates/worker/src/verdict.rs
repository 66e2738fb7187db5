//! What becomes of a delivery.

use std::ops::ControlFlow;

use tollgate_domain::invariant::Invariant;
use tollgate_domain::ledger::Status;
use tollgate_domain::plan::RejectedReason;
use tollgate_domain::ports::PortError;

/// A step's result, or the verdict that ends the delivery here.
pub type Flow<T> = ControlFlow<Verdict, T>;

/// What becomes of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Proven done: delete the message.
    Acknowledge(Outcome),
    /// Not decided: let the queue deliver it again.
    HandBack(HandBack),
    /// No worker can finish it: to the dead-letter queue with the reason, then delete; raise an alarm.
    DeadLetter(DeadLetter),
}

/// What was proven of an acknowledged delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// This delivery closed the event.
    Inserted,
    /// This delivery rejected the event.
    Rejected(RejectedReason),
    /// This delivery gave the row up, after the last quarantine.
    Uninsertable,
    /// Another payload under a known id: kept for a person, and nothing else was touched.
    Conflict,
    /// The event had reached this status before.
    Already(Status),
}

impl Outcome {
    /// A stable word for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inserted => "inserted",
            Self::Rejected(RejectedReason::LimitExhausted) => "rejected_limit_exhausted",
            Self::Rejected(RejectedReason::PlusInactive) => "rejected_plus_inactive",
            Self::Uninsertable => "uninsertable",
            Self::Conflict => "conflict",
            Self::Already(Status::Inserted) => "already_inserted",
            Self::Already(Status::Rejected) => "already_rejected",
            Self::Already(Status::Uninsertable) => "already_uninsertable",
            Self::Already(Status::Inserting) => "still_inserting",
        }
    }
}

/// Why a delivery is given back, and for how long it should rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandBack {
    /// A store gave no answer, or was contended, for as long as we had patience.
    Trouble(PortError),
    /// Every call would fail alike: a person is needed, and no event is to blame.
    Broken(String),
    /// The row was quarantined; the next try must be a spacing away.
    Quarantined {
        /// Milliseconds until the next try counts.
        after_ms: u64,
    },
    /// The facts moved under every dispatch.
    Unsettled,
    /// The worker is stopping.
    Stopping,
    /// Processing panicked: a defect of ours, told in the log.
    Panicked,
}

impl HandBack {
    /// Milliseconds until the queue should deliver again, at least.
    pub fn rest_ms(&self) -> u64 {
        match self {
            Self::Stopping => 0,
            Self::Trouble(PortError::Contended(_)) | Self::Unsettled => 1_000,
            Self::Trouble(_) => 5_000,
            Self::Broken(_) | Self::Panicked => 30_000,
            Self::Quarantined { after_ms } => *after_ms,
        }
    }

    /// Whether an engine is unwell: then every other delivery would fare alike.
    pub fn is_an_engine_s(&self) -> bool {
        match self {
            Self::Trouble(error) => !matches!(error, PortError::Contended(_)),
            Self::Broken(_) => true,
            Self::Quarantined { .. } | Self::Unsettled | Self::Stopping | Self::Panicked => false,
        }
    }

    /// A stable word for logs and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Trouble(PortError::Unknown(_)) => "no_answer",
            Self::Trouble(PortError::NotNow(_)) => "not_now",
            Self::Trouble(PortError::Contended(_)) => "contended",
            Self::Trouble(PortError::Broken(_)) | Self::Broken(_) => "broken",
            Self::Quarantined { .. } => "quarantined",
            Self::Unsettled => "unsettled",
            Self::Stopping => "stopping",
            Self::Panicked => "panicked",
        }
    }
}

/// Why no worker can finish a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The reason, without payload.
    pub reason: String,
    /// The invariant that was found broken, if one was.
    pub broken: Option<Invariant>,
}

/// Ends the delivery: acknowledged.
pub(crate) fn acknowledge<T>(outcome: Outcome) -> Flow<T> {
    ControlFlow::Break(Verdict::Acknowledge(outcome))
}

/// Ends the delivery: given back.
pub(crate) fn hand_back<T>(why: HandBack) -> Flow<T> {
    ControlFlow::Break(Verdict::HandBack(why))
}

/// Ends the delivery: no worker can finish it.
pub(crate) fn halt<T>(reason: impl Into<String>, broken: Option<Invariant>) -> Flow<T> {
    ControlFlow::Break(Verdict::DeadLetter(DeadLetter { reason: reason.into(), broken }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every reason: its word, its rest in milliseconds, whether an engine is unwell.
    fn table() -> [(HandBack, &'static str, u64, bool); 8] {
        let text = String::new;
        [
            (HandBack::Trouble(PortError::Unknown(text())), "no_answer", 5_000, true),
            (HandBack::Trouble(PortError::NotNow(text())), "not_now", 5_000, true),
            (HandBack::Trouble(PortError::Contended(text())), "contended", 1_000, false),
            (HandBack::Broken(text()), "broken", 30_000, true),
            (HandBack::Quarantined { after_ms: 77 }, "quarantined", 77, false),
            (HandBack::Unsettled, "unsettled", 1_000, false),
            (HandBack::Stopping, "stopping", 0, false),
            (HandBack::Panicked, "panicked", 30_000, false),
        ]
    }

    #[test]
    fn each_reason_has_its_word_its_rest_and_says_whether_an_engine_is_unwell() {
        for (why, word, rest_ms, is_an_engine_s) in table() {
            assert_eq!((why.as_str(), why.rest_ms(), why.is_an_engine_s()), (word, rest_ms, is_an_engine_s), "{why:?}");
        }
    }

    #[test]
    fn each_outcome_has_a_word_of_its_own() {
        let ended = Status::ALL.iter().map(|status| Outcome::Already(*status));
        let rejected = RejectedReason::ALL.iter().map(|reason| Outcome::Rejected(*reason));
        let others = [Outcome::Inserted, Outcome::Uninsertable, Outcome::Conflict];
        let words: Vec<_> = ended.chain(rejected).chain(others).map(Outcome::as_str).collect();
        let distinct: std::collections::BTreeSet<_> = words.iter().collect();
        assert_eq!((words.len(), distinct.len()), (9, 9), "{words:?}");
        assert!(words.iter().all(|word| word.len() > 3 && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
    }
}

//! The result as one line of JSON. What was not run is not in it.

use serde::Serialize;
use tollgate_tests::auditor::Kind;

/// What the parts came to.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Summary {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) schedules: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model_states: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mutants: Option<Mutants>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) contract_operations: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) matrix_cases: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) chaos: Option<Chaos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) clients: Option<Clients>,
    #[serde(flatten)]
    audited: Option<Audited>,
    /// Parts in which anything was wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) failed: Vec<&'static str>,
}

/// Mutants of simulation and model together.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Mutants {
    pub(crate) caught: usize,
    pub(crate) of: usize,
}

/// The chaos.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Chaos {
    pub(crate) events: usize,
    pub(crate) kills: u64,
    pub(crate) faults: u64,
}

/// Clients that lose answers.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Clients {
    pub(crate) events: usize,
    pub(crate) recorded: usize,
    pub(crate) lost_answers: u64,
    pub(crate) disagreements: usize,
}

/// What the auditor found, over all parts that end in it.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Audited {
    double_charged: usize,
    lost: usize,
    wrongly_rejected: usize,
}

impl Summary {
    /// After a part that failed: what it did not come to count is not known to be zero, so no zero is told.
    pub(crate) fn tell_no_zero(&mut self) {
        let Audited { double_charged, lost, wrongly_rejected } = self.audited.unwrap_or_default();
        if double_charged + lost + wrongly_rejected == 0 {
            self.audited = None;
        }
    }

    /// Adds what the auditor found in one part; `count` counts the findings of a kind.
    pub(crate) fn audited(&mut self, count: impl Fn(Kind) -> usize) {
        let audited = self.audited.get_or_insert_default();
        audited.double_charged += count(Kind::DoubleCharged);
        audited.lost += count(Kind::Lost);
        audited.wrongly_rejected += count(Kind::WronglyRejected);
    }
}

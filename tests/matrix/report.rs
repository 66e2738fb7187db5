//! What a run of the matrix came to.

use std::time::Duration;

use crate::auditor::{Finding, Kind};

/// How one case went.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// What is wrong; empty when nothing is.
    pub wrong: Vec<String>,
    /// What the auditor found.
    pub findings: Vec<Finding>,
    /// How long it took.
    pub took: Duration,
}

/// What a run of the matrix came to.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Every case, in its order.
    pub outcomes: Vec<Outcome>,
}

impl Outcome {
    /// Whether nothing is wrong.
    pub fn is_well(&self) -> bool {
        self.wrong.is_empty() && self.findings.is_empty()
    }

    /// One line: the case and its verdict.
    pub fn line(&self) -> String {
        let Self { name, wrong, findings, took } = self;
        if self.is_well() {
            return format!("{name}: ok ({:.1} s)", took.as_secs_f64());
        }
        let told: Vec<String> = wrong.iter().cloned().chain(findings.iter().map(ToString::to_string)).collect();
        format!("{name}: FAILED: {}", told.join("; "))
    }
}

impl Report {
    /// Cases with anything wrong.
    pub fn failed(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|outcome| !outcome.is_well())
    }

    /// Findings of one kind.
    pub fn count(&self, kind: Kind) -> usize {
        self.outcomes.iter().flat_map(|outcome| &outcome.findings).filter(|finding| finding.kind == kind).count()
    }
}

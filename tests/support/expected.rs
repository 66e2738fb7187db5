//! Expected files, as the demo reads them, and the plans that the auditor makes of one.

use std::collections::BTreeSet;

use tollgate_domain::plan::{Limit, PlanPolicy};

pub use tollgate_cli::expected::{ConflictingIds, Expected, ExpectedPlan, ExpectedSpace, SpaceCounts};

use crate::auditor::Plans;

/// The plans that an expected file speaks of.
pub fn plans(expected: &Expected, default_free_limit: Limit) -> Plans {
    Plans {
        policy: PlanPolicy { internal_spaces: expected.internal_spaces(), default_free_limit },
        records: expected.records(),
        changed: BTreeSet::new(),
    }
}

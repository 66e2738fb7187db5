//! What is wrong with an input, told so that its sender can mend it.

use std::fmt;

use serde::Serialize;

/// One problem of one field: which field, what is wrong with its value, and what would be right.
///
/// The offending value itself is never quoted beyond its kind: payloads do not belong in logs or in answers that
/// other systems store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Stable, machine-readable kind of problem, in `snake_case`.
    pub code: &'static str,
    /// Position of the event in the call, from 0; absent when the problem is the call's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// Path of the field, such as `properties.items[2]`; empty for the whole body.
    pub field: String,
    /// What is wrong.
    pub problem: String,
    /// What to send instead.
    pub mend: String,
}

impl Problem {
    /// A problem of the field at `field`.
    pub fn new(
        code: &'static str,
        field: impl Into<String>,
        problem: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self { code, index: None, field: field.into(), problem: problem.into(), mend: mend.into() }
    }

    /// The same problem, of the event at position `index` of the call.
    #[must_use]
    pub fn at(mut self, index: usize) -> Self {
        self.index = Some(index);
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(index) = self.index {
            write!(f, "event {index}: ")?;
        }
        let field = if self.field.is_empty() { "body" } else { &self.field };
        write!(f, "{field}: {}; {}", self.problem, self.mend)
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_alone() {
        let problem = Problem::new("missing_field", "meter", "is missing", "send it");
        assert_eq!(problem.to_string(), "meter: is missing; send it");
        assert_eq!(problem.at(3).to_string(), "event 3: meter: is missing; send it");
        assert_eq!(
            Problem::new("empty_call", "", "is empty", "send events").to_string(),
            "body: is empty; send events"
        );
    }
}

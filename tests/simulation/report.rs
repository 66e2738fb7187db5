//! What a simulation came to.

use std::fmt;
use std::time::Duration;

use super::reached::Reached;

/// A family of cases that was explored within the same bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explored {
    /// What its schedules may hold.
    pub bounds: &'static str,
    /// How many cases it has.
    pub cases: usize,
    /// How many complete schedules there were.
    pub schedules: u64,
}

/// What a simulation came to, when nothing was wrong.
#[derive(Debug, Clone)]
pub struct Report {
    /// What was explored within which bounds.
    pub families: Vec<Explored>,
    /// Schedules that were run to their end, redelivered and audited.
    pub schedules: u64,
    /// Branches that were left out, since they only reorder steps that touch nothing in common.
    pub pruned: u64,
    /// Runs that were begun before that showed.
    pub repeated: u64,
    /// Random walks beyond the bounds.
    pub walks: u64,
    /// The seed that they began with.
    pub seed: u64,
    /// Choices of the longest schedule.
    pub deepest: usize,
    /// Different ends that were redelivered and audited.
    pub ends: u64,
    /// Scenario rows and verdicts that some schedule came to.
    pub reached: Reached,
    /// How long it took.
    pub elapsed: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Explored { bounds, cases, schedules } in &self.families {
            writeln!(f, "{schedules:>9} complete schedules of {cases:>2} cases: {bounds}")?;
        }
        let seconds = self.elapsed.as_secs_f64();
        writeln!(
            f,
            "{:>9} in all, and {} walks from seed {}, in {seconds:.1} s",
            self.schedules, self.walks, self.seed
        )?;
        writeln!(f, "{} branches pruned, {} runs repeated; deepest {}", self.pruned, self.repeated, self.deepest)?;
        write!(f, "{} different ends audited; scenario rows reached: {:?}", self.ends, self.reached.rows())
    }
}

//! What a run found.

use std::fmt;

/// What a complete exploration found to hold.
#[derive(Debug, Clone)]
pub struct Report {
    /// Distinct states, over all worlds.
    pub states: usize,
    /// Steps to the farthest state.
    pub depth: usize,
    /// Wall-clock time.
    pub seconds: f64,
    /// The properties that hold in every state.
    pub properties: Vec<&'static str>,
    /// What was met on the way; a run that misses any fails.
    pub sightings: Vec<&'static str>,
}

/// A property that does not hold, and the way there.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The property; for something that was never met, what that is.
    pub property: String,
    /// The world in which it fails.
    pub world: &'static str,
    /// The actions in words, then the state that fails.
    pub path: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} fails in {}", self.property, self.world)?;
        self.path.iter().zip(1..).try_for_each(|(line, place)| write!(f, "\n  {place:>3}. {line}"))
    }
}

impl std::error::Error for Failure {}

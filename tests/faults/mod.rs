//! Faults on the wire: a proxy between a real worker and its engines that knows each effect by name.
//!
//! Written here rather than taken: the kept tools know AWS's calls and not ClickHouse's, and none can kill a process
//! between an effect's application and its answer.

mod answer;
mod chance;
mod edge;
mod forward;
mod proxy;
mod relay;
mod script;
#[cfg(test)]
mod tests;
mod victim;
mod wire_effect;

use std::sync::Arc;

pub use chance::Chance;
pub use edge::Edge;
pub use proxy::{Endpoints, Proxy, Upstreams};
pub use relay::{Fate, Relay};
pub use script::{Rule, Script};
pub use victim::Victim;
pub use wire_effect::{Engine, WireEffect};

/// Who decides what happens to a call.
#[derive(Clone)]
pub enum Faults {
    /// Rules, for a case that tries one thing.
    Script(Arc<Script>),
    /// Dice, for a run that tries everything.
    Chance(Arc<Chance>),
}

/// A fault that strikes one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Strike {
    pub(crate) edge: Edge,
    /// Whether it waits for whoever wrote the script, between what it does to the call and what it answers.
    pub(crate) pauses: bool,
}

impl Faults {
    /// What happens to this call of `effect`; counts it.
    pub(crate) fn next(&self, effect: WireEffect) -> Option<Strike> {
        match self {
            Self::Script(script) => script.next(effect),
            Self::Chance(chance) => chance.next(effect).map(|edge| Strike { edge, pauses: false }),
        }
    }

    /// Waits between effect and answer, where the script says so.
    pub(crate) async fn pause(&self, strike: Strike) {
        if let (Self::Script(script), true) = (self, strike.pauses) {
            script.pause().await;
        }
    }
}

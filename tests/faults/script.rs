//! A script: which calls of one worker are struck, and how.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use crate::faults::{Edge, Strike, WireEffect};

/// One fault: the next `times` calls of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Of which effect.
    pub effect: WireEffect,
    /// What happens to it.
    pub edge: Edge,
    /// How many calls in a row, from the first on: more than the client retries by itself, where the worker's own
    /// patience is to be tried.
    pub times: u32,
}

/// The rules of one proxy, and how often each struck.
///
/// The first rule is the one that the script is about: when it strikes for the first time, the call waits between
/// effect and answer until [`Script::resume`], so that whatever is to happen meanwhile happens exactly then.
#[derive(Debug)]
pub struct Script {
    rules: Mutex<Vec<(Rule, u32)>>,
    struck: watch::Sender<bool>,
    resumed: watch::Sender<bool>,
}

impl Script {
    /// Rules that have not struck yet.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self {
            rules: Mutex::new(rules.into_iter().map(|rule| (rule, 0)).collect()),
            struck: watch::Sender::new(false),
            resumed: watch::Sender::new(false),
        }
    }

    /// What happens to this call of `effect`; counts it.
    pub(crate) fn next(&self, effect: WireEffect) -> Option<Strike> {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let due = rules.iter().position(|(rule, struck)| rule.effect == effect && *struck < rule.times)?;
        let (rule, struck) = rules.get_mut(due)?;
        *struck += 1;
        Some(Strike { edge: rule.edge, pauses: due == 0 })
    }

    /// Tells that the first rule has struck, and waits for [`Script::resume`].
    pub(crate) async fn pause(&self) {
        self.struck.send_replace(true);
        // The sender lives as long as `self`: there is always an answer.
        let _ = self.resumed.subscribe().wait_for(|resumed| *resumed).await;
    }

    /// Waits until the first rule has struck; what it struck waits for [`Script::resume`].
    pub async fn until_struck(&self) {
        let _ = self.struck.subscribe().wait_for(|struck| *struck).await;
    }

    /// Whether the first rule has struck.
    pub fn has_struck(&self) -> bool {
        *self.struck.borrow()
    }

    /// Lets go on what the first rule struck, and whatever it strikes from now on.
    pub fn resume(&self) {
        self.resumed.send_replace(true);
    }

    /// Rules that never struck: a case whose fault never happened proves nothing.
    pub fn missed(&self) -> Vec<Rule> {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.iter().filter(|(_, struck)| *struck == 0).map(|(rule, _)| *rule).collect()
    }
}

//! Faults by dice: the same seed throws the same sequence.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::faults::{Edge, Engine, WireEffect};
use crate::traffic::Random;

/// Longer than the SDK waits for one attempt.
const TIME_OUT: Duration = Duration::from_millis(2_300);
/// Where the client would wait for many seconds (long polls, ClickHouse), the connection breaks after this instead:
/// to the worker it is the same *no answer*.
const BREAK: Duration = Duration::from_millis(500);

/// Random faults on every effect alike.
#[derive(Debug)]
pub struct Chance {
    random: Mutex<Random>,
    /// Of 100 calls, how many each kind of fault strikes.
    percent: usize,
    is_on: AtomicBool,
    struck: AtomicU64,
}

impl Chance {
    /// Each of throttling, failing, time-out before, time-out after, and conflict strikes `percent` of 100 calls.
    pub fn new(seed: u64, percent: usize) -> Self {
        Self { random: Mutex::new(Random::new(seed)), percent, is_on: AtomicBool::new(true), struck: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self, effect: WireEffect) -> Option<Edge> {
        if !self.is_on.load(Ordering::Relaxed) {
            return None;
        }
        let patience = match (effect, effect.engine()) {
            (WireEffect::Receive, _) | (_, Engine::ClickHouse) => BREAK,
            _ => TIME_OUT,
        };
        let kinds =
            [Edge::Throttled, Edge::Refused, Edge::Stalled(patience), Edge::StalledAfter(patience), Edge::Conflicted];
        let roll = self.random.lock().unwrap_or_else(PoisonError::into_inner).below(100);
        let edge = kinds.get(roll.checked_div(self.percent)?).copied()?;
        let applies = edge.inapplicable(effect).is_none();
        applies.then(|| {
            self.struck.fetch_add(1, Ordering::Relaxed);
            edge
        })
    }

    /// No more faults from now on.
    pub fn stop(&self) {
        self.is_on.store(false, Ordering::Relaxed);
    }

    /// Faults so far.
    pub fn struck(&self) -> u64 {
        self.struck.load(Ordering::Relaxed)
    }
}

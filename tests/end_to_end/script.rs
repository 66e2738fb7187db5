//! What goes wrong, and where: every method of every port is a point at which a test may stop, fail or watch.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;
use tollgate_domain::ports::PortError;

/// On which side of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    Before,
    After,
}

/// One side of one call of a port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point<'a> {
    pub(crate) edge: Edge,
    /// The port's method.
    pub(crate) effect: &'static str,
    /// What it is about: an event's id, an object's key, a space.
    pub(crate) of: &'a str,
    /// Which call of this effect, from 1.
    pub(crate) nth: usize,
    /// Which call of any effect, from 1.
    pub(crate) total: usize,
}

/// What happens at a point.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Go,
    /// Tells [`Script::reached`] and waits for [`Script::release`]; dropped there, it is a worker that was killed.
    Stop,
    Panic,
    /// Before the effect: it does not happen, and this is the answer.
    Fail(PortError),
    /// Before a transaction: it does not happen, and the answer is a cancellation without any item.
    Cancel,
}

/// Decides what happens at each point.
type Plan = Box<dyn Fn(&Point<'_>) -> Act + Send + Sync>;

/// Decides what happens at each point, and counts the calls.
pub(crate) struct Script {
    plan: Plan,
    calls: Mutex<BTreeMap<&'static str, usize>>,
    reached: Semaphore,
    released: Semaphore,
}

impl Script {
    pub(crate) fn new(plan: impl Fn(&Point<'_>) -> Act + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            plan: Box::new(plan),
            calls: Mutex::default(),
            reached: Semaphore::new(0),
            released: Semaphore::new(0),
        })
    }

    /// Nothing goes wrong; the calls are counted.
    pub(crate) fn watch() -> Arc<Self> {
        Self::new(|_| Act::Go)
    }

    /// Stops at the first call of `effect`.
    pub(crate) fn stop_at(edge: Edge, effect: &'static str) -> Arc<Self> {
        Self::new(
            move |point| {
                if (point.edge, point.effect, point.nth) == (edge, effect, 1) { Act::Stop } else { Act::Go }
            },
        )
    }

    /// Waits until a point says [`Act::Stop`]; for no longer than any step may take.
    pub(crate) async fn reached(&self) {
        let reached = tokio::time::timeout(Duration::from_mins(1), self.reached.acquire()).await;
        let Ok(reached) = reached else { panic!("the script's stop was never reached") };
        reached.unwrap().forget();
    }

    /// Lets one that is stopped go on.
    pub(crate) fn release(&self) {
        self.released.add_permits(1);
    }

    /// Calls of `effect` so far.
    pub(crate) fn calls_of(&self, effect: &str) -> usize {
        self.calls.lock().unwrap().get(effect).copied().unwrap_or_default()
    }

    /// Runs one call between its two points. `cancelled` is the answer to [`Act::Cancel`], where there is one.
    pub(crate) async fn run<T, E: From<PortError>>(
        &self,
        (effect, of): (&'static str, &str),
        call: impl Future<Output = Result<T, E>> + Send,
        cancelled: Option<T>,
    ) -> Result<T, E> {
        let (nth, total) = self.enter(effect);
        match self.at(&Point { edge: Edge::Before, effect, of, nth, total }).await {
            Act::Fail(error) => return Err(error.into()),
            Act::Cancel => return Ok(cancelled.unwrap()),
            _ => {}
        }
        let answer = call.await;
        self.at(&Point { edge: Edge::After, effect, of, nth, total }).await;
        answer
    }

    fn enter(&self, effect: &'static str) -> (usize, usize) {
        let mut calls = self.calls.lock().unwrap();
        *calls.entry(effect).or_default() += 1;
        (calls[effect], calls.values().sum())
    }

    async fn at(&self, point: &Point<'_>) -> Act {
        let act = (self.plan)(point);
        match &act {
            Act::Stop => {
                self.reached.add_permits(1);
                self.released.acquire().await.unwrap().forget();
            }
            Act::Panic => panic!("the script says so, at {}", point.effect),
            Act::Go | Act::Fail(_) | Act::Cancel => {}
        }
        act
    }
}

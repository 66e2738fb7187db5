//! The world that the twins share: its facts, its clock and its faults.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_domain::key::{KeyHash, KeyRecord};
use tollgate_domain::ledger::{EventKey, LedgerItem};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::SpaceRecord;
use tollgate_domain::receipt::{CommandReceipt, ReceiptKey};
use tollgate_domain::row::Row;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

use super::{
    Call, Fault, FaultPlan, Guard, MemoryArchive, MemoryBilling, MemoryClock, MemoryIntake, MemoryKeys, MemoryLedger,
    MemoryQueue, MemoryReceipts, MemoryRows, MemorySpaces, NoFaults, QueueState,
};
use crate::snapshot::{BillingRow, Snapshot};

/// What is durable, and the clock. Open to tests, which may set up or break whatever they like.
#[derive(Debug, Clone)]
pub struct State {
    /// The time of day.
    pub now: UtcMillis,
    /// `event_ledger`.
    pub ledger: BTreeMap<EventKey, LedgerItem>,
    /// Items that this version cannot read, with the reason: every write against one is refused.
    pub unreadable: BTreeMap<EventKey, String>,
    /// `free_usage`.
    pub meters: BTreeMap<(SpaceId, PeriodMonth), u64>,
    /// `spaces`.
    pub spaces: BTreeMap<SpaceId, SpaceRecord>,
    /// What a cached read says instead of the table, where somebody still remembers an older entry.
    pub remembered_spaces: BTreeMap<SpaceId, Option<SpaceRecord>>,
    /// `api_keys`.
    pub keys: BTreeMap<KeyHash, KeyRecord>,
    /// `command_receipts`; what has expired stays.
    pub receipts: BTreeMap<ReceiptKey, CommandReceipt>,
    /// The archive: bytes by key.
    pub objects: BTreeMap<String, Vec<u8>>,
    /// `events`, unmerged: a row that was inserted twice stands here twice.
    pub events: Vec<Row>,
    /// `events_billing`, unmerged. Of its own, since a crash can leave a row without its twin.
    pub events_billing: Vec<BillingRow>,
    /// Rows that ClickHouse refuses for what they are, with its error code.
    pub poison: BTreeMap<EventKey, u32>,
    /// The materialized view throws: base rows are stored, their twins are not, and the insert is refused.
    pub view_throws: bool,
    /// The queue and its dead letters.
    pub queue: QueueState,
    /// A condition that the stores forgot: whoever takes one away shows what it is for.
    pub forgotten: Option<Guard>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            // Noon in the middle of a month: whoever tests its end, sets the clock.
            now: PeriodMonth::parse("2026-11")
                .map_or_else(|_| unreachable!("a month"), |month| month.start().saturating_add_ms(1_252_800_000)),
            ledger: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            meters: BTreeMap::new(),
            spaces: BTreeMap::new(),
            remembered_spaces: BTreeMap::new(),
            keys: BTreeMap::new(),
            receipts: BTreeMap::new(),
            objects: BTreeMap::new(),
            events: Vec::new(),
            events_billing: Vec::new(),
            poison: BTreeMap::new(),
            view_throws: false,
            queue: QueueState::default(),
            forgotten: None,
        }
    }
}

/// What the world does to its callers, and what it saw of them. Not durable, and no port can read it.
struct Backstage {
    plan: Box<dyn FaultPlan>,
    stepping: bool,
    announced: Option<Call>,
    calls: Vec<Call>,
    fired: Vec<(Call, Fault)>,
}

struct Inner {
    state: State,
    backstage: Backstage,
}

/// A handle on one world; clones share it.
#[derive(Clone)]
pub struct World(Arc<Mutex<Inner>>);

impl Default for World {
    fn default() -> Self {
        Self::of(State::default())
    }
}

impl World {
    /// An empty world at noon of 15 November 2026.
    pub fn new() -> Self {
        Self::default()
    }

    /// A world with these facts and without faults.
    pub fn of(state: State) -> Self {
        let backstage = Backstage {
            plan: Box::new(NoFaults),
            stepping: false,
            announced: None,
            calls: Vec::new(),
            fired: Vec::new(),
        };
        Self(Arc::new(Mutex::new(Inner { state, backstage })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A test that failed while it held the lock has failed; those that clean up after it need not fail too.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads or changes the facts, at once and past every condition.
    pub fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.lock().state)
    }

    /// Another world with the same facts, and with no faults, steps or calls of this one.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self::of(self.with(|state| state.clone()))
    }

    /// The facts, as the auditor wants them.
    pub fn snapshot(&self) -> Snapshot {
        self.with(|state| Snapshot {
            ledger: state.ledger.clone(),
            meters: state.meters.clone(),
            objects: state.objects.clone(),
            events: state.events.clone(),
            events_billing: state.events_billing.clone(),
            dead_letters: state.queue.dead_letters.clone(),
        })
    }

    /// Lets this plan decide from now on what goes wrong.
    pub fn install(&self, plan: impl FaultPlan + 'static) {
        self.lock().backstage.plan = Box::new(plan);
    }

    /// Makes every effect suspend once before it happens; see [`World::announced`].
    pub fn set_stepping(&self, stepping: bool) {
        self.lock().backstage.stepping = stepping;
    }

    /// What the future that was polled last is about to do: takes it, so that the next poll announces anew.
    pub fn announced(&self) -> Option<Call> {
        self.lock().backstage.announced.take()
    }

    /// Every call so far, in order, whatever became of it. A call counts when it is to happen, not when announced.
    pub fn calls(&self) -> Vec<Call> {
        self.lock().backstage.calls.clone()
    }

    /// Every fault so far: a test whose faults never came has shown nothing.
    pub fn fired(&self) -> Vec<(Call, Fault)> {
        self.lock().backstage.fired.clone()
    }

    pub(super) fn is_stepping(&self) -> bool {
        self.lock().backstage.stepping
    }

    pub(super) fn announce(&self, call: &Call) {
        self.lock().backstage.announced = Some(call.clone());
    }

    pub(super) fn next_fault(&self, call: Call) -> Option<Fault> {
        let backstage = &mut self.lock().backstage;
        let fault = backstage.plan.fault(&call);
        backstage.calls.push(call.clone());
        if let Some(fault) = &fault {
            assert!(fault.fits(call.effect), "{} cannot fail as {fault:?}", call.effect);
            backstage.fired.push((call, fault.clone()));
        }
        fault
    }

    /// Sets the clock.
    pub fn set_now(&self, now: UtcMillis) {
        self.with(|state| state.now = now);
    }

    /// Moves the clock on.
    pub fn advance_ms(&self, ms: i64) {
        self.with(|state| state.now = state.now.saturating_add_ms(ms));
    }

    /// Port `Ledger` of this world.
    pub fn ledger(&self) -> MemoryLedger {
        MemoryLedger(self.clone())
    }

    /// Port `Billing` of this world.
    pub fn billing(&self) -> MemoryBilling {
        MemoryBilling(self.clone())
    }

    /// Port `Spaces` of this world.
    pub fn spaces(&self) -> MemorySpaces {
        MemorySpaces(self.clone())
    }

    /// Port `Keys` of this world.
    pub fn keys(&self) -> MemoryKeys {
        MemoryKeys(self.clone())
    }

    /// Port `Receipts` of this world.
    pub fn receipts(&self) -> MemoryReceipts {
        MemoryReceipts(self.clone())
    }

    /// Port `Archive` of this world.
    pub fn archive(&self) -> MemoryArchive {
        MemoryArchive(self.clone())
    }

    /// Port `Rows` of this world.
    pub fn rows(&self) -> MemoryRows {
        MemoryRows(self.clone())
    }

    /// Port `Queue` of this world.
    pub fn queue(&self) -> MemoryQueue {
        MemoryQueue(self.clone())
    }

    /// Port `Intake` of this world.
    pub fn intake(&self) -> MemoryIntake {
        MemoryIntake(self.clone())
    }

    /// Port `Clock` of this world.
    pub fn clock(&self) -> MemoryClock {
        MemoryClock(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Effect, Script};
    use crate::traffic::{Example, example};
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use tollgate_domain::plan::Limit;
    use tollgate_domain::ports::{Billing, Clock, Consumption, Ledger, PortError};

    fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn a_script_hits_the_calls_that_it_names_and_no_other() {
        let (world, Example { claim, item, .. }) = (World::new(), example());
        let limit = Limit::new(9).unwrap();
        let consume = || async { world.billing().consume(&item.key, item.period_month, limit, claim.now).await };
        let busy = PortError::NotNow("busy".to_owned());
        world.install(
            Script::new()
                .on(Effect::Consume, 1..=2, Fault::Contended)
                .on(Effect::Consume, 3..=3, Fault::NotApplied(busy.clone()))
                .on(Effect::Consume, 4..=4, Fault::AppliedAnswerLost),
        );
        world.ledger().claim(&claim).await.unwrap();
        for _ in 0..2 {
            assert_eq!(consume().await, Ok(Consumption::Cancelled { ledger: None, count: None }));
        }
        assert_eq!(consume().await, Err(busy));
        assert_eq!(world.with(|state| state.meters.len()), 0, "nothing moved so far");
        assert!(matches!(consume().await, Err(PortError::Unknown(_))));
        assert_eq!(world.billing().count(&item.key.space, item.period_month).await, Ok(1));
        assert!(matches!(consume().await, Ok(Consumption::Cancelled { ledger: Some(_), count: None })));
        assert_eq!(world.fired().len(), 4);
    }

    #[tokio::test]
    async fn contention_outside_a_transaction_is_an_error() {
        let (world, Example { claim, .. }) = (World::new(), example());
        world.install(Script::new().on(Effect::Claim, 1..=1, Fault::Contended));
        assert!(matches!(world.ledger().claim(&claim).await, Err(PortError::Contended(_))));
        assert!(world.with(|state| state.ledger.is_empty()));
    }

    #[test]
    fn a_killed_caller_never_learns_and_the_effect_is_there_or_not() {
        for (fault, applied) in [(Fault::KilledBefore, false), (Fault::KilledAfter, true)] {
            let (world, Example { claim, .. }) = (World::new(), example());
            world.install(Script::new().on(Effect::Claim, 1..=1, fault));
            let ledger = world.ledger();
            let mut claiming = pin!(ledger.claim(&claim));
            for _ in 0..3 {
                assert!(poll_once(claiming.as_mut()).is_pending());
            }
            assert_eq!(world.with(|state| state.ledger.contains_key(&claim.key)), applied);
        }
    }

    #[test]
    fn a_step_announces_its_effect_before_it_happens() {
        let (world, Example { claim, .. }) = (World::new(), example());
        world.set_stepping(true);
        let ledger = world.ledger();
        let mut claiming = pin!(ledger.claim(&claim));
        assert!(poll_once(claiming.as_mut()).is_pending());
        assert_eq!(world.announced(), Some(Call::of(Effect::Claim, &claim.key)));
        assert_eq!((world.announced(), world.calls()), (None, vec![]));
        assert!(world.with(|state| state.ledger.is_empty()));
        assert!(poll_once(claiming.as_mut()).is_ready());
        assert_eq!(world.calls().len(), 1);
    }

    #[test]
    fn a_fork_goes_its_own_way() {
        let world = World::new();
        let fork = world.fork();
        fork.advance_ms(1);
        assert_eq!(fork.clock().now().ms_since(world.clock().now()), 1);
        world.set_now(fork.clock().now());
        assert_eq!(fork.clock().now(), world.clock().now());
    }

    #[test]
    #[should_panic(expected = "Ledger::claim cannot fail as Partly")]
    fn a_script_cannot_ask_for_what_cannot_be() {
        drop(Script::new().on(Effect::Claim, 1..=1, Fault::Partly));
    }
}

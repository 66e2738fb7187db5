//! A world in memory and the engines, side by side.

use tollgate_domain::archive::ArchiveObject;
use tollgate_domain::event::Event;
use tollgate_domain::identity::EventId;
use tollgate_domain::json;
use tollgate_domain::ledger::{Checkpoint, EventKey, NewClaim, Rejection};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::{BilledAs, Limit, RejectedReason, SpaceRecord, Subscription};
use tollgate_domain::ports::{Archive, Billing, Freshness, Ledger, PortResult, Rows, Spaces};
use tollgate_domain::row::Row;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;
use tollgate_stores::connect::Stores;

use crate::accord::compare::{answer, on_both};
use crate::accord::operation::{Operation, Which};
use crate::memory::World;

/// The two worlds, and the spaces that this sequence alone uses.
pub(super) struct Pair<'a> {
    stores: &'a Stores,
    world: World,
    name: String,
}

impl<'a> Pair<'a> {
    pub(super) fn new(stores: &'a Stores, name: &str) -> Self {
        Self { stores, world: World::new(), name: name.to_owned() }
    }

    /// Does it in both worlds, and tells both answers.
    pub(super) async fn perform(&mut self, operation: &Operation) -> (String, String) {
        let (world, stores) = (&self.world, self.stores);
        match *operation {
            Operation::Claim { which, payload, month, at } => {
                let claim = self.claim(which, payload, month, at);
                on_both(world.ledger().claim(&claim), stores.ledger.claim(&claim)).await
            }
            Operation::Read { which } => {
                let key = self.key(which);
                on_both(world.ledger().read(&key), stores.ledger.read(&key)).await
            }
            Operation::Consume { which, month, limit, at } => {
                let (key, month, limit, now) = (self.key(which), month_of(month), limit_of(limit), instant(at));
                let in_memory = world.billing();
                on_both(in_memory.consume(&key, month, limit, now), stores.billing.consume(&key, month, limit, now))
                    .await
            }
            Operation::Stamp { which, billed_as, at } => {
                let (key, checkpoint) = (self.key(which), stamp(billed_as, at));
                on_both(world.billing().stamp(&key, &checkpoint), stores.billing.stamp(&key, &checkpoint)).await
            }
            Operation::Reject { which, reason, at } => {
                let (key, rejection, now) = (self.key(which), rejection(reason), instant(at));
                on_both(world.billing().reject(&key, &rejection, now), stores.billing.reject(&key, &rejection, now))
                    .await
            }
            Operation::Count { space, month } => {
                let (space, month) = (self.space(space), month_of(month));
                on_both(world.billing().count(&space, month), stores.billing.count(&space, month)).await
            }
            Operation::RecordQuarantine { which, seen, spacing_ms, at } => {
                let (key, now) = (self.key(which), instant(at));
                let in_memory = world.ledger();
                on_both(
                    in_memory.record_quarantine(&key, seen, spacing_ms, "refused", now),
                    stores.ledger.record_quarantine(&key, seen, spacing_ms, "refused", now),
                )
                .await
            }
            Operation::MarkUninsertable { which, at } => {
                let (key, now) = (self.key(which), instant(at));
                on_both(world.ledger().mark_uninsertable(&key, now), stores.ledger.mark_uninsertable(&key, now)).await
            }
            Operation::MarkInserted { which, at } => {
                let (key, now) = (self.key(which), instant(at));
                on_both(world.ledger().mark_inserted(&key, now), stores.ledger.mark_inserted(&key, now)).await
            }
            Operation::RecordConflict { which, payload, at } => {
                let (key, other, now) = (self.key(which), event(which, payload).fingerprint(), instant(at));
                on_both(
                    world.ledger().record_conflict(&key, &other, now),
                    stores.ledger.record_conflict(&key, &other, now),
                )
                .await
            }
            Operation::SetSpace { space, subscription, limit } => self.set_space(space, subscription, limit).await,
            Operation::ReadSpace { space } => {
                let (space, in_memory) = (self.space(space), world.spaces());
                on_both(in_memory.read(&space, Freshness::Strong), stores.spaces.read(&space, Freshness::Strong)).await
            }
            Operation::PutObject { which, payload } => {
                let object = self.object(which, payload);
                on_both(world.archive().put(&object), stores.archive.put(&object)).await
            }
            Operation::GetObject { which } => {
                let key = self.object(which, 0).key;
                on_both(world.archive().get(&key), stores.archive.get(&key)).await
            }
            Operation::InsertRow { which, payload } => {
                let rows = [self.row(which, payload)];
                on_both(world.rows().insert(&rows), stores.rows.insert(&rows)).await
            }
            Operation::ProbeRow { which } => {
                let key = self.key(which);
                on_both(world.rows().is_present(&key), stores.rows.is_present(&key)).await
            }
        }
    }

    async fn set_space(&self, space: usize, subscription: Subscription, limit: Option<u64>) -> (String, String) {
        let (space, record) =
            (self.space(space), SpaceRecord { subscription, monthly_limit: limit.and_then(Limit::new) });
        self.world.with(|state| state.spaces.insert(space.clone(), record));
        // No port writes this table: the twin's side is set by hand, and must read back as the store's does.
        (answer(&PortResult::Ok(())), answer(&self.stores.spaces.set(&space, &record).await))
    }

    fn space(&self, place: usize) -> SpaceId {
        SpaceId::parse(&format!("{}-{place}", self.name)).unwrap_or_else(|_| unreachable!("the caller's name fits"))
    }

    /// The event's key. All payloads of an event share its id, as explicit identities do.
    fn key(&self, which: Which) -> EventKey {
        EventKey { space: self.space(which.space), id: id(which) }
    }

    fn claim(&self, which: Which, payload: usize, month: usize, at: i64) -> NewClaim {
        NewClaim {
            key: self.key(which),
            fingerprint: event(which, payload).fingerprint(),
            submission_id: format!("sub_{payload}"),
            period_month: month_of(month),
            now: instant(at),
        }
    }

    /// The event's object with one payload's bytes: other payloads find the key taken.
    fn object(&self, which: Which, payload: usize) -> ArchiveObject {
        ArchiveObject::of_event(&event(which, payload), &self.claim(which, payload, 0, 0).into_item())
    }

    fn row(&self, which: Which, payload: usize) -> Row {
        Row::new(&event(which, payload), &self.claim(which, payload, 0, 0).into_item(), BilledAs::Free)
    }
}

/// One payload of an event: the idempotency key is its identity, the quantity makes the payload.
fn event(which: Which, payload: usize) -> Event {
    let text = format!(
        r#"{{"meter":"m","subject":"s","occurredAt":"2026-01-01T00:00:00Z","quantity":{},"idempotencyKey":"k{}"}}"#,
        payload + 1,
        which.event
    );
    let value = json::parse(text.as_bytes()).unwrap_or_else(|_| unreachable!("the text is JSON"));
    Event::from_value(&value, instant(0)).unwrap_or_else(|_| unreachable!("the text is an event"))
}

fn id(which: Which) -> EventId {
    event(which, 0).id()
}

fn stamp(billed_as: BilledAs, at: i64) -> Checkpoint {
    Checkpoint { accepted_at: instant(at), billed_as, limit: None }
}

fn rejection(reason: RejectedReason) -> Rejection {
    let is_exhausted = reason == RejectedReason::LimitExhausted;
    Rejection { reason, limit_seen: is_exhausted.then(|| limit_of(1)), count_seen: is_exhausted.then_some(1) }
}

fn month_of(place: usize) -> PeriodMonth {
    let month = if place == 0 { "2026-11" } else { "2026-12" };
    PeriodMonth::parse(month).unwrap_or_else(|_| unreachable!("the text is a month"))
}

fn limit_of(events: u64) -> Limit {
    Limit::new(events).unwrap_or_else(|| unreachable!("limits here start at 1"))
}

/// `at` milliseconds after a fixed instant.
fn instant(at: i64) -> UtcMillis {
    month_of(0).start().saturating_add_ms(at)
}

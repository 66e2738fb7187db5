//! Same id, other payload: the first is kept, the second is kept apart.

use std::collections::BTreeSet;

use tollgate_domain::archive::{ArchiveObject, ArchivedEvent, conflict_key, event_key};
use tollgate_domain::ledger::{Attention, MAX_CONFLICTS_KEPT, Status};
use tollgate_domain::plan::{RejectedReason, Subscription};
use tollgate_domain::ports::Archive;
use tollgate_worker::verdict::{Outcome, Verdict};

use crate::count::Count;
use crate::message::{ACCEPTED, Message};
use crate::script::{Edge, Script};
use crate::world::World;

/// Delivers the second payload twice: it is kept apart once, and nothing of the first moves.
async fn second_is_kept_apart(world: &World, first: &Message, before: Count) {
    let second = world.other_payload("a");
    assert_eq!(first.key, second.key);
    let item = world.item(&first.key).await;
    let script = Script::watch();
    let pipeline = world.scripted(&script);
    for _ in 0..2 {
        let verdict = pipeline.process_delivery(&second.body).await;
        assert_eq!(verdict, Verdict::Acknowledge(Outcome::Conflict));
    }
    for effect in ["consume", "stamp", "reject", "insert", "mark_inserted"] {
        assert_eq!(script.calls_of(effect), 0, "{effect}");
    }
    assert_eq!(world.count(&first.key).await, Count { conflicts: 1, ..before });

    let fingerprint = second.envelope.event.fingerprint();
    let after = world.item(&first.key).await;
    assert_eq!(after.conflicts, BTreeSet::from([fingerprint.clone()]), "counted once");
    assert_eq!(after.attention, Some(Attention::Conflict));
    assert_eq!(after.fingerprint, first.envelope.event.fingerprint(), "the first is kept");
    assert_eq!((after.status, after.checkpoint, after.rejection), (item.status, item.checkpoint, item.rejection));
    let kept = world.stores.archive.get(&conflict_key(&first.key, &fingerprint)).await.unwrap();
    let expected = ArchiveObject::of_conflict(&second.envelope.event, &second.key).body;
    assert_eq!(kept.map(|bytes| String::from_utf8(bytes).unwrap()), Some(expected));
}

#[tokio::test]
async fn a_conflict_with_an_event_in_work_waits_for_nobody_and_the_first_is_finished_by_its_own_redelivery() {
    let world = World::new().await;
    let first = world.message("a");
    world.kill_at(Edge::Before, "put", &first).await;
    second_is_kept_apart(&world, &first, Count::charged()).await;

    assert_eq!(world.deliver(&first).await, Verdict::Acknowledge(Outcome::Inserted));
    assert_eq!(world.count(&first.key).await, Count { conflicts: 1, ..Count::inserted() });
    let archived = world.stores.archive.get(&event_key(&first.key)).await.unwrap().unwrap();
    assert_eq!(ArchivedEvent::decode(&archived).unwrap().event, first.envelope.event);
    assert_eq!(stored_quantities(&world).await, [first.envelope.event.quantity()]);
}

async fn stored_quantities(world: &World) -> Vec<u64> {
    let query = "SELECT DISTINCT quantity FROM events WHERE space = ?";
    world.stores.rows.client().query(query).bind(world.space.as_str()).fetch_all().await.unwrap()
}

#[tokio::test]
async fn a_conflict_with_an_event_that_is_only_claimed_is_not_billed_in_its_place() {
    let world = World::new().await;
    let first = world.message("a");
    world.kill_at(Edge::After, "claim", &first).await;
    second_is_kept_apart(&world, &first, Count::of("INSERTING")).await;
}

#[tokio::test]
async fn a_conflict_with_an_inserted_event_leaves_meter_and_rows_alone() {
    let world = World::new().await;
    let first = world.message("a");
    assert_eq!(world.deliver(&first).await, Verdict::Acknowledge(Outcome::Inserted));
    second_is_kept_apart(&world, &first, Count::inserted()).await;
    assert_eq!(stored_quantities(&world).await, [first.envelope.event.quantity()]);
    let again = world.deliver(&first).await;
    assert_eq!(again, Verdict::Acknowledge(Outcome::Already(Status::Inserted)), "the first is still a retry");
}

#[tokio::test]
async fn a_conflict_with_a_rejected_event_is_not_billed_in_its_place() {
    let world = World::new().await;
    world.set_plan(Subscription::PlusInactive, None).await;
    let first = world.message("a");
    let rejected = Verdict::Acknowledge(Outcome::Rejected(RejectedReason::PlusInactive));
    assert_eq!(world.deliver(&first).await, rejected);
    world.set_plan(Subscription::PlusActive, None).await;
    second_is_kept_apart(&world, &first, Count::of("REJECTED")).await;
}

#[tokio::test]
async fn a_conflict_whose_worker_is_killed_between_its_two_writes_is_recorded_by_the_redelivery() {
    let world = World::new().await;
    let (first, second) = (world.message("a"), world.other_payload("a"));
    world.deliver(&first).await;
    world.kill_at(Edge::Before, "record_conflict", &second).await;
    assert_eq!(world.count(&first.key).await, Count { conflicts: 1, ..Count::inserted() }, "the put goes first");
    assert!(world.item(&first.key).await.conflicts.is_empty());
    second_is_kept_apart(&world, &first, Count::inserted()).await;
}

#[tokio::test]
async fn an_item_counts_so_many_conflicts_and_every_payload_is_kept() {
    let world = World::new().await;
    let first = world.message("a");
    world.deliver(&first).await;
    let others: Vec<Message> =
        (0..).map(|more| Message::new(&world.space, "a", 100 + more, ACCEPTED)).take(18).collect();
    // Twice, so that a conflict that is counted already is met as well when there is no more room.
    for other in others.iter().chain(&others) {
        assert_eq!(world.deliver(other).await, Verdict::Acknowledge(Outcome::Conflict));
    }
    let counted = world.item(&first.key).await.conflicts;
    let fingerprints = others.iter().map(|other| other.envelope.event.fingerprint());
    assert_eq!(counted, fingerprints.clone().take(MAX_CONFLICTS_KEPT).collect(), "the first so many");
    for fingerprint in fingerprints {
        let kept = world.stores.archive.get(&conflict_key(&first.key, &fingerprint)).await.unwrap();
        assert!(kept.is_some(), "{fingerprint}");
    }
}

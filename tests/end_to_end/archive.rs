//! The archive is written before the row, once, and with bytes that depend on the event alone.

use tollgate_domain::archive::{ArchiveObject, event_key};
use tollgate_domain::invariant::Invariant;
use tollgate_domain::ports::{Archive, Put};
use tollgate_worker::verdict::{DeadLetter, Outcome, Verdict};

use crate::count::Count;
use crate::script::{Edge, Script};
use crate::world::World;

#[tokio::test]
async fn a_payload_that_is_there_already_and_equal_is_gone_past() {
    let world = World::new().await;
    let message = world.message("a");
    world.claim(&message).await;
    world.consume(&message).await;
    let object = world.archive(&message).await;
    assert_eq!(world.stores.archive.put(&object).await, Ok(Put::Same));
    assert_eq!(world.deliver(&message).await, Verdict::Acknowledge(Outcome::Inserted));
    assert_eq!(world.count(&message.key).await, Count::inserted());
}

#[tokio::test]
async fn a_payload_that_is_there_already_and_different_halts_and_no_row_is_stored() {
    let world = World::new().await;
    let message = world.message("a");
    world.claim(&message).await;
    world.consume(&message).await;
    let other = ArchiveObject { key: event_key(&message.key), body: "{}".to_owned() };
    assert_eq!(world.stores.archive.put(&other).await, Ok(Put::Stored));
    let verdict = world.deliver(&message).await;
    let Verdict::DeadLetter(DeadLetter { broken, .. }) = verdict else { panic!("{verdict:?}") };
    assert_eq!(broken, Some(Invariant::RowImpliesArchive));
    assert_eq!(world.count(&message.key).await, Count { archived: 1, ..Count::charged() });
    assert_eq!(world.stores.archive.get(&other.key).await, Ok(Some(b"{}".to_vec())), "it is left alone");
}

#[tokio::test]
async fn the_payload_is_archived_before_its_row_is_stored() {
    let world = World::new().await;
    let message = world.message("a");
    world.kill_at(Edge::Before, "insert", &message).await;
    assert_eq!(world.count(&message.key).await, Count { archived: 1, ..Count::charged() });
}

#[tokio::test]
async fn two_deliveries_of_one_event_that_are_spelled_differently_write_the_same_bytes() {
    let world = World::new().await;
    let message = world.message("a");
    // The first worker is killed right after its put; a client's retry, spelled differently, finishes the event.
    world.kill_at(Edge::After, "put", &message).await;
    let first = world.stores.archive.get(&event_key(&message.key)).await.unwrap().unwrap();
    let script = Script::watch();
    let verdict = world.scripted(&script).process_delivery(&message.spelled_differently()).await;
    assert_eq!(verdict, Verdict::Acknowledge(Outcome::Inserted));
    assert_eq!((script.calls_of("put"), script.calls_of("consume")), (1, 0), "the same bytes were put once more");
    assert_eq!(world.stores.archive.get(&event_key(&message.key)).await, Ok(Some(first)));
    assert_eq!(world.count(&message.key).await, Count::inserted());
    assert_eq!(world.item(&message.key).await.period_month, message.month(), "the claim's month stays");
}

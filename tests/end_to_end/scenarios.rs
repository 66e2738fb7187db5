//! The eight rows of the table, each arranged with the real stores.

use aws_sdk_dynamodb::types::AttributeValue;
use tollgate_domain::invariant::Invariant;
use tollgate_domain::ledger::{Rejection, Status};
use tollgate_domain::plan::{Limit, RejectedReason};
use tollgate_domain::ports::{Billing, Clock, Conditional, Ledger};
use tollgate_stores::clock::SystemClock;
use tollgate_worker::verdict::{DeadLetter, Outcome, Verdict};

use crate::count::Count;
use crate::database::Database;
use crate::message::Message;
use crate::script::{Edge, Script};
use crate::world::World;

fn acknowledged(outcome: Outcome) -> Verdict {
    Verdict::Acknowledge(outcome)
}

/// Writes one attribute of an item, past every condition.
async fn set_raw(world: &World, message: &Message, attribute: &str, value: &str) {
    let update = world
        .dynamo
        .update_item()
        .table_name(&world.config.names.ledger_table)
        .key("pk", AttributeValue::S(message.key.partition()))
        .key("sk", AttributeValue::S(message.key.id.as_str().to_owned()))
        .update_expression("SET #attribute = :value")
        .expression_attribute_names("#attribute", attribute)
        .expression_attribute_values(":value", AttributeValue::S(value.to_owned()));
    update.send().await.unwrap();
}

async fn reject(world: &World, message: &Message) {
    let rejection =
        Rejection { reason: RejectedReason::LimitExhausted, limit_seen: Limit::new(1), count_seen: Some(1) };
    let answer = world.stores.billing.reject(&message.key, &rejection, SystemClock.now()).await;
    assert_eq!(answer, Ok(Conditional::Applied));
}

#[tokio::test]
async fn row_1_first_delivery_is_charged_archived_stored_and_closed() {
    let world = World::new().await;
    let message = world.message("a");
    assert_eq!(world.count(&message.key).await, Count::of("absent"));
    let script = Script::watch();
    let verdict = world.scripted(&script).process_delivery(&message.body).await;
    assert_eq!(verdict, acknowledged(Outcome::Inserted));
    assert_eq!(world.count(&message.key).await, Count::inserted());
    assert_eq!(script.calls_of("probe"), 0, "nobody asks ClickHouse about an event that was claimed just now");
}

#[tokio::test]
async fn row_2_already_inserted_is_acknowledged_and_nothing_moves() {
    let world = World::new().await;
    let message = world.message("a");
    world.deliver(&message).await;
    let before = world.item(&message.key).await;
    let script = Script::watch();
    let verdict = world.scripted(&script).process_delivery(&message.body).await;
    assert_eq!(verdict, acknowledged(Outcome::Already(Status::Inserted)));
    assert_eq!(world.count(&message.key).await, Count::inserted());
    assert_eq!(world.item(&message.key).await, before);
    for effect in ["consume", "put", "insert", "mark_inserted"] {
        assert_eq!(script.calls_of(effect), 0, "{effect}");
    }
}

#[tokio::test]
async fn row_3_already_rejected_is_acknowledged_and_never_billed_again() {
    let world = World::new().await;
    let message = world.message("a");
    world.claim(&message).await;
    reject(&world, &message).await;
    let before = world.item(&message.key).await;
    let script = Script::watch();
    let verdict = world.scripted(&script).process_delivery(&message.body).await;
    assert_eq!(verdict, acknowledged(Outcome::Already(Status::Rejected)));
    assert_eq!(world.count(&message.key).await, Count::of("REJECTED"));
    assert_eq!(world.item(&message.key).await, before);
    assert_eq!(script.calls_of("consume") + script.calls_of("read_space"), 0, "the billing question is not asked");
}

#[tokio::test]
async fn row_4_already_uninsertable_is_acknowledged_and_not_tried_again() {
    let world = World::new().await;
    let message = world.message("a");
    world.claim(&message).await;
    world.consume(&message).await;
    world.archive(&message).await;
    for seen in 0..3 {
        let now = SystemClock.now();
        let recorded = world.stores.ledger.record_quarantine(&message.key, seen, 0, "refused", now).await;
        assert_eq!(recorded, Ok(Conditional::Applied));
    }
    let marked = world.stores.ledger.mark_uninsertable(&message.key, SystemClock.now()).await;
    assert_eq!(marked, Ok(Conditional::Applied));
    let before = world.item(&message.key).await;
    let script = Script::watch();
    let verdict = world.scripted(&script).process_delivery(&message.body).await;
    assert_eq!(verdict, acknowledged(Outcome::Already(Status::Uninsertable)));
    let expected = Count { charged: true, meter: 1, archived: 1, ..Count::of("UNINSERTABLE") };
    assert_eq!(world.count(&message.key).await, expected);
    assert_eq!(world.item(&message.key).await, before);
    assert_eq!(script.calls_of("insert"), 0);
}

#[tokio::test]
async fn row_5_stored_but_not_marked_is_closed_and_not_charged_again() {
    let world = World::new().await;
    let message = world.message("a");
    world.claim(&message).await;
    world.consume(&message).await;
    world.archive(&message).await;
    world.insert(&message).await;
    let script = Script::watch();
    let verdict = world.scripted(&script).process_delivery(&message.body).await;
    assert_eq!(verdict, acknowledged(Outcome::Inserted));
    assert_eq!(world.count(&message.key).await, Count::inserted());
    for effect in ["consume", "put", "insert"] {
        assert_eq!(script.calls_of(effect), 0, "{effect}");
    }
}

#[tokio::test]
async fn row_5_ignores_the_checkpoint_that_it_read_and_trusts_the_one_that_is_stored() {
    let world = World::new().await;
    let message = world.message("a");
    world.claim(&message).await;
    let script = Script::stop_at(Edge::Before, "probe");
    let meanwhile = async {
        // The item was read without a checkpoint; before the probe, another worker bills and stores.
        world.consume(&message).await;
        world.archive(&message).await;
        world.insert(&message).await;
    };
    let verdict = world.deliver_around(&script, &message, meanwhile).await;
    assert_eq!(verdict, acknowledged(Outcome::Inserted));
    assert_eq!(world.count(&message.key).await, Count::inserted());
    assert_eq!(script.calls_of("consume"), 0);
}

#[tokio::test]
async fn row_5_a_stored_row_that_nobody_billed_halts_and_names_the_invariant() {
    let world = World::new().await;
    let message = world.message("a");
    world.claim(&message).await;
    world.insert(&message).await;
    let verdict = world.deliver(&message).await;
    let Verdict::DeadLetter(DeadLetter { broken, .. }) = verdict else { panic!("{verdict:?}") };
    assert_eq!(broken, Some(Invariant::InsertedIsComplete));
    assert_eq!(world.count(&message.key).await, Count { rows: 1, twins: 1, ..Count::of("INSERTING") });
}

#[tokio::test]
async fn row_5_a_stored_row_of_an_event_that_is_rejected_meanwhile_halts_and_names_the_invariant() {
    let world = World::new().await;
    let message = world.message("a");
    world.claim(&message).await;
    world.insert(&message).await;
    let script = Script::stop_at(Edge::Before, "mark_inserted");
    let meanwhile = async {
        reject(&world, &message).await;
    };
    let verdict = world.deliver_around(&script, &message, meanwhile).await;
    let Verdict::DeadLetter(DeadLetter { broken, .. }) = verdict else { panic!("{verdict:?}") };
    assert_eq!(broken, Some(Invariant::NeverChargedAndRejected));
    assert_eq!(world.count(&message.key).await, Count { rows: 1, twins: 1, ..Count::of("REJECTED") });
}

#[tokio::test]
async fn row_5_a_mark_that_somebody_faster_made_is_acknowledged() {
    let world = World::new().await;
    let message = world.message("a");
    let script = Script::stop_at(Edge::Before, "mark_inserted");
    let meanwhile = async {
        assert_eq!(world.deliver(&message).await, acknowledged(Outcome::Inserted));
    };
    let verdict = world.deliver_around(&script, &message, meanwhile).await;
    assert_eq!(verdict, acknowledged(Outcome::Already(Status::Inserted)));
    assert_eq!(world.count(&message.key).await, Count::inserted());
}

#[tokio::test]
async fn row_6_claimed_but_not_billed_is_charged_once_and_finished() {
    let world = World::new().await;
    let message = world.message("a");
    let claimed = world.claim(&message).await;
    let script = Script::watch();
    let verdict = world.scripted(&script).process_delivery(&message.body).await;
    assert_eq!(verdict, acknowledged(Outcome::Inserted));
    assert_eq!(world.count(&message.key).await, Count::inserted());
    assert_eq!(script.calls_of("consume"), 1);
    let item = world.item(&message.key).await;
    assert_eq!(item.row_inserted_at, claimed.row_inserted_at, "the claim's stamp stays");
    assert_eq!(stored_stamp(&world).await, claimed.row_inserted_at.get(), "and is the row's");
}

async fn stored_stamp(world: &World) -> i64 {
    let query = "SELECT row_inserted_at_ms FROM events WHERE space = ?";
    world.stores.rows.client().query(query).bind(world.space.as_str()).fetch_one().await.unwrap()
}

#[tokio::test]
async fn row_7_billed_but_not_stored_is_stored_and_never_billed_again() {
    let world = World::new().await;
    let message = world.message("a");
    world.claim(&message).await;
    world.consume(&message).await;
    let script = Script::watch();
    let verdict = world.scripted(&script).process_delivery(&message.body).await;
    assert_eq!(verdict, acknowledged(Outcome::Inserted));
    assert_eq!(world.count(&message.key).await, Count::inserted());
    for effect in ["consume", "stamp", "reject", "read_space"] {
        assert_eq!(script.calls_of(effect), 0, "{effect}");
    }
}

#[tokio::test]
async fn row_7_a_row_without_its_twin_counts_as_absent_and_is_inserted_again() {
    let database = Database::create().await;
    let world = World::of(database.config()).await;
    let message = world.message("a");
    world.claim(&message).await;
    world.consume(&message).await;
    world.archive(&message).await;
    // A crash between the two tables: the base row alone.
    database.execute("DETACH TABLE events_to_billing").await;
    world.insert(&message).await;
    database.execute("ATTACH TABLE events_to_billing").await;
    let alone = Count { archived: 1, rows: 1, ..Count::charged() };
    assert_eq!(world.count(&message.key).await, alone);

    assert_eq!(world.deliver(&message).await, acknowledged(Outcome::Inserted));
    assert_eq!(world.count(&message.key).await, Count::inserted());
    database.drop().await;
}

#[tokio::test]
async fn row_8_anything_else_halts_and_touches_nothing() {
    let world = World::new().await;
    // A status that this version does not know, such as a later one would write.
    let message = world.message("a");
    world.claim(&message).await;
    set_raw(&world, &message, "status", "REFUNDED").await;
    let script = Script::watch();
    let verdict = world.scripted(&script).process_delivery(&message.body).await;
    let Verdict::DeadLetter(DeadLetter { reason, .. }) = verdict else { panic!("{verdict:?}") };
    assert!(reason.contains("no scenario fits"), "{reason}");
    assert_eq!(world.count(&message.key).await, Count::of("unreadable"));
    for effect in ["consume", "stamp", "reject", "put", "insert", "mark_inserted"] {
        assert_eq!(script.calls_of(effect), 0, "{effect}");
    }
}

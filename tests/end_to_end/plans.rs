//! What each plan pays at the gate, and when a plan may come from memory.

use aws_sdk_dynamodb::types::AttributeValue;
use tollgate_domain::ledger::{Checkpoint, Rejection};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::{BilledAs, Limit, RejectedReason, Subscription};
use tollgate_domain::ports::{Billing, Freshness, PortError, Spaces};
use tollgate_worker::verdict::{HandBack, Outcome, Verdict};

use crate::count::Count;
use crate::message::Message;
use crate::script::{Act, Edge, Script};
use crate::world::World;

const INSERTED: Verdict = Verdict::Acknowledge(Outcome::Inserted);
const FULL: Verdict = Verdict::Acknowledge(Outcome::Rejected(RejectedReason::LimitExhausted));
const INACTIVE: Verdict = Verdict::Acknowledge(Outcome::Rejected(RejectedReason::PlusInactive));

async fn checkpoint(world: &World, message: &Message) -> Checkpoint {
    world.item(&message.key).await.checkpoint.unwrap()
}

async fn billed_as(world: &World, message: &Message) -> (BilledAs, Option<Limit>) {
    let Checkpoint { billed_as, limit, .. } = checkpoint(world, message).await;
    (billed_as, limit)
}

/// Lets the world's stores remember the space's plan as it stands now.
async fn remember(world: &World) {
    world.stores.spaces.read(&world.space, Freshness::Cached).await.unwrap();
}

#[tokio::test]
async fn an_internal_space_is_stamped_and_consumes_nothing() {
    let mut world = World::new().await;
    // Only configuration makes a space internal; what the table says of it does not matter.
    world.policy.internal_spaces.insert(world.space.clone());
    world.set_plan(Subscription::PlusInactive, None).await;
    let message = world.message("a");
    assert_eq!(world.deliver(&message).await, INSERTED);
    assert_eq!(world.count(&message.key).await, Count { meter: 0, ..Count::inserted() });
    assert_eq!(billed_as(&world, &message).await, (BilledAs::Internal, None));
    assert_eq!(stored_billed_as(&world).await, ["INTERNAL"]);
}

#[tokio::test]
async fn an_active_plus_space_is_stamped_and_consumes_nothing() {
    let world = World::new().await;
    // Plus usage is billed, not capped: a limit that is left in the entry does not bind.
    world.set_plan(Subscription::PlusActive, Some(1)).await;
    let messages = [world.message("a"), world.message("b")];
    for message in &messages {
        assert_eq!(world.deliver(message).await, INSERTED);
        assert_eq!(billed_as(&world, message).await, (BilledAs::Plus, None));
    }
    let expected = Count { meter: 0, archived: 2, rows: 2, twins: 2, ..Count::inserted() };
    assert_eq!(world.count(&messages[0].key).await, expected);
    assert_eq!(stored_billed_as(&world).await, ["PLUS"]);
}

/// What the twin, from which money is counted, says.
async fn stored_billed_as(world: &World) -> Vec<String> {
    let query = "SELECT DISTINCT billed_as FROM events_billing WHERE space = ?";
    world.stores.rows.client().query(query).bind(world.space.as_str()).fetch_all().await.unwrap()
}

#[tokio::test]
async fn an_inactive_plus_space_is_rejected_with_its_reason() {
    let world = World::new().await;
    world.set_plan(Subscription::PlusInactive, None).await;
    let message = world.message("a");
    assert_eq!(world.deliver(&message).await, INACTIVE);
    assert_eq!(world.count(&message.key).await, Count::of("REJECTED"));
    let reason = Rejection { reason: RejectedReason::PlusInactive, limit_seen: None, count_seen: None };
    assert_eq!(world.item(&message.key).await.rejection, Some(reason));
}

#[tokio::test]
async fn an_unknown_space_is_free_and_has_the_configured_limit() {
    let mut world = World::new().await;
    world.policy.default_free_limit = Limit::new(2).unwrap();
    let messages = ["a", "b", "c"].map(|name| world.message(name));
    for message in &messages[..2] {
        assert_eq!(world.deliver(message).await, INSERTED);
        assert_eq!(billed_as(&world, message).await, (BilledAs::Free, Limit::new(2)));
    }
    assert_eq!(world.deliver(&messages[2]).await, FULL);
    let count = world.count(&messages[0].key).await;
    assert_eq!(count, Count { meter: 2, archived: 2, rows: 2, twins: 2, ..Count::inserted() });
    assert_eq!(stored_billed_as(&world).await, ["FREE"]);
}

#[tokio::test]
async fn a_free_space_s_own_limit_goes_before_the_configured_one() {
    let world = World::new().await;
    world.set_plan(Subscription::Free, Some(1)).await;
    let (first, second) = (world.message("a"), world.message("b"));
    assert_eq!(world.deliver(&first).await, INSERTED);
    assert_eq!(world.deliver(&second).await, FULL);
    let seen = world.item(&second.key).await.rejection.unwrap();
    assert_eq!((seen.limit_seen, seen.count_seen), (Limit::new(1), Some(1)));
}

#[tokio::test]
async fn a_limit_raised_after_it_was_remembered_is_honoured_before_any_rejection() {
    let world = World::new().await;
    world.set_plan(Subscription::Free, Some(1)).await;
    let (first, second, third) = (world.message("a"), world.message("b"), world.message("c"));
    assert_eq!(world.deliver(&first).await, INSERTED);
    remember(&world).await;
    world.set_plan(Subscription::Free, Some(2)).await;
    assert_eq!(world.deliver(&second).await, INSERTED);
    assert_eq!(billed_as(&world, &second).await, (BilledAs::Free, Limit::new(2)));
    assert_eq!(world.deliver(&third).await, FULL);
    assert_eq!(world.count(&second.key).await.meter, 2);
}

#[tokio::test]
async fn an_upgrade_to_plus_after_free_was_remembered_is_honoured_before_any_rejection() {
    let world = World::new().await;
    world.set_plan(Subscription::Free, Some(1)).await;
    let (first, second) = (world.message("a"), world.message("b"));
    assert_eq!(world.deliver(&first).await, INSERTED);
    remember(&world).await;
    world.set_plan(Subscription::PlusActive, None).await;
    assert_eq!(world.deliver(&second).await, INSERTED);
    assert_eq!(billed_as(&world, &second).await, (BilledAs::Plus, None));
    // The event that consumed free quota is not billed as Plus too: its row says what it was billed as.
    assert_eq!(billed_as(&world, &first).await, (BilledAs::Free, Limit::new(1)));
    assert_eq!(world.count(&second.key).await.meter, 1);
}

#[tokio::test]
async fn a_plus_plan_paid_again_after_its_lapse_was_remembered_is_honoured_before_any_rejection() {
    let world = World::new().await;
    world.set_plan(Subscription::PlusInactive, None).await;
    remember(&world).await;
    world.set_plan(Subscription::PlusActive, None).await;
    let message = world.message("a");
    assert_eq!(world.deliver(&message).await, INSERTED);
    assert_eq!(billed_as(&world, &message).await, (BilledAs::Plus, None));
}

#[tokio::test]
async fn a_remembered_plan_is_enough_to_accept() {
    let world = World::new().await;
    world.set_plan(Subscription::PlusActive, None).await;
    remember(&world).await;
    world.set_plan(Subscription::PlusInactive, None).await;
    let message = world.message("a");
    let script = Script::watch();
    assert_eq!(world.scripted(&script).process_delivery(&message.body).await, INSERTED);
    assert_eq!((script.calls_of("read_space"), script.calls_of("read_space_afresh")), (1, 0));
}

#[tokio::test]
async fn a_failed_read_of_a_plan_is_not_now_and_never_an_unknown_space() {
    let world = World::new().await;
    let message = world.message("a");
    let script = Script::new(|point| match (point.edge, point.effect) {
        (Edge::Before, "read_space") => Act::Fail(PortError::NotNow("throttled".to_owned())),
        _ => Act::Go,
    });
    let verdict = world.scripted(&script).process_delivery(&message.body).await;
    assert!(matches!(verdict, Verdict::HandBack(HandBack::Trouble(PortError::NotNow(_)))), "{verdict:?}");
    assert_eq!(world.count(&message.key).await, Count::of("INSERTING"));
}

#[tokio::test]
async fn a_plan_that_this_version_cannot_read_is_not_now_and_never_an_unknown_space() {
    let world = World::new().await;
    let put = world
        .dynamo
        .put_item()
        .table_name(&world.config.names.spaces_table)
        .item("spaceId", AttributeValue::S(world.space.to_string()))
        .item("subscription", AttributeValue::S("gold".to_owned()));
    put.send().await.unwrap();
    let message = world.message("a");
    let verdict = world.deliver(&message).await;
    assert!(matches!(verdict, Verdict::HandBack(HandBack::Broken(_))), "{verdict:?}");
    assert_eq!(world.count(&message.key).await, Count::of("INSERTING"));
}

#[tokio::test]
async fn an_event_accepted_on_the_30th_and_processed_after_the_1st_consumes_the_old_month() {
    let world = World::new().await;
    let last = Message::new(&world.space, "a", 1, "2025-09-30T23:59:59.999Z");
    let first = Message::new(&world.space, "b", 1, "2025-10-01T00:00:00.000Z");
    // Claimed, and its worker killed; the redelivery comes a long time after the month has ended.
    world.kill_at(Edge::Before, "consume", &last).await;
    for message in [&last, &first] {
        assert_eq!(world.deliver(message).await, INSERTED);
    }
    for (message, month) in [(&last, "2025-09"), (&first, "2025-10")] {
        let month = PeriodMonth::parse(month).unwrap();
        assert_eq!(world.item(&message.key).await.period_month, month);
        assert_eq!(world.stores.billing.count(&world.space, month).await, Ok(1), "{month}");
    }
    let query = "SELECT period_month FROM events_billing WHERE space = ? GROUP BY period_month ORDER BY period_month";
    let months: Vec<String> =
        world.stores.rows.client().query(query).bind(world.space.as_str()).fetch_all().await.unwrap();
    assert_eq!(months, ["2025-09", "2025-10"]);
    assert_eq!(world.count(&last.key).await.meter, 2, "and no third month was touched");
}

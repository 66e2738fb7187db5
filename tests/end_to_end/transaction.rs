//! The transaction of meter and checkpoint, and what its cancellation means.

use serde_json::Value;
use tollgate_domain::ledger::{Rejection, Status};
use tollgate_domain::plan::{Limit, RejectedReason};
use tollgate_domain::ports::{Billing, Clock, Consumption, Freshness, Image, Ledger, PortError, Spaces};
use tollgate_stores::billing::DynamoBilling;
use tollgate_stores::clock::SystemClock;
use tollgate_stores::config::AwsConfig;
use tollgate_stores::connect::Stores;
use tollgate_worker::patience::ATTEMPTS;
use tollgate_worker::verdict::{HandBack, Outcome, Verdict};

use crate::count::Count;
use crate::engines::config;
use crate::loopback::Loopback;
use crate::script::{Act, Edge, Script};
use crate::world::World;

/// A cancellation as DynamoDB words it when two transactions met: no condition failed, no item comes along.
const CONTENTION: &str = r#"{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
"Message":"Transaction cancelled, please refer cancellation reasons for specific reasons [TransactionConflict, None]",
"CancellationReasons":[{"Code":"TransactionConflict","Message":"Transaction is ongoing for the item"},{"Code":"None"}]}"#;

fn conflicting(operation: &str) -> (u16, &'static str) {
    if operation == "TransactWriteItems" { (400, CONTENTION) } else { (200, "{}") }
}

#[tokio::test]
async fn both_condition_expressions_are_sent_verbatim() {
    let server = Loopback::start(|_| (200, "{}")).await;
    let aws =
        AwsConfig { endpoint_url: Some(server.endpoint_url.clone()), s3_path_style: true, ..AwsConfig::default() };
    // The production client, pointed elsewhere.
    let stores = Stores::connect(&tollgate_stores::config::StoreConfig { aws, ..config() }).await.unwrap();
    let world = World::new().await;
    let message = world.message("a");
    let consumed = stores.billing.consume(&message.key, message.month(), Limit::FREE_PLAN, SystemClock.now()).await;
    assert_eq!(consumed, Ok(Consumption::Consumed));

    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].operation, "TransactWriteItems");
    let items = requests[0].body["TransactItems"].as_array().unwrap();
    assert_eq!(items.len(), 2, "two updates and nothing else");
    let (counter, ledger) = (&items[0]["Update"], &items[1]["Update"]);
    assert_eq!(counter["ConditionExpression"], "attribute_not_exists(#eventCount) OR #eventCount < :limit");
    assert_eq!(
        counter["UpdateExpression"],
        "SET #eventCount = if_not_exists(#eventCount, :zero) + :increment, periodMonth = :periodMonth, \
         spaceId = :spaceId, updatedAtMs = :now"
    );
    assert_eq!(ledger["ConditionExpression"], "#status = :inserting AND attribute_not_exists(billingAcceptedAtMs)");
    assert_eq!(
        ledger["UpdateExpression"],
        "SET billingAcceptedAtMs = :now, updatedAtMs = :now, billedAs = :billedAs, billedLimit = :limit"
    );
    // The conditions mean what they say only with these names and values.
    assert_eq!(counter["ExpressionAttributeNames"]["#eventCount"], "eventCount");
    assert_eq!(ledger["ExpressionAttributeNames"]["#status"], "status");
    assert_eq!(counter["ExpressionAttributeValues"][":limit"]["N"], "1000");
    assert_eq!(counter["ExpressionAttributeValues"][":increment"]["N"], "1");
    assert_eq!(counter["ExpressionAttributeValues"][":zero"]["N"], "0");
    assert_eq!(ledger["ExpressionAttributeValues"][":inserting"]["S"], "INSERTING");
    for update in [counter, ledger] {
        assert_eq!(update["ReturnValuesOnConditionCheckFailure"], "ALL_OLD");
    }
}

#[tokio::test]
async fn an_already_billed_event_through_the_cancellation_path_is_accepted() {
    let world = World::new().await;
    let message = world.message("a");
    let script = Script::stop_at(Edge::Before, "consume");
    let meanwhile = async {
        // Another attempt at the same event pays first.
        world.consume(&message).await;
    };
    let verdict = world.deliver_around(&script, &message, meanwhile).await;
    assert_eq!(verdict, Verdict::Acknowledge(Outcome::Inserted));
    assert_eq!(world.count(&message.key).await, Count::inserted());
    assert_eq!(script.calls_of("consume"), 1, "the cancelled transaction is not tried again");
    assert_eq!(script.calls_of("reject"), 0);
}

#[tokio::test]
async fn an_already_billed_event_is_accepted_also_when_the_month_is_full() {
    let mut world = World::new().await;
    world.policy.default_free_limit = Limit::new(1).unwrap();
    let message = world.message("a");
    world.kill_at(Edge::After, "claim", &message).await;
    let script = Script::stop_at(Edge::Before, "consume");
    let meanwhile = async {
        world.consume(&message).await; // Takes the last unit: now both conditions fail at once.
    };
    let verdict = world.deliver_around(&script, &message, meanwhile).await;
    assert_eq!(verdict, Verdict::Acknowledge(Outcome::Inserted));
    assert_eq!(world.count(&message.key).await, Count::inserted());
}

#[tokio::test]
async fn an_exhausted_limit_is_rejected() {
    let mut world = World::new().await;
    world.policy.default_free_limit = Limit::new(1).unwrap();
    let (first, second) = (world.message("a"), world.message("b"));
    assert_eq!(world.deliver(&first).await, Verdict::Acknowledge(Outcome::Inserted));
    let rejected = Verdict::Acknowledge(Outcome::Rejected(RejectedReason::LimitExhausted));
    assert_eq!(world.deliver(&second).await, rejected);

    let item = world.item(&second.key).await;
    assert_eq!(
        item.rejection,
        Some(Rejection { reason: RejectedReason::LimitExhausted, limit_seen: Limit::new(1), count_seen: Some(1) })
    );
    let count = world.count(&second.key).await;
    assert_eq!(
        count,
        Count { meter: 1, archived: 1, rows: 1, twins: 1, ..Count::of("REJECTED") },
        "all of it the first's"
    );
    assert_eq!(world.deliver(&second).await, Verdict::Acknowledge(Outcome::Already(Status::Rejected)));
    assert_eq!(world.count(&second.key).await, count);
}

#[tokio::test]
async fn a_transaction_cancelled_by_contention_only_is_retried_and_never_rejected() {
    let mut world = World::new().await;
    // Room for this one event and no other: the hardest case to keep apart from a full month.
    world.policy.default_free_limit = Limit::new(1).unwrap();
    let message = world.message("a");
    let script = Script::new(|point| {
        if point.edge == Edge::Before && point.effect == "consume" && point.nth <= 3 { Act::Cancel } else { Act::Go }
    });
    let verdict = world.scripted(&script).process_delivery(&message.body).await;
    assert_eq!(verdict, Verdict::Acknowledge(Outcome::Inserted));
    assert_eq!((script.calls_of("consume"), script.calls_of("reject")), (4, 0));
    assert_eq!(world.count(&message.key).await, Count::inserted());
}

#[tokio::test]
async fn contention_that_outlasts_the_budget_hands_the_message_back_undecided() {
    let world = World::new().await;
    let message = world.message("a");
    let script =
        Script::new(
            |point| {
                if point.edge == Edge::Before && point.effect == "consume" { Act::Cancel } else { Act::Go }
            },
        );
    let verdict = world.scripted(&script).process_delivery(&message.body).await;
    assert!(matches!(verdict, Verdict::HandBack(HandBack::Trouble(PortError::Contended(_)))), "{verdict:?}");
    assert_eq!(script.calls_of("consume"), usize::try_from(ATTEMPTS).unwrap());
    assert_eq!(script.calls_of("reject"), 0);
    assert_eq!(world.count(&message.key).await, Count::of("INSERTING"));

    assert_eq!(world.deliver(&message).await, Verdict::Acknowledge(Outcome::Inserted));
    assert_eq!(world.count(&message.key).await, Count::inserted());
}

/// A replica that lags would reject for ever what the month, the limit or the plan has room for; the emulator has none.
#[tokio::test]
async fn every_read_that_a_rejection_can_rest_on_is_strongly_consistent() {
    let server = Loopback::start(|_| (200, "{}")).await;
    let aws =
        AwsConfig { endpoint_url: Some(server.endpoint_url.clone()), s3_path_style: true, ..AwsConfig::default() };
    let stores = Stores::connect(&tollgate_stores::config::StoreConfig { aws, ..config() }).await.unwrap();
    let message = World::new().await.message("a");
    let space = &message.key.space;
    assert_eq!(stores.spaces.read(space, Freshness::Strong).await, Ok(None));
    assert_eq!(stores.billing.count(space, message.month()).await, Ok(0));
    assert_eq!(stores.ledger.read(&message.key).await, Ok(Image::Absent));
    let asked: Vec<_> = server.requests().into_iter().map(|asked| (asked.operation, asked.body)).collect();
    assert_eq!(asked.len(), 3);
    for (operation, body) in asked {
        assert_eq!((operation.as_str(), &body["ConsistentRead"]), ("GetItem", &Value::from(true)), "{body}");
    }
}

#[tokio::test]
async fn dynamodb_s_own_words_for_contention_are_read_as_undecided() {
    let server = Loopback::start(conflicting).await;
    let world = World::new().await;
    let message = world.message("a");
    let names = &world.config.names;
    let contended = DynamoBilling::new(server.client(), &names.ledger_table, &names.meter_table);
    let answer = contended.consume(&message.key, message.month(), Limit::FREE_PLAN, SystemClock.now()).await;
    assert_eq!(answer, Ok(Consumption::Cancelled { ledger: None, count: None }));
    assert_eq!(server.requests().len(), 1, "the client library does not retry it by itself");

    let script = Script::watch();
    let mut ports = world.ports(&script);
    ports.billing.inner = contended;
    let verdict = world.over(ports).process_delivery(&message.body).await;
    assert!(matches!(verdict, Verdict::HandBack(HandBack::Trouble(PortError::Contended(_)))), "{verdict:?}");
    assert_eq!(script.calls_of("reject"), 0);
    assert_eq!(world.count(&message.key).await, Count::of("INSERTING"));
}

#[tokio::test]
async fn a_lost_answer_of_a_transaction_that_happened_is_not_charged_again() {
    let world = World::new().await;
    let message = world.message("a");
    let script = Script::stop_at(Edge::After, "consume");
    // Killed after the effect and before its answer is known: the same to the caller as an answer that was lost.
    assert_eq!(world.kill_by(&script, &message).await, None);
    assert_eq!(world.count(&message.key).await, Count::charged());
    let again = world.stores.billing.consume(&message.key, message.month(), Limit::FREE_PLAN, SystemClock.now()).await;
    let Ok(Consumption::Cancelled { ledger: Some(_), count: None }) = again else { panic!("{again:?}") };
    assert_eq!(world.count(&message.key).await, Count::charged());
}

#[tokio::test]
async fn events_that_race_for_the_last_units_fill_the_month_exactly() {
    let mut world = World::new().await;
    world.policy.default_free_limit = Limit::new(5).unwrap();
    let messages: Vec<_> = (0..12).map(|number| world.message(&format!("e{number}"))).collect();
    let pipeline = world.live();
    let verdicts =
        futures_util::future::join_all(messages.iter().map(|message| pipeline.process_delivery(&message.body))).await;
    let inserted = verdicts.iter().filter(|verdict| **verdict == Verdict::Acknowledge(Outcome::Inserted)).count();
    let rejected = Verdict::Acknowledge(Outcome::Rejected(RejectedReason::LimitExhausted));
    assert_eq!(inserted, 5, "{verdicts:?}");
    assert_eq!(verdicts.iter().filter(|verdict| **verdict == rejected).count(), 7, "{verdicts:?}");
    let count = world.count(&messages[0].key).await;
    assert_eq!((count.meter, count.archived, count.rows, count.twins), (5, 5, 5, 5));
}

//! ClickHouse: what it refuses, whom it blames, and that nothing is stored by halves.

use futures_util::future::join_all;
use tollgate_domain::ledger::{Attention, Status};
use tollgate_domain::plan::BilledAs;
use tollgate_domain::ports::{InsertError, PortError, Rows};
use tollgate_domain::row::Row;
use tollgate_stores::config::{ClickHouseConfig, StoreConfig};
use tollgate_stores::rows::ClickHouseRows;
use tollgate_stores::schema;
use tollgate_worker::batch::Batcher;
use tollgate_worker::verdict::{HandBack, Outcome, Verdict};

use crate::count::Count;
use crate::database::Database;
use crate::world::{BATCH, World};

const REFUSES_BAD: &str = "ALTER TABLE events ADD CONSTRAINT no_bad CHECK subject != 'bad'";

/// The row that `name` would have.
fn row(world: &World, name: &str) -> Row {
    let message = world.message(name);
    Row::new(&message.envelope.event, &message.claim(message.envelope.accepted_at).into_item(), BilledAs::Free)
}

fn is_broken(answer: &Result<(), InsertError>) -> bool {
    matches!(answer, Err(InsertError::Port(PortError::Broken(_))))
}

async fn stored_subjects(world: &World) -> Vec<String> {
    let query = "SELECT DISTINCT subject FROM events WHERE space = ? ORDER BY subject";
    world.stores.rows.client().query(query).bind(world.space.as_str()).fetch_all().await.unwrap()
}

#[tokio::test]
async fn the_schema_can_be_applied_again_and_keeps_the_rows() {
    let database = Database::create().await;
    let world = World::of(database.config()).await;
    world.stores.rows.insert(&[row(&world, "a")]).await.unwrap();
    schema::apply(&database.operator).await.unwrap();
    world.stores.rows.insert(&[row(&world, "b")]).await.unwrap();
    assert_eq!(stored_subjects(&world).await, ["a", "b"]);
    database.drop().await;
}

#[tokio::test]
async fn a_row_reads_back_as_it_was_sent() {
    let world = World::new().await;
    let sent = row(&world, "é\"'\\🦀");
    world.stores.rows.insert(std::slice::from_ref(&sent)).await.unwrap();
    let query = "SELECT toJSONString(map('space', space, 'event_id', event_id, 'fingerprint', fingerprint, 'meter', meter, \
                 'subject', subject, 'source', source, 'period_month', period_month, 'billed_as', billed_as)), \
                 quantity, occurred_at_ms, row_inserted_at_ms FROM events WHERE space = ?";
    let (texts, quantity, occurred_at_ms, row_inserted_at_ms): (String, u64, i64, i64) =
        world.stores.rows.client().query(query).bind(world.space.as_str()).fetch_one().await.unwrap();
    let mut stored: serde_json::Value = serde_json::from_str(&texts).unwrap();
    stored["quantity"] = quantity.into();
    stored["occurred_at_ms"] = occurred_at_ms.into();
    stored["row_inserted_at_ms"] = row_inserted_at_ms.into();
    assert_eq!(serde_json::from_value::<Row>(stored).unwrap(), sent);
}

/// One kind of drift: the table is altered, inserts are refused as broken, the table is mended, inserts work.
async fn drift_is_broken_until_it_is_mended(drift: &str, mend: &str, seen_before: bool) {
    let database = Database::create().await;
    let world = World::of(database.config()).await;
    let before: &[&str] = if seen_before { &["a"] } else { &[] };
    for name in before {
        world.stores.rows.insert(&[row(&world, name)]).await.unwrap();
    }
    database.execute(drift).await;
    for attempt in 1..=2 {
        let answer = world.stores.rows.insert(&[row(&world, "b")]).await;
        assert!(is_broken(&answer), "attempt {attempt}: {answer:?}");
    }
    database.execute(mend).await;
    assert_eq!(stored_subjects(&world).await, before, "nothing was stored");
    // By the same connection: no restart.
    world.stores.rows.insert(&[row(&world, "c")]).await.unwrap();
    assert_eq!(stored_subjects(&world).await, [before, &["c"]].concat());
    database.drop().await;
}

#[tokio::test]
async fn a_renamed_column_is_broken_until_it_is_mended() {
    let (drift, mend) =
        ("ALTER TABLE events RENAME COLUMN subject TO topic", "ALTER TABLE events RENAME COLUMN topic TO subject");
    drift_is_broken_until_it_is_mended(drift, mend, false).await;
    drift_is_broken_until_it_is_mended(drift, mend, true).await;
}

#[tokio::test]
async fn a_dropped_column_is_broken_until_it_is_mended() {
    let (drift, mend) =
        ("ALTER TABLE events DROP COLUMN source", "ALTER TABLE events ADD COLUMN source String AFTER subject");
    drift_is_broken_until_it_is_mended(drift, mend, false).await;
    drift_is_broken_until_it_is_mended(drift, mend, true).await;
}

#[tokio::test]
async fn a_column_of_another_type_is_broken_until_it_is_mended() {
    let (drift, mend) =
        ("ALTER TABLE events MODIFY COLUMN subject UInt64", "ALTER TABLE events MODIFY COLUMN subject String");
    drift_is_broken_until_it_is_mended(drift, mend, false).await;
}

#[tokio::test]
async fn a_column_that_no_row_fills_is_broken_until_it_is_mended() {
    let (drift, mend) = ("ALTER TABLE events ADD COLUMN region String", "ALTER TABLE events DROP COLUMN region");
    drift_is_broken_until_it_is_mended(drift, mend, false).await;
}

#[tokio::test]
async fn a_table_that_is_altered_compatibly_under_a_running_worker_takes_rows_without_a_restart() {
    let database = Database::create().await;
    let world = World::of(database.config()).await;
    world.stores.rows.insert(&[row(&world, "a")]).await.unwrap();
    // Texts are texts to a client that looks; the columns that this connection remembers are of the other type.
    database.execute("ALTER TABLE events MODIFY COLUMN subject LowCardinality(String)").await;
    let first = world.stores.rows.insert(&[row(&world, "b")]).await;
    assert!(first.is_ok() || is_broken(&first), "{first:?}");
    world.stores.rows.insert(&[row(&world, "b")]).await.unwrap();
    assert_eq!(stored_subjects(&world).await, ["a", "b"]);
    database.drop().await;
}

#[tokio::test]
async fn drift_hands_the_message_back_blames_no_event_and_counts_no_quarantine() {
    let database = Database::create().await;
    let world = World::of(database.config()).await;
    let message = world.message("a");
    database.execute("ALTER TABLE events RENAME COLUMN subject TO topic").await;
    let verdict = world.deliver(&message).await;
    assert!(matches!(verdict, Verdict::HandBack(HandBack::Broken(_))), "{verdict:?}");
    assert_eq!(world.count(&message.key).await, Count { archived: 1, ..Count::charged() });
    assert_eq!(world.item(&message.key).await.quarantine.count, 0);
    database.execute("ALTER TABLE events RENAME COLUMN topic TO subject").await;
    assert_eq!(world.deliver(&message).await, Verdict::Acknowledge(Outcome::Inserted));
    assert_eq!(world.count(&message.key).await, Count::inserted());
    database.drop().await;
}

#[tokio::test]
async fn a_row_that_violates_a_constraint_is_poison_and_its_neighbours_are_stored() {
    let database = Database::create().await;
    let world = World::of(database.config()).await;
    database.execute(REFUSES_BAD).await;
    let names = ["a", "b", "c", "bad", "d", "e", "f", "g"];
    let rows = names.map(|name| row(&world, name));
    // All in one insert: the batch is refused as a whole, and nothing of it is stored.
    let together = world.stores.rows.insert(&rows).await;
    assert!(matches!(together, Err(InsertError::Poison { code: 469, .. })), "{together:?}");
    assert_eq!(stored_subjects(&world).await, [""; 0]);

    let batcher = Batcher::start(world.stores.rows.clone(), BATCH);
    let answers = join_all(rows.iter().map(|row| batcher.insert(std::slice::from_ref(row)))).await;
    for (name, answer) in names.iter().zip(answers) {
        let refused = matches!(answer, Err(InsertError::Poison { code: 469, .. }));
        assert_eq!((refused, answer.is_ok()), (*name == "bad", *name != "bad"), "{name}: {answer:?}");
    }
    assert_eq!(stored_subjects(&world).await, ["a", "b", "c", "d", "e", "f", "g"]);
    database.drop().await;
}

#[tokio::test]
async fn a_user_who_may_not_write_is_broken_and_no_row_is_to_blame() {
    let world = World::new().await;
    let reader = ClickHouseConfig {
        user: "reader".to_owned(),
        password: "reader".to_owned().into(),
        ..world.config.clickhouse.clone()
    };
    let rows = ClickHouseRows::connect(&reader).unwrap();
    let answer = rows.insert(&[row(&world, "a")]).await;
    assert!(is_broken(&answer), "{answer:?}");
    let wrong = ClickHouseConfig { password: "wrong".to_owned().into(), ..reader };
    let answer = ClickHouseRows::connect(&wrong).unwrap().insert(&[row(&world, "a")]).await;
    assert!(is_broken(&answer), "{answer:?}");
    assert_eq!(stored_subjects(&world).await, [""; 0]);
}

#[tokio::test]
async fn an_engine_that_is_away_is_not_the_row_s_fault() {
    let world = World::new().await;
    // Bound and never listening: connections to it are refused.
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    drop(socket);
    let away = ClickHouseConfig { url, ..world.config.clickhouse.clone() };
    let rows = ClickHouseRows::connect(&away).unwrap();
    let answer = rows.insert(&[row(&world, "a")]).await;
    assert!(matches!(answer, Err(InsertError::Port(PortError::Unknown(_) | PortError::NotNow(_)))), "{answer:?}");
    let probed = rows.is_present(&world.message("a").key).await;
    assert!(matches!(probed, Err(PortError::Unknown(_) | PortError::NotNow(_))), "{probed:?}");
}

#[tokio::test]
async fn three_quarantines_make_an_event_uninsertable_with_the_error_kept_and_the_redelivery_acknowledged() {
    let database = Database::create().await;
    let world = World::of(database.config()).await;
    database.execute(REFUSES_BAD).await;
    let message = world.message("bad");
    let quarantined = Verdict::HandBack(HandBack::Quarantined { after_ms: 0 });
    for count in 1..=2 {
        assert_eq!(world.deliver(&message).await, quarantined);
        let item = world.item(&message.key).await;
        assert_eq!((item.status, item.quarantine.count, item.attention), (Status::Inserting, count, None));
    }
    assert_eq!(world.deliver(&message).await, Verdict::Acknowledge(Outcome::Uninsertable));
    let item = world.item(&message.key).await;
    assert_eq!((item.status, item.quarantine.count), (Status::Uninsertable, 3));
    assert_eq!(item.attention, Some(Attention::Uninsertable));
    assert!(item.quarantine.last_error.unwrap().contains("no_bad"), "ClickHouse's own words name the constraint");
    // Nothing is lost, and nothing is charged again: the archive has the payload.
    let given_up = Count { charged: true, meter: 1, archived: 1, ..Count::of("UNINSERTABLE") };
    assert_eq!(world.count(&message.key).await, given_up);
    assert_eq!(world.deliver(&message).await, Verdict::Acknowledge(Outcome::Already(Status::Uninsertable)));
    assert_eq!(world.count(&message.key).await, given_up);
    database.drop().await;
}

#[tokio::test]
async fn one_bad_minute_is_one_quarantine_however_often_the_message_comes() {
    let database = Database::create().await;
    let mut world = World::of(database.config()).await;
    world.quarantine_spacing_ms = 60_000;
    database.execute(REFUSES_BAD).await;
    let message = world.message("bad");
    for _ in 0..4 {
        let verdict = world.deliver(&message).await;
        assert_eq!(verdict, Verdict::HandBack(HandBack::Quarantined { after_ms: 60_000 }));
    }
    assert_eq!(world.item(&message.key).await.quarantine.count, 1);
    // The constraint goes away, and with it the trouble: the same event is stored.
    database.execute("ALTER TABLE events DROP CONSTRAINT no_bad").await;
    assert_eq!(world.deliver(&message).await, Verdict::Acknowledge(Outcome::Inserted));
    assert_eq!(world.count(&message.key).await, Count::inserted());
    database.drop().await;
}

#[tokio::test]
async fn a_view_that_throws_leaves_no_event_closed_without_its_twin() {
    let database = Database::create().await;
    let config: StoreConfig = database.config();
    let world = World::of(config).await;
    let message = world.message("a");
    database.execute("DROP TABLE events_to_billing").await;
    database
        .execute(
            "CREATE MATERIALIZED VIEW events_to_billing TO events_billing AS \
             SELECT space, event_id, quantity, row_inserted_at_ms, period_month, \
             if(throwIf(quantity > 0) = 0, billed_as, '') AS billed_as FROM events",
        )
        .await;
    assert_eq!(world.deliver(&message).await, Verdict::HandBack(HandBack::Quarantined { after_ms: 0 }));
    let refused = world.count(&message.key).await;
    assert_eq!((refused.status.as_str(), refused.meter, refused.twins), ("INSERTING", 1, 0));

    database.execute("DROP TABLE events_to_billing").await;
    schema::apply(&database.operator).await.unwrap();
    assert_eq!(world.deliver(&message).await, Verdict::Acknowledge(Outcome::Inserted));
    assert_eq!(world.count(&message.key).await, Count::inserted());
    database.drop().await;
}

//! Record quarantine, mark uninsertable.

use tollgate_domain::ledger::{Attention, LedgerItem, MAX_QUARANTINES, Quarantine, Status};
use tollgate_domain::ports::{Conditional, Ledger, PortResult};

use crate::bench::{Bench, at};
use crate::billing::stamped;
use crate::ledger::closed;

/// Milliseconds between two quarantines that both count.
const SPACING_MS: i64 = 1_000;

async fn record(on: &impl Bench, item: &LedgerItem, seen: u64, ms: i64) -> PortResult<Conditional> {
    on.ledger().record_quarantine(&item.key, seen, SPACING_MS, &format!("error {seen}"), at(ms)).await
}

/// Charged, and quarantined `count` times, each a spacing after the one before.
async fn quarantined(on: &impl Bench, count: u64) -> LedgerItem {
    let item = stamped(on, 1).await;
    for seen in 0..count {
        let ms = (i64::try_from(seen).unwrap() + 1) * SPACING_MS;
        assert_eq!(record(on, &item, seen, ms).await, Ok(Conditional::Applied));
    }
    on.item(&item.key).await
}

/// Charged and uninsertable.
pub(crate) async fn given_up(on: &impl Bench) -> LedgerItem {
    let item = quarantined(on, MAX_QUARANTINES).await;
    assert_eq!(on.ledger().mark_uninsertable(&item.key, at(5_000)).await, Ok(Conditional::Applied));
    on.item(&item.key).await
}

pub(crate) async fn quarantines_are_counted_one_by_one_with_the_last_error(on: &impl Bench) {
    let before = stamped(on, 2).await;
    let item = quarantined(on, 2).await;
    let quarantine = Quarantine { count: 2, last_at: Some(at(2_000)), last_error: Some("error 1".to_owned()) };
    let expected = LedgerItem { key: item.key.clone(), quarantine, updated_at: at(2_000), ..before };
    assert_eq!(item, expected);
}

pub(crate) async fn a_first_quarantine_that_is_repeated_counts_once(on: &impl Bench) {
    let item = quarantined(on, 1).await;
    // The answer was lost, and the same step runs again: whatever the spacing says.
    let answer = record(on, &item, 0, 60_000).await;
    on.assert_refused(&item, answer).await;
}

pub(crate) async fn a_quarantine_that_somebody_counted_first_is_refused(on: &impl Bench) {
    let item = quarantined(on, 2).await;
    let answer = record(on, &item, 1, 60_000).await;
    on.assert_refused(&item, answer).await;
}

pub(crate) async fn a_quarantine_within_the_spacing_is_refused(on: &impl Bench) {
    let item = quarantined(on, 1).await;
    let answer = record(on, &item, 1, 2 * SPACING_MS - 1).await;
    on.assert_refused(&item, answer).await;
    assert_eq!(record(on, &item, 1, 2 * SPACING_MS).await, Ok(Conditional::Applied));
}

pub(crate) async fn a_quarantine_of_an_event_that_nobody_billed_is_refused(on: &impl Bench) {
    let item = on.claimed(1).await;
    let answer = record(on, &item, 0, 1).await;
    on.assert_refused(&item, answer).await;
}

pub(crate) async fn a_first_quarantine_of_a_closed_event_is_refused(on: &impl Bench) {
    let item = closed(on, 1).await;
    let answer = record(on, &item, 0, 60_000).await;
    on.assert_refused(&item, answer).await;
}

pub(crate) async fn a_further_quarantine_of_a_closed_event_is_refused(on: &impl Bench) {
    let item = given_up(on).await;
    let answer = record(on, &item, MAX_QUARANTINES, 60_000).await;
    on.assert_refused(&item, answer).await;
}

pub(crate) async fn an_event_is_not_given_up_below_the_maximum(on: &impl Bench) {
    let item = quarantined(on, MAX_QUARANTINES - 1).await;
    let answer = on.ledger().mark_uninsertable(&item.key, at(60_000)).await;
    on.assert_refused(&item, answer).await;
}

pub(crate) async fn an_event_is_given_up_at_the_maximum(on: &impl Bench) {
    let before = quarantined(on, MAX_QUARANTINES).await;
    assert_eq!(on.ledger().mark_uninsertable(&before.key, at(60_000)).await, Ok(Conditional::Applied));
    let expected = LedgerItem {
        status: Status::Uninsertable,
        attention: Some(Attention::Uninsertable),
        updated_at: at(60_000),
        ..before
    };
    assert_eq!(on.item(&expected.key).await, expected);
}

pub(crate) async fn an_event_that_nobody_billed_is_not_given_up(on: &impl Bench) {
    let key = on.claimed(1).await.key;
    on.set_quarantines(&key, MAX_QUARANTINES).await;
    let item = on.item(&key).await;
    let answer = on.ledger().mark_uninsertable(&key, at(60_000)).await;
    on.assert_refused(&item, answer).await;
}

pub(crate) async fn a_closed_event_is_not_given_up(on: &impl Bench) {
    let item = quarantined(on, MAX_QUARANTINES).await;
    assert_eq!(on.ledger().mark_inserted(&item.key, at(60_000)).await, Ok(Conditional::Applied));
    let item = on.item(&item.key).await;
    let answer = on.ledger().mark_uninsertable(&item.key, at(60_001)).await;
    on.assert_refused(&item, answer).await;
}

pub(crate) async fn a_further_quarantine_of_an_event_that_nobody_billed_is_refused(on: &impl Bench) {
    // No port makes such an item; were it made, it must not become terminal.
    let key = on.claimed(1).await.key;
    on.set_quarantines(&key, 1).await;
    let item = on.item(&key).await;
    let answer = record(on, &item, 1, 60_000).await;
    on.assert_refused(&item, answer).await;
}

//! Consume, stamp and reject: the writes that move money.

use futures_util::future::{join, join_all};
use tollgate_domain::ledger::{Checkpoint, LedgerItem, Rejection, Status};
use tollgate_domain::plan::{BilledAs, Limit, RejectedReason};
use tollgate_domain::ports::{Billing, Conditional, Consumption, Image, Ledger};

use crate::bench::{Bench, at, month};

pub(crate) const PLUS_INACTIVE: Rejection =
    Rejection { reason: RejectedReason::PlusInactive, limit_seen: None, count_seen: None };
const PLUS: Checkpoint =
    Checkpoint { accepted_at: tollgate_domain::time::UtcMillis::EPOCH, billed_as: BilledAs::Plus, limit: None };

fn limit(events: u64) -> Limit {
    Limit::new(events).unwrap()
}

async fn consume(on: &impl Bench, number: u8, events: u64) -> Consumption {
    on.billing().consume(&on.key(number), month(), limit(events), at(1)).await.unwrap()
}

async fn count(on: &impl Bench) -> u64 {
    on.billing().count(on.space(), month()).await.unwrap()
}

/// Claimed and charged to the free quota.
async fn charged(on: &impl Bench, number: u8, events: u64) -> LedgerItem {
    let item = on.claimed(number).await;
    assert_eq!(consume(on, number, events).await, Consumption::Consumed);
    on.item(&item.key).await
}

/// Claimed and stamped as Plus.
pub(crate) async fn stamped(on: &impl Bench, number: u8) -> LedgerItem {
    let item = on.claimed(number).await;
    assert_eq!(on.billing().stamp(&item.key, &PLUS).await, Ok(Conditional::Applied));
    on.item(&item.key).await
}

/// Claimed and rejected.
async fn rejected(on: &impl Bench, number: u8) -> LedgerItem {
    let item = on.claimed(number).await;
    assert_eq!(on.billing().reject(&item.key, &PLUS_INACTIVE, at(1)).await, Ok(Conditional::Applied));
    on.item(&item.key).await
}

fn cancelled(ledger: Option<&LedgerItem>, count: Option<u64>) -> Consumption {
    Consumption::Cancelled { ledger: ledger.map(|item| Image::Item(Box::new(item.clone()))), count }
}

pub(crate) async fn a_consumption_moves_counter_and_checkpoint_together(on: &impl Bench) {
    let item = on.claimed(1).await;
    assert_eq!(count(on).await, 0);
    assert_eq!(consume(on, 1, 2).await, Consumption::Consumed);
    assert_eq!(count(on).await, 1);
    let checkpoint = Checkpoint { accepted_at: at(1), billed_as: BilledAs::Free, limit: Some(limit(2)) };
    let expected = LedgerItem { checkpoint: Some(checkpoint), updated_at: at(1), ..item };
    assert_eq!(on.item(&expected.key).await, expected);
}

pub(crate) async fn a_full_month_moves_neither_and_hands_back_its_count(on: &impl Bench) {
    charged(on, 1, 1).await;
    let second = on.claimed(2).await;
    assert_eq!(consume(on, 2, 1).await, cancelled(None, Some(1)));
    assert_eq!(count(on).await, 1);
    assert_eq!(on.item(&second.key).await, second, "no checkpoint without the counter");
}

pub(crate) async fn a_charged_event_is_not_charged_twice(on: &impl Bench) {
    let item = charged(on, 1, 9).await;
    assert_eq!(consume(on, 1, 9).await, cancelled(Some(&item), None));
    assert_eq!(count(on).await, 1, "no counter without the checkpoint");
    assert_eq!(on.item(&item.key).await, item);
}

pub(crate) async fn a_stamped_event_is_not_charged(on: &impl Bench) {
    let item = stamped(on, 1).await;
    assert_eq!(consume(on, 1, 9).await, cancelled(Some(&item), None));
    assert_eq!(count(on).await, 0);
    assert_eq!(on.item(&item.key).await, item);
}

pub(crate) async fn a_rejected_event_is_not_charged(on: &impl Bench) {
    let item = rejected(on, 1).await;
    assert_eq!(consume(on, 1, 9).await, cancelled(Some(&item), None));
    assert_eq!(count(on).await, 0);
    assert_eq!(on.item(&item.key).await, item);
}

pub(crate) async fn an_event_without_a_claim_is_not_charged(on: &impl Bench) {
    let answer = consume(on, 1, 9).await;
    // No item comes where there is none: its absence from the answer proves nothing.
    assert_eq!(answer, Consumption::Cancelled { ledger: None, count: None });
    assert_eq!(count(on).await, 0);
    assert_eq!(on.ledger().read(&on.key(1)).await, Ok(Image::Absent));
}

pub(crate) async fn a_refused_checkpoint_and_a_full_month_hand_back_both(on: &impl Bench) {
    let item = charged(on, 1, 1).await;
    assert_eq!(consume(on, 1, 1).await, cancelled(Some(&item), Some(1)));
}

pub(crate) async fn months_and_spaces_have_counters_of_their_own(on: &impl Bench) {
    charged(on, 1, 1).await;
    let second = on.claimed(2).await;
    let answer = on.billing().consume(&second.key, month().next(), limit(1), at(1)).await;
    assert_eq!(answer, Ok(Consumption::Consumed), "another month has room");
    assert_eq!(count(on).await, 1);
    assert_eq!(on.billing().count(on.space(), month().next()).await, Ok(1));
    let other = tollgate_domain::space::SpaceId::parse(&format!("{}x", on.space())).unwrap();
    assert_eq!(on.billing().count(&other, month()).await, Ok(0));
}

pub(crate) async fn consumptions_in_a_race_stop_at_the_limit(on: &impl Bench) {
    for number in 0..8 {
        on.claimed(number).await;
    }
    let answers = join_all((0..8).map(|number| consume(on, number, 3))).await;
    let consumed = answers.iter().filter(|answer| **answer == Consumption::Consumed).count();
    assert_eq!((consumed, count(on).await), (3, 3), "{answers:?}");
    for (number, answer) in (0..8).zip(&answers) {
        let has_checkpoint = on.item(&on.key(number)).await.checkpoint.is_some();
        assert_eq!(has_checkpoint, *answer == Consumption::Consumed, "event {number}");
    }
}

pub(crate) async fn consumptions_of_one_event_in_a_race_charge_once(on: &impl Bench) {
    on.claimed(1).await;
    let answers = join_all((0..8).map(|_| consume(on, 1, 9))).await;
    let consumed = answers.iter().filter(|answer| **answer == Consumption::Consumed).count();
    assert_eq!((consumed, count(on).await), (1, 1), "{answers:?}");
}

pub(crate) async fn a_stamp_writes_what_it_was_billed_as(on: &impl Bench) {
    for (number, billed_as) in [(1, BilledAs::Plus), (2, BilledAs::Internal)] {
        let item = on.claimed(number).await;
        let checkpoint = Checkpoint { accepted_at: at(3), billed_as, limit: None };
        assert_eq!(on.billing().stamp(&item.key, &checkpoint).await, Ok(Conditional::Applied));
        let expected = LedgerItem { checkpoint: Some(checkpoint), updated_at: at(3), ..item };
        assert_eq!(on.item(&expected.key).await, expected);
    }
    assert_eq!(count(on).await, 0);
}

/// A later stamp as something else.
const INTERNAL: Checkpoint = Checkpoint { billed_as: BilledAs::Internal, ..PLUS };

pub(crate) async fn an_event_is_stamped_once(on: &impl Bench) {
    let item = stamped(on, 1).await;
    let answer = on.billing().stamp(&item.key, &INTERNAL).await;
    on.assert_refused(&item, answer).await;
}

pub(crate) async fn a_charged_event_is_not_stamped(on: &impl Bench) {
    let item = charged(on, 1, 9).await;
    let answer = on.billing().stamp(&item.key, &PLUS).await;
    on.assert_refused(&item, answer).await;
}

pub(crate) async fn a_rejected_event_is_not_stamped(on: &impl Bench) {
    let item = rejected(on, 1).await;
    let answer = on.billing().stamp(&item.key, &PLUS).await;
    on.assert_refused(&item, answer).await;
}

pub(crate) async fn nothing_is_stamped_without_an_item(on: &impl Bench) {
    let key = on.key(1);
    let answer = on.billing().stamp(&key, &PLUS).await;
    on.assert_refused_without_item(&key, answer).await;
}

pub(crate) async fn a_rejection_keeps_what_justified_it(on: &impl Bench) {
    let full = Rejection { reason: RejectedReason::LimitExhausted, limit_seen: Some(limit(5)), count_seen: Some(7) };
    for (number, rejection) in [(1, PLUS_INACTIVE), (2, full)] {
        let item = on.claimed(number).await;
        assert_eq!(on.billing().reject(&item.key, &rejection, at(3)).await, Ok(Conditional::Applied));
        let expected = LedgerItem { status: Status::Rejected, rejection: Some(rejection), updated_at: at(3), ..item };
        assert_eq!(on.item(&expected.key).await, expected);
    }
}

pub(crate) async fn a_charged_event_is_not_rejected(on: &impl Bench) {
    let item = charged(on, 1, 9).await;
    let answer = on.billing().reject(&item.key, &PLUS_INACTIVE, at(2)).await;
    on.assert_refused(&item, answer).await;
}

pub(crate) async fn a_stamped_event_is_not_rejected(on: &impl Bench) {
    let item = stamped(on, 1).await;
    let answer = on.billing().reject(&item.key, &PLUS_INACTIVE, at(2)).await;
    on.assert_refused(&item, answer).await;
}

pub(crate) async fn an_event_is_rejected_once(on: &impl Bench) {
    let item = rejected(on, 1).await;
    let other = Rejection { reason: RejectedReason::LimitExhausted, limit_seen: Some(limit(1)), count_seen: Some(1) };
    let answer = on.billing().reject(&item.key, &other, at(2)).await;
    on.assert_refused(&item, answer).await;
}

pub(crate) async fn nothing_is_rejected_without_an_item(on: &impl Bench) {
    let key = on.key(1);
    let answer = on.billing().reject(&key, &PLUS_INACTIVE, at(1)).await;
    on.assert_refused_without_item(&key, answer).await;
}

pub(crate) async fn a_stamp_and_a_rejection_in_a_race_leave_one_of_them(on: &impl Bench) {
    for number in 0..4 {
        let key = on.claimed(number).await.key;
        let (stamp, reject) =
            join(on.billing().stamp(&key, &PLUS), on.billing().reject(&key, &PLUS_INACTIVE, at(1))).await;
        let item = on.item(&key).await;
        assert_eq!(stamp == Ok(Conditional::Applied), item.checkpoint.is_some());
        assert_eq!(reject == Ok(Conditional::Applied), item.rejection.is_some());
        assert_ne!(item.checkpoint.is_some(), item.rejection.is_some(), "never both, never neither");
    }
}

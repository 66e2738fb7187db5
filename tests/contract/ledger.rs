//! Claim, mark inserted, record conflict.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use tollgate_domain::ledger::{Attention, LedgerItem, NewClaim, Status};
use tollgate_domain::plan::BilledAs;
use tollgate_domain::ports::{Billing, Conditional, EventLookup, Image, Ledger};

use crate::bench::{Bench, at, claim, fingerprint};
use crate::billing::{PLUS_INACTIVE, stamped};
use crate::quarantine::given_up;

pub(crate) async fn a_claim_is_won_once_and_the_loser_gets_the_winner_s_item(on: &impl Bench) {
    let first = on.claimed(1).await;
    let second = NewClaim {
        fingerprint: fingerprint(2),
        submission_id: "sub_2".to_owned(),
        period_month: first.period_month.next(),
        now: at(1),
        key: first.key.clone(),
    };
    let answer = on.ledger().claim(&second).await;
    on.assert_refused(&first, answer).await;
}

pub(crate) async fn claims_in_a_race_are_won_once(on: &impl Bench) {
    let claims: Vec<NewClaim> =
        (0..8).map(|number| NewClaim { submission_id: format!("sub_{number}"), ..claim(on.key(1)) }).collect();
    let answers = join_all(claims.iter().map(|claim| on.ledger().claim(claim))).await;
    let winners: Vec<&NewClaim> = claims
        .iter()
        .zip(&answers)
        .filter(|(_, answer)| **answer == Ok(Conditional::Applied))
        .map(|(claim, _)| claim)
        .collect();
    let [winner] = winners.as_slice() else { panic!("{} winners", winners.len()) };
    let stands = (*winner).clone().into_item();
    assert_eq!(on.item(&stands.key).await, stands);
    for answer in answers.into_iter().filter(|answer| *answer != Ok(Conditional::Applied)) {
        on.assert_refused(&stands, answer).await;
    }
}

pub(crate) async fn an_event_that_nobody_billed_is_not_closed(on: &impl Bench) {
    let item = on.claimed(1).await;
    let answer = on.ledger().mark_inserted(&item.key, at(1)).await;
    on.assert_refused(&item, answer).await;
}

pub(crate) async fn a_rejected_event_is_not_closed(on: &impl Bench) {
    let key = on.claimed(1).await.key;
    assert_eq!(on.billing().reject(&key, &PLUS_INACTIVE, at(1)).await, Ok(Conditional::Applied));
    let rejected = on.item(&key).await;
    let answer = on.ledger().mark_inserted(&key, at(2)).await;
    on.assert_refused(&rejected, answer).await;
}

/// Charged, stored as far as the ledger knows, and closed.
pub(crate) async fn closed(on: &impl Bench, number: u8) -> LedgerItem {
    let item = stamped(on, number).await;
    assert_eq!(on.ledger().mark_inserted(&item.key, at(2)).await, Ok(Conditional::Applied));
    let closed = on.item(&item.key).await;
    assert_eq!(closed, LedgerItem { status: Status::Inserted, updated_at: at(2), ..item });
    closed
}

pub(crate) async fn an_event_is_closed_once(on: &impl Bench) {
    let closed = closed(on, 1).await;
    let answer = on.ledger().mark_inserted(&closed.key, at(3)).await;
    on.assert_refused(&closed, answer).await;
}

pub(crate) async fn an_uninsertable_event_is_not_closed(on: &impl Bench) {
    let item = given_up(on).await;
    let answer = on.ledger().mark_inserted(&item.key, at(9)).await;
    on.assert_refused(&item, answer).await;
}

pub(crate) async fn nothing_is_closed_without_an_item(on: &impl Bench) {
    let key = on.key(1);
    let answer = on.ledger().mark_inserted(&key, at(1)).await;
    on.assert_refused_without_item(&key, answer).await;
}

pub(crate) async fn a_conflict_without_an_item_is_refused_and_makes_none(on: &impl Bench) {
    let key = on.key(1);
    let answer = on.ledger().record_conflict(&key, &fingerprint(2), at(1)).await;
    on.assert_refused_without_item(&key, answer).await;
}

pub(crate) async fn a_conflict_that_comes_twice_is_kept_once(on: &impl Bench) {
    let item = on.claimed(1).await;
    for (number, ms) in [(2, 1), (2, 2), (3, 3)] {
        let answer = on.ledger().record_conflict(&item.key, &fingerprint(number), at(ms)).await;
        assert_eq!(answer, Ok(Conditional::Applied));
    }
    let expected = LedgerItem {
        conflicts: BTreeSet::from([fingerprint(2), fingerprint(3)]),
        attention: Some(Attention::Conflict),
        updated_at: at(3),
        ..item.clone()
    };
    assert_eq!(on.ledger().read(&item.key).await, Ok(Image::Item(Box::new(expected))));
}

pub(crate) async fn a_conflict_leaves_what_was_decided_alone(on: &impl Bench) {
    let item = closed(on, 1).await;
    let answer = on.ledger().record_conflict(&item.key, &fingerprint(2), at(5)).await;
    assert_eq!(answer, Ok(Conditional::Applied));
    let after = on.item(&item.key).await;
    assert_eq!(after.checkpoint.map(|checkpoint| checkpoint.billed_as), Some(BilledAs::Plus));
    let expected = LedgerItem {
        conflicts: BTreeSet::from([fingerprint(2)]),
        attention: Some(Attention::Conflict),
        updated_at: at(5),
        ..item
    };
    assert_eq!(after, expected);
}

pub(crate) async fn a_conflict_leaves_a_higher_reason_for_attention_alone(on: &impl Bench) {
    let item = given_up(on).await;
    let answer = on.ledger().record_conflict(&item.key, &fingerprint(2), at(9)).await;
    assert_eq!(answer, Ok(Conditional::Applied));
    assert_eq!(on.item(&item.key).await.attention, Some(Attention::Uninsertable));
}

pub(crate) async fn a_look_at_many_events_tells_of_each_what_a_read_would_in_the_order_of_the_keys(on: &impl Bench) {
    for number in [7, 130, 255] {
        on.claimed(number).await;
    }
    assert_eq!(on.ledger().record_conflict(&on.key(130), &fingerprint(2), at(1)).await, Ok(Conditional::Applied));
    assert_eq!(on.ledger().read_many(&[]).await, Ok(Vec::new()));
    // More keys than one request takes, backwards, and one of them three times over.
    let numbers = (0..=255).rev().chain([7, 7, 0]);
    let keys: Vec<_> = numbers.map(|number| on.key(number)).collect();
    let told = on.ledger().read_many(&keys).await.unwrap();
    assert_eq!(told.len(), keys.len());
    for (key, image) in keys.iter().zip(&told) {
        assert_eq!(on.ledger().read(key).await.as_ref(), Ok(image), "{key}");
    }
    assert_eq!(told.iter().filter(|image| matches!(image, Image::Item(_))).count(), 5);
}

//! Begin, finish and release of a command's receipt.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use tollgate_domain::ports::Receipts;
use tollgate_domain::receipt::{
    CommandReceipt, IdempotencyKey, KEPT_MS, NewReceipt, Owner, Progress, ReceiptKey, RequestHash, StoredAnswer,
    expiry_s,
};
use tollgate_domain::time::UtcMillis;

use crate::bench::{Bench, at};

const LEASE_MS: i64 = 30_000;

/// Owner `owner` begins the request `what` under the suite's one idempotency key, `ms` after instant 0.
fn new(on: &impl Bench, owner: &str, what: &str, ms: i64) -> NewReceipt {
    NewReceipt {
        key: ReceiptKey::of(on.space(), &IdempotencyKey::parse_header("\"order 1\"").unwrap()),
        request: RequestHash::of([what.as_bytes()]),
        owner: Owner::new(owner),
        now: at(ms),
        lease_until: at(ms + LEASE_MS),
    }
}

fn answer(body: &str) -> StoredAnswer {
    let headers = BTreeMap::from([("content-type".to_owned(), "application/json".to_owned())]);
    StoredAnswer { status: 202, headers, body: body.as_bytes().to_vec() }
}

fn done(begun: &NewReceipt, body: &str, finished_at: UtcMillis) -> CommandReceipt {
    CommandReceipt {
        progress: Progress::Done(answer(body)),
        expires_at_s: expiry_s(finished_at),
        ..begun.clone().into_receipt()
    }
}

/// Begins `first` and asserts that it stands.
async fn begun(on: &impl Bench, first: &NewReceipt) {
    assert_eq!(on.receipts().begin(first).await, Ok(None));
}

/// What stands, as a begin by a request that nobody else has, at instant 0, is told.
async fn standing(on: &impl Bench) -> CommandReceipt {
    on.receipts().begin(&new(on, "nobody", "nothing", 0)).await.unwrap().unwrap()
}

pub(crate) async fn a_command_is_begun_once_and_the_others_get_the_receipt_that_stands(on: &impl Bench) {
    let first = new(on, "one", "request", 0);
    begun(on, &first).await;
    for (owner, what, ms) in [("two", "request", 1), ("two", "other", 1), ("two", "request", LEASE_MS - 1)] {
        let told = on.receipts().begin(&new(on, owner, what, ms)).await;
        assert_eq!(told, Ok(Some(first.clone().into_receipt())), "{what} {ms}");
    }
    assert_eq!(standing(on).await, first.into_receipt());
}

pub(crate) async fn commands_begun_in_a_race_are_run_once(on: &impl Bench) {
    let all: Vec<NewReceipt> = (0..8).map(|number| new(on, &format!("owner-{number}"), "request", 0)).collect();
    let answers = join_all(all.iter().map(|new| on.receipts().begin(new))).await;
    let winners: Vec<&NewReceipt> =
        all.iter().zip(&answers).filter(|(_, told)| **told == Ok(None)).map(|(new, _)| new).collect();
    let [winner] = winners.as_slice() else { panic!("{} winners", winners.len()) };
    let stands = (*winner).clone().into_receipt();
    assert_eq!(answers.iter().filter(|told| **told == Ok(Some(stands.clone()))).count(), 7);
}

pub(crate) async fn an_answer_is_kept_and_handed_to_whoever_comes(on: &impl Bench) {
    let first = new(on, "one", "request", 0);
    begun(on, &first).await;
    assert_eq!(on.receipts().finish(&first.key, &first.owner, &answer("{}"), at(9)).await, Ok(true));
    let stands = done(&first, "{}", at(9));
    // Also after the time at which the lease would have ended: an answer has none.
    for ms in [10, LEASE_MS + 1, KEPT_MS] {
        assert_eq!(on.receipts().begin(&new(on, "two", "request", ms)).await, Ok(Some(stands.clone())), "{ms}");
    }
}

pub(crate) async fn what_has_expired_is_replaced_though_it_was_not_deleted(on: &impl Bench) {
    let first = new(on, "one", "request", 0);
    begun(on, &first).await;
    assert_eq!(on.receipts().finish(&first.key, &first.owner, &answer("{}"), at(0)).await, Ok(true));
    let last_second = done(&first, "{}", at(0)).expires_at_s * 1_000 - 1;
    let expired = last_second + 1 - at(0).get();
    assert_eq!(
        on.receipts().begin(&new(on, "two", "other", expired - 1)).await,
        Ok(Some(done(&first, "{}", at(0)))),
        "to its last millisecond"
    );
    let second = new(on, "two", "other", expired);
    begun(on, &second).await;
    assert_eq!(standing(on).await, second.into_receipt(), "nothing of the first is left");
}

pub(crate) async fn an_abandoned_command_is_taken_over_by_the_same_request(on: &impl Bench) {
    begun(on, &new(on, "one", "request", 0)).await;
    let second = new(on, "two", "request", LEASE_MS);
    begun(on, &second).await;
    assert_eq!(standing(on).await, second.into_receipt());
}

pub(crate) async fn an_abandoned_command_is_not_taken_over_by_another_request(on: &impl Bench) {
    let first = new(on, "one", "request", 0);
    begun(on, &first).await;
    let told = on.receipts().begin(&new(on, "two", "other", LEASE_MS + 1)).await;
    assert_eq!(told, Ok(Some(first.into_receipt())));
}

pub(crate) async fn whoever_was_taken_over_keeps_no_answer(on: &impl Bench) {
    let (first, second) = (new(on, "one", "request", 0), new(on, "two", "request", LEASE_MS));
    begun(on, &first).await;
    begun(on, &second).await;
    assert_eq!(on.receipts().finish(&first.key, &first.owner, &answer("late"), at(LEASE_MS + 1)).await, Ok(false));
    assert_eq!(standing(on).await, second.clone().into_receipt());
    // Nor after the one that took it over has finished.
    assert_eq!(on.receipts().finish(&first.key, &second.owner, &answer("{}"), at(LEASE_MS + 2)).await, Ok(true));
    assert_eq!(on.receipts().finish(&first.key, &first.owner, &answer("late"), at(LEASE_MS + 3)).await, Ok(false));
    assert_eq!(standing(on).await, done(&second, "{}", at(LEASE_MS + 2)));
}

pub(crate) async fn an_answer_whose_writing_is_repeated_is_kept_the_same(on: &impl Bench) {
    let first = new(on, "one", "request", 0);
    begun(on, &first).await;
    for _ in 0..2 {
        assert_eq!(on.receipts().finish(&first.key, &first.owner, &answer("{}"), at(5)).await, Ok(true));
    }
    assert_eq!(standing(on).await, done(&first, "{}", at(5)));
}

pub(crate) async fn nothing_is_finished_or_released_without_a_receipt(on: &impl Bench) {
    let NewReceipt { key, owner, .. } = new(on, "one", "request", 0);
    assert_eq!(on.receipts().finish(&key, &owner, &answer("{}"), at(0)).await, Ok(false));
    assert_eq!(on.receipts().release(&key, &owner).await, Ok(false));
    begun(on, &new(on, "one", "request", 0)).await;
}

pub(crate) async fn a_released_command_runs_again_at_once(on: &impl Bench) {
    let first = new(on, "one", "request", 0);
    begun(on, &first).await;
    assert_eq!(on.receipts().release(&first.key, &first.owner).await, Ok(true));
    let second = new(on, "two", "request", 1);
    begun(on, &second).await;
    assert_eq!(standing(on).await, second.into_receipt());
}

pub(crate) async fn whoever_was_taken_over_releases_nothing(on: &impl Bench) {
    let (first, second) = (new(on, "one", "request", 0), new(on, "two", "request", LEASE_MS));
    begun(on, &first).await;
    begun(on, &second).await;
    assert_eq!(on.receipts().release(&first.key, &first.owner).await, Ok(false));
    assert_eq!(standing(on).await, second.into_receipt());
}

pub(crate) async fn an_answer_is_not_released(on: &impl Bench) {
    let first = new(on, "one", "request", 0);
    begun(on, &first).await;
    assert_eq!(on.receipts().finish(&first.key, &first.owner, &answer("{}"), at(5)).await, Ok(true));
    assert_eq!(on.receipts().release(&first.key, &first.owner).await, Ok(false));
    assert_eq!(on.receipts().begin(&new(on, "two", "request", 6)).await, Ok(Some(done(&first, "{}", at(5)))));
}

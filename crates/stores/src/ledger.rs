//! DynamoDB's `event_ledger`.
//!
//! Every conditional write asks for the item as it was when the condition failed: a failed condition is information.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes, ReturnValuesOnConditionCheckFailure};
use futures_util::{StreamExt, TryStreamExt, stream};
use tollgate_domain::identity::Fingerprint;
use tollgate_domain::ledger::{Attention, EventKey, MAX_QUARANTINES, NewClaim, Status, partition};
use tollgate_domain::ports::{Conditional, EventLookup, Image, Ledger, PortError, PortResult};
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

use crate::aws::decide;
use crate::item::{Attributes, claimed, image, key_of, millis, number, text};

/// Closes: two first deliveries.
pub const CLAIM: &str = "attribute_not_exists(pk)";
/// Closes: closing an event that nobody billed.
pub const MARK_INSERTED: &str = "#status = :inserting AND attribute_exists(billingAcceptedAtMs)";
/// Closes: one failure counted twice (a lost answer, a second worker), and one bad minute made terminal. For the first
/// quarantine; [`RECORD_NEXT_QUARANTINE`] is for the others.
pub const RECORD_FIRST_QUARANTINE: &str =
    "#status = :inserting AND attribute_exists(billingAcceptedAtMs) AND attribute_not_exists(quarantineCount)";
/// See [`RECORD_FIRST_QUARANTINE`].
pub const RECORD_NEXT_QUARANTINE: &str = "#status = :inserting AND attribute_exists(billingAcceptedAtMs) \
     AND quarantineCount = :seen AND lastQuarantineAtMs <= :spacedBefore";
/// Closes: terminal too early.
pub const MARK_UNINSERTABLE: &str =
    "#status = :inserting AND attribute_exists(billingAcceptedAtMs) AND quarantineCount >= :max";
/// Closes: a redelivered conflict counted twice (the set holds each fingerprint once), and a conflict without an item.
pub const RECORD_CONFLICT: &str = "attribute_exists(pk)";

/// Queries of one space that run side by side.
const LISTING_CONCURRENCY: usize = 16;
/// Keys that one `BatchGetItem` takes.
const MAX_BATCH_KEYS: usize = 100;
/// `BatchGetItem`s of one look that run side by side: enough for the 500 events of a call.
const BATCH_CONCURRENCY: usize = 5;
/// How often one batch is asked for what it left unprocessed; then the table is too busy to answer now.
const BATCH_ATTEMPTS: u32 = 4;
/// Pause before the first such question; each further one waits twice as long. Short: who looks has little time.
const BATCH_PAUSE: Duration = Duration::from_millis(10);
/// Characters of ClickHouse's words that an item keeps.
const MAX_ERROR_CHARS: usize = 1_000;

/// The ledger on DynamoDB.
#[derive(Debug, Clone)]
pub struct DynamoLedger {
    client: Client,
    table: String,
}

impl DynamoLedger {
    /// The ledger in `table`.
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self { client, table: table.into() }
    }

    /// Every item of a space: 256 queries, strongly consistent, some at a time. For operators and tests, not for the
    /// hot path; holds all items in memory.
    pub async fn list_space(&self, space: &SpaceId) -> PortResult<Vec<Image>> {
        let shards: Vec<String> = (0..=255_u8).map(|shard| partition(space, &format!("{shard:02x}"))).collect();
        let pages: Vec<Vec<Image>> = stream::iter(shards)
            .map(|shard| self.list_partition(shard))
            .buffer_unordered(LISTING_CONCURRENCY)
            .try_collect()
            .await?;
        Ok(pages.into_iter().flatten().collect())
    }

    async fn list_partition(&self, shard: String) -> PortResult<Vec<Image>> {
        let pages = self
            .client
            .query()
            .table_name(&self.table)
            .consistent_read(true)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", text(shard))
            .into_paginator()
            .items()
            .send();
        let items = pages.try_collect().await.map_err(|error| decide("Query event_ledger", &error))?;
        Ok(items.iter().map(|item| image(Some(item))).collect())
    }

    async fn get_batch(&self, keys: Vec<Attributes>) -> PortResult<Batch> {
        let what = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build();
        let what =
            what.map_err(|_| PortError::Broken("BatchGetItem event_ledger: a request without keys".to_owned()))?;
        let get = self.client.batch_get_item().request_items(&self.table, what);
        let answer = get.send().await.map_err(|error| decide("BatchGetItem event_ledger", &error))?;
        let items = answer.responses.and_then(|mut tables| tables.remove(&self.table)).unwrap_or_default();
        let rest = answer.unprocessed_keys.and_then(|mut tables| tables.remove(&self.table));
        Ok((items, rest.map(|rest| rest.keys).unwrap_or_default()))
    }

    fn update(&self, key: &EventKey, condition: &str, update: &str, now: UtcMillis) -> UpdateItemFluentBuilder {
        self.client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(key_of(key)))
            .condition_expression(condition)
            .update_expression(update)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .expression_attribute_values(":now", millis(now))
    }

    fn update_inserting(
        &self,
        key: &EventKey,
        condition: &str,
        update: &str,
        now: UtcMillis,
    ) -> UpdateItemFluentBuilder {
        self.update(key, condition, update, now)
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":inserting", text(Status::Inserting.as_str()))
    }
}

/// Sends a conditional update of `key`'s item in `table`; a failed condition comes back with the item that made it fail.
pub(crate) async fn send_conditional(
    client: &Client,
    table: &str,
    key: &EventKey,
    update: UpdateItemFluentBuilder,
    operation: &str,
) -> PortResult<Conditional> {
    match update.send().await {
        Ok(_) => Ok(Conditional::Applied),
        Err(SdkError::ServiceError(service)) if service.err().is_conditional_check_failed_exception() => {
            let handed_back = match service.into_err() {
                UpdateItemError::ConditionalCheckFailedException(failed) => failed.item,
                _ => None,
            };
            match handed_back {
                Some(item) => Ok(Conditional::Refused(image(Some(&item)))),
                // An image that did not come proves nothing: there may be an item all the same.
                None => Ok(Conditional::Refused(read_item(client, table, key).await?)),
            }
        }
        Err(error) => Err(decide(operation, &error)),
    }
}

/// A strongly consistent read.
async fn read_item(client: &Client, table: &str, key: &EventKey) -> PortResult<Image> {
    let get = client.get_item().table_name(table).set_key(Some(key_of(key))).consistent_read(true);
    let answer = get.send().await.map_err(|error| decide("GetItem event_ledger", &error))?;
    Ok(image(answer.item.as_ref()))
}

impl EventLookup for DynamoLedger {
    async fn read_many(&self, keys: &[EventKey]) -> PortResult<Vec<Image>> {
        // A batch that names a key twice is refused as a whole.
        let distinct: Vec<&EventKey> = keys.iter().collect::<BTreeSet<_>>().into_iter().collect();
        let batches = distinct.chunks(MAX_BATCH_KEYS).map(|batch| batch.iter().map(|key| key_of(key)).collect());
        let batches: Vec<Vec<Attributes>> = batches.collect();
        let found: Vec<Vec<Attributes>> = stream::iter(batches)
            .map(|batch| whole_batch(batch, |rest| self.get_batch(rest)))
            .buffer_unordered(BATCH_CONCURRENCY)
            .try_collect()
            .await?;
        let found: HashMap<(String, String), Attributes> =
            found.into_iter().flatten().filter_map(|item| Some((primary_key(&item)?, item))).collect();
        Ok(keys.iter().map(|key| image(found.get(&(key.partition(), key.id.as_str().to_owned())))).collect())
    }
}

/// An item's partition and sort key.
fn primary_key(item: &Attributes) -> Option<(String, String)> {
    let of = |name| item.get(name).and_then(|value| value.as_s().ok()).cloned();
    Some((of("pk")?, of("sk")?))
}

/// Items found, and keys that were left unprocessed.
type Batch = (Vec<Attributes>, Vec<Attributes>);

/// Asks for `keys`, and again for what was left over, until there is nothing left. Half an answer is none: a missing
/// item would read as absent.
async fn whole_batch<F: Future<Output = PortResult<Batch>>>(
    mut keys: Vec<Attributes>,
    ask: impl Fn(Vec<Attributes>) -> F,
) -> PortResult<Vec<Attributes>> {
    let mut found = Vec::with_capacity(keys.len());
    for attempt in 0..BATCH_ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(BATCH_PAUSE * 2_u32.pow(attempt - 1)).await;
        }
        let (items, rest) = ask(keys).await?;
        found.extend(items);
        if rest.is_empty() {
            return Ok(found);
        }
        keys = rest;
    }
    Err(PortError::NotNow(format!("BatchGetItem event_ledger: {} keys are left unprocessed", keys.len())))
}

impl Ledger for DynamoLedger {
    async fn claim(&self, claim: &NewClaim) -> PortResult<Conditional> {
        let put = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(claimed(claim)))
            .condition_expression(CLAIM)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match put.send().await {
            Ok(_) => Ok(Conditional::Applied),
            Err(SdkError::ServiceError(service)) if service.err().is_conditional_check_failed_exception() => {
                match service.into_err() {
                    PutItemError::ConditionalCheckFailedException(failed) if failed.item.is_some() => {
                        Ok(Conditional::Refused(image(failed.item.as_ref())))
                    }
                    // The condition says that there is an item: its absence from the answer proves nothing.
                    _ => Ok(Conditional::Refused(self.read(&claim.key).await?)),
                }
            }
            Err(error) => Err(decide("PutItem event_ledger", &error)),
        }
    }

    async fn read(&self, key: &EventKey) -> PortResult<Image> {
        read_item(&self.client, &self.table, key).await
    }

    async fn mark_inserted(&self, key: &EventKey, now: UtcMillis) -> PortResult<Conditional> {
        let update = self
            .update_inserting(key, MARK_INSERTED, "SET #status = :inserted, updatedAtMs = :now", now)
            .expression_attribute_values(":inserted", text(Status::Inserted.as_str()));
        send_conditional(&self.client, &self.table, key, update, "UpdateItem event_ledger (mark inserted)").await
    }

    async fn record_quarantine(
        &self,
        key: &EventKey,
        seen: u64,
        spacing_ms: i64,
        error: &str,
        now: UtcMillis,
    ) -> PortResult<Conditional> {
        const UPDATE: &str =
            "SET quarantineCount = :count, lastQuarantineAtMs = :now, lastQuarantineError = :error, updatedAtMs = :now";
        let condition = if seen == 0 { RECORD_FIRST_QUARANTINE } else { RECORD_NEXT_QUARANTINE };
        let error: String = error.chars().take(MAX_ERROR_CHARS).collect();
        let mut update = self
            .update_inserting(key, condition, UPDATE, now)
            .expression_attribute_values(":count", number(seen.saturating_add(1)))
            .expression_attribute_values(":error", text(error));
        if seen > 0 {
            update = update
                .expression_attribute_values(":seen", number(seen))
                .expression_attribute_values(":spacedBefore", millis(now.saturating_add_ms(-spacing_ms)));
        }
        send_conditional(&self.client, &self.table, key, update, "UpdateItem event_ledger (record quarantine)").await
    }

    async fn mark_uninsertable(&self, key: &EventKey, now: UtcMillis) -> PortResult<Conditional> {
        let update = self
            .update_inserting(
                key,
                MARK_UNINSERTABLE,
                "SET #status = :uninsertable, attention = :attention, updatedAtMs = :now",
                now,
            )
            .expression_attribute_values(":uninsertable", text(Status::Uninsertable.as_str()))
            .expression_attribute_values(":attention", text(Attention::Uninsertable.as_str()))
            .expression_attribute_values(":max", number(MAX_QUARANTINES));
        send_conditional(&self.client, &self.table, key, update, "UpdateItem event_ledger (mark uninsertable)").await
    }

    async fn record_conflict(
        &self,
        key: &EventKey,
        fingerprint: &Fingerprint,
        now: UtcMillis,
    ) -> PortResult<Conditional> {
        // CONFLICT is the lowest reason: any other that is open stays.
        let update = self
            .update(
                key,
                RECORD_CONFLICT,
                "SET updatedAtMs = :now, attention = if_not_exists(attention, :attention) ADD conflicts :fingerprint",
                now,
            )
            .expression_attribute_values(":attention", text(Attention::Conflict.as_str()))
            .expression_attribute_values(":fingerprint", AttributeValue::Ss(vec![fingerprint.as_str().to_owned()]));
        send_conditional(&self.client, &self.table, key, update, "UpdateItem event_ledger (record conflict)").await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn keys(count: usize) -> Vec<Attributes> {
        (0..count).map(|n| [("pk".to_owned(), text(n.to_string())), ("sk".to_owned(), text("s"))].into()).collect()
    }

    /// Answers the first `per_call` keys of each question, and notes how many were asked for.
    async fn ask(per_call: usize, count: usize) -> (PortResult<Vec<Attributes>>, Vec<usize>) {
        let asked = Mutex::new(Vec::new());
        let answer = whole_batch(keys(count), |mut keys| {
            asked.lock().unwrap().push(keys.len());
            let rest = keys.split_off(per_call.min(keys.len()));
            async move { Ok((keys, rest)) }
        });
        (answer.await, asked.into_inner().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_left_unprocessed_is_asked_for_again_and_nothing_else() {
        let (answer, asked) = ask(40, 100).await;
        assert_eq!((answer, asked), (Ok(keys(100)), vec![100, 60, 20]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_that_is_never_answered_whole_is_not_answered() {
        let (answer, asked) = ask(10, 100).await;
        assert!(matches!(answer, Err(PortError::NotNow(_))), "{answer:?}");
        assert_eq!(asked, [100, 90, 80, 70]);
        let failed = whole_batch(keys(1), |_| async { Err(PortError::Unknown(String::new())) }).await;
        assert_eq!(failed, Err(PortError::Unknown(String::new())));
    }
}

//! DynamoDB's `event_ledger`.
//!
//! Every conditional write asks for the item as it was when the condition failed: a failed condition is information.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use futures_util::{StreamExt, TryStreamExt, stream};
use tollgate_domain::identity::Fingerprint;
use tollgate_domain::ledger::{Attention, EventKey, MAX_QUARANTINES, NewClaim, Status, partition};
use tollgate_domain::ports::{Conditional, Image, Ledger, PortResult};
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

use crate::aws::decide;
use crate::item::{claimed, image, key_of, millis, number, text};

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

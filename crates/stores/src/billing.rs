//! The writes that move money: `consume`, `stamp` and `reject`, and no other.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{BuildError, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update};
use tollgate_domain::ledger::{Checkpoint, EventKey, Rejection, Status};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::{BilledAs, Limit};
use tollgate_domain::ports::{Billing, Conditional, Consumption, PortError, PortResult};
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

use crate::aws::decide;
use crate::item::{Attributes, as_text, as_u64, image, key_of, millis, number, text};
use crate::ledger::send_conditional;

/// Closes: past the cap.
pub const BELOW_LIMIT: &str = "attribute_not_exists(#eventCount) OR #eventCount < :limit";
/// Moves the month's counter.
pub const MOVE_COUNTER: &str = "SET #eventCount = if_not_exists(#eventCount, :zero) + :increment, \
     periodMonth = :periodMonth, spaceId = :spaceId, updatedAtMs = :now";
/// Closes: charged twice; stamped twice; stamped after a rejection; charged *and* rejected.
pub const NOT_YET_DECIDED: &str = "#status = :inserting AND attribute_not_exists(billingAcceptedAtMs)";
/// Stamps the checkpoint of an event that consumed.
pub const STAMP_CONSUMED: &str =
    "SET billingAcceptedAtMs = :now, updatedAtMs = :now, billedAs = :billedAs, billedLimit = :limit";

/// The billing unit is the event, whatever its quantity.
const INCREMENT: u64 = 1;

/// Billing on DynamoDB: the ledger's table and the meter's, in one transaction where both move.
#[derive(Debug, Clone)]
pub struct DynamoBilling {
    client: Client,
    ledger_table: String,
    meter_table: String,
}

impl DynamoBilling {
    /// Billing over both tables.
    pub fn new(client: Client, ledger_table: impl Into<String>, meter_table: impl Into<String>) -> Self {
        Self { client, ledger_table: ledger_table.into(), meter_table: meter_table.into() }
    }

    /// The space's counts, by month. For operators and tests.
    pub async fn counts(&self, space: &SpaceId) -> PortResult<BTreeMap<PeriodMonth, u64>> {
        let query = self
            .client
            .query()
            .table_name(&self.meter_table)
            .consistent_read(true)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", text(space.as_str()));
        let items = query.into_paginator().items().send().try_collect().await;
        let items = items.map_err(|error| decide("Query free_usage", &error))?;
        let unreadable = || PortError::Broken("free_usage: a counter cannot be read".to_owned());
        let count = |item: &Attributes| {
            let month = as_text(|month| PeriodMonth::parse(month).ok())(item.get("sk")?)?;
            Some((month, as_u64(item.get("eventCount")?)?))
        };
        items.iter().map(|item| count(item).ok_or_else(unreadable)).collect()
    }

    fn counter_update(
        &self,
        space: &SpaceId,
        month: PeriodMonth,
        limit: Limit,
        now: UtcMillis,
    ) -> Result<Update, BuildError> {
        Update::builder()
            .table_name(&self.meter_table)
            .set_key(Some(counter_key(space, month)))
            .condition_expression(BELOW_LIMIT)
            .update_expression(MOVE_COUNTER)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .expression_attribute_names("#eventCount", "eventCount")
            .expression_attribute_values(":limit", number(limit.get()))
            .expression_attribute_values(":zero", number(0_u64))
            .expression_attribute_values(":increment", number(INCREMENT))
            .expression_attribute_values(":periodMonth", text(month.to_string()))
            .expression_attribute_values(":spaceId", text(space.as_str()))
            .expression_attribute_values(":now", millis(now))
            .build()
    }

    fn checkpoint_update(&self, key: &EventKey, limit: Limit, now: UtcMillis) -> Result<Update, BuildError> {
        Update::builder()
            .table_name(&self.ledger_table)
            .set_key(Some(key_of(key)))
            .condition_expression(NOT_YET_DECIDED)
            .update_expression(STAMP_CONSUMED)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":inserting", text(Status::Inserting.as_str()))
            .expression_attribute_values(":now", millis(now))
            .expression_attribute_values(":billedAs", text(BilledAs::Free.as_str()))
            .expression_attribute_values(":limit", number(limit.get()))
            .build()
    }

    /// An update of an event that is neither charged nor rejected.
    fn decide_event(
        &self,
        key: &EventKey,
        update: &str,
    ) -> aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder {
        self.client
            .update_item()
            .table_name(&self.ledger_table)
            .set_key(Some(key_of(key)))
            .condition_expression(NOT_YET_DECIDED)
            .update_expression(update)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":inserting", text(Status::Inserting.as_str()))
    }
}

fn counter_key(space: &SpaceId, month: PeriodMonth) -> Attributes {
    [("pk".to_owned(), text(space.as_str())), ("sk".to_owned(), text(month.to_string()))].into()
}

impl Billing for DynamoBilling {
    async fn consume(
        &self,
        key: &EventKey,
        month: PeriodMonth,
        limit: Limit,
        now: UtcMillis,
    ) -> PortResult<Consumption> {
        let counter = self.counter_update(&key.space, month, limit, now);
        let checkpoint = self.checkpoint_update(key, limit, now);
        let broken = |error: BuildError| PortError::Broken(format!("TransactWriteItems: {error}"));
        let transaction = self
            .client
            .transact_write_items()
            .transact_items(TransactWriteItem::builder().update(counter.map_err(broken)?).build())
            .transact_items(TransactWriteItem::builder().update(checkpoint.map_err(broken)?).build());
        match transaction.send().await {
            Ok(_) => Ok(Consumption::Consumed),
            Err(SdkError::ServiceError(service)) if service.err().is_transaction_canceled_exception() => {
                let TransactWriteItemsError::TransactionCanceledException(cancelled) = service.into_err() else {
                    return Ok(Consumption::Cancelled { ledger: None, count: None });
                };
                // The reasons are not branched on: only the items that came with them are facts.
                let mut images =
                    cancelled.cancellation_reasons.unwrap_or_default().into_iter().map(|reason| reason.item);
                let (counter, ledger) = (images.next().flatten(), images.next().flatten());
                let count = counter.as_ref().and_then(|item| item.get("eventCount")).and_then(as_u64);
                Ok(Consumption::Cancelled { ledger: ledger.map(|item| image(Some(&item))), count })
            }
            Err(error) => Err(decide("TransactWriteItems", &error)),
        }
    }

    async fn stamp(&self, key: &EventKey, checkpoint: &Checkpoint) -> PortResult<Conditional> {
        let update = self
            .decide_event(key, "SET billingAcceptedAtMs = :now, updatedAtMs = :now, billedAs = :billedAs")
            .expression_attribute_values(":now", millis(checkpoint.accepted_at))
            .expression_attribute_values(":billedAs", text(checkpoint.billed_as.as_str()));
        send_conditional(&self.client, &self.ledger_table, key, update, "UpdateItem event_ledger (stamp checkpoint)")
            .await
    }

    async fn reject(&self, key: &EventKey, rejection: &Rejection, now: UtcMillis) -> PortResult<Conditional> {
        let mut sets = "SET #status = :rejected, rejectedReason = :reason, updatedAtMs = :now".to_owned();
        let seen = [
            (", rejectedLimitSeen = :limitSeen", ":limitSeen", rejection.limit_seen.map(Limit::get)),
            (", rejectedCountSeen = :countSeen", ":countSeen", rejection.count_seen),
        ];
        let present =
            seen.into_iter().filter_map(|(set, placeholder, value)| value.map(|value| (set, placeholder, value)));
        let mut values = vec![
            (":rejected", text(Status::Rejected.as_str())),
            (":reason", text(rejection.reason.as_str())),
            (":now", millis(now)),
        ];
        for (set, placeholder, value) in present {
            sets += set;
            values.push((placeholder, number(value)));
        }
        let update = values.into_iter().fold(self.decide_event(key, &sets), |update, (name, value)| {
            update.expression_attribute_values(name, value)
        });
        send_conditional(&self.client, &self.ledger_table, key, update, "UpdateItem event_ledger (reject)").await
    }

    async fn count(&self, space: &SpaceId, month: PeriodMonth) -> PortResult<u64> {
        let get = self
            .client
            .get_item()
            .table_name(&self.meter_table)
            .set_key(Some(counter_key(space, month)))
            .consistent_read(true);
        let answer = get.send().await.map_err(|error| decide("GetItem free_usage", &error))?;
        match answer.item.as_ref().and_then(|item| item.get("eventCount")) {
            None => Ok(0),
            Some(value) => {
                as_u64(value).ok_or_else(|| PortError::Broken("free_usage: eventCount is not a count".to_owned()))
            }
        }
    }
}

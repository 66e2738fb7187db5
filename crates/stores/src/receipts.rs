//! DynamoDB's `command_receipts`: the only table whose items expire.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use tollgate_domain::ports::{PortError, PortResult, Receipts};
use tollgate_domain::receipt::{
    CommandReceipt, NewReceipt, Owner, Progress, ReceiptKey, RequestHash, StoredAnswer, expiry_s, second_of,
};
use tollgate_domain::time::UtcMillis;

use crate::aws::decide;
use crate::item::{Attributes, as_millis, as_text, millis, number, text};

/// Closes: one command run twice side by side (the key is taken); a key that is never free again, since the table
/// deletes what has expired only some time later; a command that nobody finishes, since its owner died (the lease is
/// over), but not by another request, which would be told the answer of a command that it is not.
pub const BEGIN: &str = "attribute_not_exists(pk) OR expiresAtS <= :second \
     OR (#state = :inProgress AND leaseUntilMs <= :now AND requestHash = :requestHash)";
/// Closes: an answer over somebody else's, by an owner whose lease ran out before it had finished.
pub const FINISH: &str = "#owner = :owner";
/// Closes: a lease ended under somebody who took the command over; an answer thrown away.
pub const RELEASE: &str = "#owner = :owner AND #state = :inProgress";

const IN_PROGRESS: &str = "IN_PROGRESS";
const DONE: &str = "DONE";

/// The receipts on DynamoDB.
#[derive(Debug, Clone)]
pub struct DynamoReceipts {
    client: Client,
    table: String,
}

impl DynamoReceipts {
    /// The receipts in `table`.
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self { client, table: table.into() }
    }

    /// The receipt as it stands, strongly consistent.
    pub async fn read(&self, key: &ReceiptKey) -> PortResult<Option<CommandReceipt>> {
        let get = self.client.get_item().table_name(&self.table).key("pk", text(key.as_str())).consistent_read(true);
        let answer = get.send().await.map_err(|error| decide("GetItem command_receipts", &error))?;
        answer.item.as_ref().map(readable).transpose()
    }

    fn update(&self, key: &ReceiptKey, owner: &Owner, condition: &str) -> UpdateItemFluentBuilder {
        self.client
            .update_item()
            .table_name(&self.table)
            .key("pk", text(key.as_str()))
            .condition_expression(condition)
            .expression_attribute_names("#owner", "owner")
            .expression_attribute_names("#state", "state")
            .expression_attribute_values(":owner", text(owner.as_str()))
    }
}

/// Whether the update was applied; a failed condition is `false`.
async fn applied(update: UpdateItemFluentBuilder, operation: &str) -> PortResult<bool> {
    match update.send().await {
        Ok(_) => Ok(true),
        Err(error) if error.as_service_error().is_some_and(UpdateItemError::is_conditional_check_failed_exception) => {
            Ok(false)
        }
        Err(error) => Err(decide(operation, &error)),
    }
}

impl Receipts for DynamoReceipts {
    async fn begin(&self, new: &NewReceipt) -> PortResult<Option<CommandReceipt>> {
        let put = self
            .client
            .put_item()
            .table_name(&self.table)
            .item("pk", text(new.key.as_str()))
            .item("requestHash", text(new.request.as_str()))
            .item("state", text(IN_PROGRESS))
            .item("owner", text(new.owner.as_str()))
            .item("leaseUntilMs", millis(new.lease_until))
            .item("createdAtMs", millis(new.now))
            .item("expiresAtS", number(expiry_s(new.now)))
            .condition_expression(BEGIN)
            .expression_attribute_names("#state", "state")
            .expression_attribute_values(":inProgress", text(IN_PROGRESS))
            .expression_attribute_values(":requestHash", text(new.request.as_str()))
            .expression_attribute_values(":now", millis(new.now))
            .expression_attribute_values(":second", number(second_of(new.now)))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match put.send().await {
            Ok(_) => Ok(None),
            Err(SdkError::ServiceError(service)) if service.err().is_conditional_check_failed_exception() => {
                let handed_back = match service.into_err() {
                    PutItemError::ConditionalCheckFailedException(failed) => failed.item,
                    _ => None,
                };
                let standing = match handed_back {
                    Some(item) => Some(readable(&item)?),
                    None => self.read(&new.key).await?,
                };
                // What was there a moment ago is gone: nothing was written, and the next try may write.
                let gone = || PortError::Contended("PutItem command_receipts: the receipt is gone again".to_owned());
                standing.ok_or_else(gone).map(Some)
            }
            Err(error) => Err(decide("PutItem command_receipts", &error)),
        }
    }

    async fn finish(&self, key: &ReceiptKey, owner: &Owner, answer: &StoredAnswer, now: UtcMillis) -> PortResult<bool> {
        let headers = answer.headers.iter().map(|(name, value)| (name.clone(), text(value.as_str()))).collect();
        let update = self
            .update(key, owner, FINISH)
            .update_expression(
                "SET #state = :done, answerStatus = :status, answerHeaders = :headers, answerBody = :body, \
                 expiresAtS = :expires",
            )
            .expression_attribute_values(":done", text(DONE))
            .expression_attribute_values(":status", number(answer.status))
            .expression_attribute_values(":headers", AttributeValue::M(headers))
            .expression_attribute_values(":body", AttributeValue::B(Blob::new(answer.body.clone())))
            .expression_attribute_values(":expires", number(expiry_s(now)));
        applied(update, "UpdateItem command_receipts (finish)").await
    }

    async fn release(&self, key: &ReceiptKey, owner: &Owner) -> PortResult<bool> {
        let update = self
            .update(key, owner, RELEASE)
            // Far in the past, since clocks differ.
            .update_expression("SET leaseUntilMs = :past")
            .expression_attribute_values(":inProgress", text(IN_PROGRESS))
            .expression_attribute_values(":past", millis(UtcMillis::EPOCH));
        applied(update, "UpdateItem command_receipts (release)").await
    }
}

fn readable(item: &Attributes) -> PortResult<CommandReceipt> {
    receipt(item).ok_or_else(|| PortError::Broken("command_receipts: an entry cannot be read".to_owned()))
}

fn receipt(item: &Attributes) -> Option<CommandReceipt> {
    let words = |name: &str| item.get(name)?.as_s().ok().cloned();
    let whole = |name: &str| item.get(name)?.as_n().ok()?.parse::<i64>().ok();
    let progress = match words("state")?.as_str() {
        IN_PROGRESS => Progress::Running { lease_until: as_millis(item.get("leaseUntilMs")?)? },
        DONE => Progress::Done(StoredAnswer {
            status: whole("answerStatus")?.try_into().ok()?,
            headers: headers(item.get("answerHeaders")?.as_m().ok()?)?,
            body: item.get("answerBody")?.as_b().ok()?.as_ref().to_vec(),
        }),
        _ => return None,
    };
    Some(CommandReceipt {
        key: as_text(|key| Some(ReceiptKey::from_stored(key)))(item.get("pk")?)?,
        request: as_text(|hash| Some(RequestHash::from_stored(hash)))(item.get("requestHash")?)?,
        owner: Owner::new(words("owner")?),
        created_at: as_millis(item.get("createdAtMs")?)?,
        expires_at_s: whole("expiresAtS")?,
        progress,
    })
}

fn headers(stored: &HashMap<String, AttributeValue>) -> Option<BTreeMap<String, String>> {
    stored.iter().map(|(name, value)| Some((name.clone(), value.as_s().ok()?.clone()))).collect()
}

#[cfg(test)]
mod tests {
    /// The emulator of the local stack drops a TTL without a word: only the template's text can speak of it.
    #[test]
    fn receipts_are_the_only_items_that_expire_and_by_their_own_attribute() {
        let template = include_str!("../../../infra/template.yaml");
        let of_receipts = template.split("  CommandReceiptsTable:\n").nth(1).unwrap().split("\n\n").next().unwrap();
        assert!(
            of_receipts
                .contains("      TimeToLiveSpecification:\n        AttributeName: expiresAtS\n        Enabled: true")
        );
        assert_eq!(template.matches("TimeToLiveSpecification").count(), 1);
    }
}

//! DynamoDB's `api_keys`: looked up by hash, the key itself is stored nowhere.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use tollgate_domain::key::{KeyHash, KeyRecord, ListedKey, Scope};
use tollgate_domain::ports::{Keys, PortError, PortResult};
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

use crate::aws::decide;
use crate::item::{Attributes, as_millis, as_text, millis, text};

/// Closes: a key that silently takes another one's place.
pub const NEW_KEY: &str = "attribute_not_exists(keyHash)";
/// Closes: a revocation of a key that nobody has, which would make an entry; a revocation that comes later than one
/// that stands, such as a rotation's over a leak's. An earlier one takes the place of a later one.
pub const REVOKE: &str = "attribute_exists(keyHash) AND (attribute_not_exists(revokedAtMs) OR revokedAtMs > :at)";
/// Closes: a use of a key that is gone, which would make an entry; a write for every use, since each process notes it.
pub const TOUCH: &str =
    "attribute_exists(keyHash) AND (attribute_not_exists(lastUsedAtMs) OR lastUsedAtMs <= :spacedBefore)";

/// The index of a space's keys.
const BY_SPACE: &str = "space";

/// API keys on DynamoDB.
#[derive(Debug, Clone)]
pub struct DynamoKeys {
    client: Client,
    table: String,
}

impl DynamoKeys {
    /// The keys in `table`.
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self { client, table: table.into() }
    }

    /// Stores a new key's hash and record.
    pub async fn create(&self, hash: &KeyHash, record: &KeyRecord) -> PortResult<()> {
        let scopes = record.scopes.iter().map(|scope| scope.as_str().to_owned()).collect();
        let put = self
            .client
            .put_item()
            .table_name(&self.table)
            .item("keyHash", text(hash.as_str()))
            .item("spaceId", text(record.space.as_str()))
            .item("scopes", AttributeValue::Ss(scopes))
            .item("createdAtMs", millis(record.created_at))
            .item("label", text(record.label.as_str()))
            .condition_expression(NEW_KEY);
        put.send().await.map(|_| ()).map_err(|error| decide("PutItem api_keys", &error))
    }

    /// Revokes a key from `at` on, which may lie in the future; `false` if there is no such key. Of two revocations the
    /// earlier one holds.
    pub async fn revoke(&self, hash: &KeyHash, at: UtcMillis) -> PortResult<bool> {
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("keyHash", text(hash.as_str()))
            .condition_expression(REVOKE)
            .update_expression("SET revokedAtMs = :at")
            .expression_attribute_values(":at", millis(at))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match update.send().await {
            Ok(_) => Ok(true),
            Err(SdkError::ServiceError(service)) if service.err().is_conditional_check_failed_exception() => {
                match service.into_err() {
                    UpdateItemError::ConditionalCheckFailedException(failed) if failed.item.is_some() => Ok(true),
                    // An image that did not come proves nothing: there may be an entry all the same.
                    _ => Ok(self.read(hash, true).await?.is_some()),
                }
            }
            Err(error) => Err(decide("UpdateItem api_keys (revoke)", &error)),
        }
    }

    async fn read(&self, hash: &KeyHash, strong: bool) -> PortResult<Option<KeyRecord>> {
        let get =
            self.client.get_item().table_name(&self.table).key("keyHash", text(hash.as_str())).consistent_read(strong);
        let answer = get.send().await.map_err(|error| decide("GetItem api_keys", &error))?;
        answer.item.as_ref().map(|item| record(item).ok_or_else(unreadable)).transpose()
    }
}

fn unreadable() -> PortError {
    PortError::Broken("api_keys: an entry cannot be read".to_owned())
}

/// A time that an entry may have; one that cannot be read is not the same as none.
fn time(item: &Attributes, name: &str) -> Result<Option<UtcMillis>, ()> {
    item.get(name).map(|value| as_millis(value).ok_or(())).transpose()
}

fn record(item: &Attributes) -> Option<KeyRecord> {
    Some(KeyRecord {
        space: as_text(|space| SpaceId::parse(space).ok())(item.get("spaceId")?)?,
        // A scope that this version does not know grants nothing here.
        scopes: item.get("scopes")?.as_ss().ok()?.iter().filter_map(|scope| Scope::from_stored(scope)).collect(),
        created_at: as_millis(item.get("createdAtMs")?)?,
        revoked_at: time(item, "revokedAtMs").ok()?,
        label: as_text(|label| Some(label.to_owned()))(item.get("label")?)?,
        last_used_at: time(item, "lastUsedAtMs").ok()?,
    })
}

impl Keys for DynamoKeys {
    async fn find(&self, hash: &KeyHash) -> PortResult<Option<KeyRecord>> {
        self.read(hash, false).await
    }

    async fn list(&self, space: &SpaceId) -> PortResult<Vec<ListedKey>> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(BY_SPACE)
            .key_condition_expression("spaceId = :space")
            .expression_attribute_values(":space", text(space.as_str()));
        let items = query.into_paginator().items().send().try_collect().await;
        let items = items.map_err(|error| decide("Query api_keys", &error))?;
        let listed = |item: &Attributes| {
            let hash = KeyHash::from_stored(item.get("keyHash")?.as_s().ok()?);
            Some(ListedKey { hash, record: record(item)? })
        };
        let mut keys =
            items.iter().map(|item| listed(item).ok_or_else(unreadable)).collect::<PortResult<Vec<ListedKey>>>()?;
        keys.sort_by(|one, other| (one.record.created_at, &one.hash).cmp(&(other.record.created_at, &other.hash)));
        Ok(keys)
    }

    async fn touch(&self, hash: &KeyHash, spacing_ms: i64, now: UtcMillis) -> PortResult<bool> {
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("keyHash", text(hash.as_str()))
            .condition_expression(TOUCH)
            .update_expression("SET lastUsedAtMs = :now")
            .expression_attribute_values(":now", millis(now))
            .expression_attribute_values(":spacedBefore", millis(now.saturating_add_ms(spacing_ms.saturating_neg())));
        match update.send().await {
            Ok(_) => Ok(true),
            Err(error)
                if error.as_service_error().is_some_and(UpdateItemError::is_conditional_check_failed_exception) =>
            {
                Ok(false)
            }
            Err(error) => Err(decide("UpdateItem api_keys (touch)", &error)),
        }
    }
}

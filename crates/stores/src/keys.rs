//! DynamoDB's `api_keys`: looked up by hash, the key itself is stored nowhere.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::AttributeValue;
use tollgate_domain::key::{KeyHash, KeyRecord, Scope};
use tollgate_domain::ports::{Keys, PortError, PortResult};
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

use crate::aws::decide;
use crate::item::{Attributes, as_millis, as_text, millis, text};

/// Closes: a key that silently takes another one's place.
const NEW_KEY: &str = "attribute_not_exists(keyHash)";

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

    /// Revokes a key from `now` on; `false` if there is no such key. The first revocation's time stays.
    pub async fn revoke(&self, hash: &KeyHash, now: UtcMillis) -> PortResult<bool> {
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("keyHash", text(hash.as_str()))
            .condition_expression("attribute_exists(keyHash)")
            .update_expression("SET revokedAtMs = if_not_exists(revokedAtMs, :now)")
            .expression_attribute_values(":now", millis(now));
        match update.send().await {
            Ok(_) => Ok(true),
            Err(error)
                if error.as_service_error().is_some_and(UpdateItemError::is_conditional_check_failed_exception) =>
            {
                Ok(false)
            }
            Err(error) => Err(decide("UpdateItem api_keys", &error)),
        }
    }
}

fn record(item: &Attributes) -> Option<KeyRecord> {
    let revoked_at = match item.get("revokedAtMs") {
        None => None,
        Some(value) => Some(as_millis(value)?),
    };
    Some(KeyRecord {
        space: as_text(|space| SpaceId::parse(space).ok())(item.get("spaceId")?)?,
        // A scope that this version does not know grants nothing here.
        scopes: item.get("scopes")?.as_ss().ok()?.iter().filter_map(|scope| Scope::from_stored(scope)).collect(),
        created_at: as_millis(item.get("createdAtMs")?)?,
        revoked_at,
        label: as_text(|label| Some(label.to_owned()))(item.get("label")?)?,
    })
}

impl Keys for DynamoKeys {
    async fn find(&self, hash: &KeyHash) -> PortResult<Option<KeyRecord>> {
        let get = self.client.get_item().table_name(&self.table).key("keyHash", text(hash.as_str()));
        let answer = get.send().await.map_err(|error| decide("GetItem api_keys", &error))?;
        let Some(item) = answer.item else { return Ok(None) };
        record(&item).map(Some).ok_or_else(|| PortError::Broken("api_keys: an entry cannot be read".to_owned()))
    }
}

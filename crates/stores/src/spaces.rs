//! DynamoDB's `spaces`, with a short memory for accepting.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use moka::sync::Cache;
use tollgate_domain::plan::{Limit, SpaceRecord, Subscription};
use tollgate_domain::ports::{Freshness, PortError, PortResult, Spaces};
use tollgate_domain::space::SpaceId;

use crate::aws::decide;
use crate::item::{Attributes, as_text, as_u64, number, text};

const REMEMBERED_SPACES: u64 = 100_000;

/// Spaces on DynamoDB.
#[derive(Debug, Clone)]
pub struct DynamoSpaces {
    client: Client,
    table: String,
    remembered: Cache<SpaceId, Option<SpaceRecord>>,
}

impl DynamoSpaces {
    /// The spaces in `table`; entries may be remembered for `cache_ms` milliseconds in order to accept.
    pub fn new(client: Client, table: impl Into<String>, cache_ms: u64) -> Self {
        let remembered =
            Cache::builder().max_capacity(REMEMBERED_SPACES).time_to_live(Duration::from_millis(cache_ms)).build();
        Self { client, table: table.into(), remembered }
    }

    /// Writes a space's entry. It cannot make a space internal: no such subscription exists.
    pub async fn set(&self, space: &SpaceId, record: &SpaceRecord) -> PortResult<()> {
        let mut put = self
            .client
            .put_item()
            .table_name(&self.table)
            .item("spaceId", text(space.as_str()))
            .item("subscription", text(record.subscription.as_str()));
        if let Some(limit) = record.monthly_limit {
            put = put.item("monthlyLimit", number(limit.get()));
        }
        put.send().await.map_err(|error| decide("PutItem spaces", &error))?;
        self.remembered.invalidate(space);
        Ok(())
    }

    async fn read_strong(&self, space: &SpaceId) -> PortResult<Option<SpaceRecord>> {
        let get =
            self.client.get_item().table_name(&self.table).key("spaceId", text(space.as_str())).consistent_read(true);
        let answer = get.send().await.map_err(|error| decide("GetItem spaces", &error))?;
        let Some(item) = answer.item else { return Ok(None) };
        // An entry that cannot be read is "not now", never "unknown space": a paying space must not become a free one.
        record(&item).map(Some).ok_or_else(|| PortError::Broken(format!("spaces: the entry of {space} cannot be read")))
    }
}

fn record(item: &Attributes) -> Option<SpaceRecord> {
    let monthly_limit = match item.get("monthlyLimit") {
        None => None,
        Some(value) => Some(Limit::new(as_u64(value)?)?),
    };
    Some(SpaceRecord { subscription: as_text(Subscription::from_stored)(item.get("subscription")?)?, monthly_limit })
}

impl Spaces for DynamoSpaces {
    async fn read(&self, space: &SpaceId, freshness: Freshness) -> PortResult<Option<SpaceRecord>> {
        if freshness == Freshness::Cached
            && let Some(record) = self.remembered.get(space)
        {
            return Ok(record);
        }
        let record = self.read_strong(space).await?;
        self.remembered.insert(space.clone(), record);
        Ok(record)
    }
}

//! Every resource of a space, counted by name.

use aws_sdk_dynamodb::types::AttributeValue;
use tollgate_domain::ledger::EventKey;
use tollgate_domain::ports::{Image, Ledger};

use crate::world::World;

/// What stands of one event, and of the whole space that it is alone in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Count {
    /// The item's status; `absent` or `unreadable` where there is none.
    pub(crate) status: String,
    /// Whether the checkpoint stands.
    pub(crate) charged: bool,
    /// Events that the space's meter counts, over all months.
    pub(crate) meter: u64,
    /// Archived payloads.
    pub(crate) archived: usize,
    /// Archived payloads of conflicts.
    pub(crate) conflicts: usize,
    /// Distinct rows in `events`.
    pub(crate) rows: u64,
    /// Distinct rows in `events_billing`.
    pub(crate) twins: u64,
}

impl Count {
    /// Nothing but an item of this status.
    pub(crate) fn of(status: &str) -> Self {
        Self { status: status.to_owned(), charged: false, meter: 0, archived: 0, conflicts: 0, rows: 0, twins: 0 }
    }

    /// A free event that is done.
    pub(crate) fn inserted() -> Self {
        Self { charged: true, meter: 1, archived: 1, rows: 1, twins: 1, ..Self::of("INSERTED") }
    }

    /// A free event that is charged and no more.
    pub(crate) fn charged() -> Self {
        Self { charged: true, meter: 1, ..Self::of("INSERTING") }
    }
}

impl World {
    /// Counts what stands of the event and of its space.
    pub(crate) async fn count(&self, key: &EventKey) -> Count {
        let (status, charged) = match self.stores.ledger.read(key).await.unwrap() {
            Image::Item(item) => (item.status.as_str(), item.checkpoint.is_some()),
            Image::Absent => ("absent", false),
            Image::Unreadable(_) => ("unreadable", false),
        };
        let objects = |kind: &'static str| async move {
            self.stores.archive.list(&format!("{}/{kind}/", key.space)).await.unwrap().len()
        };
        Count {
            status: status.to_owned(),
            charged,
            meter: self.meter().await,
            archived: objects("events").await,
            conflicts: objects("conflicts").await,
            rows: self.distinct_rows("events").await,
            twins: self.distinct_rows("events_billing").await,
        }
    }

    /// The space's meter over all months: consuming a wrong one shows.
    async fn meter(&self) -> u64 {
        let query = self
            .dynamo
            .query()
            .table_name(&self.config.names.meter_table)
            .consistent_read(true)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", AttributeValue::S(self.space.to_string()));
        let months = query.send().await.unwrap().items.unwrap_or_default();
        months.iter().map(|month| month["eventCount"].as_n().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Distinct rows: an exact copy is the same row, merged or not yet; one that differs in anything is another.
    async fn distinct_rows(&self, table: &str) -> u64 {
        let query = format!("SELECT count() FROM (SELECT DISTINCT * FROM {table} WHERE space = ?)");
        self.stores.rows.client().query(&query).bind(self.space.as_str()).fetch_one().await.unwrap()
    }
}

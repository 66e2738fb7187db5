//! The suite on DynamoDB.

use aws_sdk_dynamodb::types::AttributeValue;
use tollgate_domain::ledger::EventKey;
use tollgate_domain::space::SpaceId;
use tollgate_stores::billing::DynamoBilling;
use tollgate_stores::connect::Stores;
use tollgate_stores::ledger::DynamoLedger;

use crate::bench::{Bench, at};
use crate::engines::{config, dynamo, unique_space};

pub(crate) struct Live {
    stores: Stores,
    dynamo: aws_sdk_dynamodb::Client,
    ledger_table: String,
    space: SpaceId,
}

impl Live {
    pub(crate) async fn new() -> Self {
        let config = config();
        Self {
            stores: Stores::connect(&config).await.unwrap(),
            dynamo: dynamo(&config),
            ledger_table: config.names.ledger_table,
            space: unique_space(),
        }
    }
}

impl Bench for Live {
    type Ledger = DynamoLedger;
    type Billing = DynamoBilling;

    fn ledger(&self) -> &Self::Ledger {
        &self.stores.ledger
    }

    fn billing(&self) -> &Self::Billing {
        &self.stores.billing
    }

    fn space(&self) -> &SpaceId {
        &self.space
    }

    async fn set_quarantines(&self, key: &EventKey, count: u64) {
        let update = self
            .dynamo
            .update_item()
            .table_name(&self.ledger_table)
            .key("pk", AttributeValue::S(key.partition()))
            .key("sk", AttributeValue::S(key.id.as_str().to_owned()))
            .update_expression("SET quarantineCount = :count, lastQuarantineAtMs = :at")
            .expression_attribute_values(":at", AttributeValue::N(at(0).get().to_string()))
            .expression_attribute_values(":count", AttributeValue::N(count.to_string()));
        update.send().await.unwrap();
    }
}

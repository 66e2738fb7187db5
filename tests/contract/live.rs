//! The suite on DynamoDB.

use aws_sdk_dynamodb::types::AttributeValue;
use tollgate_domain::key::{KeyHash, KeyRecord};
use tollgate_domain::ledger::EventKey;
use tollgate_domain::space::SpaceId;
use tollgate_stores::billing::DynamoBilling;
use tollgate_stores::config::{Env, IntakeStoreConfig, StoreConfig};
use tollgate_stores::connect::{IntakeStores, Stores};
use tollgate_stores::keys::DynamoKeys;
use tollgate_stores::ledger::DynamoLedger;
use tollgate_stores::receipts::DynamoReceipts;
use tollgate_stores::rows::ClickHouseRows;

use crate::bench::{Bench, at};
use crate::engines::{config, dynamo, stack, unique_space};

pub(crate) struct Live {
    stores: Stores,
    intake: IntakeStores,
    dynamo: aws_sdk_dynamodb::Client,
    ledger_table: String,
    space: SpaceId,
}

impl Live {
    pub(crate) async fn new() -> Self {
        let config = config();
        Self {
            stores: Stores::connect(&config).await.unwrap(),
            intake: IntakeStores::connect(&intake_config(&config)).await.unwrap(),
            dynamo: dynamo(&config),
            ledger_table: config.names.ledger_table,
            space: unique_space(),
        }
    }
}

/// The front door's stores on the same engines.
fn intake_config(stores: &StoreConfig) -> IntakeStoreConfig {
    let mut env = Env::new(|name| stack().variable(name));
    let config = IntakeStoreConfig::from_env(&mut env);
    IntakeStoreConfig { aws: stores.aws.clone(), ..env.finish(config).unwrap() }
}

impl Bench for Live {
    type Ledger = DynamoLedger;
    type Billing = DynamoBilling;
    type Keys = DynamoKeys;
    type Receipts = DynamoReceipts;
    type Rows = ClickHouseRows;

    fn ledger(&self) -> &Self::Ledger {
        &self.stores.ledger
    }

    fn billing(&self) -> &Self::Billing {
        &self.stores.billing
    }

    fn keys(&self) -> &Self::Keys {
        &self.intake.keys
    }

    fn receipts(&self) -> &Self::Receipts {
        &self.intake.receipts
    }

    fn rows(&self) -> &Self::Rows {
        self.intake.plus.as_ref().unwrap()
    }

    async fn add_key(&self, hash: &KeyHash, record: &KeyRecord) {
        self.intake.keys.create(hash, record).await.unwrap();
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

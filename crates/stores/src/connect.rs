//! All stores over one set of clients.

use aws_config::SdkConfig;
use tollgate_domain::ports::PortError;

use crate::archive::S3Archive;
use crate::aws::sdk_config;
use crate::billing::DynamoBilling;
use crate::config::{AwsConfig, IntakeStoreConfig, StoreConfig};
use crate::keys::DynamoKeys;
use crate::ledger::DynamoLedger;
use crate::queue::{SqsIntake, SqsQueue};
use crate::receipts::DynamoReceipts;
use crate::rows::ClickHouseRows;
use crate::spaces::DynamoSpaces;

/// Every port on its real engine. Clones share the clients and their connections.
#[derive(Clone)]
pub struct Stores {
    /// `event_ledger`.
    pub ledger: DynamoLedger,
    /// `event_ledger` and `free_usage`: the writes that move money.
    pub billing: DynamoBilling,
    /// `spaces`.
    pub spaces: DynamoSpaces,
    /// `api_keys`.
    pub keys: DynamoKeys,
    /// The payloads.
    pub archive: S3Archive,
    /// The rows.
    pub rows: ClickHouseRows,
    /// The queue and its dead letters.
    pub queue: SqsQueue,
}

impl Stores {
    /// Builds the clients. Nothing is sent yet: an engine that is down shows at the first call, as that call's error.
    pub async fn connect(config: &StoreConfig) -> Result<Self, PortError> {
        let sdk = sdk_config(&config.aws).await;
        let names = &config.names;
        let dynamo = dynamo(&sdk, &config.aws);
        Ok(Self {
            ledger: DynamoLedger::new(dynamo.clone(), &names.ledger_table),
            billing: DynamoBilling::new(dynamo.clone(), &names.ledger_table, &names.meter_table),
            spaces: DynamoSpaces::new(dynamo.clone(), &names.spaces_table, config.plan_cache_ms),
            keys: DynamoKeys::new(dynamo, &names.keys_table),
            archive: S3Archive::new(s3(&sdk, &config.aws), &names.archive_bucket),
            rows: ClickHouseRows::connect(&config.clickhouse)?,
            queue: SqsQueue::new(
                sqs(&sdk, &config.aws),
                &names.event_queue_url,
                &names.dead_letter_queue_url,
                config.queue,
            ),
        })
    }
}

/// The ports that the front door uses, and no others.
#[derive(Clone)]
pub struct IntakeStores {
    /// `event_ledger`: read only.
    pub ledger: DynamoLedger,
    /// `free_usage`: read only.
    pub billing: DynamoBilling,
    /// `spaces`.
    pub spaces: DynamoSpaces,
    /// `api_keys`.
    pub keys: DynamoKeys,
    /// `command_receipts`.
    pub receipts: DynamoReceipts,
    /// The queue of accepted events.
    pub queue: SqsIntake,
    /// What Plus spaces are billed from; absent where ClickHouse is not configured.
    pub plus: Option<ClickHouseRows>,
}

impl IntakeStores {
    /// Builds the clients. Nothing is sent yet: an engine that is down shows at the first call, as that call's error.
    pub async fn connect(config: &IntakeStoreConfig) -> Result<Self, PortError> {
        let sdk = sdk_config(&config.aws).await;
        let names = &config.names;
        let dynamo = dynamo(&sdk, &config.aws);
        Ok(Self {
            ledger: DynamoLedger::new(dynamo.clone(), &names.ledger_table),
            billing: DynamoBilling::new(dynamo.clone(), &names.ledger_table, &names.meter_table),
            spaces: DynamoSpaces::new(dynamo.clone(), &names.spaces_table, config.plan_cache_ms),
            keys: DynamoKeys::new(dynamo.clone(), &names.keys_table),
            receipts: DynamoReceipts::new(dynamo, &names.receipts_table),
            queue: SqsIntake::new(sqs(&sdk, &config.aws), &names.event_queue_url),
            plus: config.clickhouse.as_ref().map(ClickHouseRows::connect).transpose()?,
        })
    }
}

// The SDK lets an endpoint that was set for all win over a service's own variable; here it is the other way.

fn dynamo(sdk: &SdkConfig, aws: &AwsConfig) -> aws_sdk_dynamodb::Client {
    let mut builder = aws_sdk_dynamodb::config::Builder::from(sdk);
    if let Some(url) = &aws.service_endpoints.dynamodb {
        builder = builder.endpoint_url(url);
    }
    aws_sdk_dynamodb::Client::from_conf(builder.build())
}

fn s3(sdk: &SdkConfig, aws: &AwsConfig) -> aws_sdk_s3::Client {
    let mut builder = aws_sdk_s3::config::Builder::from(sdk).force_path_style(aws.s3_path_style);
    if let Some(url) = &aws.service_endpoints.s3 {
        builder = builder.endpoint_url(url);
    }
    aws_sdk_s3::Client::from_conf(builder.build())
}

fn sqs(sdk: &SdkConfig, aws: &AwsConfig) -> aws_sdk_sqs::Client {
    let mut builder = aws_sdk_sqs::config::Builder::from(sdk);
    if let Some(url) = &aws.service_endpoints.sqs {
        builder = builder.endpoint_url(url);
    }
    aws_sdk_sqs::Client::from_conf(builder.build())
}

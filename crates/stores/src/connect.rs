//! All stores over one set of clients.

use tollgate_domain::ports::PortError;

use crate::archive::S3Archive;
use crate::aws::sdk_config;
use crate::billing::DynamoBilling;
use crate::config::StoreConfig;
use crate::keys::DynamoKeys;
use crate::ledger::DynamoLedger;
use crate::queue::SqsQueue;
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
        // The SDK lets an endpoint that was set for all win over a service's own variable; here it is the other way.
        let own = &config.aws.service_endpoints;
        let mut dynamo = aws_sdk_dynamodb::config::Builder::from(&sdk);
        let mut s3 = aws_sdk_s3::config::Builder::from(&sdk).force_path_style(config.aws.s3_path_style);
        let mut sqs = aws_sdk_sqs::config::Builder::from(&sdk);
        if let Some(url) = &own.dynamodb {
            dynamo = dynamo.endpoint_url(url);
        }
        if let Some(url) = &own.s3 {
            s3 = s3.endpoint_url(url);
        }
        if let Some(url) = &own.sqs {
            sqs = sqs.endpoint_url(url);
        }
        let dynamo = aws_sdk_dynamodb::Client::from_conf(dynamo.build());
        Ok(Self {
            ledger: DynamoLedger::new(dynamo.clone(), &names.ledger_table),
            billing: DynamoBilling::new(dynamo.clone(), &names.ledger_table, &names.meter_table),
            spaces: DynamoSpaces::new(dynamo.clone(), &names.spaces_table, config.plan_cache_ms),
            keys: DynamoKeys::new(dynamo, &names.keys_table),
            archive: S3Archive::new(aws_sdk_s3::Client::from_conf(s3.build()), &names.archive_bucket),
            rows: ClickHouseRows::connect(&config.clickhouse)?,
            queue: SqsQueue::new(
                aws_sdk_sqs::Client::from_conf(sqs.build()),
                &names.event_queue_url,
                &names.dead_letter_queue_url,
                config.queue,
            ),
        })
    }
}

//! The engines of one local stack.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use tollgate_cli::stack::StackRecord;
use tollgate_domain::ports::Clock;
use tollgate_domain::space::SpaceId;
use tollgate_stores::clock::SystemClock;
use tollgate_stores::config::{AwsConfig, Env, StoreConfig};
use tollgate_stores::connect::Stores;

use crate::faults::{Endpoints, Upstreams};

const REGION: &str = "us-east-1";

/// The engines of one local stack, asked without any proxy.
#[derive(Clone)]
pub struct Engines {
    /// The stack.
    pub stack: StackRecord,
    /// Names and places.
    pub config: StoreConfig,
    /// The ports.
    pub stores: Stores,
    /// DynamoDB past the ports, for what no port tells.
    pub dynamo: aws_sdk_dynamodb::Client,
    /// SQS past the ports, to make queues.
    pub sqs: aws_sdk_sqs::Client,
}

impl Engines {
    /// Connects to a running stack, whatever this process's environment says.
    pub async fn connect(stack: StackRecord) -> anyhow::Result<Self> {
        let mut env = Env::new(|name| stack.variable(name));
        let config = StoreConfig::from_env(&mut env);
        let mut config = env.finish(config)?;
        let url = stack.aws_endpoint_url.clone();
        config.aws = AwsConfig { endpoint_url: Some(url.clone()), s3_path_style: true, ..AwsConfig::default() };
        let credentials = || Credentials::new("test", "test", None, None, "local stack");
        let dynamo = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(REGION))
            .endpoint_url(&url)
            .credentials_provider(credentials());
        let sqs = aws_sdk_sqs::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(REGION))
            .endpoint_url(&url)
            .credentials_provider(credentials());
        Ok(Self {
            stores: Stores::connect(&config).await?,
            dynamo: aws_sdk_dynamodb::Client::from_conf(dynamo.build()),
            sqs: aws_sdk_sqs::Client::from_conf(sqs.build()),
            stack,
            config,
        })
    }

    /// The engines themselves, for a worker without a proxy.
    pub fn endpoints(&self) -> Endpoints {
        Endpoints { aws_url: self.stack.aws_endpoint_url.clone(), clickhouse_url: self.stack.clickhouse_url.clone() }
    }

    /// Where a proxy finds the engines.
    pub fn upstreams(&self) -> anyhow::Result<Upstreams> {
        let host = |url: &str| url.strip_prefix("http://").map(|host| host.trim_end_matches('/').to_owned());
        Ok(Upstreams {
            aws: host(&self.stack.aws_endpoint_url).context("the AWS emulator's address is no plain URL")?,
            clickhouse: host(&self.stack.clickhouse_url).context("ClickHouse's address is no plain URL")?,
        })
    }

    /// A name that no other case, process or run has used: the stack may outlive them all.
    pub fn unique(prefix: &str) -> String {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        format!("{prefix}-{:x}-{:x}-{number}", SystemClock.now().get(), std::process::id())
    }

    /// A space that nobody else uses.
    pub fn unique_space(prefix: &str) -> anyhow::Result<SpaceId> {
        Ok(SpaceId::parse(&Self::unique(prefix))?)
    }
}

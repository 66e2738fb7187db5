//! The engines: one shared local stack, and names that no other test has.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use tollgate_cli::stack::{StackRecord, up};
use tollgate_domain::ports::Clock;
use tollgate_domain::space::SpaceId;
use tollgate_stores::clock::SystemClock;
use tollgate_stores::config::{AwsConfig, Env, StoreConfig};

/// The stack, started by the first test that asks; it stops by itself after this process has gone.
pub(crate) fn stack() -> &'static StackRecord {
    static STACK: OnceLock<StackRecord> = OnceLock::new();
    STACK.get_or_init(|| up("tests", Some(std::process::id())).unwrap())
}

/// Where the engines are: what the stack says, whatever the process's environment says.
pub(crate) fn config() -> StoreConfig {
    let stack = stack();
    let mut env = Env::new(|name| stack.variable(name));
    let config = StoreConfig::from_env(&mut env);
    let mut config = env.finish(config).unwrap();
    config.aws =
        AwsConfig { endpoint_url: Some(stack.aws_endpoint_url.clone()), s3_path_style: true, ..AwsConfig::default() };
    // As long as it may be: what a test lets the stores remember is not forgotten before the test has ended.
    config.plan_cache_ms = 60_000;
    config
}

/// DynamoDB past the stores, for facts that no store would write or tell.
pub(crate) fn dynamo(config: &StoreConfig) -> aws_sdk_dynamodb::Client {
    let settings = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .endpoint_url(config.aws.endpoint_url.clone().unwrap_or_default())
        .credentials_provider(Credentials::new("test", "test", None, None, "local stack"));
    aws_sdk_dynamodb::Client::from_conf(settings.build())
}

/// A name that no other test, process or run has used: the stack outlives them all.
pub(crate) fn unique(prefix: &str) -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{:x}-{:x}-{number}", SystemClock.now().get(), std::process::id())
}

/// A space of the test's own.
pub(crate) fn unique_space() -> SpaceId {
    SpaceId::parse(&unique("space")).unwrap()
}

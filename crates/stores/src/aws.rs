//! The AWS clients: settings that are deliberate, and their errors as decisions.

use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::SdkError;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use tollgate_domain::ports::PortError;

use crate::config::AwsConfig;

const CONNECT: Duration = Duration::from_secs(1);
/// One attempt: far above a healthy p99.9, far below any visibility time-out.
const ATTEMPT: Duration = Duration::from_secs(2);
/// All attempts of one call together.
const OPERATION: Duration = Duration::from_secs(8);
/// A long poll waits for 20 s on purpose.
const POLL_ATTEMPT: Duration = Duration::from_secs(25);
const POLL_OPERATION: Duration = Duration::from_secs(30);
const ATTEMPTS: u32 = 3;
/// The SDK's own default of 1 s outlasts what it waits for: a dropped connection, a throttled partition.
const INITIAL_BACKOFF: Duration = Duration::from_millis(25);
/// S3 closes idle connections after some 20 s; hyper would keep them for 90 and find out by a reset.
const POOL_IDLE: Duration = Duration::from_secs(15);
const POOL_IDLE_PER_HOST: usize = 64;

/// One HTTP client and one configuration for every service.
pub(crate) async fn sdk_config(config: &AwsConfig) -> SdkConfig {
    let http = aws_smithy_http_client::Builder::new()
        .pool_idle_timeout(POOL_IDLE)
        .pool_max_idle_per_host(POOL_IDLE_PER_HOST)
        .tls_provider(Provider::Rustls(CryptoMode::AwsLc))
        .build_https();
    let loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(http)
        .timeout_config(time_outs(ATTEMPT, OPERATION))
        // Standard, not adaptive: the adaptive limiter is client-side and one hot table would slow all others.
        .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS).with_initial_backoff(INITIAL_BACKOFF));
    match &config.endpoint_url {
        None => loader.load().await,
        // A local stack takes any credentials; asking the environment for real ones would only slow the start.
        Some(url) => {
            let credentials = aws_sdk_dynamodb::config::Credentials::new("test", "test", None, None, "local stack");
            loader.endpoint_url(url).region(Region::new("us-east-1")).credentials_provider(credentials).load().await
        }
    }
}

/// Time-outs of a long poll.
pub(crate) fn poll_time_outs() -> TimeoutConfig {
    time_outs(POLL_ATTEMPT, POLL_OPERATION)
}

fn time_outs(attempt: Duration, operation: Duration) -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(CONNECT)
        .operation_attempt_timeout(attempt)
        .operation_timeout(operation)
        .build()
}

/// A constructor of the decision; its text names operation and code.
type Decision = fn(String) -> PortError;

/// What each error code asks of the caller. A code that is not here is judged by its HTTP status.
const DECISIONS: [(&str, Decision); 17] = [
    ("ThrottlingException", PortError::NotNow),
    ("Throttling", PortError::NotNow),
    ("RequestThrottled", PortError::NotNow),
    ("RequestLimitExceeded", PortError::NotNow),
    ("ProvisionedThroughputExceededException", PortError::NotNow),
    ("TooManyRequestsException", PortError::NotNow),
    ("SlowDown", PortError::NotNow),
    ("ServiceUnavailable", PortError::NotNow),
    ("OverLimit", PortError::NotNow),
    ("KmsThrottled", PortError::NotNow),
    ("TransactionConflictException", PortError::Contended),
    ("TransactionInProgressException", PortError::Contended),
    ("ReplicatedWriteConflictException", PortError::Contended),
    ("ConditionalRequestConflict", PortError::Contended),
    ("OperationAborted", PortError::Contended),
    ("RequestTimeout", PortError::Unknown),
    ("InternalServerError", PortError::Unknown),
];

/// The decision that an SDK error asks for. Texts name the operation and the code, never the request.
pub(crate) fn decide<E: ProvideErrorMetadata>(operation: &str, error: &SdkError<E, HttpResponse>) -> PortError {
    match error {
        // Nothing was built, so nothing was sent, and it will not be otherwise next time.
        SdkError::ConstructionFailure(_) => PortError::Broken(format!("{operation}: the request cannot be built")),
        SdkError::TimeoutError(_) => PortError::Unknown(format!("{operation}: timed out")),
        SdkError::DispatchFailure(failure) => {
            let kind = if failure.is_timeout() { "timed out" } else { "the connection failed" };
            PortError::Unknown(format!("{operation}: {kind}"))
        }
        SdkError::ResponseError(_) => PortError::Unknown(format!("{operation}: the answer cannot be read")),
        SdkError::ServiceError(service) => {
            decide_by_code(operation, service.err().code(), service.raw().status().as_u16())
        }
        _ => PortError::Unknown(format!("{operation}: an error of a kind that is new to this version")),
    }
}

fn decide_by_code(operation: &str, code: Option<&str>, status: u16) -> PortError {
    // Query-protocol services put a namespace before the code.
    let code = code.map_or("", |code| code.rsplit('#').next().unwrap_or(code));
    let text = format!("{operation}: {status} {code}");
    match DECISIONS.iter().find(|(known, _)| *known == code) {
        Some((_, decision)) => decision(text),
        None if status == 429 || status == 503 => PortError::NotNow(text),
        None if status >= 500 => PortError::Unknown(text),
        None => PortError::Broken(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_is_a_decision_and_unknown_ones_go_by_their_status() {
        let decided = |code, status| decide_by_code("Op", Some(code), status);
        assert!(matches!(decided("ThrottlingException", 400), PortError::NotNow(_)));
        assert!(matches!(
            decided("com.amazonaws.dynamodb.v20120810#TransactionInProgressException", 400),
            PortError::Contended(_)
        ));
        assert!(matches!(decided("ConditionalRequestConflict", 409), PortError::Contended(_)));
        assert!(matches!(decided("InternalServerError", 500), PortError::Unknown(_)));
        assert!(matches!(decided("Novel", 502), PortError::Unknown(_)));
        assert!(matches!(decided("Novel", 503), PortError::NotNow(_)));
        assert!(matches!(decided("ResourceNotFoundException", 400), PortError::Broken(_)));
        assert!(matches!(decided("AccessDeniedException", 400), PortError::Broken(_)));
        assert!(matches!(decide_by_code("Op", None, 400), PortError::Broken(_)));
    }
}

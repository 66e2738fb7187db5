//! Log lines of every process: JSON on stderr, without what the clients of this crate could tell.

use tracing_subscriber::EnvFilter;

/// Crates below this one that can log what goes over the wire, payloads included, at their finest levels.
const WIRE_LOGGERS: [&str; 10] = [
    "aws_config",
    "aws_runtime",
    "aws_sdk_dynamodb",
    "aws_sdk_s3",
    "aws_sdk_sqs",
    "aws_smithy_http_client",
    "aws_smithy_runtime",
    "clickhouse",
    "hyper",
    "hyper_util",
];

/// Logs one JSON object a line to stderr, as `RUST_LOG` selects; `info` if it does not say. Whatever it says, no client
/// logs its wire. Call it once, at the start of a process.
pub fn log_to_stderr() {
    tracing_subscriber::fmt().json().flatten_event(true).with_env_filter(filter()).with_writer(std::io::stderr).init();
}

fn filter() -> EnvFilter {
    let chosen = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let capped = WIRE_LOGGERS.iter().filter_map(|target| format!("{target}=info").parse().ok());
    capped.fold(chosen, EnvFilter::add_directive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wire_logger_is_capped() {
        let told = filter().to_string();
        for target in WIRE_LOGGERS {
            assert!(told.contains(&format!("{target}=info")), "{target}: {told}");
        }
    }
}

//! Long-running processes: when they stop, and where their log lines go.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// How often a process looks whether its parent is still there.
const PARENT_CHECK: Duration = Duration::from_millis(500);

/// Crates that can log what goes over the wire.
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

/// Cancelled by SIGTERM or ctrl-c; with `with_parent`, also when the process that started this one has gone.
pub(crate) fn stop_signal(with_parent: bool) -> anyhow::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let parent = rustix::process::getppid();
    let token = stop.clone();
    tokio::spawn(async move {
        let orphaned = async {
            while !with_parent || rustix::process::getppid() == parent {
                tokio::time::sleep(PARENT_CHECK).await;
            }
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = orphaned => {}
        }
        token.cancel();
    });
    Ok(stop)
}

/// One JSON object a line on stderr, as `RUST_LOG` selects; `info` if it does not say.
pub(crate) fn log_to_stderr() {
    let chosen = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    // These clients write requests and answers, payloads included, at their finest levels: never here.
    let capped = WIRE_LOGGERS.iter().filter_map(|target| format!("{target}=info").parse().ok());
    let filter = capped.fold(chosen, EnvFilter::add_directive);
    tracing_subscriber::fmt().json().flatten_event(true).with_env_filter(filter).with_writer(std::io::stderr).init();
}

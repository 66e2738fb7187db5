//! The worker as a process of its own: takes messages until SIGTERM. Settings come from the environment; logs go to
//! standard error as JSON, filtered by `RUST_LOG`.

use std::error::Error;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tollgate_stores::config::Env;
use tollgate_stores::logging::log_to_stderr;
use tollgate_worker::config::WorkerConfig;
use tollgate_worker::worker::run_live;

#[tokio::main]
async fn main() -> ExitCode {
    log_to_stderr();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "the worker cannot run");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error + Send + Sync>> {
    let config = WorkerConfig::from_env(Env::of_process())?;
    let stop = CancellationToken::new();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let told = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        told.cancel();
    });
    Ok(run_live(config, stop).await?)
}

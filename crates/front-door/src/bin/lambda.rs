//! The front door as a process of its own: on Lambda where the runtime says so, else on a socket.
//!
//! `TOLLGATE_LISTEN` is the socket's address, `127.0.0.1:8787` if unset. Logs go to standard error as JSON, filtered by
//! `RUST_LOG`.

use std::error::Error;
use std::process::ExitCode;

use axum::Router;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tollgate_front_door::config::{FrontDoorConfig, ServerConfig};
use tollgate_front_door::live::LivePorts;
use tollgate_front_door::router::router;
use tollgate_front_door::serve::{LAMBDA_MARKER, serve_lambda, serve_local};
use tollgate_stores::clock::SystemClock;
use tollgate_stores::config::{Env, IntakeStoreConfig};
use tollgate_stores::connect::IntakeStores;
use tollgate_stores::logging::log_to_stderr;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    log_to_stderr();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "the front door cannot run");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failure> {
    let mut env = Env::of_process();
    let settings = (IntakeStoreConfig::from_env(&mut env), FrontDoorConfig::from_env(&mut env));
    let listen = env.text("TOLLGATE_LISTEN").unwrap_or_else(|| "127.0.0.1:8787".to_owned());
    let on_lambda = env.text(LAMBDA_MARKER).is_some();
    let (stores, config) = env.finish(settings)?;
    let server = config.server.clone();
    let router = router(LivePorts::new(IntakeStores::connect(&stores).await?, SystemClock), config);
    if on_lambda { serve_lambda(router).await } else { serve_socket(router, &listen, &server).await }
}

async fn serve_socket(router: Router, listen: &str, server: &ServerConfig) -> Result<(), Failure> {
    let listener = TcpListener::bind(listen).await.map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    tracing::info!(address = %listener.local_addr()?, "the front door listens");
    let shutdown = CancellationToken::new();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
    });
    serve_local(listener, router, server, shutdown).await;
    Ok(())
}

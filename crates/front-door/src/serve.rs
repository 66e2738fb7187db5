//! The two ways to serve the router.

use std::io;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::config::ServerConfig;

/// Set by the Lambda runtime: whoever finds it serves Lambda's events instead of a socket.
pub const LAMBDA_MARKER: &str = "AWS_LAMBDA_RUNTIME_API";

/// Pause after a failed accept: it fails for want of file descriptors, which take a moment to come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves `router` on `listener` until `shutdown`, then lets open requests finish within the drain time.
///
/// HTTP/1.1 without TLS: for loopback, or behind something that ends TLS. A request's head must arrive within the
/// header time-out; its body within the intake's own.
pub async fn serve_local(listener: TcpListener, router: Router, config: &ServerConfig, shutdown: CancellationToken) {
    let open = GracefulShutdown::new();
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(config.header_timeout);
    while let Some(accepted) = shutdown.run_until_cancelled(listener.accept()).await {
        let stream = match accepted.and_then(|(stream, _)| without_delay(stream)) {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = open.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // Broken and idle connections end here: the client's business, and ordinary.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(config.drain_timeout, open.shutdown()).await.is_err() {
        tracing::warn!("open requests did not finish within the drain time");
    }
}

/// Nagle's algorithm would hold small answers back for some 40 ms.
fn without_delay(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true).map(|()| stream)
}

/// Serves `router` to the Lambda runtime, which ends the process.
pub async fn serve_lambda(router: Router) -> Result<(), lambda_http::Error> {
    lambda_http::run(router).await
}

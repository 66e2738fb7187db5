//! Long-running processes: when they stop.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How often a process looks whether its parent is still there.
const PARENT_CHECK: Duration = Duration::from_millis(500);

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

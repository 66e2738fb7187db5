//! The process behind a proxy, which a fault may kill.

use std::io;

use tokio::process::Child;
use tokio::sync::Mutex;

/// Where a worker process lives; empty between its death and the next start.
#[derive(Debug, Default)]
pub struct Victim(Mutex<Option<Child>>);

impl Victim {
    /// The process that the next kill takes. Kills the one before, if it lives.
    pub async fn replace(&self, child: Child) -> io::Result<()> {
        let mut place = self.0.lock().await;
        if let Some(mut before) = place.replace(child) {
            before.kill().await?;
        }
        Ok(())
    }

    /// SIGKILL; returns once the process is gone. Whether there was one.
    pub async fn kill(&self) -> io::Result<bool> {
        match self.0.lock().await.take() {
            Some(mut child) => child.kill().await.map(|()| true),
            None => Ok(false),
        }
    }

    /// How the process ended, if it did so by itself.
    pub async fn ended(&self) -> io::Result<Option<std::process::ExitStatus>> {
        match self.0.lock().await.as_mut() {
            Some(child) => child.try_wait(),
            None => Ok(None),
        }
    }
}

//! A real front door, as a process of its own.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::process::Child;
use tollgate_domain::space::SpaceId;

use super::program::joined;
use super::{Engines, Program, Queues};

const READY: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

/// A running front door. It dies with its handle, and stops by itself when this process has gone.
pub struct FrontDoor {
    /// Where it listens: `http://127.0.0.1:…`.
    pub url: String,
    child: Child,
}

/// How a front door is set up, where it differs from one run to the next.
#[derive(Debug, Clone, Default)]
pub struct FrontDoorSettings {
    /// What it takes for AWS; the stack itself, if unsaid.
    pub aws_url: Option<String>,
    /// Arguments of the command.
    pub arguments: Vec<String>,
    /// Variables over the defaults.
    pub variables: Vec<(&'static str, String)>,
    /// Spaces that are the canary's.
    pub internal_spaces: Vec<SpaceId>,
}

impl FrontDoor {
    /// Starts it on a free port, and waits until it listens.
    pub async fn start(
        engines: &Engines,
        program: &Program,
        queues: &Queues,
        settings: &FrontDoorSettings,
        log: &Path,
    ) -> anyhow::Result<Self> {
        let address_file = log.with_extension("address");
        let _ = std::fs::remove_file(&address_file); // a file that an earlier run left
        let aws_url = settings.aws_url.as_deref().unwrap_or(&engines.stack.aws_endpoint_url);
        let mut command = program.command(engines, queues, aws_url, log)?;
        command
            .args(["front-door", "--with-parent", "--listen", "127.0.0.1:0", "--address-file"])
            .arg(&address_file)
            .args(&settings.arguments)
            .env("TOLLGATE_INTERNAL_SPACES", joined(&settings.internal_spaces))
            .envs(settings.variables.iter().map(|(name, value)| (*name, value.as_str())));
        let mut child = command.spawn().context("the front door cannot be started")?;
        let listening = async {
            loop {
                match std::fs::read_to_string(&address_file) {
                    Ok(address) if !address.is_empty() => return address,
                    _ => tokio::time::sleep(POLL).await,
                }
            }
        };
        tokio::select! {
            address = listening => Ok(Self { url: format!("http://{address}"), child }),
            ended = child.wait() => bail!("the front door ended at once ({}); see {}", ended?, log.display()),
            () = tokio::time::sleep(READY) => bail!("the front door did not listen within {} s", READY.as_secs()),
        }
    }

    /// Fails if the process has ended by itself.
    pub fn check(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("the front door ended by itself ({status})"),
            None => Ok(()),
        }
    }
}

//! The demo's processes: one front door, some workers, and whoever kills them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tollgate_domain::period::PeriodMonth;

use crate::demo::{Counter, folder};
use crate::stack::StackRecord;

/// Settings of the demo's workers: little in work and a short visibility, so that what a killed worker held comes
/// again soon.
const WORKER_SETTINGS: [(&str, &str); 4] = [
    ("TOLLGATE_VISIBILITY_S", "4"),
    ("TOLLGATE_RECEIVE_WAIT_S", "2"),
    ("TOLLGATE_MAX_IN_WORK", "20"),
    ("TOLLGATE_POLLERS", "2"),
];
/// Milliseconds between two kills: drawn evenly.
const KILL_EVERY_MS: std::ops::RangeInclusive<u64> = 400..=1_200;
const READY: Duration = Duration::from_secs(20);
const STOP: Duration = Duration::from_secs(30);

/// What to start.
pub(crate) struct FleetPlan {
    pub(crate) stack: StackRecord,
    pub(crate) month: PeriodMonth,
    pub(crate) workers: u16,
    pub(crate) seed: u64,
}

/// The running processes.
pub(crate) struct Fleet {
    front_door: Child,
    url: String,
    logs: PathBuf,
    kills: Counter,
    done: Counter,
    stop: CancellationToken,
    killing: JoinHandle<anyhow::Result<Vec<Child>>>,
}

impl Fleet {
    /// Starts the front door and the workers, and begins to kill.
    pub(crate) async fn start(plan: &FleetPlan) -> anyhow::Result<Self> {
        let logs = folder(&plan.stack).join("logs");
        std::fs::create_dir_all(&logs).with_context(|| format!("{} cannot be made", logs.display()))?;
        let (front_door, url) = start_front_door(plan, &logs).await?;
        let launcher = Launcher::new(plan, &logs)?;
        let workers = (0..plan.workers).map(|number| launcher.start(number)).collect::<anyhow::Result<Vec<Child>>>()?;
        let (kills, done, stop) = (Counter::default(), Counter::default(), CancellationToken::new());
        let killer = Killer { launcher, workers, kills: kills.clone(), done: done.clone() };
        let killing = tokio::spawn(killer.run(fastrand::Rng::with_seed(plan.seed), stop.clone()));
        Ok(Self { front_door, url, logs, kills, done, stop, killing })
    }

    /// Where the front door listens.
    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// Workers killed so far.
    pub(crate) fn kills(&self) -> u64 {
        self.kills.get()
    }

    /// Notes how many events are done: nobody is killed again before there are more.
    pub(crate) fn progressed(&self, done: u64) {
        self.done.set(done);
    }

    /// Where the processes' logs are.
    pub(crate) fn logs(&self) -> std::path::Display<'_> {
        self.logs.display()
    }

    /// Stops the killing, then every process by SIGTERM; tells how many workers were killed.
    pub(crate) async fn stop(self) -> anyhow::Result<u64> {
        self.stop.cancel();
        let workers = self.killing.await.context("the killer failed")??;
        for child in workers.into_iter().chain([self.front_door]) {
            terminate(child).await?;
        }
        Ok(self.kills.get())
    }
}

/// Starts workers, each with a log of its own.
struct Launcher {
    program: PathBuf,
    stack: String,
    logs: PathBuf,
}

impl Launcher {
    fn new(plan: &FleetPlan, logs: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            program: std::env::current_exe().context("this program's own path")?,
            stack: plan.stack.name.clone(),
            logs: logs.to_path_buf(),
        })
    }

    fn start(&self, number: u16) -> anyhow::Result<Child> {
        let mut command = self.command(&["worker", "--with-parent"], &format!("worker-{number}"))?;
        command.envs(WORKER_SETTINGS).spawn().context("a worker cannot be started")
    }

    fn command(&self, arguments: &[&str], log: &str) -> anyhow::Result<Command> {
        let path = self.logs.join(format!("{log}.log"));
        let log = File::options().create(true).append(true).open(&path);
        let log = log.with_context(|| format!("{} cannot be written", path.display()))?;
        let mut command = Command::new(&self.program);
        command
            .args(["--stack", &self.stack])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true);
        Ok(command)
    }
}

/// Starts the front door on a free port and waits until it listens.
async fn start_front_door(plan: &FleetPlan, logs: &Path) -> anyhow::Result<(Child, String)> {
    let address_file = folder(&plan.stack).join("front-door.address");
    let _ = std::fs::remove_file(&address_file); // a file that an earlier run left
    let month = plan.month.to_string();
    let file = address_file.to_string_lossy();
    // The gate only observes: the worker decides everything, and `rejected` counts ledger items.
    let arguments = [
        "front-door",
        "--with-parent",
        "--listen",
        "127.0.0.1:0",
        "--gate",
        "observe",
        "--pin-month",
        &month,
        "--address-file",
        &file,
    ];
    let mut child = Launcher::new(plan, logs)?
        .command(&arguments, "front-door")?
        .spawn()
        .context("the front door cannot be started")?;
    let listening = async {
        loop {
            if let Ok(address) = std::fs::read_to_string(&address_file)
                && !address.is_empty()
            {
                return address;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        address = listening => Ok((child, format!("http://{address}"))),
        ended = child.wait() => bail!("the front door ended at once ({}); see {}", ended?, logs.join("front-door.log").display()),
        () = tokio::time::sleep(READY) => bail!("the front door did not listen within {} s", READY.as_secs()),
    }
}

/// Kills one worker after the other with SIGKILL and starts another in its place.
struct Killer {
    launcher: Launcher,
    workers: Vec<Child>,
    kills: Counter,
    done: Counter,
}

impl Killer {
    /// Kills until told to stop, and hands back who is left.
    async fn run(mut self, mut random: fastrand::Rng, stop: CancellationToken) -> anyhow::Result<Vec<Child>> {
        let mut done_at_last_kill = 0;
        loop {
            let pause = Duration::from_millis(random.u64(KILL_EVERY_MS));
            if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return Ok(self.workers);
            }
            // On a machine so slow that nothing was done since the last kill, another one would prove nothing.
            if self.done.get() > done_at_last_kill {
                done_at_last_kill = self.done.get();
                self.kill(random.usize(0..self.workers.len())).await?;
            }
        }
    }

    async fn kill(&mut self, victim: usize) -> anyhow::Result<()> {
        let Some(worker) = self.workers.get_mut(victim) else { return Ok(()) };
        if let Some(status) = worker.try_wait()? {
            bail!("worker {victim} ended by itself ({status}); see {}", self.launcher.logs.display());
        }
        worker.kill().await.context("a worker cannot be killed")?;
        self.kills.add_one();
        *worker = self.launcher.start(u16::try_from(victim).unwrap_or_default())?;
        Ok(())
    }
}

/// SIGTERM, and SIGKILL for whoever does not heed it.
async fn terminate(mut child: Child) -> anyhow::Result<()> {
    let Some(pid) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) else {
        return Ok(()); // ended before
    };
    kill_process(pid, Signal::TERM).context("a process cannot be told to stop")?;
    if tokio::time::timeout(STOP, child.wait()).await.is_err() {
        child.kill().await.context("a process cannot be killed")?;
        bail!("a process did not stop within {} s of SIGTERM", STOP.as_secs());
    }
    Ok(())
}

//! A process that is killed with events in its buffer: the next one sends them with the same ids.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tollgate_client::{
    ApiKey, Client, Durability, Recorder, RetryPolicy, Spool, SpoolError, StartError, UsageEvent, blocking,
};

use crate::support::{Server, Step, event, quick};

const FOLDER: &str = "TOLLGATE_TEST_SPOOL";
const ENDPOINT: &str = "TOLLGATE_TEST_ENDPOINT";
const DURABILITY: &str = "TOLLGATE_TEST_DURABILITY";

fn start(client: Client, folder: &Path, durability: Durability) -> (blocking::Recorder, usize) {
    let builder = Recorder::builder(client, |_| {}).batch_events(10).batch_age(Duration::from_millis(2));
    let spool = Spool::at(folder).durability(durability).segment_bytes(4_000);
    let (recorder, recovery) = blocking::Recorder::start_with_spool(builder, spool).unwrap();
    assert!(recovery.set_aside.iter().all(|line| line.torn), "{recovery:?}");
    (recorder, recovery.events)
}

/// The process that is killed: records for ever, and tells each event that `record` returned for.
#[test]
#[ignore = "the child of the test below, which runs it as a process of its own"]
fn child() {
    let [folder, endpoint, durability] = [FOLDER, ENDPOINT, DURABILITY].map(|name| std::env::var(name).unwrap());
    let durability = if durability == "os" { Durability::Os } else { Durability::Fsync };
    let client = Client::builder(endpoint, &ApiKey::from_random([7; 32])).retry(quick()).build().unwrap();
    let (recorder, _) = start(client, Path::new(&folder), durability);
    for number in 0.. {
        recorder.record(event(number)).unwrap();
        // Past the test harness, which would keep it; a parent that is gone ends this.
        let mut told = std::io::stdout().lock();
        writeln!(told, "recorded {number}").and_then(|()| told.flush()).unwrap();
    }
}

/// Runs the child until it has told of `enough` events and kills it; the numbers of those it told of.
fn kill_after(enough: usize, folder: &Path, endpoint: &str, durability: &str) -> BTreeSet<usize> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::child", "--ignored", "--nocapture"])
        .envs([(FOLDER, folder.to_str().unwrap()), (ENDPOINT, endpoint), (DURABILITY, durability)])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let number = |line: String| line.strip_prefix("recorded ").and_then(|number| number.parse().ok());
    let mut told: BTreeSet<usize> = lines.by_ref().filter_map(number).take(enough).collect();
    // Meanwhile the folder is the child's, and nobody else's.
    let builder = Recorder::builder(Client::builder(endpoint, &ApiKey::from_random([7; 32])).build().unwrap(), |_| {});
    let in_use = blocking::Recorder::start_with_spool(builder, Spool::at(folder));
    assert!(matches!(in_use, Err(StartError::Spool(SpoolError::InUse { .. }))), "{in_use:?}");
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
    // What it told between our decision and its death; a line that broke off is none.
    told.extend(lines.filter_map(number));
    assert!(told.len() >= enough, "it ended by itself after {told:?}");
    told
}

/// Numbers of the events in a call, each held to be the event that was recorded under its number.
fn numbers_in(body: &str) -> Vec<usize> {
    let events: Vec<Value> = serde_json::from_str(body).unwrap();
    let number_of = |sent: &Value| {
        let number = usize::try_from(sent["properties"]["n"].as_u64().unwrap()).unwrap();
        let sent = UsageEvent::from_json(&sent.to_string()).unwrap();
        assert_eq!((sent.id(), &sent), (event(number).id(), &event(number)), "the same id and the same facts");
        number
    };
    events.iter().map(number_of).collect()
}

#[test]
fn a_killed_process_s_events_are_sent_by_the_next_one_with_the_same_ids() {
    for (enough, durability) in [(1, "fsync"), (40, "fsync"), (700, "fsync"), (3_000, "os")] {
        let folder = tempfile::tempdir().unwrap();
        let busy = Step::Answer(503, "", String::new());
        let steps = vec![Step::Queue, Step::Drop, Step::Queue, busy, Step::Queue, Step::Queue, Step::Stall];
        let first = Server::on_a_thread(steps.clone());
        let recorded = kill_after(enough, folder.path(), &first.endpoint, durability);
        let queued_before: BTreeSet<usize> = (first.bodies().iter().zip(&steps))
            .filter(|(_, step)| matches!(step, Step::Queue))
            .flat_map(|(body, _)| numbers_in(body))
            .collect();

        let second = Server::on_a_thread(vec![Step::Drop, Step::Queue]);
        let patient = RetryPolicy { max_attempts: u32::MAX, ..quick() };
        let (recorder, found) = start(second.client(patient), folder.path(), Durability::Fsync);
        let closed = recorder.close().unwrap();
        assert_eq!((closed.unsent.len(), closed.counts.queued), (0, found as u64), "after {enough}");
        let sent: BTreeSet<usize> = second.bodies().iter().flat_map(|body| numbers_in(body)).collect();
        assert!(
            recorded.iter().all(|number| queued_before.contains(number) || sent.contains(number)),
            "after {enough}"
        );
        assert_eq!(sent.len(), found, "after {enough}");
        assert!(enough < 700 || found > 0, "a kill in the middle leaves something");
        // Nothing is left, and a third start finds nothing to send.
        let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(names.into_iter().all(|name| !name.to_str().unwrap().starts_with("segment")), "after {enough}");
        let (recorder, found) = start(second.client(quick()), folder.path(), Durability::Fsync);
        assert_eq!(found, 0, "after {enough}");
        assert!(recorder.close().unwrap().unsent.is_empty());
    }
}

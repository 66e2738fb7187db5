//! Records a line of standard input as one event each, in the background and with a spool:
//! `TOLLGATE_URL=… TOLLGATE_API_KEY=… cargo run --example recorder -- /tmp/usage < events.jsonl`.
//! Kill it in the middle and run it again: what it had read is sent with the same ids.

#![expect(clippy::print_stderr, reason = "an example for the terminal")]

use std::error::Error;
use std::io::{BufRead as _, Write as _, stdout};

use tollgate_client::{ApiKey, Client, Outcome, Recorder, Settled, Spool, UsageEvent, blocking};

fn main() -> Result<(), Box<dyn Error>> {
    let (url, key) = (std::env::var("TOLLGATE_URL")?, ApiKey::parse(&std::env::var("TOLLGATE_API_KEY")?)?);
    let client = Client::builder(url, &key).build()?;
    let folder = std::env::args().nth(1).ok_or("tell a folder for the spool")?;
    let observer = |Settled { event, outcome }: Settled| match outcome {
        Outcome::Queued { .. } => {}
        Outcome::Conflict { problems } => eprintln!("CONFLICT {}: {problems:?}", event.id()),
        other => eprintln!("{} was not taken: {other:?}", event.id()),
    };
    let builder = Recorder::builder(client, observer);
    let (recorder, recovery) = blocking::Recorder::start_with_spool(builder, Spool::at(folder))?;
    writeln!(stdout(), "{} event(s) of an earlier run, {} unreadable", recovery.events, recovery.set_aside.len())?;
    for line in std::io::stdin().lock().lines() {
        recorder.record(UsageEvent::from_json(&line?)?)?;
    }
    let closed = recorder.close()?;
    writeln!(stdout(), "{:?}, {} left on disk", closed.counts, closed.unsent.len())?;
    Ok(())
}

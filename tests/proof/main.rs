//! The proof: one command that tries everything that Tollgate promises.

mod arguments;
mod output;
mod parts;
mod summary;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;

use crate::arguments::{Arguments, Part};
use crate::output::{line, note};
use crate::parts::Runner;
use crate::summary::Summary;

/// First argument by which this program is the command `tollgate`: how it starts its workers.
const PASS_ON: &str = "tollgate";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if arguments.first().map(OsString::as_os_str) == Some(OsStr::new(PASS_ON)) {
        return tollgate_cli::run(tollgate_cli::args::Arguments::parse_from(arguments));
    }
    match prove(&Arguments::parse()) {
        Ok(summary) => {
            line(serde_json::to_string(&summary).unwrap_or_default());
            if summary.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            note(format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs the parts that were asked for: all of them, also after one that fails.
fn prove(arguments: &Arguments) -> anyhow::Result<Summary> {
    let parts = arguments.part.as_ref().map_or_else(Part::all, |part| vec![part.clone()]);
    let mut runner = Runner::new(arguments.extent)?;
    let mut summary = Summary::default();
    for part in parts {
        let (name, start) = (part.name(), Instant::now());
        note(format!("{name} (seed {})", arguments.extent.seed));
        let outcome = runner.run(&part, &mut summary);
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => note(format!("{name}: nothing is wrong ({seconds:.1} s)")),
            Err(error) => {
                note(format!("{name}: FAILED ({seconds:.1} s): {error:#}"));
                summary.failed.push(name);
            }
        }
    }
    if !summary.failed.is_empty() {
        summary.tell_no_zero();
    }
    Ok(summary)
}

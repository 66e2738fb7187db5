//! The benchmarks: what Tollgate adds to the engines' own calls, both measured in one run.

mod arguments;
mod front_door;
mod sample;
mod table;

use std::ffi::{OsStr, OsString};
use std::process::{ExitCode, id};

use anyhow::Context;
use clap::Parser;
use tollgate_cli::stack;
use tollgate_tests::live::{Engines, Program};

use crate::arguments::{Arguments, Part};
use crate::table::{line, note};

/// First argument by which this program is the command `tollgate`: how it starts its processes.
const PASS_ON: &str = "tollgate";
/// The stack that the benchmarks start, and which stops by itself after this process has gone.
const STACK: &str = "bench";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if arguments.first().map(OsString::as_os_str) == Some(OsStr::new(PASS_ON)) {
        return tollgate_cli::run(tollgate_cli::args::Arguments::parse_from(arguments));
    }
    match bench(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn bench(arguments: &Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // What an earlier run left would only slow this one.
    if stack::running(STACK)?.is_none() {
        stack::down(STACK, true)?;
    }
    let record = stack::up(STACK, Some(id()))?;
    let engines = runtime.block_on(Engines::connect(record)).context("the local stack")?;
    // The command `tollgate`, as it is linked into this program: never an older build that lies beside it.
    let program = Program::new(std::env::current_exe().context("this program's own path")?, &[PASS_ON]);
    let mut results = serde_json::Map::new();
    for part in arguments.parts() {
        match part {
            Part::FrontDoor => {
                let report = runtime.block_on(front_door::run(&engines, &program, arguments.short))?;
                note(report.table());
                results.insert("front_door".to_owned(), serde_json::to_value(&report)?);
            }
        }
    }
    if arguments.json {
        line(serde_json::Value::Object(results));
    }
    Ok(())
}

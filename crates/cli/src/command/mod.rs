//! One command a file; what they share is here.

mod event;
mod front_door;
mod keys;
mod send;
mod spaces;
mod stack;
mod usage;
mod worker;

use std::process::ExitCode;
use std::time::Duration;

use tollgate_domain::ledger::EventKey;
use tollgate_domain::ports::PortError;
use tollgate_domain::scenario::markdown_table;

pub(crate) use keys::create as create_key;

use crate::args::{Arguments, Command};
use crate::demo;
use crate::output::{line, note};
use crate::settings::Settings;

/// How a command that ran to its end went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Everything is as it should be.
    Well,
    /// Something is not, and was told.
    NotWell,
    /// Somebody gave no answer, which was told: the same command again.
    NoAnswer,
}

const NOT_WELL: u8 = 1;
const WRONG_INPUT: u8 = 2;
const NO_ANSWER: u8 = 3;

/// Runs the command that the arguments name; the exit code is what `--help` says.
pub fn run(arguments: Arguments) -> ExitCode {
    match dispatch(arguments) {
        Ok(Ended::Well) => ExitCode::SUCCESS,
        Ok(Ended::NotWell) => ExitCode::from(NOT_WELL),
        Ok(Ended::NoAnswer) => ExitCode::from(NO_ANSWER),
        Err(error) => {
            note(format!("error: {error:#}"));
            ExitCode::from(code_of(&error))
        }
    }
}

/// Work that was begun and not finished: the same command goes on.
#[derive(Debug)]
struct Unfinished(String);

impl std::fmt::Display for Unfinished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unfinished {}

/// An error of a command that did a part of its work.
pub(crate) fn unfinished(what: String) -> anyhow::Error {
    Unfinished(what).into()
}

/// An engine that gave no answer may give one next time; anything else needs a person first.
fn code_of(error: &anyhow::Error) -> u8 {
    if error.downcast_ref::<Unfinished>().is_some() {
        return NO_ANSWER;
    }
    match error.downcast_ref::<PortError>() {
        Some(PortError::Broken(_)) | None => WRONG_INPUT,
        Some(_) => NO_ANSWER,
    }
}

fn dispatch(arguments: Arguments) -> anyhow::Result<Ended> {
    let Arguments { stack, command } = arguments;
    // The demo's workers know its internal spaces; another's beside them would bill the same events otherwise.
    let default = if matches!(command, Command::Demo(_)) { "demo" } else { "dev" };
    let stack = stack.unwrap_or_else(|| default.to_owned());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match command {
        Command::Scenarios => {
            line(markdown_table().trim_end());
            Ok(Ended::Well)
        }
        Command::Up { json } => stack::up(&stack, json),
        Command::Down { wipe } => stack::down(&stack, wipe),
        Command::Demo(arguments) => runtime.block_on(demo::run(&stack, arguments)),
        Command::Send(arguments) => runtime.block_on(send::run(arguments)),
        Command::Worker(arguments) => runtime.block_on(worker::run(&Settings::of_stack(&stack)?, &arguments)),
        Command::FrontDoor(arguments) => runtime.block_on(front_door::run(&Settings::of_stack(&stack)?, arguments)),
        Command::Event { space, id, wait, json } => {
            let wait = Duration::from_secs(wait);
            runtime.block_on(event::run(&Settings::of_stack(&stack)?, EventKey { space, id }, wait, json))
        }
        Command::Usage { space, month, json } => {
            runtime.block_on(usage::run(&Settings::of_stack(&stack)?, &space, month, json))
        }
        Command::Spaces(command) => runtime.block_on(spaces::run(&Settings::of_stack(&stack)?, command)),
        Command::Keys(command) => runtime.block_on(keys::run(&Settings::of_stack(&stack)?, command)),
    }
}

//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tollgate_domain::identity::EventId;
use tollgate_domain::key::{KeyId, Scope};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::{Limit, Subscription};
use tollgate_domain::space::SpaceId;
use tollgate_front_door::config::GateMode;

/// Exit codes, as every command uses them.
const EXIT_CODES: &str = "\
Exit codes:
  0  done, and everything is as it should be
  1  done, and something is not: the demo differs, an event was refused or is unknown
  2  wrong usage, input or configuration: nothing was done
  3  an engine or the front door gave no answer, or the work was begun and not finished: run the same command again";

/// Usage billing that charges each event exactly once.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, about = "Usage billing that charges each event exactly once", after_help = EXIT_CODES)]
pub struct Arguments {
    /// Local stack to work on, where the environment does not say where everything is: `demo` for the demo, else `dev`
    #[arg(long, global = true, env = "TOLLGATE_STACK", value_name = "NAME")]
    pub stack: Option<String>,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send real traffic through the whole pipeline while workers are killed, and check every charge
    #[command(after_help = DEMO_EXAMPLES)]
    Demo(DemoArguments),
    /// Start the local stack: an AWS emulator, a real ClickHouse, tables and queues
    #[command(after_help = "Example:\n  tollgate up\n  tollgate up --stack other --json")]
    Up {
        /// Print the stack's endpoints and resource names as one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Stop the local stack
    #[command(after_help = "Example:\n  tollgate down\n  tollgate down --wipe")]
    Down {
        /// Delete its data too
        #[arg(long)]
        wipe: bool,
    },
    /// Take events from the queue until SIGTERM
    #[command(after_help = "Example:\n  tollgate worker\n  TOLLGATE_POLLERS=4 tollgate worker 2>worker.log")]
    Worker(ProcessArguments),
    /// Serve the HTTP API until SIGTERM
    #[command(
        after_help = "Example:\n  tollgate front-door --listen 127.0.0.1:8787\n  tollgate front-door --gate observe"
    )]
    FrontDoor(FrontDoorArguments),
    /// Send a file of events, one JSON object a line, plain or gzip; safe to run again
    #[command(after_help = SEND_EXAMPLES)]
    Send(SendArguments),
    /// Show what ledger, archive and rows say of an event, and which scenario applies
    #[command(
        after_help = "Example:\n  tollgate event --space acme uev_86090f05dddadd43e82f5df76d0e44fed1b8cdd7c19bb352c8e4623b211bd1e1"
    )]
    Event {
        /// Whose event
        #[arg(long)]
        space: SpaceId,
        /// Which event
        id: EventId,
        /// Seconds to wait for it to come to its end
        #[arg(long, default_value_t = 0, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=3600))]
        wait: u64,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show a space's plan and what it has used of a month
    #[command(after_help = "Example:\n  tollgate usage acme\n  tollgate usage acme --month 2026-11 --json")]
    Usage {
        /// Whose usage
        space: SpaceId,
        /// Which month; this one if unsaid
        #[arg(long, value_name = "YYYY-MM")]
        month: Option<PeriodMonth>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Manage spaces
    #[command(subcommand)]
    Spaces(SpacesCommand),
    /// Manage API keys
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Print the table of the eight scenarios
    Scenarios,
}

const DEMO_EXAMPLES: &str = "\
Examples:
  tollgate demo                                     seeded synthetic traffic, under two minutes
  tollgate demo --input events.jsonl.gz --expected expected.json
  tollgate demo --input events.jsonl.gz --expected expected.json --resume
  tollgate demo --json                              ends in one JSON object on stdout

Run it twice: the second pass sends everything again and changes nothing.";

const SEND_EXAMPLES: &str = "\
Examples:
  TOLLGATE_API_KEY=tollgate_sk_... tollgate send events.jsonl
  tollgate send events.jsonl.gz --key-file keys.json     where lines name their `space`

The key file is one JSON object, {\"space\": \"tollgate_sk_...\"}. Lines with the same id go in different
calls, in the order of the file. Every line is checked before the first is sent.";

/// How the demo runs.
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// Events to send, one JSON object a line, plain or gzip; without it, synthetic traffic
    #[arg(long, requires = "expected", value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// What must come out, and the spaces' plans
    #[arg(long, requires = "input", value_name = "FILE")]
    pub expected: Option<PathBuf>,
    /// Seed of the synthetic traffic and of the kills
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Worker processes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub workers: u16,
    /// Go on where an interrupted run of the same input stopped sending
    #[arg(long)]
    pub resume: bool,
    /// End in one JSON object on stdout; everything else goes to stderr
    #[arg(long)]
    pub json: bool,
}

/// What every long-running process takes.
#[derive(Debug, Args)]
pub struct ProcessArguments {
    /// Stop when the process that started this one has gone
    #[arg(long, hide = true)]
    pub with_parent: bool,
}

/// How the front door runs.
#[derive(Debug, Args)]
pub struct FrontDoorArguments {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8787", env = "TOLLGATE_LISTEN")]
    pub listen: SocketAddr,
    /// What the advisory gate does with what it finds; `TOLLGATE_GATE_MODE` or enforce if unsaid
    #[arg(long, value_name = "enforce|observe|off")]
    pub gate: Option<GateMode>,
    /// Accept everything within this month (local stack only)
    #[arg(long, value_name = "YYYY-MM")]
    pub pin_month: Option<PeriodMonth>,
    /// Write the address to this file once it listens
    #[arg(long, hide = true)]
    pub address_file: Option<PathBuf>,
    /// How long it lives
    #[command(flatten)]
    pub process: ProcessArguments,
}

/// What to send, and where.
#[derive(Debug, Args)]
pub struct SendArguments {
    /// The events
    pub file: PathBuf,
    /// The front door
    #[arg(long, default_value = "http://127.0.0.1:8787", env = "TOLLGATE_URL")]
    pub url: String,
    /// One API key a space: a JSON object. Without it, the key in `TOLLGATE_API_KEY` sends every line
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Events of one call at most
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub batch: u16,
    /// Print the counts as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// Managing spaces.
#[derive(Debug, Subcommand)]
pub enum SpacesCommand {
    /// Set a space's plan
    #[command(
        after_help = "Example:\n  tollgate spaces set acme --plan plus-active\n  tollgate spaces set tiny --plan free --limit 100"
    )]
    Set {
        /// Which space
        space: SpaceId,
        /// Its plan. Internal spaces are the worker's configuration, not an entry here
        #[arg(long)]
        plan: PlanName,
        /// Events a month of a free space; the configured default if unsaid
        #[arg(long, value_parser = parse_limit)]
        limit: Option<Limit>,
    },
}

/// Managing keys.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Make a key and show it once
    #[command(after_help = "Example:\n  tollgate keys create acme --label \"production gateway\"")]
    Create {
        /// Whose key
        space: SpaceId,
        /// What it may do; may be given several times
        #[arg(long = "scope", default_value = "ingest", value_parser = parse_scope)]
        scopes: Vec<Scope>,
        /// Your name for it
        #[arg(long, default_value = "")]
        label: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// List a space's keys, by the names that `rotate` and `revoke` take; a change of the last seconds may be missing
    #[command(after_help = "Example:\n  tollgate keys list acme\n  tollgate keys list acme --json")]
    List {
        /// Whose keys
        space: SpaceId,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Make a key with the same scopes and label now, and refuse the old one after an overlap: no downtime
    #[command(after_help = ROTATE_EXAMPLES)]
    Rotate {
        /// Which key
        #[command(flatten)]
        key: WhichKey,
        /// For how long the old key still works: a number and s, m, h or d
        #[arg(long, default_value = "24h", value_parser = parse_duration_ms, value_name = "TIME")]
        overlap: DurationMs,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Refuse a key from now on, also one that is to be refused later
    #[command(after_help = REVOKE_EXAMPLES)]
    Revoke(WhichKey),
}

const ROTATE_EXAMPLES: &str = "\
Examples:
  TOLLGATE_API_KEY=tollgate_sk_... tollgate keys rotate
  tollgate keys rotate --space acme --id 0123456789abcdef --overlap 7d

The old key is refused after the overlap even if the new one was lost: then make another with `tollgate keys create`.
Front doors see the end of the overlap within their key cache's time: a shorter overlap lasts as long as that.";

const REVOKE_EXAMPLES: &str = "\
Examples:
  TOLLGATE_API_KEY=tollgate_sk_... tollgate keys revoke
  tollgate keys revoke --space acme --id 0123456789abcdef";

/// One key: by its name in its space's list, or else the one in `TOLLGATE_API_KEY`.
#[derive(Debug, Args)]
pub struct WhichKey {
    /// The key's space; without it, the key is read from `TOLLGATE_API_KEY`
    #[arg(long, requires = "id")]
    pub space: Option<SpaceId>,
    /// The key's name, as `tollgate keys list` shows it
    #[arg(long, requires = "space", value_name = "KEY ID")]
    pub id: Option<KeyId>,
}

/// A length of time in whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurationMs(pub i64);

/// A plan, as the command line names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlanName {
    /// Capped by a monthly limit
    Free,
    /// Paid
    PlusActive,
    /// Lapsed: every event is rejected
    PlusInactive,
}

impl From<PlanName> for Subscription {
    fn from(name: PlanName) -> Self {
        match name {
            PlanName::Free => Self::Free,
            PlanName::PlusActive => Self::PlusActive,
            PlanName::PlusInactive => Self::PlusInactive,
        }
    }
}

fn parse_limit(text: &str) -> Result<Limit, &'static str> {
    text.parse().ok().and_then(Limit::new).ok_or("use a whole number, at least 1")
}

/// Reads `90s`, `30m`, `24h` or `7d`; a bare 0 needs no unit.
fn parse_duration_ms(text: &str) -> Result<DurationMs, &'static str> {
    const UNITS_MS: [(char, i64); 4] = [('s', 1_000), ('m', 60_000), ('h', 3_600_000), ('d', 86_400_000)];
    const EXPECTED: &str = "use a whole number and s, m, h or d, such as 24h";
    if text == "0" {
        return Ok(DurationMs(0));
    }
    let (_, unit_ms) = UNITS_MS.into_iter().find(|(unit, _)| text.ends_with(*unit)).ok_or(EXPECTED)?;
    let digits = text.get(..text.len().saturating_sub(1)).unwrap_or_default();
    let is_whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let number: Option<i64> = digits.parse().ok().filter(|_| is_whole);
    number.and_then(|number| number.checked_mul(unit_ms)).map(DurationMs).ok_or(EXPECTED)
}

fn parse_scope(text: &str) -> Result<Scope, &'static str> {
    Scope::from_stored(text).ok_or("use ingest, read or admin")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_length_of_time_is_a_whole_number_with_a_unit() {
        for (text, ms) in [("0", 0), ("90s", 90_000), ("30m", 1_800_000), ("24h", 86_400_000), ("7d", 604_800_000)] {
            assert_eq!(parse_duration_ms(text), Ok(DurationMs(ms)), "{text}");
        }
        for bad in ["", "h", "24", "-1h", "+1h", "1.5h", "1h30m", "99999999999999999999d", "9223372036854775807d", "1é"]
        {
            assert!(parse_duration_ms(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn limits_start_at_one_and_no_plan_is_internal() {
        for bad in ["0", "-1", "1.5", ""] {
            assert!(parse_limit(bad).is_err(), "{bad}");
        }
        assert!(PlanName::from_str("internal", true).is_err());
    }
}

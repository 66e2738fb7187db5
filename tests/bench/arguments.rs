//! The command line of the benchmarks.

use clap::{Parser, ValueEnum};

/// What Tollgate costs beside the engines' own calls, both measured in one run on this machine.
///
/// Tables go to stderr; with `--json` the last line of stdout is one JSON object.
#[derive(Debug, Parser)]
#[command(name = "bench", after_help = "Example:\n  cargo run --release --bin bench -- front-door")]
pub(crate) struct Arguments {
    /// One part alone; without it, every part
    part: Option<Part>,
    /// Few calls: shows that it runs, and measures nothing worth quoting
    #[arg(long)]
    pub(crate) short: bool,
    /// One JSON object as the last line of stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// One part of the benchmarks.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Part {
    /// The front door's latency beside that of the bare `SendMessage`
    FrontDoor,
}

impl Arguments {
    pub(crate) fn parts(&self) -> Vec<Part> {
        self.part.map_or_else(|| Part::value_variants().to_vec(), |part| vec![part])
    }
}

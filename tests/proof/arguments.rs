//! The command line of the proof.

use clap::{Args, Parser, Subcommand};

/// Everything that Tollgate promises, tried: every order, every crash, every condition.
///
/// Progress goes to stderr; the last line of stdout is one JSON object. Exit status: 0 when nothing is wrong.
#[derive(Debug, Parser)]
#[command(name = "proof", after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// How much
    #[command(flatten)]
    pub(crate) extent: Extent,
    /// One part alone; without it, every part
    #[command(subcommand)]
    pub(crate) part: Option<Part>,
}

const EXAMPLES: &str = "\
Examples:
  cargo run --release --bin proof -- --ci
  cargo run --release --bin proof -- --full
  cargo run --release --bin proof -- matrix --only consume/killed-after
  cargo run --release --bin proof -- chaos --full --seed 7
  cargo run --release --bin proof -- replay 'free/last-unit/ED/-/plain: 0a 0a 0k'";

/// How much.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Extent {
    /// What every change must pass; the default
    #[arg(long, global = true, conflicts_with = "full")]
    pub(crate) ci: bool,
    /// The long form
    #[arg(long, global = true)]
    pub(crate) full: bool,
    /// Seed of random walks, operations and chaos
    #[arg(long, global = true, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// One part of the proof.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Part {
    /// The worker's own code under a scheduler that tries every order
    Simulate,
    /// The model of the protocol, explored completely
    Model,
    /// Each condition taken away, one at a time: every loss must be caught
    Mutants,
    /// Random operations on the twins in memory and on the engines, which must answer alike
    Contract,
    /// Real workers, every effect struck at every edge under every circumstance
    Matrix(MatrixArguments),
    /// Real workers under random faults, killed again and again
    Chaos,
    /// Clients that lose answers: what each is told must be what the ledger holds
    Clients,
    /// One schedule of the simulation again, told step by step
    Replay {
        /// The path, as it was printed
        path: String,
    },
}

/// Which cases of the matrix.
#[derive(Debug, Clone, Args)]
pub(crate) struct MatrixArguments {
    /// Only cases whose name, effect/edge/circumstance, contains this
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// Cases at a time
    #[arg(long, default_value_t = PARALLEL)]
    pub(crate) parallel: usize,
}

/// Cases wait most of the time: more of them than the machine has cores.
const PARALLEL: usize = 6;

impl Default for MatrixArguments {
    fn default() -> Self {
        Self { only: None, parallel: PARALLEL }
    }
}

impl Part {
    /// Every part, the cheapest to find a mistake with first.
    pub(crate) fn all() -> Vec<Self> {
        vec![
            Self::Simulate,
            Self::Model,
            Self::Mutants,
            Self::Contract,
            Self::Matrix(MatrixArguments::default()),
            Self::Chaos,
            Self::Clients,
        ]
    }

    /// Its name on the command line.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Simulate => "simulate",
            Self::Model => "model",
            Self::Mutants => "mutants",
            Self::Contract => "contract",
            Self::Matrix(_) => "matrix",
            Self::Chaos => "chaos",
            Self::Clients => "clients",
            Self::Replay { .. } => "replay",
        }
    }
}

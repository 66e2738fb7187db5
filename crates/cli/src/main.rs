//! The command `tollgate`.

use std::process::ExitCode;

use clap::Parser;
use tollgate_cli::args::Arguments;

fn main() -> ExitCode {
    tollgate_cli::run(Arguments::parse())
}

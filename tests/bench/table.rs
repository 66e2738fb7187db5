//! What the program prints.

use std::fmt::Display;
use std::io::Write as _;

/// One line of the result, to stdout.
pub(crate) fn line(text: impl Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Tables and progress, to stderr.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

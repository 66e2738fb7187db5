//! Text of the proof. The result goes to stdout, everything else to stderr.

use std::io::{self, Write};

/// Writes a line to stdout. A reader that went away is not an error of ours.
pub(crate) fn line(text: impl AsRef<str>) {
    let _ = writeln!(io::stdout().lock(), "{}", text.as_ref());
}

/// Writes a line to stderr.
pub(crate) fn note(text: impl AsRef<str>) {
    let _ = writeln!(io::stderr().lock(), "{}", text.as_ref());
}

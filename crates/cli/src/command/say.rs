//! Messages on standard error.

use std::fmt::Display;
use std::io::{self, Write};

use crate::text::Printable;

/// Writes a message in one line on standard error. Write errors are ignored.
pub(super) fn say(message: impl Display) {
    let _ = writeln!(io::stderr(), "wireseal: {}", Printable(&message.to_string()));
}

/// Writes a warning in one line on standard error.
pub(super) fn warn(message: impl Display) {
    say(format_args!("warning: {message}"));
}

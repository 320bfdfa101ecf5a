//! Messages on standard error.

use std::fmt::Display;
use std::io::{self, Write};

use crate::terminal::{width_of, wrap};
use crate::text::Printable;

/// Writes a message in one line on standard error, wrapped if that is a terminal. Write errors are ignored.
pub(super) fn say(message: impl Display) {
    let line = format!("wireseal: {}", Printable(&message.to_string()));
    let width = width_of(io::stderr()).unwrap_or(usize::MAX);
    let _ = writeln!(io::stderr(), "{}", wrap(&line, width));
}

/// Writes a warning in one line on standard error.
pub(super) fn warn(message: impl Display) {
    say(format_args!("warning: {message}"));
}

//! Messages on standard error.

use std::fmt::Display;
use std::io::{self, Write};

use crate::terminal::{width_of, wrap};
use crate::text::Printable;

/// Writes a message as one line to standard error, wrapped if that is a terminal, or to the log if there is one. Ignores write errors.
pub(super) fn say(message: impl Display) {
    let message = Printable(&message.to_string()).to_string();
    if super::log::take(&message) {
        return;
    }
    let width = width_of(io::stderr()).unwrap_or(usize::MAX);
    let _ = writeln!(io::stderr(), "{}", wrap(&format!("wireseal: {message}"), width));
}

/// Writes a warning as one line to standard error.
pub(super) fn warn(message: impl Display) {
    say(format_args!("warning: {message}"));
}

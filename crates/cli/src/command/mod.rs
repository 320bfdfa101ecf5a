//! The subcommands: each prints what the other modules find.

mod bench;
mod completions;
mod derive;
mod key_arguments;
mod keys;
mod man;
mod progress;
mod quic;
mod selftest;
mod verify;

use std::error::Error;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::capture::{CaptureError, Reader};
use crate::report::Printable;

/// How a run ended; the numbers are the same for every subcommand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Outcome {
    /// Everything is good.
    Good = 0,
    /// Something failed to verify or to open.
    Failed = 1,
    /// The command line, the keys or the file cannot be used.
    Unusable = 2,
    /// Nothing failed, and something could not be judged.
    NotJudged = 3,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(outcome as u8)
    }
}

/// Why is this session down? TCP-AO and QUIC captures checked against their keys.
#[derive(Debug, Parser)]
#[command(name = "wireseal", version, after_help = EXIT_CODES)]
pub struct Arguments {
    #[command(subcommand)]
    order: Order,
}

const EXIT_CODES: &str = "Exit codes: 0 all good, 1 something failed to verify or to open, 2 the command line, the keys or \
                          the file cannot be used, 3 something could not be judged.";

#[derive(Debug, Subcommand)]
enum Order {
    Verify(Box<verify::Arguments>),
    Keys(keys::Arguments),
    Derive(derive::Arguments),
    Quic(quic::Arguments),
    Selftest(selftest::Arguments),
    Bench(bench::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

/// Reads the command line of the process.
///
/// # Errors
/// How the run ends when there is nothing to be done: help or the version was asked for, or the command line cannot be used.
/// Either has been printed.
pub fn parse() -> std::result::Result<Arguments, Outcome> {
    Arguments::try_parse().map_err(|error| {
        if repeats_secret(&error.to_string(), std::env::args_os()) {
            say(SECRET_ASTRAY);
        } else {
            // Nobody is left to be told that it cannot be printed.
            let _ = error.print();
        }
        if error.use_stderr() { Outcome::Unusable } else { Outcome::Good }
    })
}

/// Does what the command line says, and says in one line on standard error why it could not.
#[must_use]
pub fn run(arguments: Arguments) -> Outcome {
    let result = match arguments.order {
        Order::Verify(arguments) => verify::run(*arguments),
        Order::Keys(arguments) => keys::run(arguments),
        Order::Derive(arguments) => derive::run(arguments),
        Order::Quic(arguments) => quic::run(arguments),
        Order::Selftest(arguments) => selftest::run(arguments),
        Order::Bench(arguments) => bench::run(arguments),
        Order::Completions(arguments) => completions::run(arguments),
        Order::Man(arguments) => man::run(arguments),
    };
    result.unwrap_or_else(|error| {
        // Whoever reads the output has seen enough.
        let reader_left =
            error.downcast_ref().is_some_and(|error: &io::Error| error.kind() == ErrorKind::BrokenPipe);
        if !reader_left {
            let message = error.to_string();
            let is_secret = repeats_secret(&message, std::env::args_os());
            say(if is_secret { SECRET_ASTRAY } else { &message });
        }
        Outcome::Unusable
    })
}

const SECRET_ASTRAY: &str =
    "a secret stands on the command line where no key is expected: a key goes behind --key";

/// Whether a message repeats the secret of an argument, such as a key behind `--keys` in place of `--key`.
fn repeats_secret(message: &str, mut arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.any(|argument| {
        let argument = argument.to_string_lossy();
        let mut parts = argument.split(',').filter_map(|part| {
            let place = ["secret=", "secret-hex="].iter().find_map(|name| part.find(name))?;
            Some(&part[place..])
        });
        parts.any(|part| !part.ends_with('=') && message.contains(part))
    })
}

/// Says something in one line on standard error; that nobody reads it is no reason to stop.
fn say(message: impl Display) {
    let _ = writeln!(io::stderr(), "wireseal: {}", Printable(&message.to_string()));
}

/// Opens a capture; an error names the file.
fn open(capture: &Path) -> std::result::Result<Reader, Box<dyn Error>> {
    Reader::open(capture).map_err(|error| match error {
        CaptureError::Open { .. } => error.into(),
        error => format!("{}: {error}", capture.display()).into(),
    })
}

/// What a subcommand ends with: an outcome, or why it could not do anything.
type Result = std::result::Result<Outcome, Box<dyn Error>>;

//! The subcommands: each prints what the other modules find.

mod bench;
mod completions;
mod derive;
mod key_arguments;
mod keys;
mod man;
mod quic;
mod selftest;
mod verify;

use std::error::Error;
use std::io::{self, ErrorKind};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
            eprintln!("wireseal: {error}");
        }
        Outcome::Unusable
    })
}

/// What a subcommand ends with: an outcome, or why it could not do anything.
type Result = std::result::Result<Outcome, Box<dyn Error>>;

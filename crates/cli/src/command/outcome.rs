//! How a subcommand ends.

use std::error::Error;
use std::process::ExitCode;

use crate::verify::report::Standing;

/// How a run ended; the exit codes are the same for every subcommand, except where a program was run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Everything is good: 0.
    Good,
    /// Something failed to verify, or a connection did not open: 1.
    Failed,
    /// The command line, the keys or the file cannot be used: 2.
    Unusable,
    /// Nothing failed, but something could not be judged: 3.
    NotJudged,
    /// The exit code of the program that was run, or the one a shell returns if it cannot be run.
    Program(u8),
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(match outcome {
            Outcome::Good => 0,
            Outcome::Failed => 1,
            Outcome::Unusable => 2,
            Outcome::NotJudged => 3,
            Outcome::Program(code) => code,
        })
    }
}

impl From<Standing> for Outcome {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Good => Self::Good,
            Standing::Failed | Standing::NotOpen => Self::Failed,
            Standing::NotJudged | Standing::Empty => Self::NotJudged,
        }
    }
}

/// What a subcommand returns: an outcome, or why it could not do anything.
pub(super) type Result = std::result::Result<Outcome, Box<dyn Error>>;

//! How a subcommand ends.

use std::error::Error;
use std::process::ExitCode;

use crate::standing::Standing;

/// How a run ended; the exit codes are the same for every subcommand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Outcome {
    /// Everything is good.
    Good = 0,
    /// Something failed to verify or open.
    Failed = 1,
    /// The command line, the keys or the file cannot be used.
    Unusable = 2,
    /// Nothing failed, but something could not be judged.
    NotJudged = 3,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(outcome as u8)
    }
}

impl From<Standing> for Outcome {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Good => Self::Good,
            Standing::Failed => Self::Failed,
            Standing::NotJudged | Standing::Empty => Self::NotJudged,
        }
    }
}

/// What a subcommand returns: an outcome, or why it could not do anything.
pub(super) type Result = std::result::Result<Outcome, Box<dyn Error>>;

//! `wireseal completions`: completions for shells.

use super::{Outcome, Result};

/// Print completions for a shell.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {}

pub(super) fn run(Arguments {}: Arguments) -> Result {
    Ok(Outcome::Good)
}

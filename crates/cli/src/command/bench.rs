//! `wireseal bench`: what this machine can do.

use super::{Outcome, Result};

/// Measure what this machine can do.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {}

pub(super) fn run(Arguments {}: Arguments) -> Result {
    Ok(Outcome::Good)
}

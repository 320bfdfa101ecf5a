//! `wireseal quic`: opens every QUIC packet of a capture.

use super::{Outcome, Result};

/// Open every QUIC packet of a capture.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {}

pub(super) fn run(Arguments {}: Arguments) -> Result {
    Ok(Outcome::Good)
}

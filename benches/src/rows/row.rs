//! A row of the table of goals.

use crate::timing::Timed;

/// The libraries that have a column.
pub(super) const PEERS: [&str; 6] = ["ring", "aws-lc-rs", "rustcrypto", "boringssl", "openssl", "nettle"];

/// One thing that several libraries do.
pub(crate) struct Row {
    /// The word that picks it on the command line.
    pub(crate) name: &'static str,
    pub(super) title: &'static str,
    /// The libraries that the goal is against: where one is absent, the row is not judged.
    pub(super) peers: &'static [&'static str],
    /// The most of the best peer's time that we may take.
    pub(super) goal: f64,
    /// Packets, segments or masks of one run.
    pub(super) of: usize,
    /// Ours first, outputs compared.
    pub(super) contenders: fn() -> Vec<Timed<'static>>,
}

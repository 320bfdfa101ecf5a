//! A row of the table of goals.

use crate::timing::Timed;

/// The libraries that have a column.
pub(super) const PEERS: [&str; 6] = ["ring", "aws-lc-rs", "rustcrypto", "boringssl", "openssl", "nettle"];

/// An operation with a goal.
pub(crate) struct Row {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    pub(super) title: String,
    /// The libraries that the goal compares with. If one is absent, the goal is not judged.
    pub(super) peers: &'static [&'static str],
    /// The largest fraction of the best peer's time that Wireseal may take.
    pub(super) goal: f64,
    /// How many packets, segments or masks one run processes.
    pub(super) of: usize,
    /// Wireseal first, then the others, outputs compared.
    pub(super) contenders: Box<dyn Fn() -> Vec<Timed<'static>>>,
}

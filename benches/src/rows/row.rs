//! A row of the table of goals.

use crate::processor::Class;
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

/// The goal for this machine's class of processors: with VAES-512, or with AES-NI and no VAES. All others are to be as fast as the
/// best peer.
pub(super) fn by_class(vaes512: f64, aes_ni: f64) -> f64 {
    match Class::here() {
        Class::Vaes512 => vaes512,
        Class::AesNi => aes_ni,
        Class::Other => 1.0,
    }
}

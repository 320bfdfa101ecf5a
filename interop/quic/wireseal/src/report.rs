//! The report of a run, as one line of JSON on standard output.

use peer_program::sha256;
use serde_json::{Value, json};
use wireseal_rustls::Backend;

/// What one packet key has done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) sealed: u64,
    pub(crate) opened: u64,
}

/// A connection that has ended.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    /// The suite whose keys protected the connection.
    pub(crate) suite: &'a str,
    /// Wireseal's Initial keys, each time the local key before the remote one.
    pub(crate) initial: Vec<Used>,
    /// Wireseal's other keys: those of Handshake packets, then those of each generation of 1-RTT packets.
    pub(crate) others: Vec<Used>,
    /// What this end received.
    pub(crate) received: &'a [u8],
    /// Key updates that this end started on demand.
    pub(crate) updates_started: usize,
    /// Whether a Retry packet was sent or received.
    pub(crate) retry: bool,
}

/// Prints a report.
pub(crate) fn print(report: &Report<'_>) {
    let mut pairs = report.others.chunks(2).map(packets);
    let report = json!({
        "suite": report.suite,
        // The library behind Wireseal's ciphers.
        "backend": Backend::active().name(),
        "received": report.received.len(),
        "sha256": sha256(report.received),
        "initial": packets(&report.initial),
        "handshake": pairs.next().unwrap_or_else(|| packets(&[])),
        // One for each generation of 1-RTT keys derived, used or not.
        "generations": pairs.collect::<Vec<_>>(),
        "updates_started": report.updates_started,
        "retry": report.retry,
    });
    println!("{report}");
}

/// Packets sealed with the local keys and opened with the remote ones.
fn packets(keys: &[Used]) -> Value {
    let sum = |count: fn(&Used) -> u64| keys.iter().map(count).sum::<u64>();
    json!({ "sealed": sum(|key| key.sealed), "opened": sum(|key| key.opened) })
}

//! The report of a run, as one line of JSON on standard output.

use peer_program::sha256;
use serde_json::{Value, json};
use wireseal_quinn::{CountedKeys, KeyUse};
use wireseal_rustls::Backend;

/// Prints the report on a connection that has ended.
pub(crate) fn print(
    suite: &str,
    keys: &CountedKeys,
    received: &[u8],
    updates_started: usize,
    retries_sent: usize,
) {
    let (initial, keys) = (keys.initial_keys(), keys.packet_keys());
    let mut pairs = keys.chunks(2).map(packets);
    let report = json!({
        // The suite whose keys protected the connection, and the library behind Wireseal's ciphers.
        "suite": suite,
        "backend": Backend::active().name(),
        // Octets received.
        "received": received.len(),
        "sha256": sha256(received),
        // Pairs of Initial keys: a client derives a second pair when a Retry gives it another connection ID.
        "initial_pairs": initial.len() / 2,
        "initial": packets(&initial),
        "handshake": pairs.next().unwrap_or_else(|| packets(&[])),
        // One for each generation of 1-RTT keys derived, used or not.
        "generations": pairs.collect::<Vec<_>>(),
        // Key updates that quinn started on demand.
        "updates_started": updates_started,
        // Retry packets that this server sent.
        "retries_sent": retries_sent,
    });
    println!("{report}");
}

/// Packets sealed with the local keys and opened with the remote ones.
fn packets(keys: &[KeyUse]) -> Value {
    let sum = |count: fn(&KeyUse) -> u64| keys.iter().map(count).sum::<u64>();
    json!({ "sealed": sum(|key| key.sealed), "opened": sum(|key| key.opened) })
}

//! The report of a run, as one line of JSON on standard output.

use peer_program::sha256;
use serde::Serialize;
use wireseal_rustls::{Backend, KeyUse};

use crate::provider::Provider;

/// Packets under one pair of keys.
#[derive(Default, Serialize)]
struct Packets {
    /// Sealed with the local key.
    sealed: u64,
    /// Opened with the remote key.
    opened: u64,
}

#[derive(Serialize)]
struct Report<'a> {
    /// The suite whose keys protected the connection.
    suite: &'a str,
    /// The library behind Wireseal's ciphers.
    backend: &'static str,
    /// Octets received.
    received: usize,
    /// Their SHA-256, in hexadecimal.
    sha256: String,
    /// Pairs of Initial keys: a client derives a second pair when a Retry gives it another connection ID.
    initial_pairs: usize,
    initial: Packets,
    handshake: Packets,
    /// One for each generation of 1-RTT keys derived, used or not.
    generations: Vec<Packets>,
    /// Key updates that quinn started on demand.
    updates_started: usize,
    /// Retry packets that this server sent.
    retries_sent: usize,
}

/// Prints the report on a connection that has ended.
pub(crate) fn print(
    suite: &str,
    provider: &Provider,
    received: &[u8],
    updates_started: usize,
    retries_sent: usize,
) -> Result<(), serde_json::Error> {
    let initial = provider.initial_keys.packet_keys();
    let keys = provider.keys.packet_keys();
    let mut pairs = keys.chunks(2).map(packets);
    let report = Report {
        suite,
        backend: Backend::active().name(),
        received: received.len(),
        sha256: sha256(received),
        initial_pairs: initial.len() / 2,
        initial: packets(&initial),
        handshake: pairs.next().unwrap_or_default(),
        generations: pairs.collect(),
        updates_started,
        retries_sent,
    };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

fn packets(keys: &[KeyUse]) -> Packets {
    Packets {
        sealed: keys.iter().map(|key| key.sealed).sum(),
        opened: keys.iter().map(|key| key.opened).sum(),
    }
}

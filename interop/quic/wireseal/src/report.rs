//! What one run has seen, as one line of JSON on standard output.

use std::fmt::Write as _;

use ring::digest::{SHA256, digest};
use serde::Serialize;
use wireseal_rustls::Backend;

use crate::counted::Packets;
use crate::provider::Provider;

#[derive(Serialize)]
struct Report<'a> {
    /// The suite whose keys protected the connection.
    suite: &'a str,
    /// The library behind Wireseal's ciphers.
    backend: &'static str,
    /// Octets received.
    received: usize,
    /// SHA-256 of them, in hexadecimal.
    sha256: String,
    /// Pairs of Initial keys: a client derives a second one when a Retry has given it another connection ID.
    initial_pairs: usize,
    initial: Packets,
    handshake: Packets,
    /// One entry for each generation of 1-RTT keys that was derived, used or not.
    generations: Vec<Packets>,
    /// Key updates that quinn has started because this program asked for them.
    updates_started: usize,
    /// Retry packets that this server has sent.
    retries_sent: usize,
}

/// Prints the report on a connection that has come to its end.
pub(crate) fn print(
    suite: &str,
    provider: &Provider,
    received: &[u8],
    updates_started: usize,
    retries_sent: usize,
) -> Result<(), serde_json::Error> {
    let initial = provider.initial_keys.pairs();
    let mut pairs = provider.keys.pairs().into_iter();
    let report = Report {
        suite,
        backend: Backend::active().name(),
        received: received.len(),
        sha256: hexadecimal(digest(&SHA256, received).as_ref()),
        initial_pairs: initial.len(),
        initial: initial.into_iter().fold(Packets::default(), |sum, pair| sum + pair),
        handshake: pairs.next().unwrap_or_default(),
        generations: pairs.collect(),
        updates_started,
        retries_sent,
    };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

fn hexadecimal(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}

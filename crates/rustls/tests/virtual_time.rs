//! quinn on Wireseal against quinn on the ring provider of rustls, over a network that loses, doubles and reorders,
//! with key updates from both ends while data is under way.

mod common;
#[path = "common/network.rs"]
mod network;

use common::{COMMON, Counting, End, Identity, ring, wireseal};
use network::{Faults, Network};
use rustls::CipherSuite;

const MEGABYTE: usize = 1 << 20;

/// The keys that both ends made beyond the ones of their levels, in updates.
fn updates(counting: &Counting) -> usize {
    // An update makes a key for each direction. Before come those of Handshake and 1-RTT, and the first update's in
    // advance.
    (counting.packet_keys() - 6) / 2
}

/// A megabyte each way between `client` and `server`, and what can be said of any such transfer.
fn transfer(mut client: End, mut server: End, seed: u64) -> (Faults, [usize; 2]) {
    let identity = Identity::new();
    let counted = [client.counted(), server.counted()];
    let network =
        Network::new(identity.quinn_client(&client), identity.quinn_server(&server), MEGABYTE, seed);
    let faults = network.run();
    // Header protection keys outlive key updates (RFC 9001 §6.1): two levels in two directions.
    assert!(counted.iter().all(|counting| counting.header_keys() == 4));
    (faults, counted.map(updates))
}

fn between(client: fn() -> rustls::crypto::CryptoProvider, server: fn() -> rustls::crypto::CryptoProvider) {
    for (seed, suite) in COMMON.into_iter().enumerate() {
        let ends = [client, server].map(|provider| End::only(provider(), suite));
        let [client, server] = ends;
        let (faults, updates) = transfer(client, server, seed as u64);
        println!("{suite:?}: {faults:?}, key updates {updates:?}");
        assert!(
            faults.dropped > 10 && faults.duplicated > 10 && faults.overtaken > 10,
            "{suite:?} {faults:?}"
        );
        // Each end follows the other's updates: they are never more than one apart.
        assert!(updates[0].abs_diff(updates[1]) <= 1, "{suite:?} {updates:?}");
        assert!(updates[0] >= 5, "{suite:?} {updates:?}");
    }
}

#[test]
fn a_client_on_wireseal_and_a_server_on_ring() {
    between(wireseal, ring);
}

#[test]
fn a_client_on_ring_and_a_server_on_wireseal() {
    between(ring, wireseal);
}

#[test]
fn both_on_wireseal() {
    between(wireseal, wireseal);
}

#[test]
fn both_on_wireseal_with_aes_128_ccm() {
    let end = || End::only(wireseal(), CipherSuite::TLS13_AES_128_CCM_SHA256);
    let (faults, updates) = transfer(end(), end(), 7);
    assert!(faults.dropped > 10 && updates[0] >= 5, "{faults:?} {updates:?}");
}

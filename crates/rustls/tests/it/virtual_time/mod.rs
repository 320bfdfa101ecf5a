//! quinn on Wireseal against quinn on rustls' ring provider, over a network that loses, duplicates and reorders, with key updates
//! from both ends while data flows.

mod network;

use network::Network;
use rustls::CipherSuite;
use rustls::crypto::CryptoProvider;

use crate::ends::{End, MEGABYTE};
use crate::support::{CCM, COMMON, Identity, wireseal};
use crate::version::ring;

/// A megabyte each way.
fn transfer(client: fn() -> CryptoProvider, server: fn() -> CryptoProvider, suite: CipherSuite, seed: u64) {
    let (mut client, mut server) = (End::only(client(), suite), End::only(server(), suite));
    let (identity, counted) = (Identity::new(), [client.counted(), server.counted()]);
    let (client, server) = (identity.quinn_client(&client), identity.quinn_server(&server));
    let faults = Network::new(client, server, MEGABYTE, seed).run();
    let updates = counted.map(|counted| {
        // Header protection keys outlive key updates (RFC 9001 §6.1): two levels in two directions.
        assert_eq!(counted.header_keys(), 4);
        // Each update makes two keys. Before come those of Handshake and 1-RTT, and the first update's in advance.
        (counted.packet_keys().len() - 6) / 2
    });
    println!("{suite:?}: {faults:?}, key updates {updates:?}");
    assert!(faults.dropped > 10 && faults.duplicated > 10 && faults.overtaken > 10, "{suite:?} {faults:?}");
    // Each end follows the other's updates, so they are never more than one apart.
    assert!(updates[0] >= 5 && updates[0].abs_diff(updates[1]) <= 1, "{suite:?} {updates:?}");
}

#[test]
fn wireseal_against_ring_both_ways_and_against_itself() {
    for (client, server) in
        [(wireseal as fn() -> _, ring as fn() -> _), (ring, wireseal), (wireseal, wireseal)]
    {
        for (suite, seed) in COMMON.into_iter().zip(0..) {
            transfer(client, server, suite, seed);
        }
    }
    transfer(wireseal, wireseal, CCM, 7);
}

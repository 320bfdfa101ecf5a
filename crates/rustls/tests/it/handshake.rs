//! TLS handshakes for QUIC in memory: which suite is negotiated, and which keys follow.

use std::sync::{Arc, Mutex};

use rustls::crypto::CryptoProvider;
use rustls::quic::{
    self, ClientConnection, Connection, DirectionalKeys, KeyChange, Secrets, ServerConnection, Version,
};
use rustls::{CipherSuite, KeyLog, SupportedCipherSuite};
use wireseal_quic::hazmat::PathId;
use wireseal_quic::{Keys, PacketType, TrafficSecret};
use wireseal_rustls::is_wireseal;

use crate::support::{ALL, CCM, COMMON, End, Identity, aead, pattern, ring, wireseal};

const VERSIONS: [Version; 2] = [Version::V1, Version::V2];

/// Secrets by their names in the key log.
#[derive(Debug, Default)]
struct Log(Mutex<Vec<(String, Vec<u8>)>>);

impl KeyLog for Log {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        self.0.lock().expect("no writer panics").push((label.to_owned(), secret.to_vec()));
    }
}

impl Log {
    fn secret(&self, wanted: &str) -> Vec<u8> {
        let log = self.0.lock().expect("no writer panics");
        log.iter().find(|(label, _)| label == wanted).expect("the secret was logged").1.clone()
    }
}

/// One side after the handshake.
struct Done {
    connection: Connection,
    handshake: quic::Keys,
    one_rtt: quic::Keys,
    next: Secrets,
}

/// A whole handshake, and the key log of the client.
fn handshake(client: CryptoProvider, server: CryptoProvider, version: Version) -> ([Done; 2], Arc<Log>) {
    let (identity, log) = (Identity::new(), Arc::new(Log::default()));
    let mut client = identity.client(client);
    client.key_log = Arc::clone(&log) as Arc<dyn KeyLog>;
    let name = "localhost".try_into().expect("a DNS name");
    let client = ClientConnection::new(Arc::new(client), version, name, b"client".to_vec());
    let server = ServerConnection::new(Arc::new(identity.server(server)), version, b"server".to_vec());
    let mut ends = [
        Connection::Client(client.expect("a suite with QUIC is offered")),
        Connection::Server(server.expect("a suite with QUIC is offered")),
    ];
    let mut changes = [const { Vec::new() }; 2];
    while changes.iter().any(|changes| changes.len() < 2) {
        for sender in [0, 1] {
            // Messages before and after a change of keys go in different flights.
            let mut changed = true;
            while changed {
                let mut flight = Vec::new();
                let change = ends[sender].write_hs(&mut flight);
                changed = change.is_some();
                changes[sender].extend(change);
                ends[1 - sender].read_hs(&flight).expect("the peers agree");
            }
        }
    }
    let mut changes = changes.into_iter();
    let done = ends.map(|connection| {
        let mut changes = changes.next().into_iter().flatten();
        match (changes.next(), changes.next()) {
            (Some(KeyChange::Handshake { keys }), Some(KeyChange::OneRtt { keys: one_rtt, next })) => {
                Done { connection, handshake: keys, one_rtt, next }
            }
            _ => panic!("the keys came out of order"),
        }
    });
    (done, log)
}

/// Protects a packet with a short header as `sender`, and unprotects it as `receiver`.
fn travels(sender: &DirectionalKeys, receiver: &DirectionalKeys) {
    let payload = pattern(1, 333);
    let mut packet = vec![0x43, 0, 0, 1, 2];
    let header = packet.clone();
    packet.extend_from_slice(&payload);
    let tag = sender.packet.encrypt_in_place(0x102, &header, &mut packet[5..]).expect("in range");
    packet.extend_from_slice(tag.as_ref());
    let sample = packet[5..21].to_vec();
    let (first, rest) = packet.split_first_mut().expect("a header");
    sender.header.encrypt_in_place(&sample, first, &mut rest[..4]).expect("16 octets");
    receiver.header.decrypt_in_place(&sample, first, &mut rest[..4]).expect("16 octets");
    let (header, rest) = packet.split_at_mut(5);
    assert_eq!(header, [0x43, 0, 0, 1, 2]);
    assert_eq!(receiver.packet.decrypt_in_place(0x102, header, rest), Ok(&*payload));
}

/// The suite that both sides agreed on.
fn negotiated(done: &Done) -> SupportedCipherSuite {
    done.connection.negotiated_cipher_suite().expect("a suite was negotiated")
}

/// Both directions at every level and over key updates, between two providers.
fn all_levels(
    client: &CryptoProvider,
    server: &CryptoProvider,
    suite: CipherSuite,
    version: Version,
) -> [Done; 2] {
    let only = |provider: &CryptoProvider| End::only(provider.clone(), suite).provider;
    let (mut ends, _) = handshake(only(client), only(server), version);
    for [sender, receiver] in [[0, 1], [1, 0]] {
        travels(&ends[sender].handshake.local, &ends[receiver].handshake.remote);
        travels(&ends[sender].one_rtt.local, &ends[receiver].one_rtt.remote);
    }
    for _ in 0..10 {
        let [client, server] = ends.each_mut().map(|end| end.next.next_packet_keys());
        for (sender, receiver) in [(&client, &server), (&server, &client)] {
            let mut sealed = pattern(2, 64);
            let tag = sender.local.encrypt_in_place(9, b"header", &mut sealed).expect("in range");
            sealed.extend_from_slice(tag.as_ref());
            let opened = receiver.remote.decrypt_in_place(9, b"header", &mut sealed);
            assert_eq!(opened, Ok(pattern(2, 64).as_slice()), "{suite:?} {version:?}");
        }
    }
    for end in &ends {
        assert_eq!(negotiated(end).suite(), suite);
    }
    ends
}

#[test]
fn each_suite_is_negotiated_on_wireseal_and_its_keys_work_both_ways() {
    for (suite, version) in ALL.into_iter().flat_map(|suite| VERSIONS.map(|version| (suite, version))) {
        let ends = all_levels(&wireseal(), &wireseal(), suite, version);
        assert!(ends.iter().all(|end| is_wireseal(&negotiated(end))));
    }
}

#[test]
fn wireseal_agrees_with_the_ring_provider_from_either_side() {
    for (suite, version) in COMMON.into_iter().flat_map(|suite| VERSIONS.map(|version| (suite, version))) {
        let [client, server] = all_levels(&wireseal(), &ring(), suite, version);
        assert!(is_wireseal(&negotiated(&client)) && !is_wireseal(&negotiated(&server)));
        let [client, server] = all_levels(&ring(), &wireseal(), suite, version);
        assert!(!is_wireseal(&negotiated(&client)) && is_wireseal(&negotiated(&server)));
    }
}

/// rustls takes every key of a connection from the field `quic` of its suite.
#[test]
fn all_keys_come_from_the_field_quic() {
    let mut end = End::only(wireseal(), COMMON[0]);
    let counting = end.counted();
    all_levels(&end.provider, &ring(), COMMON[0], Version::V1);
    // Handshake and 1-RTT in two directions, and ten updates, which keep the header protection keys.
    assert_eq!((counting.packet_keys().len(), counting.header_keys()), (2 + 2 + 20, 2 + 2));
}

/// Compared with `wireseal-quic`'s key schedule, from the secret in the key log: a rustls that updates the keys of version 2 with
/// the label of version 1 fails here.
#[test]
fn key_updates_of_each_version_go_by_its_own_labels() {
    for (version, ours) in VERSIONS.into_iter().zip([wireseal_quic::Version::V1, wireseal_quic::Version::V2])
    {
        for suite in [COMMON[0], COMMON[2], CCM] {
            let provider = || End::only(wireseal(), suite).provider;
            let ([mut client, _], log) = handshake(provider(), provider(), version);
            let secret = log.secret("CLIENT_TRAFFIC_SECRET_0");
            let mut secret = TrafficSecret::new(aead(suite), &secret).expect("as long as the hash");
            let mut key = client.one_rtt.local.packet;
            for generation in 0..100 {
                let next = secret.peek_next(ours);
                let (expected, _) = Keys::new(ours, PacketType::OneRtt, secret).into_parts();
                let (mut ours, mut theirs) = (pattern(3, 40), pattern(3, 40));
                let tag = key.encrypt_in_place(5, b"header", &mut theirs).expect("in range");
                let expected = expected.seal(PathId(0), 5, b"header", &mut ours).expect("in range");
                assert_eq!(
                    (tag.as_ref(), theirs),
                    (&expected[..], ours),
                    "{version:?} {suite:?} {generation}"
                );
                secret = next;
                key = client.next.next_packet_keys().local;
            }
        }
    }
}

//! TLS handshakes for QUIC in memory: which suite is negotiated, and which keys follow.

use std::sync::{Arc, Mutex};

use rustls::crypto::CryptoProvider;
use rustls::quic::{self, DirectionalKeys, Secrets, Version};
use rustls::{KeyLog, SupportedCipherSuite};
use wireseal_quic::hazmat::PathId;
use wireseal_quic::{Keys, PacketType, TrafficSecret};
use wireseal_rustls::is_wireseal;

use crate::connect;
use crate::support::{ALL, CCM, COMMON, Identity, aead, only, pattern, wireseal};
use crate::version::{CipherSuite, open, ring, seal};

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
pub struct Done {
    /// The suite that both sides agreed on.
    pub suite: SupportedCipherSuite,
    pub handshake: quic::Keys,
    pub one_rtt: quic::Keys,
    pub next: Secrets,
}

/// A whole handshake, and the key log of the client.
fn handshake(client: CryptoProvider, server: CryptoProvider, version: Version) -> ([Done; 2], Arc<Log>) {
    let (identity, log) = (Identity::new(), Arc::new(Log::default()));
    let mut client = identity.client(client);
    client.key_log = Arc::clone(&log) as Arc<dyn KeyLog>;
    (connect::handshake(client, identity.server(server), version), log)
}

/// Protects a packet with a short header as `sender`, and unprotects it as `receiver`.
fn travels(sender: &DirectionalKeys, receiver: &DirectionalKeys) {
    let payload = pattern(1, 333);
    let mut packet = vec![0x43, 0, 0, 1, 2];
    let header = packet.clone();
    packet.extend_from_slice(&payload);
    let tag = seal(&*sender.packet, None, 0x102, &header, &mut packet[5..]).expect("in range");
    packet.extend_from_slice(tag.as_ref());
    let sample = packet[5..21].to_vec();
    let (first, rest) = packet.split_first_mut().expect("a header");
    sender.header.encrypt_in_place(&sample, first, &mut rest[..4]).expect("16 octets");
    receiver.header.decrypt_in_place(&sample, first, &mut rest[..4]).expect("16 octets");
    let (header, rest) = packet.split_at_mut(5);
    assert_eq!(header, [0x43, 0, 0, 1, 2]);
    assert_eq!(open(&*receiver.packet, None, 0x102, header, rest), Ok(&*payload));
}

/// Both directions at every level and over key updates, between two providers.
pub fn all_levels(
    client: &CryptoProvider,
    server: &CryptoProvider,
    suite: CipherSuite,
    version: Version,
) -> [Done; 2] {
    let (mut ends, _) = handshake(only(client.clone(), suite), only(server.clone(), suite), version);
    for [sender, receiver] in [[0, 1], [1, 0]] {
        travels(&ends[sender].handshake.local, &ends[receiver].handshake.remote);
        travels(&ends[sender].one_rtt.local, &ends[receiver].one_rtt.remote);
    }
    for _ in 0..10 {
        let [client, server] = ends.each_mut().map(|end| end.next.next_packet_keys());
        for (sender, receiver) in [(&client, &server), (&server, &client)] {
            let mut sealed = pattern(2, 64);
            let tag = seal(&*sender.local, None, 9, b"header", &mut sealed).expect("in range");
            sealed.extend_from_slice(tag.as_ref());
            let opened = open(&*receiver.remote, None, 9, b"header", &mut sealed);
            assert_eq!(opened, Ok(pattern(2, 64).as_slice()), "{suite:?} {version:?}");
        }
    }
    for end in &ends {
        assert_eq!(end.suite.suite(), suite);
    }
    ends
}

#[test]
fn each_suite_is_negotiated_on_wireseal_and_its_keys_work_both_ways() {
    for (suite, version) in ALL.into_iter().flat_map(|suite| VERSIONS.map(|version| (suite, version))) {
        let ends = all_levels(&wireseal(), &wireseal(), suite, version);
        assert!(ends.iter().all(|end| is_wireseal(&end.suite)));
    }
}

#[test]
fn wireseal_agrees_with_the_ring_provider_from_either_side() {
    for (suite, version) in COMMON.into_iter().flat_map(|suite| VERSIONS.map(|version| (suite, version))) {
        let [client, server] = all_levels(&wireseal(), &ring(), suite, version);
        assert!(is_wireseal(&client.suite) && !is_wireseal(&server.suite));
        let [client, server] = all_levels(&ring(), &wireseal(), suite, version);
        assert!(!is_wireseal(&client.suite) && is_wireseal(&server.suite));
    }
}

/// Compared with `wireseal-quic`'s key schedule, from the secret in the key log: a rustls that updates the keys of version 2 with
/// the label of version 1 fails here.
#[test]
fn key_updates_of_each_version_go_by_its_own_labels() {
    for (version, ours) in VERSIONS.into_iter().zip([wireseal_quic::Version::V1, wireseal_quic::Version::V2])
    {
        for suite in [COMMON[0], COMMON[2], CCM] {
            let provider = || only(wireseal(), suite);
            let ([mut client, _], log) = handshake(provider(), provider(), version);
            let secret = log.secret("CLIENT_TRAFFIC_SECRET_0");
            let mut secret = TrafficSecret::new(aead(suite), &secret).expect("as long as the hash");
            let mut key = client.one_rtt.local.packet;
            for generation in 0..100 {
                let next = secret.peek_next(ours);
                let (expected, _) = Keys::new(ours, PacketType::OneRtt, secret).into_parts();
                let (mut ours, mut theirs) = (pattern(3, 40), pattern(3, 40));
                let tag = seal(&*key, None, 5, b"header", &mut theirs).expect("in range");
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

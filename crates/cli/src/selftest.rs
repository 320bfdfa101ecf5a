//! Published test vectors, run on this machine.

use serde::Deserialize;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_kernels::cpu;
use wireseal_mac::{MacAlgorithm, MacKey, OneTimePoly1305Key, OutputLength, mac_batch};
use wireseal_quic::hazmat::{HeaderKey, PacketKey, PathId};
use wireseal_quic::{
    AeadAlgorithm, Backend, ConnectionId, InitialKeys, Keys, PacketType, Protected, Retry, TrafficSecret,
    Version,
};
use wireseal_tcp_ao::{
    Isn, KdfContext, MasterKey, Mkt, OptionCoverage, Segment, Sne, TrafficKey, TrafficKeyOctets,
    sign_segment, verify_segment,
};

use crate::hex;

/// Runs all vectors.
#[must_use]
pub fn run() -> Vec<Group> {
    let mut groups = vec![
        macs("RFC 4493", MacAlgorithm::Aes128Cmac, include_str!("../data/rfc4493.json")),
        macs("RFC 2202", MacAlgorithm::HmacSha1, include_str!("../data/rfc2202.json")),
        macs("RFC 4231", MacAlgorithm::HmacSha256, include_str!("../data/rfc4231.json")),
        poly1305("RFC 8439", include_str!("../data/rfc8439.json")),
        tcp_ao("RFC 9235", include_str!("../data/rfc9235.json")),
        tcp_ao("draft-ietf-tcpm-tcp-ao-algs-07", include_str!("../data/draft-tcp-ao-algs.json")),
    ];
    for backend in Backend::ALL {
        groups.push(quic_packets("RFC 9001", *backend, include_str!("../data/rfc9001.json")));
        groups.push(quic_packets("RFC 9369", *backend, include_str!("../data/rfc9369.json")));
    }
    groups
}

/// The CPU paths of the kernels, and whether this processor has them.
pub fn cpu_paths() -> impl Iterator<Item = (&'static str, bool)> {
    cpu::InstructionSet::ALL.into_iter().map(|path| (path.name(), path.is_available()))
}

/// The test vectors of one source, run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// The source, such as `RFC 4493`.
    pub source: &'static str,
    /// What the vectors are about.
    pub subject: String,
    /// How many vectors there are.
    pub vectors: usize,
    /// The vectors that failed, by their names in the source; without octets of keys.
    pub failures: Vec<String>,
}

impl Group {
    const fn new(source: &'static str, subject: String) -> Self {
        Self { source, subject, vectors: 0, failures: Vec::new() }
    }

    fn count(&mut self, passed: bool, name: impl FnOnce() -> String) {
        self.vectors += 1;
        if !passed {
            self.failures.push(name());
        }
    }

    /// Whether all vectors passed.
    #[must_use]
    pub const fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// Octets that a file spells in hexadecimal.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Octets(Vec<u8>);

impl TryFrom<String> for Octets {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        hex::decode(&text).map(Self).ok_or("not pairs of hexadecimal digits")
    }
}

/// Reads a file of vectors, which is part of the program; tests read them all.
fn read<'a, T: Deserialize<'a>>(text: &'a str) -> T {
    serde_json::from_str(text).expect("the program's own vectors are well-formed")
}

/// How many messages are computed in one batch: more than any CPU path handles side by side.
const BATCH: usize = 40;

#[derive(Deserialize)]
struct MacVector {
    key: Octets,
    message: Octets,
    mac: Octets,
}

/// Computes each MAC alone and in a batch, and verifies it as it is and with a bit flipped.
fn macs(source: &'static str, algorithm: MacAlgorithm, text: &str) -> Group {
    let mut group = Group::new(source, algorithm.name().to_owned());
    for (place, vector) in read::<File<MacVector>>(text).vectors.iter().enumerate() {
        let passed = mac_key(algorithm, &vector.key.0).is_some_and(|key| mac_passes(&key, vector));
        group.count(passed, || format!("test case {}", place + 1));
    }
    group
}

fn mac_key(algorithm: MacAlgorithm, octets: &[u8]) -> Option<MacKey> {
    Some(match algorithm {
        MacAlgorithm::HmacSha1 => MacKey::hmac_sha1(octets),
        MacAlgorithm::HmacSha256 => MacKey::hmac_sha256(octets),
        MacAlgorithm::Aes128Cmac => MacKey::aes_128_cmac(octets.try_into().ok()?),
        MacAlgorithm::Kmac256 => MacKey::kmac256(octets, b"", OutputLength::Octets32),
    })
}

fn mac_passes(key: &MacKey, MacVector { message, mac, .. }: &MacVector) -> bool {
    let (message, mac): ([&[u8]; 1], &[u8]) = ([&message.0], &mac.0);
    let mut wrong = mac.to_vec();
    wrong[0] ^= 1;
    let mut batch: [_; BATCH] = std::array::from_fn(|_| key.mac(&[]));
    mac_batch((0..BATCH).map(|_| (key, &message[..])), &mut batch);
    key.mac(&message).truncated(mac.len()) == mac
        && key.verify(&message, mac).is_ok()
        && key.verify(&message, &wrong).is_err()
        && batch.iter().all(|computed| computed.truncated(mac.len()) == mac)
}

/// Poly1305, with one message per key.
fn poly1305(source: &'static str, text: &str) -> Group {
    let mut group = Group::new(source, "Poly1305".to_owned());
    for (place, MacVector { key, message, mac }) in read::<File<MacVector>>(text).vectors.iter().enumerate() {
        let key = || Some(OneTimePoly1305Key::new(key.0.as_slice().try_into().ok()?));
        let mac_is = |flip: u8| {
            let mut mac = mac.0.clone();
            mac[0] ^= flip;
            key().is_some_and(|key| key.verify(&[&message.0], &mac).is_ok())
        };
        let passed = key().is_some_and(|key| key.mac(&[&message.0]).as_bytes() == mac.0);
        group.count(passed && mac_is(0) && !mac_is(1), || format!("test vector {}", place + 1));
    }
    group
}

#[derive(Deserialize)]
struct File<V> {
    vectors: Vec<V>,
}

#[derive(Deserialize)]
struct SegmentVector {
    #[serde(alias = "based_on")]
    section: String,
    algorithm: String,
    master_key: Octets,
    options: String,
    source_isn: Octets,
    destination_isn: Octets,
    sne: u32,
    traffic_key: Octets,
    packet: Octets,
}

fn tcp_ao(source: &'static str, text: &str) -> Group {
    let mut group = Group::new(source, "TCP-AO: traffic keys and MACs".to_owned());
    for vector in &read::<File<SegmentVector>>(text).vectors {
        let SegmentVector { section, algorithm, .. } = vector;
        group.count(segment_passes(vector).unwrap_or(false), || {
            format!("section {section} under {algorithm}")
        });
    }
    group
}

/// Derives the traffic key; verifies the segment as it is and with a bit flipped, and signs it again.
fn segment_passes(vector: &SegmentVector) -> Option<bool> {
    let algorithm: TcpAoAlgorithm = vector.algorithm.parse().ok()?;
    let master_key = MasterKey::new(&vector.master_key.0).ok()?;
    let segment = Segment::parse(&vector.packet.0).ok()?;
    let ao = segment.ao_option().ok()??;
    let isn = |octets: &Octets| Some(Isn(u32::from_be_bytes(octets.0.as_slice().try_into().ok()?)));
    let context = KdfContext {
        source: segment.source(),
        destination: segment.destination(),
        source_isn: isn(&vector.source_isn)?,
        destination_isn: isn(&vector.destination_isn)?,
    };
    let options =
        if vector.options == "covered" { OptionCoverage::Covered } else { OptionCoverage::Excluded };
    let mkt = Mkt::with_short_master_key(ao.key_id, ao.rnext_key_id, algorithm, master_key)
        .ok()?
        .with_mac_length(ao.mac.len())
        .ok()?
        .with_options(options);
    let octets = TrafficKeyOctets::derive(&mkt, &context);
    let (key, sne, parameters) = (TrafficKey::new(&octets), Sne(vector.sne), mkt.parameters());

    let addresses = (segment.source_address(), segment.destination_address());
    let mut altered = segment.tcp().to_vec();
    altered[4] ^= 1;
    let altered = Segment::from_tcp(addresses.0, addresses.1, &altered).ok()?;
    let mut signed = segment.tcp().to_vec();
    let mac_at = 20 + ao.offset + ao.length() - ao.mac.len();
    signed[mac_at..mac_at + ao.mac.len()].fill(0);
    sign_segment(&key, sne, parameters, ao.rnext_key_id, addresses, &mut signed).ok()?;

    let verified = |segment| verify_segment(&key, sne, parameters, segment).is_ok();
    Some(
        octets.expose_secret() == vector.traffic_key.0
            && verified(&segment)
            && !verified(&altered)
            && signed == segment.tcp(),
    )
}

#[derive(Deserialize)]
struct AppendixA {
    version: u32,
    destination_connection_id: Octets,
    client_initial: Packet,
    server_initial: Packet,
    retry: PrintedRetry,
    chacha20_poly1305: ShortPacket,
}

#[derive(Deserialize)]
struct Packet {
    number: u64,
    payload: Octets,
    /// Before header protection.
    header: Octets,
    packet: Octets,
}

#[derive(Deserialize)]
struct PrintedRetry {
    token: Octets,
    packet: Octets,
}

#[derive(Deserialize)]
struct ShortPacket {
    secret: Octets,
    ku: Octets,
    #[serde(flatten)]
    packet: Packet,
}

fn quic_packets(source: &'static str, backend: Backend, text: &str) -> Group {
    let vectors: AppendixA = read(text);
    let mut group = Group::new(source, format!("QUIC packets by {}", backend.name()));
    let mut count = |name: &str, passed: Option<bool>| group.count(passed == Some(true), || name.to_owned());
    count("A.2, client Initial", vectors.initial(backend, true));
    count("A.3, server Initial", vectors.initial(backend, false));
    count("A.4, Retry", vectors.retry());
    count("A.5, ChaCha20-Poly1305 short header packet", vectors.short_packet(backend));
    count("A.5, secret of the next key phase", vectors.key_update(backend));
    group
}

impl AppendixA {
    fn initial(&self, backend: Backend, is_client: bool) -> Option<bool> {
        let destination = ConnectionId::new(&self.destination_connection_id.0).ok()?;
        let keys = InitialKeys::with_backend(backend, Version::from_wire(self.version).ok()?, &destination);
        let (keys, packet) =
            if is_client { (keys.client, &self.client_initial) } else { (keys.server, &self.server_initial) };
        packet.passes(keys)
    }

    fn retry(&self) -> Option<bool> {
        let destination = ConnectionId::new(&self.destination_connection_id.0).ok()?;
        let version = Version::from_wire(self.version).ok()?;
        let open = |packet: &[u8]| {
            Some(Retry::open(version, &destination, packet).ok()?.token == self.retry.token.0)
        };
        let mut forged = self.retry.packet.0.clone();
        *forged.last_mut()? ^= 1;
        Some(open(&self.retry.packet.0)? && open(&forged).is_none())
    }

    /// The keys of packets with a short header, from a secret or from the next secret.
    fn short_keys(&self, backend: Backend, secret: &Octets, updates: u8) -> Option<Keys> {
        let version = Version::from_wire(self.version).ok()?;
        let secret = TrafficSecret::new(AeadAlgorithm::ChaCha20Poly1305, &secret.0).ok()?;
        let secret = (0..updates).fold(secret, |secret, _| secret.peek_next(version));
        Some(Keys::with_backend(backend, version, PacketType::OneRtt, secret))
    }

    fn short_packet(&self, backend: Backend) -> Option<bool> {
        let ShortPacket { secret, packet, .. } = &self.chacha20_poly1305;
        packet.passes(self.short_keys(backend, secret, 0)?)
    }

    /// The next secret protects packets like the one the RFC prints.
    fn key_update(&self, backend: Backend) -> Option<bool> {
        let ShortPacket { secret, ku, packet } = &self.chacha20_poly1305;
        let sealed =
            |secret, updates| packet.sealed(&self.short_keys(backend, secret, updates)?.into_parts());
        let (derived, printed) = (sealed(secret, 1)?, sealed(ku, 0)?);
        Some(derived == printed && printed != packet.packet.0)
    }
}

impl Packet {
    /// The packet, sealed with these keys.
    fn sealed(&self, (packet_key, header_key): &(PacketKey, HeaderKey)) -> Option<Vec<u8>> {
        let mut packet = [&self.header.0[..], &self.payload.0, &[0; 16]].concat();
        let offset = self.header.0.len();
        packet_key.seal_packet(header_key, PathId(0), self.number, &mut packet, offset).ok()?;
        Some(packet)
    }

    /// Whether these keys seal the packet, open it, and refuse it with its last bit flipped.
    fn passes(&self, keys: Keys) -> Option<bool> {
        let keys = keys.into_parts();
        let opens = |mut packet: Vec<u8>| {
            let (protected, _) = Protected::split_first(&mut packet, 0).ok()?;
            // The packet number is truncated, so opening needs the one before.
            let opened = keys
                .1
                .unmask(protected, self.number.checked_sub(1))
                .ok()?
                .open_by(&keys.0, PathId(0))
                .ok()?;
            let is_number = opened.number == self.number;
            Some(is_number && opened.header() == self.header.0 && *opened.payload == *self.payload.0)
        };
        let mut forged = self.packet.0.clone();
        *forged.last_mut()? ^= 1;
        Some(self.sealed(&keys)? == self.packet.0 && opens(forged).is_none() && opens(self.packet.0.clone())?)
    }
}

/// What implements each QUIC suite on the active backend: processor instructions or a library.
pub fn quic_served_by() -> impl Iterator<Item = (&'static str, &'static str)> {
    AeadAlgorithm::ALL.into_iter().filter_map(|algorithm| {
        let secret = TrafficSecret::new(algorithm, &vec![0; algorithm.secret_length()]).ok()?;
        Some((algorithm.name(), Keys::new(Version::V1, PacketType::OneRtt, secret).served_by()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text with the first digit of these fields changed in each vector.
    fn altered(text: &str, fields: &[&str]) -> String {
        let alter = |line: &str| {
            let Some((name, value)) = line.split_once(": \"") else { return line.to_owned() };
            if !fields.contains(&name.trim().trim_matches('"')) {
                return line.to_owned();
            }
            let (first, rest) = value.split_at(1);
            let other = if first == "0" { "1" } else { "0" };
            format!("{name}: \"{other}{rest}")
        };
        text.lines().map(alter).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn another_mac_is_a_failure() {
        let text = altered(include_str!("../data/rfc4493.json"), &["mac"]);
        let group = macs("RFC 4493", MacAlgorithm::Aes128Cmac, &text);
        assert!(!group.passed());
        assert_eq!(group.failures, ["test case 1", "test case 2", "test case 3", "test case 4"]);
        let text = altered(include_str!("../data/rfc8439.json"), &["mac"]);
        let group = poly1305("RFC 8439", &text);
        assert_eq!((group.vectors, group.failures.len()), (12, 12));
    }

    #[test]
    fn another_traffic_key_or_segment_is_a_failure() {
        let text = include_str!("../data/rfc9235.json");
        let group = tcp_ao("RFC 9235", &altered(text, &["traffic_key"]));
        assert_eq!((group.vectors, group.failures.len()), (32, 32));
        assert_eq!(group.failures[0], "section 4.1.1 under HMAC-SHA-1-96");
        let group = tcp_ao("RFC 9235", &altered(text, &["master_key"]));
        assert_eq!(group.failures.len(), 32);
    }

    #[test]
    fn another_packet_is_a_failure() {
        let text = include_str!("../data/rfc9001.json");
        for backend in Backend::ALL {
            assert_eq!(quic_packets("RFC 9001", *backend, &altered(text, &["packet"])).failures.len(), 4);
            let group = quic_packets("RFC 9001", *backend, &altered(text, &["ku"]));
            assert_eq!(group.failures, ["A.5, secret of the next key phase"]);
        }
    }
}

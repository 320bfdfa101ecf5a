//! QUIC: two ends that share secrets, an attacker between them, and the properties that must hold; and readers of headers and packet
//! numbers, written from RFC 9000, 9001 and 9369 and not from the code under test. Draft-29 differs from version 1 only in its number and in
//! what its keys are derived from.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::time::Duration;

use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, Backend, ConnectionId, InitialKeys, Keys, LongHeader, LongType,
    Now, NumberLength, OneRtt, OneRttSealer, OpenError, Opened, Outgoing, PacketNumberCounter, PacketType,
    Protected, ReceiveSpace, Sealer, ShortHeader, TrafficSecret, Version,
};

/// The length of both ends' connection IDs.
pub const ID_LENGTH: usize = 4;

const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// The contents of a sealed packet, which the other end must recover.
struct Sealed {
    kind: PacketType,
    number: u64,
    payload: Vec<u8>,
    generation: u64,
    /// The largest 1-RTT packet number opened from the peer when this was sealed, which it acknowledges.
    acknowledged: Option<u64>,
}

/// The keys of one level in both directions, and its packet number space.
struct Level {
    sealer: Sealer,
    receive: Keys,
    space: ReceiveSpace,
}

impl Level {
    fn new(send: Keys, receive: Keys) -> Self {
        Self { sealer: Sealer::new(send, PacketNumberCounter::new()), receive, space: ReceiveSpace::new() }
    }
}

struct End {
    version: Version,
    id: ConnectionId,
    peer_id: ConnectionId,
    /// Initial and Handshake.
    levels: [Level; 2],
    one_rtt: OneRtt,
    space: ReceiveSpace,
    failures: AuthenticationFailures,
    sealed: HashMap<Vec<u8>, Sealed>,
    /// The peer's packets that it has opened.
    opened: HashSet<Vec<u8>>,
}

/// The version that an octet chooses.
pub fn version(choice: u8) -> Version {
    Version::ALL[usize::from(choice) % Version::ALL.len()]
}

/// The octets of a secret, different for each name.
fn octets(secret: u64, name: u8, length: usize) -> Vec<u8> {
    secret.to_be_bytes().into_iter().chain([name]).cycle().take(length).collect()
}

impl End {
    fn new(secret: u64, choice: u8, is_client: bool) -> Self {
        let version = version(choice);
        let backend = Backend::ALL[usize::from(choice >> 1 & 1) % Backend::ALL.len()];
        let algorithm = AeadAlgorithm::ALL[usize::from(choice >> 2 & 3)];
        let traffic = |name: u8| {
            TrafficSecret::new(algorithm, &octets(secret, name, algorithm.secret_length()))
                .expect("its length")
        };
        let keys = |name| Keys::with_backend(backend, version, PacketType::Handshake, traffic(name));
        let id = |name| ConnectionId::new(&octets(secret, name, ID_LENGTH)).expect("four octets");
        let InitialKeys { client, server } = InitialKeys::with_backend(backend, version, &id(9));
        let (ours, theirs) = if is_client { (1, 2) } else { (2, 1) };
        let (send, receive) = if is_client { (client, server) } else { (server, client) };
        let counter = PacketNumberCounter::starting_at(secret >> 34 >> (secret & 31)).expect("under 2^62");
        let early = OneRttSealer::with_backend(backend, version, traffic(ours), traffic(theirs), counter);
        let mut one_rtt = early.complete_handshake();
        one_rtt.confirm_handshake();
        Self {
            version,
            id: id(ours),
            peer_id: id(theirs),
            levels: [Level::new(send, receive), Level::new(keys(ours + 2), keys(theirs + 2))],
            one_rtt,
            space: ReceiveSpace::new(),
            failures: AuthenticationFailures::new(),
            sealed: HashMap::new(),
            opened: HashSet::new(),
        }
    }

    /// The level of packets with this long header.
    fn level(&mut self, kind: LongType) -> &mut Level {
        &mut self.levels[usize::from(kind == LongType::Handshake)]
    }

    /// Seals `payload`, padded until it is long enough for a sample, with a short header, or a long one of this type.
    fn seal(&mut self, long: Option<LongType>, payload: &[u8]) -> Vec<u8> {
        let mut payload = payload.to_vec();
        payload.resize(payload.len().max(3), 0);
        let (next, number_length) = match long {
            Some(kind) => {
                let next = self.level(kind).sealer.next_number();
                (next, NumberLength::needed(next.unwrap_or(0), None))
            }
            None => (self.one_rtt.next_number(), self.one_rtt.number_length()),
        };
        let next = next.expect("numbers enough");
        let mut packet = vec![0xa5; 100];
        let (version, destination, source) = (self.version, self.peer_id, self.id);
        let number_offset = match long {
            Some(packet_type) => {
                LongHeader { version, packet_type, destination, source, token: &payload[..3] }.encode(
                    &mut packet,
                    number_length,
                    payload.len(),
                )
            }
            None => ShortHeader { destination, spin: payload[0] & 1 == 1 }.encode(&mut packet),
        };
        let number_offset = number_offset.expect("room");
        packet.truncate(number_offset + number_length.octets());
        packet.extend_from_slice(&payload);
        packet.extend_from_slice(&[0xa5; AeadAlgorithm::TAG_LENGTH]);
        let outgoing = Outgoing { packet: &mut packet, number_offset, number_length };
        let number = match long {
            Some(kind) => self.level(kind).sealer.seal(outgoing),
            None => self.one_rtt.seal(outgoing),
        };
        let number = number.expect("numbers and packets enough");
        assert_eq!(number, next);
        let generation = if long.is_none() { self.one_rtt.generation() } else { 0 };
        let (kind, acknowledged) = (long.map_or(PacketType::OneRtt, Into::into), self.space.largest());
        let sealed = Sealed { kind, number, payload, generation, acknowledged };
        self.sealed.insert(packet.clone(), sealed);
        packet
    }

    /// Opens every packet of a datagram and returns the results. Only packets that `peer` has sealed may open, and only once.
    fn receive(&mut self, time: Duration, datagram: &[u8], peer: &Self) -> Vec<Result<(), OpenError>> {
        let now = Now { time, probe_timeout: PROBE_TIMEOUT };
        let (mut buffer, mut at, mut results) = (datagram.to_vec(), 0, Vec::new());
        for packet in Protected::split(&mut buffer, ID_LENGTH) {
            let Ok(packet) = packet else { break };
            let found = first_packet(&datagram[at..], ID_LENGTH).expect("as the code under test found");
            let before = &datagram[at..at + found.end];
            assert_eq!(packet.octets(), before);
            at += found.end;
            // First applies the changes that time alone causes.
            self.one_rtt.expire(time);
            let derived = phases_with_keys(&self.one_rtt);
            let (kind, failures) = (packet.packet_type(), self.failures.count());
            let result = match kind {
                PacketType::Initial | PacketType::Handshake => {
                    let Level { receive, space, .. } =
                        &mut self.levels[usize::from(kind == PacketType::Handshake)];
                    receive.open(packet, space, &mut self.failures)
                }
                PacketType::OneRtt => self.one_rtt.open(packet, now, &mut self.space, &mut self.failures),
                PacketType::ZeroRtt => continue,
            };
            let result = match result {
                Ok(opened) => {
                    assert_opened(&opened, before, found.number, peer);
                    Ok((opened.generation, peer.sealed[before].acknowledged))
                }
                Err(error) => Err(error),
            };
            assert_eq!(phases_with_keys(&self.one_rtt), derived, "opening leaves no new keys");
            let counted = self.failures.count() - failures;
            assert_eq!(counted, u64::from(result == Err(OpenError::AuthenticationFailed)));
            match result {
                Ok((generation, acknowledged)) => {
                    assert!(self.opened.insert(before.to_vec()), "a packet is opened once");
                    if let (PacketType::OneRtt, Some(largest)) = (kind, acknowledged) {
                        let answer = self.one_rtt.acknowledged(largest, generation, now);
                        assert_eq!(answer, Ok(()), "the peer acknowledges what it should");
                    }
                }
                Err(error) => {
                    // Numbers too old to check count as opened.
                    let was_opened =
                        self.opened.contains(before) || peer.sealed.len() as u64 > ReceiveSpace::WINDOW;
                    assert!(
                        error != OpenError::Duplicate || was_opened,
                        "what was never opened is no duplicate"
                    );
                    // Only the two ends have the keys, and both follow the rules.
                    assert_eq!(error.transport_error(), None, "{error}");
                }
            }
            results.push(result.map(drop));
        }
        self.assert_no_plaintext(datagram, &buffer, &results, peer);
        results
    }

    /// If a packet was not opened, the buffer is unchanged or zeros; it never holds the payload.
    fn assert_no_plaintext(
        &self,
        datagram: &[u8],
        buffer: &[u8],
        results: &[Result<(), OpenError>],
        peer: &Self,
    ) {
        assert_eq!(buffer.len(), datagram.len());
        let (mut at, mut results) = (0, results.iter());
        while let Ok(found) = first_packet(&datagram[at..], ID_LENGTH) {
            let (before, after) = (&datagram[at..at + found.end], &buffer[at..at + found.end]);
            at += found.end;
            let result = if found.kind == PacketType::ZeroRtt { None } else { results.next() };
            match result {
                Some(Ok(())) => {}
                Some(Err(OpenError::AuthenticationFailed)) => {
                    let last = found.end - AeadAlgorithm::TAG_LENGTH;
                    let is_wiped = |payload: usize| {
                        let (header, body) = after[..last].split_at(payload);
                        header == &before[..payload] && body.iter().all(|octet| *octet == 0)
                    };
                    // The number has one to four octets; only the key reveals how many.
                    assert!((1..=4).any(|length| is_wiped(found.number + length)), "the payload is zeros");
                    assert_eq!(after[last..], before[last..], "the tag is as it was");
                }
                Some(Err(OpenError::Duplicate)) => {
                    let payload = &peer.sealed[before].payload;
                    let end = found.end - AeadAlgorithm::TAG_LENGTH;
                    assert!(after[end - payload.len()..end].iter().all(|octet| *octet == 0), "no plaintext");
                }
                _ => assert_eq!(after, before, "nothing was changed"),
            }
        }
    }
}

/// The number of phases with keys: all up to the current one, and the next if its keys are kept. Keys that were derived and dropped do not show.
fn phases_with_keys(one_rtt: &OneRtt) -> u64 {
    let text = format!("{one_rtt:?}");
    let has_next = text.contains("has_next_keys: true");
    assert_ne!(has_next, text.contains("has_next_keys: false"));
    one_rtt.generation() + 1 + u64::from(has_next)
}

fn assert_opened(opened: &Opened<'_>, packet: &[u8], number_offset: usize, peer: &End) {
    let sealed = peer.sealed.get(packet).expect("a packet that the peer has sealed");
    assert_eq!((opened.packet_type(), opened.number), (sealed.kind, sealed.number));
    assert_eq!(opened.payload, sealed.payload);
    assert_eq!(opened.generation, sealed.generation);
    assert_eq!(opened.key_phase, sealed.generation % 2 == 1);
    assert_eq!(opened.header()[1..number_offset], packet[1..number_offset]);
}

/// Both ends, the time, and the sealed packets that may arrive late, twice or never.
pub struct Ends {
    ends: [End; 2],
    time: Duration,
    late: Vec<(usize, Vec<u8>)>,
}

impl Ends {
    /// Runs a script. The first octet chooses version, backend and AEAD. Each step is an octet that chooses the operation, two octets of
    /// length, and that many octets of data.
    pub fn run(script: &[u8]) {
        let [choice, steps @ ..] = script else { return };
        let (secret, mut steps) = (crate::hosts::secret(script), steps);
        let ends = [true, false].map(|is_client| End::new(secret, *choice, is_client));
        let mut ends = Self { ends, time: Duration::ZERO, late: Vec::new() };
        while let [what, high, low, rest @ ..] = steps {
            let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
            let (body, others) = rest.split_at(length);
            ends.step(*what, body);
            steps = others;
        }
    }

    /// The end that receives, and its peer.
    fn receiver(&mut self, sender: usize) -> (&mut End, &mut End) {
        let [first, second] = &mut self.ends;
        if sender == 0 { (second, first) } else { (first, second) }
    }

    fn deliver(&mut self, sender: usize, datagram: &[u8]) -> Vec<Result<(), OpenError>> {
        let time = self.time;
        let (receiver, peer) = self.receiver(sender);
        receiver.receive(time, datagram, peer)
    }

    fn step(&mut self, what: u8, body: &[u8]) {
        let sender = usize::from(what >> 7);
        let kind = match what >> 4 & 3 {
            0 | 1 => None,
            2 => Some(LongType::Handshake),
            _ => Some(LongType::Initial),
        };
        match (what & 0x0f, body) {
            // A packet that arrives at once must open.
            (0, payload) => {
                let packet = self.ends[sender].seal(kind, payload);
                assert_eq!(self.deliver(sender, &packet), [Ok(())], "what was sealed opens");
            }
            // A packet altered on the path.
            (1, [high, low, difference, payload @ ..]) => {
                let mut packet = self.ends[sender].seal(kind, payload);
                let at = usize::from(u16::from_be_bytes([*high, *low])) % packet.len();
                packet[at] ^= difference;
                self.deliver(sender, &packet);
            }
            // Arbitrary octets from an attacker on the path.
            (2, datagram) => {
                self.deliver(sender, datagram);
            }
            (3, payload) => {
                let packet = self.ends[sender].seal(kind, payload);
                self.late.push((sender, packet));
            }
            (4, [which, ..]) if !self.late.is_empty() => {
                let (sender, packet) = self.late[usize::from(*which) % self.late.len()].clone();
                self.deliver(sender, &packet);
            }
            // Several packets in one datagram, with one octet altered.
            (5, [high, low, difference, payload @ ..]) => {
                let kinds = [Some(LongType::Initial), Some(LongType::Handshake), None];
                let packets = kinds.map(|kind| self.ends[sender].seal(kind, payload));
                let mut datagram = packets.concat();
                let at = usize::from(u16::from_be_bytes([*high, *low])) % datagram.len();
                datagram[at] ^= difference;
                let results = self.deliver(sender, &datagram);
                assert!(*difference != 0 || results == [Ok(()); 3], "what was sealed opens");
            }
            (6, _) => {
                let time = self.time;
                let end = &mut self.ends[sender].one_rtt;
                let before = end.generation();
                let updated = end.initiate_update(time).is_ok();
                assert_eq!(end.generation(), before + u64::from(updated));
            }
            (9, _) => self.ends[sender].one_rtt.prepare(),
            (7, [seconds, ..]) => self.time += Duration::from_millis(u64::from(*seconds) * 100),
            (8, _) => {
                let time = self.time;
                let end = &mut self.ends[sender].one_rtt;
                end.expire(time);
                assert!(end.expires().is_none_or(|expires| expires > time));
            }
            _ => {}
        }
    }
}

/// A variable-length integer (RFC 9000 §16): its value, and its length in octets.
pub fn varint(octets: &[u8]) -> Option<(u64, usize)> {
    let first = *octets.first()?;
    let length = match first & 0xc0 {
        0x00 => 1,
        0x40 => 2,
        0x80 => 4,
        _ => 8,
    };
    if octets.len() < length {
        return None;
    }
    let mut value = u64::from(first & 0x3f);
    for octet in &octets[1..length] {
        value = value * 256 + u64::from(*octet);
    }
    Some((value, length))
}

/// Why the datagram does not start with a protected packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It ends too early.
    Truncated,
    /// Version 0 (RFC 9000 §17.2.1).
    VersionNegotiation,
    /// None of version 1, version 2 and draft-29.
    UnknownVersion(u32),
    /// More than 20 octets (RFC 9000 §17.2).
    ConnectionIdTooLong,
    /// RFC 9000 §17.2.5.
    Retry,
}

/// The first packet of a datagram.
#[derive(Debug, PartialEq, Eq)]
pub struct Packet {
    /// The type of the packet.
    pub kind: PacketType,
    /// The version of a long header.
    pub version: Option<u32>,
    /// Where the destination connection ID is.
    pub destination: Range<usize>,
    /// Where the source connection ID is, if it has one.
    pub source: Range<usize>,
    /// Where the token is, if it has one.
    pub token: Range<usize>,
    /// Where the packet number starts.
    pub number: usize,
    /// Where the packet ends.
    pub end: usize,
}

/// Reads the first packet of a datagram, in which short headers have connection IDs of `id_length` octets.
///
/// # Errors
/// [`Fault`] if there is no packet that keys could open.
pub fn first_packet(datagram: &[u8], id_length: usize) -> Result<Packet, Fault> {
    let first = *datagram.first().ok_or(Fault::Truncated)?;
    if first < 0x80 {
        let number = 1 + id_length;
        if datagram.len() < number {
            return Err(Fault::Truncated);
        }
        return Ok(Packet {
            kind: PacketType::OneRtt,
            version: None,
            destination: 1..number,
            source: 0..0,
            token: 0..0,
            number,
            end: datagram.len(),
        });
    }
    let version = datagram.get(1..5).ok_or(Fault::Truncated)?;
    let version = version.iter().fold(0, |value, octet| value * 256 + u32::from(*octet));
    // RFC 9000 §17.2, which draft-29 has too, and RFC 9369 §3.2.
    let kinds = match version {
        0 => return Err(Fault::VersionNegotiation),
        1 | 0xff00_001d => {
            [Some(PacketType::Initial), Some(PacketType::ZeroRtt), Some(PacketType::Handshake), None]
        }
        0x6b33_43cf => {
            [None, Some(PacketType::Initial), Some(PacketType::ZeroRtt), Some(PacketType::Handshake)]
        }
        version => return Err(Fault::UnknownVersion(version)),
    };
    let id = |at: usize| {
        let length = usize::from(*datagram.get(at).ok_or(Fault::Truncated)?);
        if length > 20 {
            return Err(Fault::ConnectionIdTooLong);
        }
        let range = at + 1..at + 1 + length;
        if range.end > datagram.len() { Err(Fault::Truncated) } else { Ok(range) }
    };
    let destination = id(5)?;
    let source = id(destination.end)?;
    let kind = kinds[usize::from(first >> 4 & 3)].ok_or(Fault::Retry)?;
    // The range of the field after the variable-length integer at `at`, which is its length.
    let field = |at: usize| {
        let (length, octets) = varint(&datagram[at..]).ok_or(Fault::Truncated)?;
        let start = at + octets;
        if length > (datagram.len() - start) as u64 {
            return Err(Fault::Truncated);
        }
        Ok(start..start + length as usize)
    };
    let token = if kind == PacketType::Initial { field(source.end)? } else { source.end..source.end };
    let rest = field(token.end)?;
    Ok(Packet { kind, version: Some(version), destination, source, token, number: rest.start, end: rest.end })
}

/// The packet number for `truncated`, its last `bits` bits: of the numbers that end in these bits, the one closest to `expected` (RFC 9000
/// §17.1), and of two equally close, the greater.
pub fn closest(expected: u64, truncated: u64, bits: u32) -> u64 {
    let window = 1_u128 << bits;
    let base = u128::from(expected) / window;
    let candidates = [base.checked_sub(1), Some(base), Some(base + 1)].into_iter().flatten();
    candidates
        .map(|base| base * window + u128::from(truncated))
        .filter(|candidate| *candidate < 1 << 62)
        .min_by_key(|candidate| (candidate.abs_diff(u128::from(expected)), u128::MAX - candidate))
        .expect("a number in the window of the expected one") as u64
}

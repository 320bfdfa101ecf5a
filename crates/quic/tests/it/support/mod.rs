//! The two ends of a connection with every backend, version and AEAD, and packets between them.

pub(crate) mod schedule;

use std::time::Duration;

use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, Backend, ConnectionId, Keys, LongHeader, LongType, Now,
    NumberLength, OneRtt, OneRttSealer, OpenError, Opened, Outgoing, PacketNumberCounter, PacketType,
    Protected, ReceiveSpace, Sealer, ShortHeader, TrafficSecret, Version,
};

pub(crate) const TAG: usize = 16;

/// The connection ID that all packets go to.
pub(crate) const DESTINATION: [u8; 8] = [0xd0, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7];

pub(crate) const NUMBER_LENGTHS: [NumberLength; 4] =
    [NumberLength::One, NumberLength::Two, NumberLength::Three, NumberLength::Four];

pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_millis(100);

/// A payload for tests that do not look at it closely.
pub(crate) const FRAMES: &[u8] = b"some frames";

pub(crate) fn destination() -> ConnectionId {
    ConnectionId::new(&DESTINATION).unwrap()
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    base16ct::mixed::decode_vec(text).unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Side {
    pub(crate) const BOTH: [Self; 2] = [Self::Client, Self::Server];

    pub(crate) fn other(self) -> Self {
        self.of(Self::Server, Self::Client)
    }

    /// The value for the client or for the server.
    pub(crate) fn of<T>(self, client: T, server: T) -> T {
        match self {
            Self::Client => client,
            Self::Server => server,
        }
    }
}

/// Runs a check with every backend, and prints its name.
pub(crate) fn for_each_backend(check: impl Fn(Backend)) {
    for &backend in Backend::ALL {
        println!("backend: {}", backend.name());
        check(backend);
    }
}

/// The parameters of a connection's protection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suite {
    pub(crate) backend: Backend,
    pub(crate) version: Version,
    pub(crate) algorithm: AeadAlgorithm,
}

/// Every combination of backend, version and AEAD.
pub(crate) fn suites() -> impl Iterator<Item = Suite> {
    Version::ALL
        .iter()
        .flat_map(|&version| suites_of_one_version().map(move |suite| Suite { version, ..suite }))
}

/// Every combination of backend and AEAD, with version 1, for tests that do not depend on the version.
pub(crate) fn suites_of_one_version() -> impl Iterator<Item = Suite> {
    let of =
        |&backend| AeadAlgorithm::ALL.map(|algorithm| Suite { backend, version: Version::V1, algorithm });
    Backend::ALL.iter().flat_map(of)
}

impl Suite {
    /// The octets of the traffic secret for what `sender` sends.
    pub(crate) fn secret_octets(self, sender: Side) -> Vec<u8> {
        let seed = sender.of(0x31, 0xc7);
        (0..self.algorithm.secret_length() as u8).map(|i| i.wrapping_mul(29) ^ seed).collect()
    }

    pub(crate) fn secret(self, sender: Side) -> TrafficSecret {
        TrafficSecret::new(self.algorithm, &self.secret_octets(sender)).unwrap()
    }

    pub(crate) fn keys_for(self, sender: Side, packet_type: PacketType) -> Keys {
        Keys::with_backend(self.backend, self.version, packet_type, self.secret(sender))
    }

    pub(crate) fn sealer_for(self, packet_type: PacketType, counter: PacketNumberCounter) -> Sealer {
        Sealer::new(self.keys_for(Side::Client, packet_type), counter)
    }

    /// Seals the client's 1-RTT packets, without key updates.
    pub(crate) fn sealer(self) -> Sealer {
        self.sealer_for(PacketType::OneRtt, PacketNumberCounter::new())
    }

    /// The draft as the client's first packet of its type.
    pub(crate) fn sealed(self, mut draft: Draft) -> Vec<u8> {
        self.sealer_for(draft.packet_type, PacketNumberCounter::new()).seal(draft.outgoing()).unwrap();
        draft.octets
    }

    /// Opens the client's packets of one type, without key updates.
    pub(crate) fn level(self, packet_type: PacketType) -> Level {
        Level::new(self.keys_for(Side::Client, packet_type))
    }

    pub(crate) fn one_rtt(self, of: Side, counter: PacketNumberCounter) -> OneRtt {
        self.early(of, counter).complete_handshake()
    }

    /// 1-RTT keys before the handshake is complete.
    pub(crate) fn early(self, of: Side, counter: PacketNumberCounter) -> OneRttSealer {
        let (local, remote) = (self.secret(of), self.secret(of.other()));
        OneRttSealer::with_backend(self.backend, self.version, local, remote, counter)
    }

    /// One end when the handshake is complete but not confirmed.
    pub(crate) fn end(self, side: Side) -> End {
        let one_rtt = self.one_rtt(side, PacketNumberCounter::new());
        let (space, failures) = (ReceiveSpace::new(), AuthenticationFailures::new());
        End { one_rtt, space, failures, time: Duration::ZERO }
    }

    /// The client and the server when the handshake is confirmed.
    pub(crate) fn ends(self) -> [End; 2] {
        Side::BOTH.map(|side| {
            let mut end = self.end(side);
            end.one_rtt.confirm_handshake();
            end
        })
    }

    /// Both ends, the one with this role first.
    pub(crate) fn ends_as(self, role: Side) -> [End; 2] {
        let mut ends = self.ends();
        if role == Side::Server {
            ends.reverse();
        }
        ends
    }
}

/// A packet to be sealed.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) packet_type: PacketType,
    pub(crate) octets: Vec<u8>,
    pub(crate) number_offset: usize,
    pub(crate) number_length: NumberLength,
}

impl Draft {
    pub(crate) fn short(number_length: NumberLength, payload: &[u8]) -> Self {
        let mut octets = vec![0; 1 + DESTINATION.len()];
        let number_offset =
            ShortHeader { destination: destination(), spin: false }.encode(&mut octets).unwrap();
        Self { packet_type: PacketType::OneRtt, octets, number_offset, number_length }.with_payload(payload)
    }

    pub(crate) fn long(
        version: Version,
        packet_type: LongType,
        number_length: NumberLength,
        payload: &[u8],
    ) -> Self {
        let source = ConnectionId::new(b"source").unwrap();
        let header =
            LongHeader { version, packet_type, destination: destination(), source, token: b"a token" };
        let mut octets = vec![0; 100];
        let number_offset = header.encode(&mut octets, number_length, payload.len()).unwrap();
        octets.truncate(number_offset);
        Self { packet_type: packet_type.into(), octets, number_offset, number_length }.with_payload(payload)
    }

    /// A short header, and a long one of the Handshake level.
    pub(crate) fn both(version: Version, number_length: NumberLength, payload: &[u8]) -> [Self; 2] {
        [
            Self::short(number_length, payload),
            Self::long(version, LongType::Handshake, number_length, payload),
        ]
    }

    /// Fills the room for number and tag with 0xa5, so that octets that are not written show.
    fn with_payload(mut self, payload: &[u8]) -> Self {
        self.octets.resize(self.octets.len() + self.number_length.octets(), 0xa5);
        self.octets.extend_from_slice(payload);
        self.octets.resize(self.octets.len() + TAG, 0xa5);
        self
    }

    pub(crate) fn outgoing(&mut self) -> Outgoing<'_> {
        let Self { octets, number_offset, number_length, .. } = self;
        Outgoing { packet: octets, number_offset: *number_offset, number_length: *number_length }
    }

    pub(crate) fn payload_offset(&self) -> usize {
        self.number_offset + self.number_length.octets()
    }
}

/// The first packet of a datagram for [`DESTINATION`].
pub(crate) fn protected(datagram: &mut [u8]) -> Protected<'_> {
    Protected::split_first(datagram, DESTINATION.len()).unwrap().0
}

/// A copy of a packet with one bit flipped in its last octet.
pub(crate) fn forged(packet: &[u8]) -> Vec<u8> {
    let mut forged = packet.to_vec();
    *forged.last_mut().unwrap() ^= 1;
    forged
}

/// A copy of an opened packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) number: u64,
    pub(crate) key_phase: bool,
    pub(crate) generation: u64,
    pub(crate) header: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

impl From<Opened<'_>> for Received {
    fn from(opened: Opened<'_>) -> Self {
        Self {
            number: opened.number,
            key_phase: opened.key_phase,
            generation: opened.generation,
            header: opened.header().to_vec(),
            payload: opened.payload.to_vec(),
        }
    }
}

/// Keys that open packets, with the state that a stack keeps for them.
pub(crate) trait Receiver {
    fn open_parsed(&mut self, packet: Protected<'_>) -> Result<Received, OpenError>;

    /// Opens in place.
    fn open_in(&mut self, packet: &mut [u8]) -> Result<Received, OpenError> {
        self.open_parsed(protected(packet))
    }

    /// Opens a copy.
    fn open(&mut self, packet: &[u8]) -> Result<Received, OpenError> {
        self.open_in(&mut packet.to_vec())
    }

    fn failures(&self) -> u64;
}

/// The receiving end of a level without updates.
pub(crate) struct Level {
    pub(crate) keys: Keys,
    pub(crate) space: ReceiveSpace,
    pub(crate) failures: AuthenticationFailures,
}

impl Level {
    pub(crate) fn new(keys: Keys) -> Self {
        Self { keys, space: ReceiveSpace::new(), failures: AuthenticationFailures::new() }
    }
}

impl Receiver for Level {
    fn open_parsed(&mut self, packet: Protected<'_>) -> Result<Received, OpenError> {
        self.keys.open(packet, &mut self.space, &mut self.failures).map(Received::from)
    }

    fn failures(&self) -> u64 {
        self.failures.count()
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) one_rtt: OneRtt,
    pub(crate) space: ReceiveSpace,
    pub(crate) failures: AuthenticationFailures,
    pub(crate) time: Duration,
}

/// The number of phases with keys: all up to the current one, and the next if its keys are kept. Keys that were derived and dropped do
/// not show.
pub(crate) fn phases_with_keys(one_rtt: &OneRtt) -> u64 {
    let text = format!("{one_rtt:?}");
    let has_next = text.contains("has_next_keys: true");
    assert_ne!(has_next, text.contains("has_next_keys: false"));
    one_rtt.generation() + 1 + u64::from(has_next)
}

/// The state that a packet that is not authentic must not change: generation, key phase, phases_with_keys, expiry of old keys, and largest
/// number.
pub(crate) type Phases = (u64, bool, u64, Option<Duration>, Option<u64>);

impl End {
    pub(crate) fn now(&self) -> Now {
        Now { time: self.time, probe_timeout: PROBE_TIMEOUT }
    }

    pub(crate) fn phases(&self) -> Phases {
        let Self { one_rtt, space, .. } = self;
        let (generation, key_phase) = (one_rtt.generation(), one_rtt.key_phase());
        (generation, key_phase, phases_with_keys(one_rtt), one_rtt.expires(), space.largest())
    }

    /// Seals a payload with a packet number of four octets.
    pub(crate) fn seal(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut draft = Draft::short(NumberLength::Four, payload);
        self.one_rtt.seal(draft.outgoing()).unwrap();
        draft.octets
    }

    /// Acknowledges everything up to the largest number received to `peer`, which must accept it.
    pub(crate) fn acknowledge_to(&mut self, peer: &mut Self) {
        let largest = self.space.largest().unwrap();
        let packet = self.seal(b"ACK frame");
        let received = peer.open(&packet).unwrap();
        peer.one_rtt.acknowledged(largest, received.generation, peer.now()).unwrap();
    }
}

impl Receiver for End {
    fn open_parsed(&mut self, packet: Protected<'_>) -> Result<Received, OpenError> {
        let now = self.now();
        self.one_rtt.open(packet, now, &mut self.space, &mut self.failures).map(Received::from)
    }

    fn failures(&self) -> u64 {
        self.failures.count()
    }
}

/// Runs a check for both roles, with every backend, version and AEAD.
pub(crate) fn for_both_roles(check: impl Fn(Suite, Side, End, End)) {
    for suite in suites() {
        for role in Side::BOTH {
            let [ours, theirs] = suite.ends_as(role);
            check(suite, role, ours, theirs);
        }
    }
}

/// Delivers a packet from `end` to `peer`.
pub(crate) fn deliver(end: &mut End, peer: &mut End) -> Received {
    let packet = end.seal(FRAMES);
    peer.open(&packet).unwrap()
}

/// Lets `end` update its keys, the peer answer, and both drop the old ones.
pub(crate) fn update_fully(end: &mut End, peer: &mut End) {
    end.one_rtt.initiate_update(end.time).unwrap();
    deliver(end, peer);
    peer.acknowledge_to(end);
    end.acknowledge_to(peer);
    for end in [end, peer] {
        end.time += 3 * PROBE_TIMEOUT;
        end.one_rtt.expire(end.time);
        assert_eq!(end.one_rtt.expires(), None);
    }
}

/// The number nearest to the expected one that has the given low octets; of two equally near, the higher (RFC 9000 §A.3).
pub(crate) fn nearest(largest: Option<u64>, truncated: u32, length: NumberLength) -> u64 {
    let expected = largest.map_or(0, |largest| i128::from(largest) + 1);
    let window = 1_i128 << (8 * length.octets());
    let low = i128::from(truncated).rem_euclid(window);
    let lowest = expected - window / 2 + 1;
    let number = lowest + (low - lowest).rem_euclid(window);
    let legal = if number < 0 {
        number + window
    } else if number >= 1 << 62 && expected < 1 << 62 {
        number - window
    } else {
        number
    };
    u64::try_from(legal).unwrap()
}

//! The two ends of a connection, with every backend, version and AEAD that there is, and packets between them.

#![allow(dead_code, reason = "every test file uses a part of this")]
#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

pub(crate) mod number;
pub(crate) mod schedule;

use std::time::Duration;

use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, Backend, ConnectionId, Keys, LongHeader, LongType, Now,
    NumberLength, OneRtt, OpenError, Outgoing, PacketNumberCounter, PacketType, Protected, ReceiveSpace,
    Sealer, ShortHeader, TrafficSecret, Version,
};

pub(crate) const TAG: usize = 16;

/// The connection ID that all packets go to.
pub(crate) const DESTINATION: [u8; 8] = [0xd0, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7];

pub(crate) const NUMBER_LENGTHS: [NumberLength; 4] =
    [NumberLength::One, NumberLength::Two, NumberLength::Three, NumberLength::Four];

pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_millis(100);

pub(crate) fn destination() -> ConnectionId {
    ConnectionId::new(&DESTINATION).unwrap()
}

/// Who sends, or holds, something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Side {
    pub(crate) const BOTH: [Self; 2] = [Self::Client, Self::Server];

    pub(crate) fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// What protects a connection.
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

/// Every combination of backend and AEAD, with version 1, for what has nothing to do with versions.
pub(crate) fn suites_of_one_version() -> impl Iterator<Item = Suite> {
    let of =
        |&backend| AeadAlgorithm::ALL.map(|algorithm| Suite { backend, version: Version::V1, algorithm });
    Backend::ALL.iter().flat_map(of)
}

impl Suite {
    /// The octets of the traffic secret of what `sender` sends.
    pub(crate) fn secret_octets(self, sender: Side) -> Vec<u8> {
        let seed = if sender == Side::Client { 0x31 } else { 0xc7 };
        (0..self.algorithm.secret_length() as u8).map(|i| i.wrapping_mul(29) ^ seed).collect()
    }

    pub(crate) fn secret(self, sender: Side) -> TrafficSecret {
        TrafficSecret::new(self.algorithm, &self.secret_octets(sender)).unwrap()
    }

    /// Keys for 1-RTT packets, which are never updated.
    pub(crate) fn keys(self, sender: Side) -> Keys {
        self.keys_for(sender, PacketType::OneRtt)
    }

    pub(crate) fn keys_for(self, sender: Side, packet_type: PacketType) -> Keys {
        Keys::with_backend(self.backend, self.version, packet_type, self.secret(sender))
    }

    /// Seals 1-RTT packets.
    pub(crate) fn sealer(self, sender: Side) -> Sealer {
        self.sealer_for(sender, PacketType::OneRtt)
    }

    pub(crate) fn sealer_for(self, sender: Side, packet_type: PacketType) -> Sealer {
        Sealer::new(self.keys_for(sender, packet_type), PacketNumberCounter::new())
    }

    /// The 1-RTT keys of a connection whose secrets are the first octets of `octets`; nothing is allocated here.
    pub(crate) fn keys_of(self, octets: &[u8]) -> OneRtt {
        let secret =
            || TrafficSecret::new(self.algorithm, &octets[..self.algorithm.secret_length()]).unwrap();
        OneRtt::with_backend(self.backend, self.version, secret(), secret(), PacketNumberCounter::new())
    }

    pub(crate) fn one_rtt(self, of: Side, counter: PacketNumberCounter) -> OneRtt {
        let (local, remote) = (self.secret(of), self.secret(of.other()));
        OneRtt::with_backend(self.backend, self.version, local, remote, counter)
    }

    /// The client and the server, both with a confirmed handshake.
    pub(crate) fn ends(self) -> [End; 2] {
        Side::BOTH.map(|side| {
            let mut end = End::new(self.one_rtt(side, PacketNumberCounter::new()));
            end.one_rtt.confirm_handshake();
            end
        })
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

    /// Room for the number is 0xa5, as is that for the tag: whatever is not written shows.
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

/// What was opened, without the buffer that it lay in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) number: u64,
    pub(crate) key_phase: bool,
    pub(crate) generation: u64,
    pub(crate) payload: Vec<u8>,
}

/// One end, with all that a stack keeps beside the keys.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) one_rtt: OneRtt,
    pub(crate) space: ReceiveSpace,
    pub(crate) failures: AuthenticationFailures,
    pub(crate) time: Duration,
}

/// What no packet that is not authentic may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phases {
    pub(crate) generation: u64,
    pub(crate) key_phase: bool,
    pub(crate) derivations: u64,
    pub(crate) expires: Option<Duration>,
    pub(crate) largest: Option<u64>,
}

impl End {
    pub(crate) fn new(one_rtt: OneRtt) -> Self {
        let (space, failures) = (ReceiveSpace::new(), AuthenticationFailures::new());
        Self { one_rtt, space, failures, time: Duration::ZERO }
    }

    pub(crate) fn now(&self) -> Now {
        Now { time: self.time, probe_timeout: PROBE_TIMEOUT }
    }

    pub(crate) fn phases(&self) -> Phases {
        Phases {
            generation: self.one_rtt.generation(),
            key_phase: self.one_rtt.key_phase(),
            derivations: self.one_rtt.derivations(),
            expires: self.one_rtt.expires(),
            largest: self.space.largest(),
        }
    }

    /// Seals a payload with a packet number of four octets.
    pub(crate) fn seal(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut draft = Draft::short(NumberLength::Four, payload);
        self.one_rtt.seal(draft.outgoing()).unwrap();
        draft.octets
    }

    pub(crate) fn open(&mut self, packet: &[u8]) -> Result<Received, OpenError> {
        let mut copy = packet.to_vec();
        let now = self.now();
        let opened = self.one_rtt.open(protected(&mut copy), now, &mut self.space, &mut self.failures)?;
        Ok(Received {
            number: opened.number,
            key_phase: opened.key_phase,
            generation: opened.generation,
            payload: opened.payload.to_vec(),
        })
    }

    /// An acknowledgment of everything up to the largest number that `self` has received goes to `peer`, which has to
    /// accept it.
    pub(crate) fn acknowledge_to(&mut self, peer: &mut Self) {
        let largest = self.space.largest().unwrap();
        let packet = self.seal(b"ACK frame");
        let received = peer.open(&packet).unwrap();
        peer.one_rtt.acknowledged(largest, received.generation, peer.now()).unwrap();
    }
}

/// Both ends in both roles, with every backend, version and AEAD.
pub(crate) fn for_both_roles(check: impl Fn(Suite, Side, End, End)) {
    for suite in suites() {
        let [client, server] = suite.ends();
        check(suite, Side::Client, client, server);
        let [client, server] = suite.ends();
        check(suite, Side::Server, server, client);
    }
}

/// `peer` gets a packet of `end`.
pub(crate) fn deliver(end: &mut End, peer: &mut End) -> Received {
    let packet = end.seal(b"some frames");
    peer.open(&packet).unwrap()
}

/// Lets `end` update its keys, the peer answer, and both throw the old ones away.
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

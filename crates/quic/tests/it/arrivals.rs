//! Whatever arrives, in whatever order: each packet gets its verdict, a refused one leaves no plaintext, and the octets around it are
//! unchanged.

use proptest::prelude::*;
use proptest::sample::select;
use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, Backend, LongType, NumberLength, OpenError, PacketType, Version,
};

use crate::support::schedule::{PHASE, Schedule, seal_as_given};
use crate::support::{Draft, End, Level, NUMBER_LENGTHS, Receiver, Side, Suite, TAG, suites};

/// What happened to a packet on its way, or what its sender did wrong.
#[derive(Clone, Debug)]
enum Kind {
    Good,
    /// One bit is flipped, among the masked bits or after them.
    Flipped(usize),
    /// Cut this many octets after the start of the number.
    Cut(usize),
    /// Protected by other keys.
    Foreign,
    /// An earlier packet again: this many before the latest.
    Again(usize),
    /// The peer set a reserved bit.
    Reserved,
    /// Protected by the keys of the previous phase.
    Previous,
    /// Protected by the keys of the next phase.
    Next,
    /// With the other header form, so not a packet for these keys.
    OtherLevel,
    /// Not a packet.
    Noise(u8),
}

/// A packet as it arrives.
#[derive(Clone, Debug)]
struct Arrival {
    kind: Kind,
    length: usize,
    number_length: NumberLength,
    /// How far its number is below the latest, if it is late.
    late: Option<u64>,
}

fn number_lengths() -> impl Strategy<Value = NumberLength> {
    prop::sample::select(NUMBER_LENGTHS.to_vec())
}

/// Payload lengths, at least 3 octets, so that every packet has a sample.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 3..40_usize, 2 => 3..300_usize, 1 => 1100..1300_usize]
}

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let kind = prop_oneof![
        12 => Just(Kind::Good),
        3 => any::<usize>().prop_map(Kind::Flipped),
        1 => any::<usize>().prop_map(Kind::Cut),
        1 => Just(Kind::Foreign),
        2 => (0..20_usize).prop_map(Kind::Again),
        1 => Just(Kind::Reserved),
        2 => Just(Kind::Previous),
        1 => Just(Kind::Next),
        1 => Just(Kind::OtherLevel),
        1 => any::<u8>().prop_map(Kind::Noise),
    ];
    let late = prop_oneof![6 => Just(None), 1 => (0..20_u64).prop_map(Some)];
    let arrival = (kind, lengths(), number_lengths(), late)
        .prop_map(|(kind, length, number_length, late)| Arrival { kind, length, number_length, late });
    prop::collection::vec(arrival, 0..40)
}

/// A payload without zeros.
fn payload(length: usize, seed: u64) -> Vec<u8> {
    (0..length).map(|at| (at as u64 * 7 + seed * 13) as u8 | 1).collect()
}

/// A packet, where its number is, and the payload that was sealed in it.
#[derive(Clone, Debug)]
struct Packet {
    octets: Vec<u8>,
    number_offset: usize,
    payload: Vec<u8>,
}

/// A peer that sends packets of any kind.
#[derive(Debug)]
struct Peer {
    suite: Suite,
    schedule: Schedule,
    foreign: Schedule,
    /// Whether its packets are of the Handshake level, which has no phases.
    is_long: bool,
    next: u64,
    sent: Vec<Packet>,
}

impl Peer {
    fn new(suite: Suite, is_long: bool) -> Self {
        let [schedule, foreign] = Side::BOTH.map(|side| Schedule::new(suite, side));
        Self { suite, schedule, foreign, is_long, next: 0, sent: Vec::new() }
    }

    fn draft(&self, is_long: bool, length: NumberLength, payload: &[u8]) -> Draft {
        if is_long {
            Draft::long(self.suite.version, LongType::Handshake, length, payload)
        } else {
            Draft::short(length, payload)
        }
    }

    /// The packet that arrives while the receiving end is in the phase `generation`.
    fn packet(&mut self, arrival: &Arrival, generation: u64) -> Packet {
        let Arrival { kind, length, number_length, late } = arrival;
        let number = match late {
            Some(late) => self.next.saturating_sub(*late),
            None => self.next,
        };
        self.next = self.next.max(number + 1);
        let generation = match kind {
            _ if self.is_long => 0,
            Kind::Previous => generation.saturating_sub(1),
            Kind::Next => generation + 1,
            _ => generation,
        };
        let is_long = self.is_long != matches!(kind, Kind::OtherLevel);
        let payload = payload(*length, number);
        let draft = self.draft(is_long, *number_length, &payload);
        let number_offset = draft.number_offset;
        let phase = if generation % 2 == 1 && !is_long { PHASE } else { 0 };
        let reserved = match kind {
            Kind::Reserved if is_long => 0x08,
            Kind::Reserved => 0x10,
            _ => 0,
        };
        let keys = if matches!(kind, Kind::Foreign) { &mut self.foreign } else { &mut self.schedule };
        let (key, header_key) = (keys.packet_key(generation), self.schedule.header_key());
        let mut octets = seal_as_given(&key, &header_key, draft, phase | reserved, number);
        match kind {
            // Another bit might turn it into another kind of packet.
            Kind::Flipped(bit) => match bit % (4 + 8 * (octets.len() - number_offset)) {
                bit @ 0..4 => octets[0] ^= 1 << bit,
                bit => octets[number_offset + (bit - 4) / 8] ^= 1 << (bit % 8),
            },
            // A truncated packet with a long header cannot be parsed.
            Kind::Cut(length) if !is_long => {
                octets.truncate(number_offset + length % (octets.len() - number_offset));
            }
            Kind::Noise(octet) => octets[number_offset..].fill(*octet),
            _ => {}
        }
        let packet = match kind {
            Kind::Again(before) if *before < self.sent.len() => {
                self.sent[self.sent.len() - 1 - before].clone()
            }
            _ => Packet { octets, number_offset, payload },
        };
        self.sent.push(packet.clone());
        packet
    }

    fn integrity_limit(&self) -> u64 {
        self.suite.algorithm.integrity_limit()
    }

    /// Where the header of a packet for these keys ends, found by removing the mask.
    fn header_end(&self, Packet { octets, number_offset, .. }: &Packet) -> usize {
        let sample = octets[number_offset + 4..].first_chunk().unwrap();
        number_offset + usize::from((octets[0] ^ self.schedule.header_key().mask(sample)[0]) & 0x03) + 1
    }
}

/// Opens a packet that lies between other octets, checks what is left in the buffer, and returns number and generation.
fn open(receiver: &mut dyn Receiver, peer: &Peer, packet: &Packet) -> Result<(u64, u64), OpenError> {
    const AROUND: [u8; 3] = [0x5a; 3];
    let was_exceeded = receiver.failures() > peer.integrity_limit();
    let mut buffer = [&AROUND[..], &packet.octets, &AROUND].concat();
    let end = AROUND.len() + packet.octets.len();
    let verdict = receiver.open_in(&mut buffer[AROUND.len()..end]).map(|received| {
        assert_eq!(received.payload, packet.payload);
        (received.number, received.generation)
    });
    assert_eq!((&buffer[..AROUND.len()], &buffer[end..]), (&AROUND[..], &AROUND[..]));
    if let Err(error) = verdict {
        let (from, expected) = left(peer, packet, error, was_exceeded);
        assert_eq!(buffer[AROUND.len()..end][from..], expected[from..], "{error:?}");
    }
    verdict
}

/// What a refused packet must look like, and from which octet on.
fn left(peer: &Peer, packet: &Packet, error: OpenError, was_exceeded: bool) -> (usize, Vec<u8>) {
    let mut left = packet.octets.clone();
    match error {
        OpenError::Undecryptable => (0, left),
        OpenError::IntegrityLimit if was_exceeded => (0, left),
        // Header and tag are unchanged.
        OpenError::AuthenticationFailed | OpenError::IntegrityLimit => {
            let tag = left.len() - TAG;
            left[peer.header_end(packet)..tag].fill(0);
            (0, left)
        }
        // The header is unmasked.
        _ => {
            let from = peer.header_end(packet);
            left[from..].fill(0);
            (from, left)
        }
    }
}

/// Receives everything in order; `generation` returns the receiver's phase.
fn receive<R: Receiver>(
    mut receiver: R,
    mut peer: Peer,
    arrivals: &[Arrival],
    generation: impl Fn(&R) -> u64,
    largest: impl Fn(&R) -> Option<u64>,
) {
    for arrival in arrivals {
        let packet = peer.packet(arrival, generation(&receiver));
        let (failures, before) = (receiver.failures(), largest(&receiver));
        let verdict = open(&mut receiver, &peer, &packet);
        assert!(receiver.failures() - failures <= 1);
        let expected = verdict.map_or(before, |(number, _)| before.max(Some(number)));
        assert_eq!(largest(&receiver), expected);
    }
}

/// How many packets may still fail: more than ever will, or so few that the limit is reached.
fn failures_left() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(100_000), 1 => 0..6_u64]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn q_25_nothing_that_arrives_leaves_plaintext_unless_it_is_opened(
        version in select(Version::ALL.to_vec()),
        algorithm in select(AeadAlgorithm::ALL.to_vec()),
        is_long: bool,
        arrivals in arrivals(),
        failures_left in failures_left(),
    ) {
        for &backend in Backend::ALL {
            let suite = Suite { backend, version, algorithm };
            let peer = Peer::new(suite, is_long);
            let failures = AuthenticationFailures::from_count(peer.integrity_limit() - failures_left);
            if is_long {
                let level = Level { failures, ..suite.level(PacketType::Handshake) };
                receive(level, peer, &arrivals, |_| 0, |level| level.space.largest());
            } else {
                let end = End { failures, ..suite.end(Side::Server) };
                receive(end, peer, &arrivals, |end| end.one_rtt.generation(), |end| end.space.largest());
            }
        }
    }
}

/// Packets of every kind in turn, and the verdict for each. Levels without key updates get those before the first update.
#[test]
fn q_25_every_kind_of_packet_gets_its_verdict_and_leaves_no_plaintext() {
    use OpenError::{AuthenticationFailed, Duplicate, KeyUpdate, ReservedBits, Undecryptable};
    let kinds = [
        (Kind::Good, Ok(0)),
        (Kind::Flipped(2), Err(AuthenticationFailed)),
        (Kind::Flipped(4 + 8 * 3), Err(AuthenticationFailed)),
        (Kind::Flipped(4 + 8 * 9), Err(AuthenticationFailed)),
        (Kind::Flipped(4 + 8 * 50), Err(AuthenticationFailed)),
        (Kind::Cut(19), Err(Undecryptable)),
        (Kind::Cut(20), Err(AuthenticationFailed)),
        (Kind::Again(6), Err(Duplicate)),
        (Kind::Foreign, Err(AuthenticationFailed)),
        (Kind::Reserved, Err(ReservedBits)),
        (Kind::OtherLevel, Err(Undecryptable)),
        (Kind::Noise(0), Err(AuthenticationFailed)),
        (Kind::Good, Ok(0)),
        (Kind::Next, Ok(1)),
        (Kind::Good, Err(KeyUpdate)),
        (Kind::Next, Ok(1)),
        (Kind::Again(15), Err(Duplicate)),
        (Kind::Foreign, Err(AuthenticationFailed)),
        (Kind::Reserved, Err(KeyUpdate)),
        (Kind::Flipped(4 + 8 * 40), Err(AuthenticationFailed)),
        (Kind::Next, Ok(1)),
    ];
    for suite in suites() {
        for (number_length, length) in NUMBER_LENGTHS
            .into_iter()
            .flat_map(|number_length| [36, 300, 1200].map(|length| (number_length, length)))
        {
            let mut end = suite.end(Side::Server);
            assert_verdicts(&mut end, Peer::new(suite, false), &kinds, number_length, length);
            assert_eq!(end.space.largest(), Some(20), "{suite:?}");
            for (packet_type, is_long) in [(PacketType::OneRtt, false), (PacketType::Handshake, true)] {
                let mut level = suite.level(packet_type);
                let before_the_update = &kinds[..13];
                assert_verdicts(
                    &mut level,
                    Peer::new(suite, is_long),
                    before_the_update,
                    number_length,
                    length,
                );
                assert_eq!(level.space.largest(), Some(12), "{suite:?}");
            }
        }
    }
}

/// Opens a packet of each kind, with numbers from 0 on: it opens with the given generation, or fails as given.
fn assert_verdicts(
    receiver: &mut dyn Receiver,
    mut peer: Peer,
    kinds: &[(Kind, Result<u64, OpenError>)],
    number_length: NumberLength,
    length: usize,
) {
    let mut failures = 0;
    for (number, (kind, expected)) in (0..).zip(kinds) {
        let arrival = Arrival { kind: kind.clone(), length, number_length, late: None };
        let packet = peer.packet(&arrival, 0);
        // A packet with a long header is not cut.
        let expected = if matches!(kind, Kind::Cut(_)) && peer.is_long { Ok(0) } else { *expected };
        failures += u64::from(expected == Err(OpenError::AuthenticationFailed));
        let expected = expected.map(|generation| (number, generation));
        assert_eq!(open(receiver, &peer, &packet), expected, "{peer:?} {number}");
    }
    assert_eq!(receiver.failures(), failures, "{peer:?}");
}

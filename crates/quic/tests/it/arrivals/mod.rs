//! Whatever arrives, in whatever order: each packet gets its verdict, leaves no plaintext if it is refused, and changes nothing
//! around it.

mod peer;

use peer::{Arrival, Kind, Packet, Peer, arrivals};
use proptest::prelude::*;
use proptest::sample::select;
use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, Backend, NumberLength, OpenError, PacketType, Version,
};

use crate::support::{End, Level, NUMBER_LENGTHS, Receiver, Side, Suite, TAG, suites};

/// Opens a packet between other octets, checks what is left there, and returns the number and the generation.
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

/// What a refused packet must look like, and from where on.
fn left(peer: &Peer, packet: &Packet, error: OpenError, was_exceeded: bool) -> (usize, Vec<u8>) {
    let mut left = packet.octets.clone();
    match error {
        OpenError::Undecryptable => (0, left),
        OpenError::IntegrityLimit if was_exceeded => (0, left),
        // Header and tag as they were.
        OpenError::AuthenticationFailed | OpenError::IntegrityLimit => {
            let tag = left.len() - TAG;
            left[peer.header_end(packet)..tag].fill(0);
            (0, left)
        }
        // The header has lost its mask.
        OpenError::ReservedBits | OpenError::NoFrames | OpenError::Duplicate | OpenError::KeyUpdate => {
            let from = peer.header_end(packet);
            left[from..].fill(0);
            (from, left)
        }
    }
}

/// Receives everything in order; `generation` tells in which phase the receiver is.
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

/// How many packets may still fail: more than ever do, or so few that the limit is met.
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

/// One packet of every kind after another, and its verdict. Levels without updates get those before the first update.
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

/// Opens a packet of each kind, with numbers from 0 on: it is of the generation or fails as given.
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
        // One with a long header is not cut.
        let expected = if matches!(kind, Kind::Cut(_)) && peer.is_long { Ok(0) } else { *expected };
        failures += u64::from(expected == Err(OpenError::AuthenticationFailed));
        let expected = expected.map(|generation| (number, generation));
        assert_eq!(open(receiver, &peer, &packet), expected, "{peer:?} {number}");
    }
    assert_eq!(receiver.failures(), failures, "{peer:?}");
}

//! Whatever arrives, in whatever order: each packet gets the verdict it should, leaves no plaintext if it is refused, and
//! nothing around it changes.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

mod ends;
#[path = "arrivals/peer.rs"]
mod peer;

use ends::{PROBE_TIMEOUT, Side, Suite, TAG, protected, suites};
use peer::{Arrival, Kind, Packet, Peer, arrivals};
use proptest::prelude::*;
use proptest::sample::select;
use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, Backend, Keys, NumberLength, OneRtt, OpenError,
    PacketNumberCounter, PacketType, ReceiveSpace, Version,
};

/// The receiving end's keys: those of 1-RTT, or of a level without updates.
enum Receiver {
    OneRtt(OneRtt),
    Level(Keys),
}

struct End {
    receiver: Receiver,
    space: ReceiveSpace,
    failures: AuthenticationFailures,
}

impl End {
    fn new(suite: Suite, is_long: bool, failures: u64) -> Self {
        let receiver = if is_long {
            Receiver::Level(suite.keys_for(Side::Client, PacketType::Handshake))
        } else {
            Receiver::OneRtt(suite.one_rtt(Side::Server, PacketNumberCounter::new()))
        };
        let failures = AuthenticationFailures::from_count(failures);
        Self { receiver, space: ReceiveSpace::new(), failures }
    }

    fn generation(&self) -> u64 {
        if let Receiver::OneRtt(keys) = &self.receiver { keys.generation() } else { 0 }
    }

    /// Opens a packet between other octets, checks what is left there, and returns the number and the generation.
    fn open(&mut self, peer: &Peer, packet: &Packet) -> Result<(u64, u64), OpenError> {
        const AROUND: [u8; 3] = [0x5a; 3];
        let was_exceeded = self.failures.count() > peer.integrity_limit();
        let mut buffer = [&AROUND[..], &packet.octets, &AROUND].concat();
        let end = AROUND.len() + packet.octets.len();
        let parsed = protected(&mut buffer[AROUND.len()..end]);
        let now = wireseal_quic::Now { time: PROBE_TIMEOUT, probe_timeout: PROBE_TIMEOUT };
        let opened = match &mut self.receiver {
            Receiver::OneRtt(keys) => keys.open(parsed, now, &mut self.space, &mut self.failures),
            Receiver::Level(keys) => keys.open(parsed, &mut self.space, &mut self.failures),
        };
        let verdict = opened.map(|opened| {
            assert_eq!(*opened.payload, packet.payload);
            (opened.number, opened.generation)
        });
        assert_eq!((&buffer[..AROUND.len()], &buffer[end..]), (&AROUND[..], &AROUND[..]));
        if let Err(error) = verdict {
            let (from, expected) = left(peer, packet, error, was_exceeded);
            assert_eq!(buffer[AROUND.len()..end][from..], expected[from..], "{error:?}");
        }
        verdict
    }
}

/// What has to be in the place of a packet that was not opened, and from where on.
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
        OpenError::ReservedBits | OpenError::Duplicate | OpenError::KeyUpdate => {
            let from = peer.header_end(packet);
            left[from..].fill(0);
            (from, left)
        }
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
            let mut peer = Peer::new(Suite { backend, version, algorithm }, is_long);
            let mut end = End::new(Suite { backend, version, algorithm }, is_long, peer.integrity_limit() - failures_left);
            for arrival in &arrivals {
                let packet = peer.packet(arrival, end.generation());
                let (failures, largest) = (end.failures.count(), end.space.largest());
                let verdict = end.open(&peer, &packet);
                let failed = u64::from(end.failures.count() != failures);
                prop_assert_eq!(end.failures.count(), failures + failed);
                let expected = verdict.map_or(largest, |(number, _)| largest.max(Some(number)));
                prop_assert_eq!(end.space.largest(), expected);
            }
        }
    }
}

/// One packet of every kind after another, and what has to become of each.
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
    let failures = kinds.iter().filter(|(_, expected)| *expected == Err(AuthenticationFailed)).count();
    for suite in suites() {
        for length in [36, 300, 1200] {
            let (mut peer, mut end) = (Peer::new(suite, false), End::new(suite, false, 0));
            for (number, (kind, expected)) in (0..).zip(&kinds) {
                let arrival =
                    Arrival { kind: kind.clone(), length, number_length: NumberLength::Two, late: None };
                let packet = peer.packet(&arrival, 0);
                let expected = expected.map(|generation| (number, generation));
                assert_eq!(end.open(&peer, &packet), expected, "{suite:?} {number}");
            }
            assert_eq!((end.failures.count(), end.space.largest()), (failures as u64, Some(20)), "{suite:?}");
        }
    }
}

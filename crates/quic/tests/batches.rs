//! Batches are what the calls one by one would have been, whatever is in a train: the same octets, results, counters and key
//! phases.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

#[path = "batches/arrival.rs"]
mod arrival;
mod ends;

use arrival::{Arrival, Buffer, Kind, Packet, Peer, arrivals, lengths, number_lengths, payload};
use ends::{Draft, End, PROBE_TIMEOUT, Received, Side, Suite, TAG, protected, suites};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, Backend, Keys, LongType, MAX_PACKET_NUMBER, NumberLength,
    OpenError, Opened, PacketNumberCounter, PacketType, Protected, ReceiveSpace, SealError, Sealer, Version,
};

/// How packets that have arrived are opened.
#[derive(Clone, Debug)]
enum Way {
    /// One by one, the first so many.
    Singly(usize),
    /// By `open_batch`, of which so many are taken.
    Batch(usize),
    /// One by one, with the masks of some of them made together before.
    Masks(Vec<bool>),
}

/// What became of a packet; with its type and header, if it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fate(Result<(Received, PacketType, Vec<u8>), OpenError>);

impl From<Result<Opened<'_>, OpenError>> for Fate {
    fn from(result: Result<Opened<'_>, OpenError>) -> Self {
        Self(result.map(|opened| {
            let Opened { number, packet_type, key_phase, generation, header, payload, .. } = opened;
            let received = Received { number, key_phase, generation, payload: payload.to_vec() };
            (received, packet_type, header.to_vec())
        }))
    }
}

/// The receiving end, with keys of either kind.
trait Receiver {
    fn open(&mut self, packet: Protected<'_>) -> Fate;
    fn open_batch(&mut self, packets: Vec<Protected<'_>>, taken: usize) -> Vec<Fate>;
    fn unmask_batch<'p, 'a: 'p>(&self, packets: impl IntoIterator<Item = &'p mut Protected<'a>>);
    /// How many packets have failed, and the largest number of one that was opened.
    fn counters(&self) -> (u64, Option<u64>);

    /// Opens the packets of the buffer where they lie.
    fn receive(&mut self, way: &Way, buffer: &mut Buffer) -> Vec<Fate> {
        let mut packets: Vec<_> = buffer.packets().into_iter().map(protected).collect();
        match way {
            Way::Singly(taken) => packets.into_iter().take(*taken).map(|packet| self.open(packet)).collect(),
            Way::Batch(taken) => self.open_batch(packets, *taken),
            Way::Masks(together) => {
                let chosen = packets.iter_mut().zip(together.iter().cycle());
                self.unmask_batch(chosen.filter_map(|(packet, chosen)| chosen.then_some(packet)));
                packets.into_iter().map(|packet| self.open(packet)).collect()
            }
        }
    }
}

impl Receiver for End {
    fn open(&mut self, packet: Protected<'_>) -> Fate {
        let now = self.now();
        self.one_rtt.open(packet, now, &mut self.space, &mut self.failures).into()
    }

    fn open_batch(&mut self, packets: Vec<Protected<'_>>, taken: usize) -> Vec<Fate> {
        let now = self.now();
        let opened = self.one_rtt.open_batch(packets, now, &mut self.space, &mut self.failures);
        opened.take(taken).map(Fate::from).collect()
    }

    fn unmask_batch<'p, 'a: 'p>(&self, packets: impl IntoIterator<Item = &'p mut Protected<'a>>) {
        self.one_rtt.unmask_batch(packets);
    }

    fn counters(&self) -> (u64, Option<u64>) {
        (self.failures.count(), self.space.largest())
    }
}

/// The keys of a level without updates, with what a stack keeps beside them.
struct Level {
    keys: Keys,
    space: ReceiveSpace,
    failures: AuthenticationFailures,
}

impl Receiver for Level {
    fn open(&mut self, packet: Protected<'_>) -> Fate {
        self.keys.open(packet, &mut self.space, &mut self.failures).into()
    }

    fn open_batch(&mut self, packets: Vec<Protected<'_>>, taken: usize) -> Vec<Fate> {
        let opened = self.keys.open_batch(packets, &mut self.space, &mut self.failures);
        opened.take(taken).map(Fate::from).collect()
    }

    fn unmask_batch<'p, 'a: 'p>(&self, packets: impl IntoIterator<Item = &'p mut Protected<'a>>) {
        self.keys.unmask_batch(packets);
    }

    fn counters(&self) -> (u64, Option<u64>) {
        (self.failures.count(), self.space.largest())
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

/// Receives the same packets by one receiver one by one and by the other otherwise, and returns what became of them.
fn compare<R: Receiver>(
    peer: &Peer,
    packets: &[Packet],
    [singly, otherwise]: [&mut R; 2],
    way: &Way,
) -> Result<Vec<Fate>, TestCaseError> {
    let mut was_exceeded = singly.counters().0 > peer.integrity_limit();
    let [mut expected, mut buffer] = [Buffer::of(packets), Buffer::of(packets)];
    let fates = otherwise.receive(way, &mut buffer);
    let count = if let Way::Batch(taken) = way { packets.len().min(*taken) } else { packets.len() };
    prop_assert_eq!(&fates, &singly.receive(&Way::Singly(count), &mut expected));
    prop_assert_eq!(otherwise.counters(), singly.counters());
    // Those that were not taken as well, and what is between them.
    prop_assert_eq!(&buffer, &expected);
    for ((packet, place), fate) in packets.iter().zip(&buffer.places).zip(&fates) {
        if let Err(error) = fate.0 {
            let (from, left) = left(peer, packet, error, was_exceeded);
            prop_assert_eq!(&buffer.octets[place.clone()][from..], &left[from..], "{:?}", error);
            was_exceeded |= error == OpenError::IntegrityLimit;
        }
    }
    Ok(fates)
}

/// What an endpoint does with its 1-RTT keys.
#[derive(Clone, Debug)]
enum Step {
    Receive(Vec<Arrival>, Way),
    Seal(Vec<(usize, NumberLength)>),
    Update,
    /// All that was sealed so far is acknowledged.
    Acknowledge,
    /// So many probe timeouts go by.
    Wait(u32),
}

fn ways() -> impl Strategy<Value = Way> {
    prop_oneof![
        2 => Just(Way::Batch(usize::MAX)),
        1 => (0..40_usize).prop_map(Way::Batch),
        1 => prop::collection::vec(any::<bool>(), 1..20).prop_map(Way::Masks),
    ]
}

fn trains() -> impl Strategy<Value = Vec<(usize, NumberLength)>> {
    prop::collection::vec((lengths(), number_lengths()), 0..40)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (arrivals(), ways()).prop_map(|(arrivals, way)| Step::Receive(arrivals, way)),
        2 => trains().prop_map(Step::Seal),
        1 => Just(Step::Update),
        1 => Just(Step::Acknowledge),
        1 => (0..4_u32).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..8)
}

/// One suite for each backend.
fn suites_of(version: Version, algorithm: AeadAlgorithm) -> impl Iterator<Item = Suite> {
    Backend::ALL.iter().map(move |&backend| Suite { backend, version, algorithm })
}

fn protections() -> impl Strategy<Value = (Version, AeadAlgorithm)> {
    (select(Version::ALL.to_vec()), select(AeadAlgorithm::ALL.to_vec()))
}

/// How many packets may still fail; more than ever do, or so few that the limit is met.
fn failures_left() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(100_000), 1 => 0..6_u64]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Two ends with the same keys: one seals and opens packet by packet, the other in batches, and they stay the same.
    #[test]
    fn q_43_batches_of_one_rtt_are_their_packets_one_by_one(
        (version, algorithm) in protections(),
        steps in steps(),
        failures_left in failures_left(),
    ) {
        for suite in suites_of(version, algorithm) {
            let mut peer = Peer::new(suite, false);
            let [mut singly, mut together] = [(); 2].map(|()| {
                let [_, mut end] = suite.ends();
                end.failures = AuthenticationFailures::from_count(peer.integrity_limit() - failures_left);
                end
            });
            for step in steps.clone().into_iter().chain([Step::Seal(vec![(50, NumberLength::Two)])]) {
                match step {
                    Step::Receive(arrivals, way) => {
                        let generation = singly.one_rtt.generation();
                        let packets: Vec<_> =
                            arrivals.iter().map(|arrival| peer.packet(arrival, generation)).collect();
                        compare(&peer, &packets, [&mut singly, &mut together], &way)?;
                    }
                    Step::Seal(train) => {
                        let mut drafts: Vec<_> = (0..)
                            .zip(&train)
                            .map(|(seed, &(length, number))| Draft::short(number, &payload(length, seed)))
                            .collect();
                        let mut batch = drafts.clone();
                        let first = singly.one_rtt.next_number().unwrap();
                        for (number, draft) in (first..).zip(&mut drafts) {
                            prop_assert_eq!(singly.one_rtt.seal(draft.outgoing()), Ok(number));
                        }
                        let mut outgoing: Vec<_> = batch.iter_mut().map(Draft::outgoing).collect();
                        let numbers = together.one_rtt.seal_batch(&mut outgoing);
                        prop_assert_eq!(numbers, Ok(first..first + train.len() as u64));
                        for (batched, alone) in batch.iter().zip(&drafts) {
                            prop_assert_eq!(&batched.octets, &alone.octets);
                        }
                    }
                    Step::Update => prop_assert_eq!(
                        singly.one_rtt.initiate_update(singly.time),
                        together.one_rtt.initiate_update(together.time)
                    ),
                    Step::Acknowledge => {
                        let [a, b] = [&mut singly, &mut together].map(|end| {
                            let (now, one_rtt) = (end.now(), &mut end.one_rtt);
                            let largest = one_rtt.next_number().unwrap().saturating_sub(1);
                            one_rtt.acknowledged(largest, one_rtt.generation(), now)
                        });
                        prop_assert_eq!(a, b);
                    }
                    Step::Wait(timeouts) => {
                        singly.time += timeouts * PROBE_TIMEOUT;
                        together.time = singly.time;
                    }
                }
                prop_assert_eq!(singly.phases(), together.phases());
                prop_assert_eq!(singly.one_rtt.next_number(), together.one_rtt.next_number());
                prop_assert_eq!(singly.one_rtt.remaining(), together.one_rtt.remaining());
            }
        }
    }

    #[test]
    fn q_43_batches_of_a_level_are_their_packets_one_by_one(
        (version, algorithm) in protections(),
        trains in prop::collection::vec((arrivals(), ways()), 1..4),
        failures_left in failures_left(),
    ) {
        for suite in suites_of(version, algorithm) {
            let mut peer = Peer::new(suite, true);
            let failures = peer.integrity_limit() - failures_left;
            let [mut singly, mut together] = [(); 2].map(|()| Level {
                keys: suite.keys_for(Side::Client, PacketType::Handshake),
                space: ReceiveSpace::new(),
                failures: AuthenticationFailures::from_count(failures),
            });
            for (arrivals, way) in &trains {
                let packets: Vec<_> = arrivals.iter().map(|arrival| peer.packet(arrival, 0)).collect();
                compare(&peer, &packets, [&mut singly, &mut together], way)?;
            }
        }
    }

    /// With any first number; and with a packet among them that cannot be sealed nothing is written, and no number used.
    #[test]
    fn q_23_a_train_is_sealed_whole_or_not_at_all(
        (version, algorithm) in protections(),
        is_long: bool,
        train in trains(),
        first in prop_oneof![0..100_u64, 0..=MAX_PACKET_NUMBER, MAX_PACKET_NUMBER - 40..=MAX_PACKET_NUMBER],
        bad in any::<Index>(),
    ) {
        let packet_type = if is_long { PacketType::Handshake } else { PacketType::OneRtt };
        for suite in suites_of(version, algorithm) {
            let sealer = || {
                let counter = PacketNumberCounter::starting_at(first).unwrap();
                Sealer::new(suite.keys_for(Side::Client, packet_type), counter)
            };
            let mut drafts: Vec<_> = (0..)
                .zip(&train)
                .map(|(seed, &(length, number))| match is_long {
                    true => Draft::long(version, LongType::Handshake, number, &payload(length, seed)),
                    false => Draft::short(number, &payload(length, seed)),
                })
                .collect();
            let (mut singly, mut together) = (sealer(), sealer());
            if !drafts.is_empty() {
                let mut with_bad = drafts.clone();
                bad.get_mut(&mut with_bad).number_offset = 0;
                let before = with_bad.clone();
                let mut outgoing: Vec<_> = with_bad.iter_mut().map(Draft::outgoing).collect();
                prop_assert_eq!(together.seal_batch(&mut outgoing), Err(SealError::NoHeader));
                for (after, before) in with_bad.iter().zip(&before) {
                    prop_assert_eq!(&after.octets, &before.octets);
                }
            }
            let mut batch = drafts.clone();
            let mut outgoing: Vec<_> = batch.iter_mut().map(Draft::outgoing).collect();
            let numbers = together.seal_batch(&mut outgoing);
            if numbers.is_ok() {
                prop_assert_eq!(numbers, Ok(first..first + train.len() as u64));
                for (number, (alone, batched)) in (first..).zip(drafts.iter_mut().zip(&batch)) {
                    prop_assert_eq!(singly.seal(alone.outgoing()), Ok(number));
                    prop_assert_eq!(&batched.octets, &alone.octets);
                }
            } else {
                prop_assert_eq!(numbers, Err(SealError::NumbersExhausted));
                prop_assert!(train.len() as u64 > MAX_PACKET_NUMBER - first + 1);
                for (after, before) in batch.iter().zip(&drafts) {
                    prop_assert_eq!(&after.octets, &before.octets);
                }
            }
            prop_assert_eq!(together.next_number(), singly.next_number());
            prop_assert_eq!(together.remaining(), singly.remaining());
        }
    }
}

/// Every kind of packet in a train that is longer than the masks made at once, and for each what has to become of it.
#[test]
fn q_25_a_batch_leaves_no_plaintext_of_what_it_refuses() {
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
            let mut peer = Peer::new(suite, false);
            let [_, mut end] = suite.ends();
            let packets = kinds.each_ref().map(|(kind, _)| {
                let arrival =
                    Arrival { kind: kind.clone(), length, number_length: NumberLength::Two, late: None };
                peer.packet(&arrival, 0)
            });
            let mut buffer = Buffer::of(&packets);
            let fates = end.receive(&Way::Batch(usize::MAX), &mut buffer);
            assert_eq!(end.counters(), (failures as u64, Some(20)), "{suite:?}");
            for (number, (packet, fate)) in (0..).zip(packets.iter().zip(fates)) {
                let place = &buffer.octets[buffer.places[number].clone()];
                let plaintext = payload(length, number as u64);
                match fate.0 {
                    Ok((received, ..)) => {
                        assert_eq!(
                            (received.number, received.payload),
                            (number as u64, plaintext),
                            "{suite:?}"
                        );
                        assert_eq!(kinds[number].1, Ok(received.generation));
                    }
                    Err(error) => {
                        assert_eq!(kinds[number].1, Err(error), "{suite:?} {number}");
                        let (from, left) = left(&peer, packet, error, false);
                        assert_eq!(place[from..], left[from..], "{suite:?} {number}");
                        assert!(
                            !place.windows(8).any(|octets| plaintext.windows(8).any(|text| octets == text))
                        );
                    }
                }
            }
        }
    }
}

//! Two ends in virtual time. Packets are sent, dropped, reordered, duplicated and altered, and keys updated. A packet opens if and only if
//! it is unaltered, new, and arrives while its keys are kept; and the generations stay together.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::FileFailurePersistence;
use wireseal_quic::{
    AuthenticationFailures, Backend, KeyError, Now, NumberLength, OneRtt, OpenError, PacketNumberCounter,
    Protected, ReceiveSpace,
};

use crate::support::schedule::PHASE;
use crate::support::{DESTINATION, Draft, Side, Suite, nearest, phases_with_keys, suites};

/// An operation at one end. The latency of a packet comes last.
#[derive(Clone, Debug)]
enum Operation {
    /// Packets with payloads of these lengths, each with its own latency.
    Send(Side, Vec<(usize, u64)>),
    Skip(Side, u64),
    Drop(Index),
    Duplicate(Index, u64),
    FlipBit(Index, Index),
    FlipPhase(Index),
    Update(Side),
    UpdateBoth,
    ConfirmHandshake(Side),
    Expire(Side),
    /// Time passes, and packets that are due arrive.
    Advance(u64),
}

fn side() -> impl Strategy<Value = Side> {
    select(Side::BOTH.to_vec())
}

/// Mostly short; now and then longer than old keys are kept.
fn latency() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 1..30_u64, 2 => 1..120_u64, 1 => 1..2000_u64]
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    use Operation::*;
    let operation = prop_oneof![
        18 => (side(), 0..100_usize, latency())
            .prop_map(|(from, length, latency)| Send(from, vec![(length, latency)])),
        4 => (side(), vec((0..100_usize, latency()), 0..24)).prop_map(|(from, packets)| Send(from, packets)),
        1 => (side(), prop_oneof![1..10_u64, 1..3000_u64]).prop_map(|(from, count)| Skip(from, count)),
        1 => any::<Index>().prop_map(Drop),
        3 => (any::<Index>(), latency()).prop_map(|(which, latency)| Duplicate(which, latency)),
        2 => (any::<Index>(), any::<Index>()).prop_map(|(which, bit)| FlipBit(which, bit)),
        2 => any::<Index>().prop_map(FlipPhase),
        5 => side().prop_map(Update),
        2 => Just(UpdateBoth),
        1 => side().prop_map(ConfirmHandshake),
        1 => side().prop_map(Expire),
        12 => (1..60_u64).prop_map(Advance),
    ];
    vec(operation, 1..150)
}

/// The probe timeout, in milliseconds.
const PROBE_TIMEOUT: u64 = 30;

/// What should happen to a packet that arrives as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Opened,
    Duplicate,
    /// Its key is gone, or its number cannot be decoded.
    NotAuthentic,
}

#[derive(Debug)]
struct Model {
    confirmed: bool,
    generation: u64,
    next_number: u64,
    /// The number of the first packet sent in this generation.
    first: Option<u64>,
    /// A packet of this generation was acknowledged.
    acknowledged: bool,
    largest_acknowledged: Option<u64>,
    /// No update before this time.
    update_from: u64,
    received: BTreeSet<u64>,
    /// A packet of this generation was opened.
    opened: bool,
    old_keys: OldKeys,
    failures: u64,
    /// How often keys were derived, and whether those of the next generation exist.
    derivations: u64,
    ready: bool,
    /// How many packets of an older generation were opened.
    opened_late: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OldKeys {
    Gone,
    /// Kept until the peer has answered.
    Kept,
    Until(u64),
}

impl Model {
    fn new(next_number: u64) -> Self {
        Self {
            confirmed: false,
            generation: 0,
            next_number,
            first: None,
            acknowledged: false,
            largest_acknowledged: None,
            update_from: 0,
            received: BTreeSet::new(),
            opened: false,
            old_keys: OldKeys::Gone,
            failures: 0,
            derivations: 2,
            ready: true,
            opened_late: 0,
        }
    }

    fn largest_received(&self) -> Option<u64> {
        self.received.last().copied()
    }

    /// When the old keys will be wiped.
    fn expires(&self) -> Option<u64> {
        if let OldKeys::Until(time) = self.old_keys { Some(time) } else { None }
    }

    fn expire(&mut self, now: u64) {
        if self.expires().is_some_and(|expires| expires <= now) {
            self.old_keys = OldKeys::Gone;
        }
    }

    /// Keys are derived when a packet is sent, and never while one is opened.
    fn prepare(&mut self) {
        self.derivations += u64::from(!self.ready);
        self.ready = true;
    }

    /// Returns the number of the next packet, which is sent.
    fn send(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.first.get_or_insert(number);
        self.prepare();
        number
    }

    /// Starts an update if it may; times in milliseconds.
    fn initiate_update(&mut self, now: u64) -> Result<(), KeyError> {
        if !self.confirmed {
            return Err(KeyError::HandshakeNotConfirmed);
        }
        if self.generation > 0 && !self.acknowledged {
            return Err(KeyError::NotAcknowledged);
        }
        if now < self.update_from {
            return Err(KeyError::TooSoon { from: Duration::from_millis(self.update_from) });
        }
        self.update();
        Ok(())
    }

    fn update(&mut self) {
        self.prepare();
        self.ready = false;
        self.generation += 1;
        self.first = None;
        self.acknowledged = false;
        self.opened = false;
        self.old_keys = OldKeys::Kept;
    }

    fn fate(&self, generation: u64, number: u64, length: NumberLength) -> Fate {
        let has_key = match generation.checked_sub(self.generation) {
            Some(0 | 1) => true,
            Some(_) => panic!("the peer is two generations ahead"),
            None => generation + 1 == self.generation && self.old_keys != OldKeys::Gone,
        };
        let largest = self.largest_received();
        if !has_key || nearest(largest, number as u32, length) != number {
            return Fate::NotAuthentic;
        }
        let too_old = largest.is_some_and(|largest| number + ReceiveSpace::WINDOW <= largest);
        if too_old || self.received.contains(&number) { Fate::Duplicate } else { Fate::Opened }
    }

    /// A packet was opened that acknowledges all up to `largest`.
    fn open(&mut self, generation: u64, number: u64, largest: Option<u64>, now: u64) {
        self.received.insert(number);
        if generation > self.generation {
            self.update();
        }
        if generation == self.generation {
            if !self.opened && self.old_keys == OldKeys::Kept {
                self.old_keys = OldKeys::Until(now + 3 * PROBE_TIMEOUT);
            }
            self.opened = true;
        } else {
            self.opened_late += 1;
        }
        let of_this_generation = largest >= self.first && self.first.is_some();
        if of_this_generation && !self.acknowledged {
            self.acknowledged = true;
            if self.generation > 0 {
                self.update_from = now + 3 * PROBE_TIMEOUT;
            }
        }
        self.largest_acknowledged = self.largest_acknowledged.max(largest);
    }
}

#[derive(Clone, Debug)]
struct InFlight {
    due: u64,
    to: Side,
    generation: u64,
    number: u64,
    number_length: NumberLength,
    /// The largest number that its sender had received, as an ACK frame would say.
    acknowledges: Option<u64>,
    payload: Vec<u8>,
    sent: Vec<u8>,
    octets: Vec<u8>,
}

struct End {
    one_rtt: OneRtt,
    space: ReceiveSpace,
    failures: AuthenticationFailures,
    model: Model,
}

struct Pair {
    now: u64,
    /// Client and server.
    ends: [End; 2],
    flight: Vec<InFlight>,
}

impl Pair {
    fn new(suite: Suite, backends: [Backend; 2], first_numbers: [u64; 2]) -> Self {
        let ends = Side::BOTH.map(|side| {
            let suite = Suite { backend: backends[side as usize], ..suite };
            let first = first_numbers[side as usize];
            End {
                one_rtt: suite.one_rtt(side, PacketNumberCounter::starting_at(first).unwrap()),
                space: ReceiveSpace::new(),
                failures: AuthenticationFailures::new(),
                model: Model::new(first),
            }
        });
        Self { now: 0, ends, flight: Vec::new() }
    }

    fn run(&mut self, operation: Operation) {
        match operation {
            Operation::Send(from, packets) => {
                for (length, latency) in packets {
                    self.send(from, length, latency);
                }
            }
            Operation::Skip(from, count) => {
                let End { one_rtt, model, .. } = &mut self.ends[from as usize];
                one_rtt.skip_numbers(count);
                model.next_number += count;
            }
            Operation::Drop(which) => {
                if !self.flight.is_empty() {
                    self.flight.swap_remove(which.index(self.flight.len()));
                }
            }
            Operation::Duplicate(which, latency) => {
                if !self.flight.is_empty() {
                    let copy = which.get(&self.flight).clone();
                    self.flight.push(InFlight { due: self.now + latency, ..copy });
                }
            }
            Operation::FlipBit(which, bit) => {
                if let Some(octets) = self.octets_in_flight(which) {
                    let bit = bit.index(octets.len() * 8);
                    octets[bit / 8] ^= 0x80 >> (bit % 8);
                }
            }
            Operation::FlipPhase(which) => {
                if let Some(octets) = self.octets_in_flight(which) {
                    octets[0] ^= PHASE;
                }
            }
            Operation::Update(at) => self.update(at),
            Operation::UpdateBoth => Side::BOTH.into_iter().for_each(|at| self.update(at)),
            Operation::ConfirmHandshake(at) => {
                let End { one_rtt, model, .. } = &mut self.ends[at as usize];
                one_rtt.confirm_handshake();
                model.confirmed = true;
            }
            Operation::Expire(at) => {
                let End { one_rtt, model, .. } = &mut self.ends[at as usize];
                one_rtt.expire(Duration::from_millis(self.now));
                model.expire(self.now);
            }
            Operation::Advance(by) => {
                self.now += by;
                let now = self.now;
                let mut due: Vec<_> = self.flight.extract_if(.., |packet| packet.due <= now).collect();
                due.sort_by_key(|packet| packet.due);
                for packet in due {
                    self.ends[packet.to as usize].open(&packet, now);
                }
            }
        }
        self.check();
    }

    fn update(&mut self, at: Side) {
        let End { one_rtt, model, .. } = &mut self.ends[at as usize];
        let expected = model.initiate_update(self.now);
        assert_eq!(one_rtt.initiate_update(Duration::from_millis(self.now)), expected);
    }

    fn octets_in_flight(&mut self, which: Index) -> Option<&mut Vec<u8>> {
        let length = self.flight.len();
        (length != 0).then(|| &mut self.flight[which.index(length)].octets)
    }

    fn send(&mut self, from: Side, length: usize, latency: u64) {
        let End { one_rtt, model, .. } = &mut self.ends[from as usize];
        let acknowledges = model.largest_received();
        let (generation, number) = (model.generation, model.send());
        let mut payload = vec![u8::from(acknowledges.is_some())];
        payload.extend(acknowledges.unwrap_or(0).to_be_bytes());
        payload.resize(payload.len() + length, length as u8);
        let number_length = NumberLength::needed(number, model.largest_acknowledged);
        let advised = NumberLength::advised(number, model.largest_acknowledged);
        assert_eq!(one_rtt.number_length(), advised);
        assert!(number_length <= advised);
        let mut draft = Draft::short(number_length, &payload);
        assert_eq!(one_rtt.seal(draft.outgoing()), Ok(number));
        self.flight.push(InFlight {
            due: self.now + latency,
            to: from.other(),
            generation,
            number,
            number_length,
            acknowledges,
            payload,
            sent: draft.octets.clone(),
            octets: draft.octets,
        });
    }

    /// Each end must report the state of its model.
    fn check(&self) {
        for side in Side::BOTH {
            let End { one_rtt, space, failures, model } = &self.ends[side as usize];
            assert_eq!(one_rtt.generation(), model.generation, "{side:?}");
            assert_eq!(one_rtt.key_phase(), model.generation % 2 == 1);
            assert_eq!(phases_with_keys(one_rtt), model.derivations, "{side:?} has derived keys");
            assert_eq!(one_rtt.expires(), model.expires().map(Duration::from_millis), "{side:?}");
            assert_eq!(one_rtt.next_number(), Some(model.next_number));
            assert_eq!(space.largest(), model.largest_received());
            assert_eq!(failures.count(), model.failures, "{side:?} has counted failures");
        }
        let [client, server] = &self.ends;
        assert!(client.model.generation.abs_diff(server.model.generation) <= 1);
    }
}

impl End {
    fn open(&mut self, packet: &InFlight, now: u64) {
        let Self { one_rtt, space, failures, model } = self;
        let mut octets = packet.octets.clone();
        let Ok((parsed, _)) = Protected::split_first(&mut octets, DESTINATION.len()) else {
            // A flipped header form bit makes it unreadable.
            return assert_ne!(packet.octets, packet.sent);
        };
        model.expire(now);
        let fate = if packet.octets == packet.sent {
            model.fate(packet.generation, packet.number, packet.number_length)
        } else {
            Fate::NotAuthentic
        };
        let time = Duration::from_millis(now);
        let now_as_given = Now { time, probe_timeout: Duration::from_millis(PROBE_TIMEOUT) };
        let verdict = one_rtt.open(parsed, now_as_given, space, failures);
        let opened = match (fate, verdict) {
            (Fate::Opened, Ok(opened)) => opened,
            (Fate::Duplicate, Err(OpenError::Duplicate)) => return,
            (Fate::NotAuthentic, Err(OpenError::AuthenticationFailed)) => {
                model.failures += 1;
                return;
            }
            (expected, got) => panic!("expected {expected:?}, got {got:?} for {packet:?}"),
        };
        assert_eq!((opened.number, opened.generation), (packet.number, packet.generation));
        assert_eq!((opened.key_phase, &*opened.payload), (packet.generation % 2 == 1, &packet.payload[..]));
        let generation = opened.generation;
        if let Some(largest) = packet.acknowledges {
            assert_eq!(one_rtt.acknowledged(largest, generation, now_as_given), Ok(()));
        }
        model.open(packet.generation, packet.number, packet.acknowledges, now);
    }
}

fn first_number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..0x100_u64, 0xff00..0x1_0100_u64, 0..0x7000_0000_u64]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1500,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("tests/it/pair.txt"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn q_35_a_packet_opens_exactly_when_it_should(
        suite in select(suites().collect::<Vec<_>>()),
        other_backend in select(Backend::ALL),
        first_numbers in [first_number(), first_number()],
        confirmed: bool,
        operations in operations(),
    ) {
        let mut pair = Pair::new(suite, [suite.backend, other_backend], first_numbers);
        if confirmed {
            Side::BOTH.into_iter().for_each(|at| pair.run(Operation::ConfirmHandshake(at)));
        }
        for operation in operations {
            pair.run(operation);
        }
        // At the end everything in flight arrives, however late.
        pair.run(Operation::Advance(10_000));
    }
}

/// A case found by random operations: both ends update when the old keys expire.
#[test]
fn q_35_both_update_when_the_old_keys_have_expired() {
    use Operation::{Advance, ConfirmHandshake, Send, Update, UpdateBoth};
    for suite in suites() {
        let mut pair = Pair::new(suite, [suite.backend; 2], [0, 0]);
        let send = |from| [Send(from, vec![(0, 1)]), Advance(1)];
        let start = [ConfirmHandshake(Side::Client), ConfirmHandshake(Side::Server), Update(Side::Client)];
        let operations =
            start.into_iter().chain([Side::Client, Side::Server, Side::Client].into_iter().flat_map(send));
        operations.chain([Advance(89), UpdateBoth]).for_each(|operation| pair.run(operation));
    }
}

/// The same for a connection that updates its keys whenever it may, over a path that loses and delays packets.
#[test]
fn q_35_a_long_connection_updates_a_thousand_times() {
    let mut opened_late = 0;
    for suite in suites() {
        let mut pair = Pair::new(suite, [suite.backend, Backend::active()], [0, 0]);
        Side::BOTH.into_iter().for_each(|at| pair.run(Operation::ConfirmHandshake(at)));
        let rounds = if suite.backend == Backend::active() { 1000 } else { 50 };
        for round in 0_u64.. {
            for from in Side::BOTH {
                let latency = 1 + (round * 7 + from as u64 * 3) % 40;
                pair.run(Operation::Send(from, vec![(20, latency), (10, 60)]));
            }
            match round % 5 {
                0 => pair.run(Operation::UpdateBoth),
                by => pair.run(Operation::Update(Side::BOTH[by as usize % 2])),
            }
            pair.run(Operation::Advance(23));
            if pair.ends[0].model.generation > rounds {
                break;
            }
            assert!(round < 20 * rounds, "updates stall at {}", pair.ends[0].model.generation);
        }
        for End { model, .. } in &pair.ends {
            assert_eq!(model.failures, 0, "no packet came later than old keys live");
            opened_late += model.opened_late;
        }
    }
    assert!(opened_late > 10_000, "{opened_late} packets were opened with old keys");
}

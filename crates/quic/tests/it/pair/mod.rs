//! Two ends in virtual time. Whatever is sent, dropped, reordered, duplicated, altered and rekeyed: a packet opens if and only if
//! it is unaltered, new, and not older than the old keys live; and the generations stay together.

mod model;
mod operation;

use std::time::Duration;

use model::{Fate, Model, PROBE_TIMEOUT};
use operation::{Operation, operations};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::sample::select;
use proptest::test_runner::FileFailurePersistence;
use wireseal_quic::{
    AuthenticationFailures, Backend, Now, NumberLength, OneRtt, OpenError, PacketNumberCounter, Protected,
    ReceiveSpace,
};

use crate::support::schedule::PHASE;
use crate::support::{DESTINATION, Draft, Side, Suite, derivations, suites};

/// A packet in flight.
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

    /// Each end reports what the model has.
    fn check(&self) {
        for side in Side::BOTH {
            let End { one_rtt, space, failures, model } = &self.ends[side as usize];
            assert_eq!(one_rtt.generation(), model.generation, "{side:?}");
            assert_eq!(one_rtt.key_phase(), model.generation % 2 == 1);
            assert_eq!(derivations(one_rtt), model.derivations, "{side:?} has derived keys");
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
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("tests/it/pair/regressions.txt"))),
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
        // In the end everything in flight arrives, however late.
        pair.run(Operation::Advance(10_000));
    }
}

/// The same for a connection that updates its keys whenever it may, over a path that loses and delays.
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

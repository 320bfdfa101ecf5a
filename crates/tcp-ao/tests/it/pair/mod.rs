//! A pair of ends in virtual time. Segments are sent, dropped, reordered, duplicated and altered; connections are rekeyed, moved and reset.
//! A segment verifies exactly if it is unaltered, belongs to this connection, and its key is held.

mod model;

use model::{DEFINITIONS, Definition, End, Expected, Operation, ROOM, Side, isns, mkt_set, operations};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::FileFailurePersistence;

use crate::support::*;

/// A segment in transit.
#[derive(Clone, Debug)]
struct InFlight {
    due: u64,
    to: Side,
    /// The ISNs of its connection, which tell connections with the same socket pair apart.
    isns: (u64, u64),
    extended: u64,
    acknowledges: u32,
    definition: Definition,
    rnext: KeyId,
    is_syn: bool,
    sent: Vec<u8>,
    octets: Vec<u8>,
}

impl InFlight {
    fn is_altered(&self) -> bool {
        // The MAC does not cover the checksum.
        let covered = |tcp: &[u8]| [&tcp[..16], &tcp[18..]].concat();
        covered(&self.sent) != covered(&self.octets)
    }
}

struct Pair {
    now: u64,
    isns: (u64, u64),
    /// The left end and the right one.
    connections: [Connection<ROOM>; 2],
    ends: [End; 2],
    flight: Vec<InFlight>,
}

impl Pair {
    /// Two ends after a handshake with the first of the keys held, which both must hold.
    fn new(isns: (u32, u32), held: [Vec<Definition>; 2]) -> Self {
        let (connections, ends, mut flight) = connect(isns, held, 0).expect("both hold the first key");
        flight.clear();
        Self { now: 0, isns: (isns.0.into(), isns.1.into()), connections, ends, flight }
    }

    fn run(&mut self, operation: Operation) {
        match operation {
            Operation::Send(from, length, latency) => {
                self.send_new(from, 0, length, latency);
            }
            Operation::Jump(from, by, latency) => self.send_new(from, by.into(), 0, latency),
            Operation::Retransmit(from, back, latency) => {
                let end = &self.ends[from as usize];
                let extended = end.sent.saturating_sub(u64::from(back).min(1 << 31)).max(end.isn + 1);
                if self.is_in_window(from, extended + 1) {
                    self.send(from, extended, 1, latency);
                }
            }
            Operation::Unsigned(to, flags) => {
                let pair = to.other().pair();
                let tcp = Parts::new(pair, flags, self.ends[to as usize].received as u32, 0).unsigned();
                self.verify(to, &tcp, Expected::Unsigned);
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
            Operation::AddKey(at, definition) => self.add_key(at, definition),
            Operation::RemoveKey(at, definition, replacement) => {
                self.remove_key(at, definition, replacement);
            }
            Operation::SetRnextKey(at, definition) => {
                let (connection, end) = (&mut self.connections[at as usize], &mut self.ends[at as usize]);
                let id = definition.recv_id(at);
                let found = end.by_recv_id(at, id);
                assert_eq!(connection.set_rnext_key(id), found.map(drop).ok_or(MktError::UnknownRecvId(id)));
                end.rnext = found.unwrap_or(end.rnext);
            }
            Operation::SetCurrentKey(at, definition) => {
                let (connection, end) = (&mut self.connections[at as usize], &mut self.ends[at as usize]);
                let id = definition.send_id(at);
                let found = end.by_send_id(at, id);
                assert_eq!(
                    connection.set_current_key(id),
                    found.map(drop).ok_or(MktError::UnknownSendId(id))
                );
                if let Some(found) = found {
                    end.sign_with(found);
                    end.is_doubtful = false;
                }
            }
            Operation::ReplaceKeys(at, definitions) => {
                let (connection, end) = (&mut self.connections[at as usize], &mut self.ends[at as usize]);
                connection.replace_keys(&mkt_set(&definitions, at)).unwrap();
                end.hold(definitions);
                end.rnext = end.held[0];
                let current = end.by_send_id(at, end.current.send_id(at)).unwrap_or(end.held[0]);
                end.sign_with(current);
            }
            Operation::Move(at) => {
                let (connection, end) = (&mut self.connections[at as usize], &mut self.ends[at as usize]);
                end.held.rotate_left(1);
                let mkts = mkt_set(&end.held, at);
                let placeholder = Connection::active(connection.pair(), Isn(0), &mkts).unwrap();
                let state = std::mem::replace(connection, placeholder).export().unwrap();
                *connection = Connection::import(&state, &mkts).unwrap();
            }
            Operation::Reset(isns) => {
                let held = [self.ends[0].held.clone(), self.ends[1].held.clone()];
                // TCP does not choose the ISNs of a connection whose segments may still be in transit (RFC 9293 §3.4.1).
                let chosen = (isns.0.into(), isns.1.into());
                if chosen == self.isns || self.flight.iter().any(|segment| segment.isns == chosen) {
                    return;
                }
                if let Some((connections, ends, late)) = connect(isns, held, self.now) {
                    (self.connections, self.ends) = (connections, ends);
                    self.isns = chosen;
                    self.flight.extend(late);
                }
            }
            Operation::Advance(by) => {
                self.now += by;
                let now = self.now;
                let mut due: Vec<_> = self.flight.extract_if(.., |segment| segment.due <= now).collect();
                due.sort_by_key(|segment| segment.due);
                for segment in &due {
                    self.arrive(segment);
                }
            }
        }
        self.check();
    }

    fn octets_in_flight(&mut self, which: Index) -> Option<&mut Vec<u8>> {
        let length = self.flight.len();
        (length != 0).then(|| &mut self.flight[which.index(length)].octets)
    }

    /// No sender gets 2^31 octets ahead of its receiver, including the end of the segment.
    fn is_in_window(&self, from: Side, end: u64) -> bool {
        end.saturating_sub(self.ends[from.other() as usize].received) < 1 << 31
    }

    /// Sends a segment `by` octets past everything sent before, if the window permits.
    fn send_new(&mut self, from: Side, by: u64, length: usize, latency: u64) {
        let extended = self.ends[from as usize].next + by;
        let end = extended + length as u64;
        if self.is_in_window(from, end) {
            self.ends[from as usize].next = end;
            self.send(from, extended, length, latency);
        }
    }

    fn send(&mut self, from: Side, extended: u64, length: usize, latency: u64) {
        let (connection, end) = (&mut self.connections[from as usize], &mut self.ends[from as usize]);
        let payload = vec![extended as u8; length];
        let acknowledges = end.received as u32;
        let mut parts = Parts::new(from.pair(), ACK, extended as u32, acknowledges).payload(&payload);
        if end.current.options == OptionCoverage::Covered {
            parts = parts.options(&TIMESTAMPS);
        }
        let octets = parts.signed(connection);
        end.sent = end.sent.max(extended + length as u64);
        self.flight.push(InFlight {
            due: self.now + latency,
            to: from.other(),
            isns: self.isns,
            extended,
            acknowledges,
            definition: end.current,
            rnext: end.rnext.recv_id(from),
            is_syn: false,
            sent: octets.clone(),
            octets,
        });
    }

    fn arrive(&mut self, segment: &InFlight) {
        let (to, end) = (segment.to, &self.ends[segment.to as usize]);
        let sequence = segment.extended as u32;
        let expected = match end.by_recv_id(to, segment.definition.send_id(to.other())) {
            _ if segment.is_altered() => Expected::Refused,
            None => Expected::UnknownKeyId,
            Some(_) if segment.is_syn => Expected::State,
            Some(held) if held.mac_length != segment.definition.mac_length => Expected::MacLength,
            Some(held) => {
                let is_same = held == segment.definition && segment.isns == self.isns;
                let is_of_this_turn = end.turn_of(sequence) == segment.extended >> 32;
                if is_same && is_of_this_turn { Expected::Good } else { Expected::BadMac }
            }
        };
        let changed = self.verify(to, &segment.octets, expected);
        if expected == Expected::Good {
            let end = &mut self.ends[to as usize];
            let ids = (segment.definition.send_id(to.other()), segment.rnext);
            let before = end.current;
            end.hear(to, ids, segment.extended, segment.acknowledges);
            assert_eq!(changed, end.current != before);
            end.received = end.received.max(segment.extended);
        }
    }

    /// Delivers a segment to the end; returns whether its current key changed.
    fn verify(&mut self, to: Side, tcp: &[u8], expected: Expected) -> bool {
        let (connection, counters) =
            (&mut self.connections[to as usize], &mut self.ends[to as usize].counters);
        let pair = to.other().pair();
        let Ok(segment) = Segment::from_tcp(pair.local.address(), pair.remote.address(), tcp) else {
            assert_eq!(expected, Expected::Refused);
            return false;
        };
        let verdict = connection.verify(&segment);
        let is_expected = match (expected, &verdict) {
            (Expected::Good, Ok(_)) | (Expected::Refused, Err(_)) => true,
            (Expected::BadMac, Err(error)) => matches!(error, VerifyError::BadMac { .. }),
            (Expected::MacLength, Err(error)) => matches!(error, VerifyError::MacLength { .. }),
            (Expected::UnknownKeyId, Err(error)) => matches!(error, VerifyError::UnknownKeyId(_)),
            (Expected::State, Err(error)) => *error == VerifyError::State,
            (Expected::Unsigned, Err(error)) => *error == VerifyError::Unsigned,
            _ => false,
        };
        assert!(is_expected, "expected {expected:?}, got {verdict:?}");
        *match &verdict {
            Ok(_) => &mut counters.good,
            Err(VerifyError::Unsigned) => &mut counters.required,
            Err(VerifyError::UnknownKeyId(_)) => &mut counters.key_not_found,
            Err(VerifyError::OtherConnection) => return false,
            Err(_) => &mut counters.bad,
        } += 1;
        verdict.is_ok_and(|verified: Verified<'_>| verified.current_key_changed())
    }

    fn add_key(&mut self, at: Side, definition: Definition) {
        let (connection, end) = (&mut self.connections[at as usize], &mut self.ends[at as usize]);
        let answer = connection.add_key(&definition.mkt(at));
        if end.held.iter().any(|held| held.collides(&definition)) {
            assert!(matches!(answer, Err(MktError::SendIdInUse(_) | MktError::RecvIdInUse(_))));
        } else if end.held.len() == ROOM {
            assert_eq!(answer, Err(MktError::TooMany { capacity: ROOM }));
        } else {
            assert_eq!(answer, Ok(()));
            let held = end.held.iter().copied().chain([definition]).collect();
            end.hold(held);
        }
    }

    fn remove_key(&mut self, at: Side, definition: Definition, replacement: Option<Definition>) {
        let (connection, end) = (&mut self.connections[at as usize], &mut self.ends[at as usize]);
        let (id, replacement) = (definition.send_id(at), replacement.map(|key| key.send_id(at)));
        let answer = connection.remove_key(id, replacement);
        let Some(removed) = end.by_send_id(at, id) else {
            return assert_eq!(answer, Err(MktError::UnknownSendId(id)));
        };
        if end.held.len() == 1 {
            return assert_eq!(answer, Err(MktError::Last(id)));
        }
        let in_its_place =
            replacement.map(|id| end.by_send_id(at, id).ok_or(MktError::UnknownSendId(id))).transpose();
        let is_in_use = end.current == removed || end.rnext == removed;
        match in_its_place {
            Err(error) => assert_eq!(answer, Err(error)),
            Ok(None) if is_in_use => assert_eq!(answer, Err(MktError::InUse(id))),
            Ok(Some(same)) if same == removed && is_in_use => assert_eq!(answer, Err(MktError::InUse(id))),
            Ok(in_its_place) => {
                assert_eq!(answer, Ok(()));
                let instead_of = |key| if key == removed { in_its_place.unwrap() } else { key };
                end.rnext = instead_of(end.rnext);
                let current = instead_of(end.current);
                let held = end.held.iter().copied().filter(|held| *held != removed).collect();
                end.hold(held);
                end.sign_with(current);
            }
        }
    }

    /// Checks that everything a connection reports matches the model.
    fn check(&self) {
        for at in [Side::Left, Side::Right] {
            let (connection, end) = (&self.connections[at as usize], &self.ends[at as usize]);
            let extended = |(sne, sequence): (Sne, SeqNum)| u64::from(sne.0) << 32 | u64::from(sequence.0);
            assert_eq!(extended(connection.highest_sent()), end.sent, "{at:?} has sent");
            assert_eq!(extended(connection.highest_received()), end.received, "{at:?} has received");
            let acknowledged = connection
                .newest_acknowledgment()
                .map_or((end.isn as u32).wrapping_add(1), |number| number.0);
            assert_eq!(acknowledged, end.acknowledged, "{at:?} was acknowledged");
            let current = connection.current_key().send_id;
            assert_eq!(current, end.current.send_id(at), "{at:?} has current key");
            assert_eq!(connection.rnext_key().recv_id, end.rnext.recv_id(at), "{at:?} has rnext key");
            assert_eq!(connection.counters(), end.counters, "{at:?} has counted");
            assert_eq!(connection.local_isn().map(|isn| u64::from(isn.0)), Some(end.isn));
            let mut keys: Vec<_> = connection.keys().map(|key| (key.send_id.0, key.recv_id.0)).collect();
            let mut held: Vec<_> =
                end.held.iter().map(|key| (key.send_id(at).0, key.recv_id(at).0)).collect();
            keys.sort_unstable();
            held.sort_unstable();
            assert_eq!(keys, held, "{at:?} holds");
        }
    }
}

/// Shakes hands with the left end's first key, if the right end holds it, and keeps late copies of SYN and SYN-ACK.
fn connect(
    isns: (u32, u32),
    held: [Vec<Definition>; 2],
    now: u64,
) -> Option<([Connection<ROOM>; 2], [End; 2], Vec<InFlight>)> {
    let definition = held[0][0];
    let mut left =
        Connection::active(Side::Left.pair(), Isn(isns.0), &mkt_set(&held[0], Side::Left)).unwrap();
    let syn = Parts::new(Side::Left.pair(), SYN, isns.0, 0).signed(&mut left);
    let listener = mkt_set(&held[1], Side::Right);
    let verdict = listener.verify_syn(view(Side::Left.pair(), &syn));
    assert_eq!(verdict.is_ok(), held[1].contains(&definition));
    let mut right = Connection::passive(&verdict.ok()?);
    let (left_next, right_next) = (isns.0.wrapping_add(1), isns.1.wrapping_add(1));
    let syn_ack = Parts::new(Side::Right.pair(), SYN | ACK, isns.1, left_next).signed(&mut right);
    left.verify(&view(Side::Right.pair(), &syn_ack)).unwrap();
    let ack = Parts::new(Side::Left.pair(), ACK, left_next, right_next).signed(&mut left);
    right.verify(&view(Side::Left.pair(), &ack)).unwrap();

    let extended = (u64::from(isns.0), u64::from(isns.1));
    let copy = |to: Side, extended_isn, acknowledges, is_syn, octets: Vec<u8>| InFlight {
        due: now + 5,
        to,
        isns: extended,
        extended: extended_isn,
        acknowledges,
        definition,
        rnext: definition.recv_id(to.other()),
        is_syn,
        sent: octets.clone(),
        octets,
    };
    let late = vec![
        copy(Side::Right, extended.0, 0, true, syn),
        copy(Side::Left, extended.1, left_next, false, syn_ack),
    ];
    let end = |held, isn, sent, received, acknowledged, good| End {
        held,
        current: definition,
        rnext: definition,
        isn,
        next: isn + 1,
        sent,
        received,
        acknowledged,
        asked_for: vec![definition],
        removed: Vec::new(),
        is_doubtful: false,
        counters: Counters { good, ..Counters::default() },
    };
    let [left_held, right_held] = held;
    let ends = [
        end(left_held, extended.0, extended.0 + 1, extended.1, left_next, 1),
        end(right_held, extended.1, extended.1 + 1, extended.0 + 1, right_next, 2),
    ];
    Some(([left, right], ends, late))
}

/// How many cases to run: PROPTEST_CASES, or 400.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(400)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("tests/it/pair/regressions.txt"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn ao_29_a_segment_verifies_exactly_when_it_should(isns in isns(), operations in operations()) {
        let mut pair = Pair::new(isns, [vec![DEFINITIONS[0], DEFINITIONS[1]], vec![DEFINITIONS[1], DEFINITIONS[0]]]);
        for operation in operations {
            pair.run(operation);
        }
        // At the end all segments in transit arrive, however late.
        pair.run(Operation::Advance(10_000));
    }
}

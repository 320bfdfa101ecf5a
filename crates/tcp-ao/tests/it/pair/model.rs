//! The operations on a pair of honest ends, and the expected results, counted in 64 bits and without any cryptography.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::support::*;

/// MKTs that a connection of the pair has room for.
pub(crate) const ROOM: usize = 3;

/// The two ends of the pair; the left one opens the connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Left,
    Right,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        if self == Self::Left { Self::Right } else { Self::Left }
    }

    pub(crate) fn pair(self) -> SocketPair {
        if self == Self::Left { ipv4_pair() } else { ipv4_pair().reversed() }
    }
}

/// An MKT that both ends could have, as the left end sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Definition {
    send_id: u8,
    recv_id: u8,
    pub(crate) algorithm: TcpAoAlgorithm,
    pub(crate) mac_length: usize,
    pub(crate) options: OptionCoverage,
    secret: u8,
}

const fn definition(
    send_id: u8,
    recv_id: u8,
    algorithm: TcpAoAlgorithm,
    mac_length: usize,
    secret: u8,
) -> Definition {
    Definition { send_id, recv_id, algorithm, mac_length, options: OptionCoverage::Covered, secret }
}

/// The first and the fifth have the same ids and different secrets, the sixth shares one id with them, and the third has their ids swapped.
pub(crate) const DEFINITIONS: [Definition; 6] = [
    definition(1, 11, TcpAoAlgorithm::HmacSha1, 12, 1),
    definition(2, 12, TcpAoAlgorithm::Aes128Cmac, 16, 2),
    definition(11, 1, TcpAoAlgorithm::HmacSha256_128, 16, 3),
    Definition {
        options: OptionCoverage::Excluded,
        ..definition(4, 14, TcpAoAlgorithm::LinuxHmacSha256, 8, 4)
    },
    definition(1, 11, TcpAoAlgorithm::HmacSha1, 12, 5),
    definition(1, 15, TcpAoAlgorithm::Kmac256_128, 16, 6),
];

impl Definition {
    pub(crate) fn send_id(&self, at: Side) -> KeyId {
        KeyId(if at == Side::Left { self.send_id } else { self.recv_id })
    }

    pub(crate) fn recv_id(&self, at: Side) -> KeyId {
        self.send_id(at.other())
    }

    pub(crate) fn collides(&self, other: &Self) -> bool {
        self.send_id == other.send_id || self.recv_id == other.recv_id
    }

    pub(crate) fn mkt(&self, at: Side) -> Mkt {
        mkt_with_secret(self.send_id(at).0, self.recv_id(at).0, self.algorithm, &[self.secret; 32])
            .with_mac_length(self.mac_length)
            .unwrap()
            .with_options(self.options)
    }
}

pub(crate) fn mkt_set(held: &[Definition], at: Side) -> MktSet<ROOM> {
    MktSet::from_mkts(held.iter().map(|definition| definition.mkt(at))).unwrap()
}

/// The state of one end.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) held: Vec<Definition>,
    pub(crate) current: Definition,
    pub(crate) rnext: Definition,
    /// The ISN, then extended sequence numbers: the next octet to send, the end of all that was sent, the highest received.
    pub(crate) isn: u64,
    pub(crate) next: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// The newest acknowledgment received.
    pub(crate) acknowledged: u32,
    /// The held keys that this end has signed with; the last three removed ones that it had signed with; whether the last request went back
    /// to one of them without proof.
    pub(crate) asked_for: Vec<Definition>,
    pub(crate) removed: Vec<Definition>,
    pub(crate) is_doubtful: bool,
    pub(crate) counters: Counters,
}

impl End {
    pub(crate) fn by_send_id(&self, at: Side, id: KeyId) -> Option<Definition> {
        self.held.iter().copied().find(|definition| definition.send_id(at) == id)
    }

    pub(crate) fn by_recv_id(&self, at: Side, id: KeyId) -> Option<Definition> {
        self.held.iter().copied().find(|definition| definition.recv_id(at) == id)
    }

    /// Records a segment's ids and acknowledgment. If the segment is provably newer than all before it, this end signs with the key that it
    /// asks for.
    pub(crate) fn hear(&mut self, at: Side, ids: (KeyId, KeyId), extended: u64, acknowledges: u32) {
        let ahead = acknowledges.wrapping_sub(self.acknowledged).cast_signed();
        // Data that was never sent cannot have been acknowledged.
        if ahead < 0 || ahead > 0 && acknowledges.wrapping_sub(self.sent as u32).cast_signed() > 0 {
            return;
        }
        self.acknowledged = acknowledges;
        let Some(key) = self.by_send_id(at, ids.1).filter(|key| *key != self.current) else { return };
        let was_asked_for = self.asked_for.contains(&key);
        // A peer that signs with the current key holds it, and can wait.
        let has_left = self.is_doubtful && ids.0 != self.current.recv_id(at);
        if ahead > 0 || extended > self.received || !was_asked_for || has_left {
            self.sign_with(key);
            self.is_doubtful = ahead == 0 && was_asked_for && !self.is_doubtful;
        }
    }

    /// Signs with a key, requested or not.
    pub(crate) fn sign_with(&mut self, key: Definition) {
        self.current = key;
        if !self.asked_for.contains(&key) {
            self.asked_for.push(key);
        }
    }

    /// Replaces the keys, in the order of their slots. A key that is added again is the same as before.
    pub(crate) fn hold(&mut self, keys: Vec<Definition>) {
        let given_back = keys.iter().filter(|key| self.removed.contains(key));
        self.asked_for.extend(given_back);
        let held = std::mem::replace(&mut self.held, keys);
        for gone in held.into_iter().filter(|key| !self.held.contains(key)) {
            if self.asked_for.contains(&gone) {
                self.is_doubtful = false;
                self.removed.retain(|key| *key != gone);
                self.removed.insert(0, gone);
            }
        }
        self.removed.truncate(3);
        self.asked_for.retain(|key| self.held.contains(key));
    }

    /// How often the sequence number has wrapped, from the receiver's view: of all extended numbers with these lower 32 bits, the nearest
    /// to the highest received; of two equally near ones, the older.
    pub(crate) fn turn_of(&self, sequence: u32) -> u64 {
        let turn = self.received >> 32;
        let candidates = [turn.checked_sub(1), Some(turn), turn.checked_add(1)];
        let distance = |turn: &u64| (turn << 32 | u64::from(sequence)).abs_diff(self.received);
        candidates.into_iter().flatten().min_by_key(distance).unwrap()
    }
}

/// The verdict expected of the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expected {
    Good,
    BadMac,
    MacLength,
    UnknownKeyId,
    State,
    Unsigned,
    /// Altered in transit: any refusal is right.
    Refused,
}

/// An operation at one end. The latency of a packet comes last.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// A segment with a payload of this length.
    Send(Side, usize, u64),
    /// A segment this far ahead; now and then the sequence number wraps.
    Jump(Side, u32, u64),
    /// A segment this far back, signed again.
    Retransmit(Side, u32, u64),
    /// A segment without AO option, arriving at once.
    Unsigned(Side, u8),
    Drop(Index),
    Duplicate(Index, u64),
    FlipBit(Index, Index),
    AddKey(Side, Definition),
    RemoveKey(Side, Definition, Option<Definition>),
    SetRnextKey(Side, Definition),
    SetCurrentKey(Side, Definition),
    ReplaceKeys(Side, Vec<Definition>),
    /// The connection moves to another place, where its MKTs are in another order.
    Move(Side),
    /// Both ends forget the connection, and the left one opens another.
    Reset((u32, u32)),
    /// Time passes, and what is due arrives.
    Advance(u64),
}

fn side() -> impl Strategy<Value = Side> {
    select(vec![Side::Left, Side::Right])
}

fn any_definition() -> impl Strategy<Value = Definition> {
    select(DEFINITIONS.to_vec())
}

fn latency() -> impl Strategy<Value = u64> {
    prop_oneof![5 => 1..20u64, 1 => 1..2000u64]
}

/// Sets of MKTs without collisions.
fn definitions() -> impl Strategy<Value = Vec<Definition>> {
    let set = |numbers: &[usize]| numbers.iter().map(|number| DEFINITIONS[*number]).collect::<Vec<_>>();
    select(vec![set(&[0, 1]), set(&[1, 0, 3]), set(&[4, 2]), set(&[5, 1]), set(&[2]), set(&[3, 4, 2])])
}

/// Steps near 2^31, the distance at which ahead and behind are equally near, and near half of it.
fn edge() -> impl Strategy<Value = u32> {
    let near = |number: u32| [number - 1, number, number + 1];
    select([near(1 << 30), near(1 << 31)].concat())
}

/// ISNs, most of them near the wrap.
pub(crate) fn isns() -> impl Strategy<Value = (u32, u32)> {
    let isn = || prop_oneof![any::<u32>(), 0xffff_ff00..=u32::MAX, Just(u32::MAX), 0..10u32];
    (isn(), isn())
}

pub(crate) fn operations() -> impl Strategy<Value = Vec<Operation>> {
    use Operation::*;
    let operation = prop_oneof![
        12 => (side(), 0..200usize, latency()).prop_map(|(from, length, latency)| Send(from, length, latency)),
        6 => (side(), prop_oneof![2 => 1..0x4000_0000u32, 1 => edge()], latency()).prop_map(|(from, by, latency)| Jump(from, by, latency)),
        4 => (side(), prop_oneof![0..3000u32, 0..=0x8000_0000u32, edge()], latency())
            .prop_map(|(from, back, latency)| Retransmit(from, back, latency)),
        1 => (side(), select(vec![0x10u8, 0x04, 0x14, 0x02, 0x12, 0x11]))
            .prop_map(|(to, flags)| Unsigned(to, flags)),
        1 => any::<Index>().prop_map(Drop),
        3 => (any::<Index>(), latency()).prop_map(|(which, latency)| Duplicate(which, latency)),
        3 => (any::<Index>(), any::<Index>()).prop_map(|(which, bit)| FlipBit(which, bit)),
        2 => (side(), any_definition()).prop_map(|(at, definition)| AddKey(at, definition)),
        2 => (side(), any_definition(), prop::option::of(any_definition()))
            .prop_map(|(at, definition, replacement)| RemoveKey(at, definition, replacement)),
        4 => (side(), any_definition()).prop_map(|(at, definition)| SetRnextKey(at, definition)),
        1 => (side(), any_definition()).prop_map(|(at, definition)| SetCurrentKey(at, definition)),
        1 => (side(), definitions()).prop_map(|(at, definitions)| ReplaceKeys(at, definitions)),
        2 => side().prop_map(Move),
        1 => isns().prop_map(Reset),
        12 => (1..50u64).prop_map(Advance),
    ];
    vec(operation, 1..120)
}

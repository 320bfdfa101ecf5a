//! What a pair of honest ends should do, counted in 64 bits and without any cryptography.

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Counters, KeyId, Mkt, MktSet, OptionCoverage, SocketPair};

use crate::support::{ipv4_pair, mkt_with_secret};

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

/// The first and the fifth have the same ids and different secrets, the sixth has one id of theirs, and the third
/// has theirs the other way round.
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

/// What one end knows.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) held: Vec<Definition>,
    pub(crate) current: Definition,
    pub(crate) rnext: Definition,
    /// The ISN, and the extended sequence numbers: of the next octet to send, the highest sent, the highest received.
    pub(crate) isn: u64,
    pub(crate) next: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// The newest acknowledgment received, and the ids that verified segments have carried: KeyIDs and RNextKeyIDs.
    pub(crate) acknowledged: u32,
    pub(crate) signed_with: Vec<KeyId>,
    pub(crate) asked_for: Vec<KeyId>,
    pub(crate) counters: Counters,
}

impl End {
    pub(crate) fn by_send_id(&self, at: Side, id: KeyId) -> Option<Definition> {
        self.held.iter().copied().find(|definition| definition.send_id(at) == id)
    }

    pub(crate) fn by_recv_id(&self, at: Side, id: KeyId) -> Option<Definition> {
        self.held.iter().copied().find(|definition| definition.recv_id(at) == id)
    }

    /// Takes note of a segment's ids and acknowledgment. If it is newer than all before it, as far as that shows, this end signs with
    /// the key that it asks for.
    pub(crate) fn hear(&mut self, at: Side, ids: (KeyId, KeyId), extended: u64, acknowledges: u32) {
        let is_first_under = note(&mut self.signed_with, ids.0);
        if ids.1 == self.current.send_id(at) {
            note(&mut self.asked_for, ids.1);
        }
        let is_first_asking = !self.asked_for.contains(&ids.1);
        let is_first = is_first_under || is_first_asking;
        let ahead = acknowledges.wrapping_sub(self.acknowledged).cast_signed();
        // What was never sent cannot have been acknowledged.
        if ahead != 0 && acknowledges.wrapping_sub(self.sent as u32).cast_signed() > 1 << 16 {
            return;
        }
        if ahead > 0 {
            self.acknowledged = acknowledges;
        }
        let is_newest = ahead > 0 || ahead == 0 && (is_first || extended > self.received);
        let asked_for = self.by_send_id(at, ids.1).filter(|key| is_newest && *key != self.current);
        if let Some(asked_for) = asked_for {
            self.sign_with(at, asked_for);
            // Back to an earlier key, and nothing proves it: what is heard now counts as new again.
            if ahead == 0 && !is_first_asking {
                (self.signed_with, self.asked_for) = (vec![ids.0], vec![ids.1]);
            }
        }
    }

    /// Signs with a key without being asked, which then counts as asked for.
    pub(crate) fn sign_with(&mut self, at: Side, key: Definition) {
        self.current = key;
        note(&mut self.asked_for, key.send_id(at));
    }

    /// How often the sequence number has wrapped, as the receiver must take it: of all extended numbers with these
    /// lower 32 bits the one nearest to the highest received, and the older one of two that are equally near.
    pub(crate) fn turn_of(&self, sequence: u32) -> u64 {
        let turn = self.received >> 32;
        let candidates = [turn.checked_sub(1), Some(turn), turn.checked_add(1)];
        let distance = |turn: &u64| (turn << 32 | u64::from(sequence)).abs_diff(self.received);
        candidates.into_iter().flatten().min_by_key(distance).unwrap()
    }
}

/// Puts an id in front of the last seven. Whether it is new.
fn note(heard: &mut Vec<KeyId>, id: KeyId) -> bool {
    let known = heard.iter().position(|heard| *heard == id);
    known.map(|place| heard.remove(place));
    heard.insert(0, id);
    heard.truncate(7);
    known.is_none()
}

/// What the receiver should say of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expected {
    Good,
    BadMac,
    MacLength,
    UnknownKeyId,
    State,
    Unsigned,
    /// Altered on the way: any refusal will do.
    Refused,
}

//! Which keys the segments between two addresses verify under, in all their connections: where each end opens a connection of its
//! own and the other drops its SYNs, no single connection shows that their secrets differ.

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::fast::RandomState;

/// How many pairs of addresses are kept; nothing is learned of others.
const MOST_PAIRS: usize = 1 << 14;
/// How many keys of a sender are kept.
const MOST_KEYS: usize = 16;

/// What the capture shows of the keys at both ends of each pair of addresses.
#[derive(Default, Debug)]
pub(super) struct Agreement {
    /// By sender and receiver.
    seen: HashMap<[IpAddr; 2], SeenKeys, RandomState>,
}

/// Indices of keys, see [`Candidate::key`](super::key_table::Candidate::key).
#[derive(Default, Debug)]
struct SeenKeys {
    /// Keys under which a segment verified.
    verified: Vec<u32>,
    /// Keys that a segment named without any hypothesis explaining its MAC.
    unexplained: Vec<u32>,
}

impl Agreement {
    /// Notes that a segment from one address to another verified under a key.
    pub(super) fn note_verified(&mut self, from: IpAddr, to: IpAddr, key: u32) {
        self.note(from, to, key, |seen| &mut seen.verified);
    }

    /// Notes that a segment from one address to another named a key, and nothing explains its MAC.
    pub(super) fn note_unexplained(&mut self, from: IpAddr, to: IpAddr, key: u32) {
        self.note(from, to, key, |seen| &mut seen.unexplained);
    }

    fn note(&mut self, from: IpAddr, to: IpAddr, key: u32, list: fn(&mut SeenKeys) -> &mut Vec<u32>) {
        // With one address for both, it is not known which end sent what.
        if from == to || self.seen.len() >= MOST_PAIRS && !self.seen.contains_key(&[from, to]) {
            return;
        }
        let keys = list(self.seen.entry([from, to]).or_default());
        if keys.len() < MOST_KEYS && !keys.contains(&key) {
            keys.push(key);
        }
    }

    /// Whether segments of `right` to `wrong` verify under a key, while nothing explains segments of `wrong` that name it and none
    /// of its segments verifies under it.
    pub(super) fn is_key_of_only(&self, right: IpAddr, wrong: IpAddr, key: u32) -> bool {
        let seen = |from, to| self.seen.get(&[from, to]);
        let (Some(right), Some(wrong)) = (seen(right, wrong), seen(wrong, right)) else { return false };
        right.verified.contains(&key) && wrong.unexplained.contains(&key) && !wrong.verified.contains(&key)
    }
}

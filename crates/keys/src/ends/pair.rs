//! Matches the keys of one end's chain with those of the other's.

use std::collections::HashSet;

use super::Difference;
use crate::{Chain, ChainKey};

/// A key as both ends have it, or one that only one end has.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// The key at each end; at least one is `Some`.
    pub keys: [Option<&'a ChainKey>; 2],
    /// What the two have in common.
    pub relation: Relation,
}

/// Why two ends' keys are taken to be the same key, the strongest reason first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Relation {
    /// Each end's SendID is the other's RecvID, as it should be.
    Crossed,
    /// Both ends have the same SendID and the same RecvID.
    NotCrossed,
    /// Only one direction's ids are the same.
    OneWay,
    /// Only the secrets are the same.
    Secret,
    /// Only one end has the key.
    Alone,
}

impl<'a> Pair<'a> {
    /// Both keys, if both ends have it.
    #[must_use]
    pub fn both(&self) -> Option<[&'a ChainKey; 2]> {
        let [one, other] = self.keys;
        Some([one?, other?])
    }
}

/// Pairs each key with the one of the other end that it has most in common with. The pairs are in the order of the first end's keys; keys
/// that only the second end has come last.
#[must_use]
pub fn pairs<'a>([one, other]: [&'a Chain; 2]) -> Vec<Pair<'a>> {
    let mut possible = Vec::new();
    for (at, key) in one.keys.iter().enumerate() {
        for (other_at, other_key) in other.keys.iter().enumerate() {
            if let Some(relation) = relation(key, other_key) {
                let differences = Difference::between(key, other_key).len();
                let is_apart = !other.acceptance(other_key).overlaps(&key.send);
                possible.push((relation, is_apart, differences, at, other_at));
            }
        }
    }
    possible.sort_unstable();
    let (mut ours, mut theirs) = (vec![None; one.keys.len()], HashSet::new());
    for (relation, .., at, other_at) in possible {
        if ours[at].is_none() && theirs.insert(other_at) {
            ours[at] = Some((relation, other_at));
        }
    }
    let of_one = one.keys.iter().zip(ours).map(|(key, found)| match found {
        Some((relation, at)) => Pair { keys: [Some(key), Some(&other.keys[at])], relation },
        None => Pair { keys: [Some(key), None], relation: Relation::Alone },
    });
    let of_other = other.keys.iter().enumerate().filter(|(at, _)| !theirs.contains(at));
    let of_other = of_other.map(|(_, key)| Pair { keys: [None, Some(key)], relation: Relation::Alone });
    of_one.chain(of_other).collect()
}

fn relation(one: &ChainKey, other: &ChainKey) -> Option<Relation> {
    let same_secret =
        Difference::can_compare_secrets(one, other) && one.secret.expose() == other.secret.expose();
    match [one.send_id == other.recv_id, one.recv_id == other.send_id] {
        [true, true] => Some(Relation::Crossed),
        _ if one.send_id == other.send_id && one.recv_id == other.recv_id => Some(Relation::NotCrossed),
        [true, false] | [false, true] => Some(Relation::OneWay),
        [false, false] => same_secret.then_some(Relation::Secret),
    }
}

//! Segments that the kernel refused, found by how its counters grow.

use std::collections::HashMap;

use wireseal_tcp_ao::Counters;

use crate::manager::state::Reported;
use crate::{KeyName, PeerName};

/// Segments that a socket refused since its last report, by the reason that Linux counts.
///
/// A listener counts what no connection took: a peer's SYNs, in particular.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Refused {
    /// Wrongly signed: the MAC does not verify, so the secrets or algorithms of the two ends differ, or somebody forges. By the
    /// key that the segments named; a listener's key says which peer it is for.
    pub bad: Vec<(KeyName, u64)>,
    /// Signed with a KeyID that no key has.
    pub key_not_found: u64,
    /// Unsigned.
    pub unsigned: u64,
}

impl Refused {
    /// Whether nothing was refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a socket's counters said when they were last looked at.
#[derive(Debug, Default)]
pub(super) struct Seen {
    counters: Counters,
    bad: HashMap<KeyName, u64>,
}

impl Seen {
    /// Whether wrongly signed segments have come since: what a peer with another secret sends. Anybody can send unsigned ones,
    /// and those with unknown KeyIDs, so they make no step due.
    pub(super) fn has_grown(&self, counters: &Counters) -> bool {
        counters.bad != self.counters.bad
    }

    /// Segments that failed under the keys of a peer.
    pub(super) fn bad(&self, peer: PeerName) -> u64 {
        self.bad.iter().filter(|(key, _)| key.peer() == peer).map(|(_, count)| count).sum()
    }

    /// What was refused since, with the keys as they were read. A key that was deleted and added again counts from 0. What
    /// could not be read stays as it was, so that it is not counted again.
    pub(super) fn refused(
        &mut self,
        counters: Option<Counters>,
        bad: Option<Vec<(KeyName, u64)>>,
    ) -> Refused {
        let counters = counters.unwrap_or(self.counters);
        let before = std::mem::replace(&mut self.counters, counters);
        let bad = bad.unwrap_or_else(|| self.bad.iter().map(|(key, count)| (*key, *count)).collect());
        let bad_before = std::mem::take(&mut self.bad);
        self.bad = bad.iter().copied().collect();
        let grown = |(name, count): (KeyName, u64)| {
            let before = bad_before.get(&name).copied().filter(|before| *before <= count);
            Some((name, count - before.unwrap_or(0))).filter(|(_, grown)| *grown > 0)
        };
        Refused {
            bad: bad.into_iter().filter_map(grown).collect(),
            key_not_found: counters.key_not_found.saturating_sub(before.key_not_found),
            unsigned: counters.required.saturating_sub(before.required),
        }
    }
}

/// The keys under which segments failed, and how many.
pub(super) fn failed_under<K: Reported>(keys: &[K]) -> Vec<(KeyName, u64)> {
    keys.iter().filter(|key| key.bad() > 0).map(|key| (key.name(), key.bad())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::tests::kernel_model::name;

    #[test]
    fn only_what_came_since_is_refused() {
        let mut seen = Seen::default();
        let counters = Counters { good: 9, bad: 5, key_not_found: 2, required: 1, dropped_icmp: 7 };
        assert!(seen.has_grown(&counters));
        let first = seen.refused(Some(counters), Some(vec![(name(1, 1), 3), (name(2, 2), 2)]));
        let expected = Refused { bad: vec![(name(1, 1), 3), (name(2, 2), 2)], key_not_found: 2, unsigned: 1 };
        assert_eq!(first, expected);
        assert!(!seen.has_grown(&Counters { good: 99, dropped_icmp: 99, ..counters }));
        assert!(seen.refused(Some(counters), Some(vec![(name(1, 1), 3), (name(2, 2), 2)])).is_empty());

        // Neither could be read.
        assert!(seen.refused(None, None).is_empty());
        assert!(seen.refused(Some(counters), Some(vec![(name(1, 1), 3), (name(2, 2), 2)])).is_empty());

        // Key 1 was replaced under the same ids, and counts from 0 again; key 2 is gone.
        let later = Counters { bad: 6, ..counters };
        assert!(seen.has_grown(&later));
        let again = seen.refused(Some(later), Some(vec![(name(1, 1), 1)]));
        assert_eq!(again, Refused { bad: vec![(name(1, 1), 1)], ..Refused::default() });
    }
}

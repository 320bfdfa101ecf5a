//! Which keys the peer has asked for: what tells its next request from one of its earlier ones.

use core::fmt;

use crate::types::KeyId;

/// What a connection knows about earlier requests for one of its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// This end has not signed with it since it was added: no request for it was obeyed.
    Never,
    /// The connection came from a place that does not know.
    Unknown,
    /// This end has signed with it, asked by the peer or not.
    Before,
}

/// How many removed keys are remembered.
const REMOVED: usize = 3;

/// What a connection remembers of the requests that it has obeyed: of each key that it holds, by slot, and of the last that were removed.
///
/// Keys count, not ids: a new key under old ids was never asked for; a key that is removed and added again may have been.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Heard<const N: usize> {
    /// Check values of removed keys that were asked for, the last one first; 0 is none.
    removed: [u32; REMOVED],
    keys: [Asked; N],
    /// Whether the last request to be obeyed went back to an earlier key, and only its sequence number said that it was new.
    is_doubtful: bool,
    /// Whether the peer has signed with the current key since it became that, as far as is known.
    pub(super) peer_uses_current: bool,
}

impl<const N: usize> Heard<N> {
    pub(super) const fn new() -> Self {
        Self { removed: [0; REMOVED], keys: [Asked::Never; N], is_doubtful: false, peer_uses_current: false }
    }

    /// Notes that this end signs with the key of this slot, by whatever way. Returns what was known of it.
    pub(super) fn signs_with(&mut self, slot: u8) -> Option<Asked> {
        Some(core::mem::replace(self.keys.get_mut(usize::from(slot))?, Asked::Before))
    }

    /// Notes that this end signs with a key because its operator says so, which leaves no doubt.
    pub(super) fn chosen(&mut self, slot: u8) {
        self.signs_with(slot);
        self.is_doubtful = false;
    }

    /// Whether to obey a request that neither acknowledgment nor sequence number proves to be new.
    ///
    /// The first request for a key is obeyed: it is no replay. After a doubtful one, which may have been late, one more is obeyed if it
    /// is not signed with the current key: the peer may no longer hold that.
    pub(super) fn obeys_unproven(&self, slot: u8, signs_with_current: bool) -> bool {
        let is_first = self.keys.get(usize::from(slot)) == Some(&Asked::Never);
        is_first || self.is_doubtful && !signs_with_current
    }

    /// Notes that a request was obeyed.
    ///
    /// The second of two doubtful requests settles the matter: if there were no end to it, a replay could turn the key back each time.
    pub(super) fn obeyed(&mut self, slot: u8, is_proven: bool) {
        let was_asked = self.signs_with(slot) == Some(Asked::Before);
        self.is_doubtful = was_asked && !is_proven && !self.is_doubtful;
    }

    /// Notes that the keys have changed. `old` and `new` are their check values by slot, before and after. The doubt ends if a key that
    /// was asked for is removed.
    pub(super) fn keys_changed(&mut self, old: [Option<u32>; N], new: [Option<u32>; N]) {
        let before = core::mem::replace(&mut self.keys, [Asked::Never; N]);
        for (asked, value) in self.keys.iter_mut().zip(new) {
            let was_held = old.iter().zip(before).find(|(old, _)| value.is_some() && **old == value);
            let was_removed = value.is_some_and(|value| self.removed.contains(&value));
            *asked =
                was_held.map_or(if was_removed { Asked::Before } else { Asked::Never }, |(_, asked)| asked);
        }
        for (value, asked) in old.into_iter().zip(before) {
            let is_gone = asked != Asked::Never && !new.contains(&value);
            let Some(gone) = value.filter(|_| is_gone) else { continue };
            self.is_doubtful = false;
            let place = self.removed.iter().position(|known| *known == gone).unwrap_or(REMOVED - 1);
            self.removed[..=place].rotate_right(1);
            self.removed[0] = gone;
        }
    }

    /// What moves with the connection; `send_ids` are those of the keys, by slot.
    pub(super) fn export(&self, send_ids: impl Iterator<Item = (u8, KeyId)>) -> HeardKeys {
        let is_doubtful = u8::from(self.is_doubtful);
        let mut keys = HeardKeys { removed: self.removed, is_doubtful, ..HeardKeys::NONE };
        for (slot, send_id) in send_ids {
            match self.keys.get(usize::from(slot)) {
                Some(Asked::Before) => insert(&mut keys.asked, send_id),
                Some(Asked::Unknown) => insert(&mut keys.unknown, send_id),
                Some(Asked::Never) | None => {}
            }
        }
        keys
    }

    /// What [`export`](Self::export) has given.
    pub(super) fn import(keys: &HeardKeys, send_ids: impl Iterator<Item = (u8, KeyId)>) -> Self {
        let mut heard = Self { removed: keys.removed, is_doubtful: keys.is_doubtful != 0, ..Self::new() };
        for (slot, send_id) in send_ids {
            if let Some(asked) = heard.keys.get_mut(usize::from(slot)) {
                *asked = match (contains(&keys.asked, send_id), contains(&keys.unknown, send_id)) {
                    (true, _) => Asked::Before,
                    (false, true) => Asked::Unknown,
                    (false, false) => Asked::Never,
                };
            }
        }
        heard
    }
}

/// Which keys the peer has asked for, in a [`ConnectionState`](super::ConnectionState). A key that is added after the move was never
/// asked for, whatever its ids are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HeardKeys {
    /// A bit for each SendID.
    pub(super) asked: [u8; 32],
    pub(super) unknown: [u8; 32],
    /// 0 is no.
    pub(super) is_doubtful: u8,
    pub(super) removed: [u32; REMOVED],
}

impl HeardKeys {
    /// No key: a new connection.
    pub const NONE: Self = Self { asked: [0; 32], unknown: [0; 32], is_doubtful: 0, removed: [0; REMOVED] };
    /// Any of the keys that the connection is imported with may have been asked for: where it is not known. A replay then cannot pass for
    /// the first request for its key.
    pub const ALL: Self = Self { unknown: [0xff; 32], ..Self::NONE };
}

impl fmt::Debug for HeardKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Ids<'a>(&'a [u8; 32]);
        impl fmt::Debug for Ids<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if *self.0 == [0xff; 32] {
                    return f.write_str("all");
                }
                f.debug_set().entries((0..=u8::MAX).filter(|id| contains(self.0, KeyId(*id)))).finish()
            }
        }
        f.debug_struct("HeardKeys")
            .field("asked", &Ids(&self.asked))
            .field("unknown", &Ids(&self.unknown))
            .field("is_doubtful", &self.is_doubtful)
            .finish_non_exhaustive()
    }
}

fn contains(ids: &[u8; 32], KeyId(id): KeyId) -> bool {
    ids[usize::from(id / 8)] & 1 << (id % 8) != 0
}

fn insert(ids: &mut [u8; 32], KeyId(id): KeyId) {
    ids[usize::from(id / 8)] |= 1 << (id % 8);
}

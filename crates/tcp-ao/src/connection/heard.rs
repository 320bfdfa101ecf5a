//! Which keys the peer has asked for: what tells its next request from one of its earlier ones.

use core::{array, fmt};

/// What a connection knows about earlier requests for one of its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// It has not been the current key, as far as is remembered: no request for it was obeyed.
    Never,
    /// It may have been before the connection came here: that place did not know.
    Unknown,
    /// It has been the current key, asked for or not; or it is back after it was removed as [`Unknown`](Self::Unknown).
    Before,
}

/// How many removed keys are remembered.
const REMOVED: usize = 3;

/// Of how many keys that a connection holds its state says that they were asked for. If there are more, the others may have been.
const HELD: usize = 8;

/// What a connection remembers of the requests that it has obeyed: of each key that it holds, by slot, and of the last that were removed.
///
/// Keys count, not ids: a new key under old ids was never asked for; a key that is removed and added again may have been. Two keys with one
/// secret have other SendIDs, and are two.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Heard<const N: usize> {
    /// Check values of removed keys that were asked for, the last one first; 0 is none.
    removed: [u32; REMOVED],
    pub(super) keys: [Asked; N],
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

    /// Notes that the keys have changed. `old` and `new` are their check values by slot, before and after; 0 is no key. A doubt is over once
    /// a key that was asked for is gone.
    pub(super) fn keys_changed(&mut self, old: [u32; N], new: [u32; N]) {
        let keys = self.keys;
        self.match_keys(&array::from_fn::<_, N, _>(|slot| (old[slot], keys[slot])), new, Asked::Never);
    }

    /// Finds each new key among the old ones and the removed ones; of any other, `others` is known.
    fn match_keys(&mut self, old: &[(u32, Asked)], new: [u32; N], others: Asked) {
        for (asked, value) in self.keys.iter_mut().zip(new) {
            let held = old.iter().find(|(old, _)| *old == value).map(|(_, asked)| *asked);
            let removed = self.removed.contains(&value).then_some(Asked::Before);
            *asked = if value == 0 { Asked::Never } else { held.or(removed).unwrap_or(others) };
        }
        for (gone, asked) in old {
            if *gone == 0 || *asked == Asked::Never || new.contains(gone) {
                continue;
            }
            self.is_doubtful = false;
            let place = self.removed.iter().position(|known| known == gone).unwrap_or(REMOVED - 1);
            self.removed[..=place].rotate_right(1);
            self.removed[0] = *gone;
        }
    }

    /// What moves with the connection; `values` are the check values of the keys, by slot.
    pub(super) fn export(&self, values: [u32; N]) -> HeardKeys {
        let is_doubtful = u8::from(self.is_doubtful);
        let mut state = HeardKeys { removed: self.removed, is_doubtful, ..HeardKeys::NONE };
        let mut places = state.held.iter_mut();
        for (value, asked) in values.into_iter().zip(self.keys).filter(|(_, asked)| *asked != Asked::Never) {
            match places.next() {
                Some(place) => *place = (value, u8::from(asked == Asked::Unknown)),
                None => state.others_unknown = 1,
            }
        }
        // The slots may be others after the move.
        state.held.sort_unstable();
        state
    }

    /// What [`export`](Self::export) has given. A key that is not here any more counts as removed.
    pub(super) fn import(state: &HeardKeys, values: [u32; N]) -> Self {
        let asked = |flag, other| if flag == 0 { other } else { Asked::Unknown };
        let mut heard = Self { removed: state.removed, is_doubtful: state.is_doubtful != 0, ..Self::new() };
        let held = state.held.map(|(value, is_unknown)| (value, asked(is_unknown, Asked::Before)));
        heard.match_keys(&held, values, asked(state.others_unknown, Asked::Never));
        heard
    }
}

/// Which keys the peer has asked for, in a [`ConnectionState`](super::ConnectionState).
///
/// It knows them by their traffic keys and SendIDs, so that another secret under the same ids was never asked for. A key that is added after
/// the move was not either, unless it was removed before or missing at the move.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HeardKeys {
    /// The check values of keys that were asked for, or may have been if what follows is not 0. The value 0 is none.
    pub(super) held: [(u32, u8); HELD],
    /// Whether other keys may have been: 0 is no.
    pub(super) others_unknown: u8,
    /// 0 is no.
    pub(super) is_doubtful: u8,
    pub(super) removed: [u32; REMOVED],
}

impl HeardKeys {
    /// No key: a new connection.
    pub const NONE: Self =
        Self { held: [(0, 0); HELD], others_unknown: 0, is_doubtful: 0, removed: [0; REMOVED] };
    /// Any of the keys that the connection is imported with may have been asked for: where it is not known. A replay then cannot pass for
    /// the first request for its key.
    pub const ALL: Self = Self { others_unknown: 1, ..Self::NONE };
}

/// Without the check values.
impl fmt::Debug for HeardKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.held.iter().filter(|(value, _)| *value != 0).count();
        f.debug_struct("HeardKeys")
            .field("held", &held)
            .field("others_unknown", &self.others_unknown)
            .field("is_doubtful", &self.is_doubtful)
            .finish_non_exhaustive()
    }
}

//! Which keys a connection has heard of.

use crate::types::KeyId;

/// The KeyIDs of a connection's verified segments, and the keys that this end has signed with, asked by the peer or not: the last seven
/// different ones of each. The first segment under a key, and the first that asks for one, is new whatever its numbers are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeardKeys {
    // How many ids there are, then the ids, the last one first; a count of 255 stands for all ids.
    pub(super) key_ids: [u8; 8],
    pub(super) rnext_key_ids: [u8; 8],
}

impl HeardKeys {
    /// No key: a new connection.
    pub const NONE: Self = Self { key_ids: [0; 8], rnext_key_ids: [0; 8] };
    /// All keys: where it is not known. A replay then cannot pass for the first segment of its key.
    pub const ALL: Self = Self { key_ids: [0xff; 8], rnext_key_ids: [0xff; 8] };

    /// Whether these were the last ids: KeyID and RNextKeyID.
    #[inline]
    pub(super) fn is_last(&self, (key_id, rnext_key_id): (KeyId, KeyId)) -> bool {
        let is_last = |ids: &[u8; 8], KeyId(id): KeyId| ids[0] > 0 && ids[1] == id;
        is_last(&self.key_ids, key_id) && is_last(&self.rnext_key_ids, rnext_key_id)
    }

    /// Notes the ids of a segment. Returns whether it is the first under its MKT, or the first to ask for one.
    ///
    /// A key other than the `current` one is noted when the request is [obeyed](Self::obeyed): this end may not hold it yet.
    #[cold]
    pub(super) fn add(&mut self, (key_id, rnext_key_id): (KeyId, KeyId), current: Option<KeyId>) -> bool {
        let is_first_under = add(&mut self.key_ids, key_id);
        if Some(rnext_key_id) == current {
            self.signs_with(rnext_key_id);
        }
        let [count, ids @ ..] = &self.rnext_key_ids;
        let known = ids.get(..usize::from(*count));
        is_first_under || known.is_some_and(|known| !known.contains(&rnext_key_id.0))
    }

    /// Notes a key that this end now signs with: it counts as asked for. Returns whether it is new.
    pub(super) fn signs_with(&mut self, send_id: KeyId) -> bool {
        add(&mut self.rnext_key_ids, send_id)
    }

    /// Notes that the current key is now the one that a segment asks for.
    ///
    /// If the key was asked for before and no newer acknowledgment proves that the segment is new, it may be late and turn back to a
    /// key that the peer has left. Then all other ids are new again, so that the peer's next segment is obeyed, even if it is a
    /// retransmission.
    #[cold]
    pub(super) fn obeyed(&mut self, (key_id, rnext_key_id): (KeyId, KeyId), is_acknowledgment_newer: bool) {
        if !self.signs_with(rnext_key_id) && !is_acknowledgment_newer && *self != Self::ALL {
            *self = Self::NONE;
            add(&mut self.key_ids, key_id);
            self.signs_with(rnext_key_id);
        }
    }
}

/// Puts an id in front. Returns whether it is new.
#[cold]
fn add([count, ids @ ..]: &mut [u8; 8], KeyId(id): KeyId) -> bool {
    if *count == u8::MAX {
        return false;
    }
    let known = ids.iter().take(usize::from(*count)).position(|known| *known == id);
    let moved = known.unwrap_or(ids.len() - 1);
    ids.copy_within(..moved, 1);
    ids[0] = id;
    *count = (*count + u8::from(known.is_none())).min(ids.len() as u8);
    known.is_none()
}

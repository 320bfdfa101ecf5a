//! Which keys a connection has heard of.

use crate::types::KeyId;

/// The KeyIDs and RNextKeyIDs of a connection's verified segments, the last seven different ones of each. The first segment under a
/// key, and the first that asks for one, is new whatever its numbers are.
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

    /// Adds the ids of a segment; returns whether either is new.
    #[inline]
    pub(super) fn add(&mut self, key_id: KeyId, rnext_key_id: KeyId) -> bool {
        // The common case: the same ids as the last time.
        let is_last = |ids: &[u8; 8], KeyId(id): KeyId| ids[0] > 0 && ids[1] == id;
        if is_last(&self.key_ids, key_id) && is_last(&self.rnext_key_ids, rnext_key_id) {
            return false;
        }
        add(&mut self.key_ids, key_id) | add(&mut self.rnext_key_ids, rnext_key_id)
    }
}

/// Puts an id in front. Returns whether it is new.
#[cold]
fn add([count, ids @ ..]: &mut [u8; 8], KeyId(id): KeyId) -> bool {
    if *count == u8::MAX {
        return false;
    }
    let known = ids[..usize::from(*count)].iter().position(|known| *known == id);
    let moved = known.unwrap_or(ids.len() - 1);
    ids.copy_within(..moved, 1);
    ids[0] = id;
    *count = (*count + u8::from(known.is_none())).min(ids.len() as u8);
    known.is_none()
}

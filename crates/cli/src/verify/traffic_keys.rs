//! The traffic keys of the connections that are busy.
//!
//! A traffic key with its prepared MAC takes 208 octets and is derived within a microsecond, so an idle connection has none.

use wireseal_mac::prefetch;
use wireseal_tcp_ao::TrafficKey;

use super::key_table::Candidate;
use super::report::Sender;

/// How many are kept: 9 MiB.
const MOST: usize = 40 << 10;
/// How many are kept in one piece of memory, which never moves: no copy of a key stays behind.
const CHUNK: usize = 1 << 8;

/// Where the traffic key of a direction is, unless another one has taken its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot(u32);

impl Default for Slot {
    fn default() -> Self {
        Self(u32::MAX)
    }
}

/// One direction of a connection, by the connection's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Owner(u64);

impl Owner {
    const NOBODY: Self = Self(0);

    #[inline]
    pub(super) const fn new(connection: u64, sender: Sender) -> Self {
        Self(connection << 1 | sender as u64)
    }
}

#[derive(Debug)]
struct Kept {
    owner: Owner,
    known: (Candidate, TrafficKey),
}

#[derive(Default, Debug)]
pub(super) struct TrafficKeys {
    chunks: Vec<Vec<Kept>>,
    /// The places of directions that are over.
    free: Vec<u32>,
    /// The place that is taken next when all are.
    next: u32,
}

impl TrafficKeys {
    #[inline]
    fn at(&self, slot: Slot) -> Option<&Kept> {
        self.chunks.get(slot.0 as usize / CHUNK)?.get(slot.0 as usize % CHUNK)
    }

    fn at_mut(&mut self, slot: Slot) -> Option<&mut Kept> {
        self.chunks.get_mut(slot.0 as usize / CHUNK)?.get_mut(slot.0 as usize % CHUNK)
    }

    /// The traffic key of a direction, and the key it was derived from, if it is kept.
    #[inline]
    pub(super) fn get(&self, slot: Slot, owner: Owner) -> Option<&(Candidate, TrafficKey)> {
        self.at(slot).filter(|kept| kept.owner == owner).map(|kept| &kept.known)
    }

    /// Prefetches a traffic key.
    #[inline]
    pub(super) fn prefetch(&self, slot: Slot) {
        if let Some(kept) = self.at(slot) {
            prefetch(kept, size_of::<Kept>());
        }
    }

    /// Keeps a direction's traffic key instead of the one before, which is wiped.
    pub(super) fn keep(&mut self, slot: &mut Slot, owner: Owner, candidate: Candidate, key: TrafficKey) {
        let kept = Kept { owner, known: (candidate, key) };
        if self.get(*slot, owner).is_none() {
            *slot = self.place();
        }
        match self.at_mut(*slot) {
            Some(place) => *place = kept,
            None => self.chunks[slot.0 as usize / CHUNK].push(kept),
        }
    }

    /// A place for another direction's traffic key: that of one that is over, a new one, or that of the one that was kept first.
    fn place(&mut self) -> Slot {
        if let Some(place) = self.free.pop() {
            return Slot(place);
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) && self.chunks.len() < MOST / CHUNK {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        match self.chunks.last() {
            Some(chunk) if chunk.len() < CHUNK => {
                Slot(((self.chunks.len() - 1) * CHUNK + chunk.len()) as u32)
            }
            _ => {
                let place = self.next;
                self.next = (place + 1) % MOST as u32;
                Slot(place)
            }
        }
    }

    /// Gives the place of a direction that is over to others.
    pub(super) fn release(&mut self, slot: Slot, owner: Owner) {
        if let Some(kept) = self.at_mut(slot)
            && kept.owner == owner
        {
            kept.owner = Owner::NOBODY;
            self.free.push(slot.0);
        }
    }
}

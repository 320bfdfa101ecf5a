//! The bounded table of connections: an index by socket pair, queues by age, and shares of the peers, all linked through the caller's
//! slots, so that nothing takes longer in a full table than in an empty one.

use core::fmt;
use core::time::Duration;

use crate::shim::entry::{Entry, Stage, TimeLimits};
use crate::shim::{End, HashKey};
use crate::types::SocketPair;

/// No slot.
const NONE: u32 = u32::MAX;

/// A slot for one connection in a [`Shim`](crate::shim::Shim)'s table: 1,216 octets, or 896 with HMAC-SHA-1 as the only algorithm.
pub struct ShimSlot {
    entry: Option<Entry>,
    /// The first slot of the bucket that has this slot's number.
    bucket: u32,
    /// The bucket that this slot's connection is in.
    home: u32,
    /// The next slot of the bucket that this slot's connection is in, or the next free slot.
    next: u32,
    /// The queue that the connection is in, and its neighbours there.
    queue: Stage,
    older: u32,
    newer: u32,
    /// The first slot of the list of the peers that have this slot's number, modulo the length of the table.
    peers_first: u32,
    /// The neighbours in the list of this slot's peer.
    peers_before: u32,
    peers_next: u32,
    /// The neighbours in the share that the handshake counts in.
    share_older: u32,
    share_newer: u32,
    /// The shares of the peers that have this slot's number: of what this end opens, and of what the peer opens.
    shares: [Share; 2],
    /// For each of the two kinds, the first share whose number of handshakes is this slot's number plus one.
    ranked: [u32; 2],
}

#[cfg(all(feature = "default", target_pointer_width = "64"))]
const _: () = assert!(size_of::<ShimSlot>() == 1216);
#[cfg(all(
    feature = "hmac-sha1",
    not(any(feature = "hmac-sha256", feature = "aes-128-cmac", feature = "kmac256")),
    target_pointer_width = "64"
))]
const _: () = assert!(size_of::<ShimSlot>() == 896);

impl ShimSlot {
    /// A free slot.
    pub const EMPTY: Self = Self {
        entry: None,
        bucket: NONE,
        home: NONE,
        next: NONE,
        queue: Stage::Open,
        older: NONE,
        newer: NONE,
        peers_first: NONE,
        peers_before: NONE,
        peers_next: NONE,
        share_older: NONE,
        share_newer: NONE,
        shares: [Share::EMPTY; 2],
        ranked: [NONE; 2],
    };

    /// `count` free slots, in a `Vec` or any other collection. For an array, write `[const { ShimSlot::EMPTY }; 8]`.
    ///
    /// ```
    /// # use wireseal_tcp_ao::shim::ShimSlot;
    /// let table: Vec<ShimSlot> = ShimSlot::many(1000);
    /// # assert_eq!(table.len(), 1000);
    /// ```
    #[must_use]
    pub fn many<C: FromIterator<Self>>(count: usize) -> C {
        core::iter::repeat_with(Self::default).take(count).collect()
    }
}

impl Default for ShimSlot {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl fmt::Debug for ShimSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShimSlot").field(&self.entry.as_ref().map(|entry| &entry.connection)).finish()
    }
}

/// The handshakes that one end has opened with one peer. Peers whose indices have the same remainder share one.
#[derive(Clone, Copy)]
struct Share {
    count: u32,
    /// Its handshakes, linked from the oldest to the newest.
    oldest: u32,
    newest: u32,
    /// The neighbours among the shares with equally many handshakes.
    before: u32,
    next: u32,
    /// From this second on, a peer without handshakes may evict another's after [`TimeLimits::turn`].
    next_turn: u32,
}

impl Share {
    const EMPTY: Self = Self { count: 0, oldest: NONE, newest: NONE, before: NONE, next: NONE, next_turn: 0 };
}

/// How many connections at the head of a queue are examined to find an expired one.
const LOOKED_AT: usize = 8;

/// The connections of one stage, the first to enter it at the front.
#[derive(Clone, Copy)]
struct Queue {
    oldest: u32,
    newest: u32,
}

pub(super) struct Table<T> {
    slots: T,
    hash_key: HashKey,
    free: u32,
    queues: [Queue; Stage::ALL.len()],
    /// The number of handshakes in the largest share of each kind.
    most: [u32; 2],
}

impl<T: AsRef<[ShimSlot]> + AsMut<[ShimSlot]>> Table<T> {
    /// An empty table; what the slots held is gone.
    pub(super) fn new(hash_key: HashKey, mut slots: T) -> Self {
        let mut free = NONE;
        for (index, slot) in slots.as_mut().iter_mut().enumerate().take(NONE as usize).rev() {
            *slot = ShimSlot { next: free, ..ShimSlot::EMPTY };
            free = index as u32;
        }
        let queues = [Queue { oldest: NONE, newest: NONE }; Stage::ALL.len()];
        Self { slots, hash_key, free, queues, most: [0; 2] }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries_from(0).map(|(_, entry)| entry)
    }

    /// The connections in the slots from `place` on, each with its slot's number.
    pub(super) fn entries_from(&self, place: usize) -> impl Iterator<Item = (usize, &Entry)> {
        let slots = self.slots.as_ref().iter().enumerate().skip(place);
        slots.filter_map(|(place, slot)| Some((place, slot.entry.as_ref()?)))
    }

    pub(super) fn get(&self, pair: &SocketPair) -> Option<&Entry> {
        self.slot(self.find(pair)?).entry.as_ref()
    }

    pub(super) fn get_mut(&mut self, pair: &SocketPair) -> Option<&mut Entry> {
        let index = self.find(pair)?;
        self.slot_mut(index).entry.as_mut()
    }

    pub(super) fn remove(&mut self, pair: &SocketPair) {
        if let Some(index) = self.find(pair) {
            self.vacate(index);
        }
    }

    /// Removes a peer's connections for which `keep` returns false; scans only that peer's list.
    pub(super) fn retain_of(&mut self, peer: usize, mut keep: impl FnMut(&mut Entry) -> bool) {
        let Some(list) = self.list_of(peer) else { return };
        let mut index = self.slot(list).peers_first;
        while index != NONE {
            let slot = self.slot_mut(index);
            let next = slot.peers_next;
            if slot.entry.as_mut().is_some_and(|entry| entry.peer == peer && !keep(entry)) {
                self.vacate(index);
            }
            index = next;
        }
    }

    /// Moves the connections of a peer for which `moves` returns true to another peer.
    pub(super) fn change_peer(&mut self, from: usize, to: usize, moves: impl Fn(&Entry) -> bool) {
        let Some(list) = self.list_of(from) else { return };
        let mut index = self.slot(list).peers_first;
        while index != NONE {
            let next = self.slot(index).peers_next;
            if self.entry(index).is_some_and(|entry| entry.peer == from && moves(entry)) {
                self.leave_share(index);
                self.leave_peer(index);
                if let Some(entry) = &mut self.slot_mut(index).entry {
                    entry.peer = to;
                }
                self.join_peer(index);
                self.join_share(index);
            }
            index = next;
        }
    }

    /// Removes the connections for which `keep` returns false; scans every slot.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&mut Entry) -> bool) {
        for index in 0..self.slots.as_ref().len().min(NONE as usize) as u32 {
            if self.slot_mut(index).entry.as_mut().is_some_and(|entry| !keep(entry)) {
                self.vacate(index);
            }
        }
    }

    /// Moves a connection to the end of its stage's queue.
    pub(super) fn settle(&mut self, pair: &SocketPair) {
        if let Some(index) = self.find(pair) {
            self.leave_queue(index);
            self.join_queue(index);
        }
    }

    /// Inserts a connection, where [`Self::make_room`] finds room. On error, nothing has changed.
    pub(super) fn insert(
        &mut self,
        entry: Entry,
        now: Duration,
        limits: &TimeLimits,
        ended: impl FnMut(&Entry, End),
    ) -> Result<(), ()> {
        let pair = entry.connection.pair();
        if !self.make_room(Some(&pair), (entry.peer, entry.stage()), now, limits, ended) {
            return Err(());
        }
        let index = self.free;
        let bucket = self.bucket_of(&pair);
        self.free = self.slot(index).next;
        let first = core::mem::replace(&mut self.slot_mut(bucket).bucket, index);
        let slot = self.slot_mut(index);
        (slot.entry, slot.next, slot.home) = (Some(entry), first, bucket);
        self.join_queue(index);
        self.join_peer(index);
        Ok(())
    }

    /// Makes room for a peer's connection: by replacing one with the same pair, with a free slot, or by evicting one that has expired or
    /// closed, or a [handshake](Self::handshake_in_the_way).
    ///
    /// An open connection is evicted only after hours without progress. `ended` is told which connection was removed, and why. Pass `None`
    /// for `pair` if no connection has it; this saves a search.
    pub(super) fn make_room(
        &mut self,
        pair: Option<&SocketPair>,
        newcomer: (usize, Stage),
        now: Duration,
        limits: &TimeLimits,
        mut ended: impl FnMut(&Entry, End),
    ) -> bool {
        let same = pair.and_then(|pair| self.find(pair)).map(|index| (index, End::Replaced));
        let in_the_way = same.or_else(|| {
            let index = Some(self.free)
                .filter(|free| *free == NONE)
                .and_then(|_| self.least_valuable(newcomer, now, limits))?;
            let has_expired = self.entry(index)?.has_expired(now, limits);
            Some((index, if has_expired { End::Expired } else { End::Evicted }))
        });
        if let Some((index, why)) = in_the_way {
            if let Some(entry) = self.entry(index) {
                ended(entry, why);
            }
            if why == End::Evicted {
                self.had_turn(index, now, limits);
            }
            self.vacate(index);
        }
        self.free != NONE
    }

    /// The slot that a new connection may take in a full table. The number of steps does not grow with the table.
    fn least_valuable(
        &mut self,
        newcomer: (usize, Stage),
        now: Duration,
        limits: &TimeLimits,
    ) -> Option<u32> {
        for stage in Stage::ALL {
            for _ in 0..LOOKED_AT {
                let oldest = self.queue(stage).oldest;
                let Some(entry) = self.entry(oldest) else { break };
                if entry.has_expired(now, limits) {
                    return Some(oldest);
                }
                if entry.last_used() <= entry.queued {
                    break;
                }
                // It has been used since it was queued; others may be older.
                self.leave_queue(oldest);
                self.join_queue(oldest);
            }
        }
        self.oldest(Stage::Closed).or_else(|| self.handshake_in_the_way(newcomer, now, limits))
    }

    fn vacate(&mut self, index: u32) {
        self.leave_queue(index);
        self.leave_peer(index);
        let ShimSlot { home: bucket, next, .. } = *self.slot(index);
        let first = self.slot(bucket).bucket;
        if first == index {
            self.slot_mut(bucket).bucket = next;
        } else {
            let mut before = first;
            while self.slot(before).next != index {
                before = self.slot(before).next;
            }
            self.slot_mut(before).next = next;
        }
        let free = core::mem::replace(&mut self.free, index);
        let slot = self.slot_mut(index);
        // From a constant: its unused octets are zeros, not what the stack had there.
        (slot.entry, slot.next) = (const { None }, free);
    }

    fn join_queue(&mut self, index: u32) {
        let Some(entry) = &mut self.slot_mut(index).entry else { return };
        entry.queued = entry.last_used();
        let stage = entry.stage();
        let last = core::mem::replace(&mut self.queue_mut(stage).newest, index);
        let slot = self.slot_mut(index);
        (slot.queue, slot.older, slot.newer) = (stage, last, NONE);
        match last {
            NONE => self.queue_mut(stage).oldest = index,
            _ => self.slot_mut(last).newer = index,
        }
        self.join_share(index);
    }

    fn leave_queue(&mut self, index: u32) {
        self.leave_share(index);
        let ShimSlot { queue: stage, older, newer, .. } = *self.slot(index);
        match older {
            NONE => self.queue_mut(stage).oldest = newer,
            _ => self.slot_mut(older).newer = newer,
        }
        match newer {
            NONE => self.queue_mut(stage).newest = older,
            _ => self.slot_mut(newer).older = older,
        }
    }

    fn join_peer(&mut self, index: u32) {
        let Some(list) = self.entry(index).and_then(|entry| self.list_of(entry.peer)) else { return };
        let next = core::mem::replace(&mut self.slot_mut(list).peers_first, index);
        let slot = self.slot_mut(index);
        (slot.peers_before, slot.peers_next) = (NONE, next);
        if next != NONE {
            self.slot_mut(next).peers_before = index;
        }
    }

    fn leave_peer(&mut self, index: u32) {
        let Some(list) = self.entry(index).and_then(|entry| self.list_of(entry.peer)) else { return };
        let ShimSlot { peers_before: before, peers_next: next, .. } = *self.slot(index);
        match before {
            NONE => self.slot_mut(list).peers_first = next,
            _ => self.slot_mut(before).peers_next = next,
        }
        if next != NONE {
            self.slot_mut(next).peers_before = before;
        }
    }

    /// The slot that holds the head of a peer's list. Peers whose indices have the same remainder share a list.
    fn list_of(&self, peer: usize) -> Option<u32> {
        let slots = self.slots.as_ref().len().min(NONE as usize);
        peer.checked_rem(slots).map(|list| list as u32)
    }

    fn find(&self, pair: &SocketPair) -> Option<u32> {
        if self.slots.as_ref().is_empty() {
            return None;
        }
        let mut index = self.slot(self.bucket_of(pair)).bucket;
        while let Some(entry) = self.entry(index) {
            if entry.connection.pair() == *pair {
                return Some(index);
            }
            index = self.slot(index).next;
        }
        None
    }

    fn bucket_of(&self, pair: &SocketPair) -> u32 {
        self.hash_key.place_of_pair(pair, self.slots.as_ref().len()) as u32
    }

    fn entry(&self, index: u32) -> Option<&Entry> {
        self.slots.as_ref().get(index as usize)?.entry.as_ref()
    }

    fn slot(&self, index: u32) -> &ShimSlot {
        &self.slots.as_ref()[index as usize]
    }

    fn slot_mut(&mut self, index: u32) -> &mut ShimSlot {
        &mut self.slots.as_mut()[index as usize]
    }

    /// The connection that came first into the queue of its stage.
    fn oldest(&self, stage: Stage) -> Option<u32> {
        Some(self.queue(stage).oldest).filter(|oldest| *oldest != NONE)
    }

    const fn queue(&self, stage: Stage) -> Queue {
        self.queues[stage as usize]
    }

    const fn queue_mut(&mut self, stage: Stage) -> &mut Queue {
        &mut self.queues[stage as usize]
    }
}

/// The share of a peer that a connection counts in, if any: 0 for what this end has opened, 1 for what the peer has.
const fn way(stage: Stage) -> Option<usize> {
    match stage {
        Stage::OpenedHere => Some(0),
        Stage::OpenedThere => Some(1),
        Stage::Open | Stage::Closing | Stage::Closed => None,
    }
}

fn whole_seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

/// Half-open connections by peer, so that no peer fills a full table at the cost of the others.
///
/// A replayed SYN verifies as well as a genuine one, and a peer can send any number. So each peer has two shares, one for what it opens and
/// one for what this end opens to it. In a full table, the share with the most handshakes gives one up. Shares are linked by their number
/// of handshakes, so that the largest is found at once.
impl<T: AsRef<[ShimSlot]> + AsMut<[ShimSlot]>> Table<T> {
    /// The handshake that a full table evicts for a peer's new connection: one of a larger share, or the oldest of the peer's own share if
    /// that has had no answer for a while. An open connection takes the oldest of the largest share.
    ///
    /// A peer without handshakes waits less, unless it has just had its turn: a few peers' recorded SYNs, however often they are
    /// replayed, keep nobody else out.
    fn handshake_in_the_way(
        &self,
        (peer, stage): (usize, Stage),
        now: Duration,
        limits: &TimeLimits,
    ) -> Option<u32> {
        let largest = (0..2).max_by_key(|way| self.most[*way])?;
        let most = self.most[largest];
        let of_largest = || {
            let list = self.slot(most.checked_sub(1)?).ranked[largest];
            Some(self.slot(list).shares[largest].oldest)
        };
        let Some(way) = way(stage) else { return of_largest() };
        let own = self.slot(self.list_of(peer)?).shares[way];
        let has_lasted = |index: u32, limit: Duration| {
            let since = self.entry(index).map(Entry::last_used);
            since.is_some_and(|since| now.saturating_sub(since) >= limit)
        };
        let is_of_larger = |index: &u32| self.share_of(*index).is_some_and(|share| share.count > own.count);
        // A peer whose turn it is waits less. What this end opens cannot be a replay.
        let has_turn = own.count == 0 && own.next_turn <= whole_seconds(now);
        let limit = if has_turn { limits.turn } else { limits.unanswered };
        let mut oldest = [(Stage::OpenedThere, limit), (Stage::OpenedHere, limits.unanswered)]
            .into_iter()
            .filter_map(|(stage, limit)| self.oldest(stage).filter(|index| has_lasted(*index, limit)));
        // A difference of one is not enough: the two would evict each other in turn.
        oldest
            .find(is_of_larger)
            .or_else(|| of_largest().filter(|_| most >= own.count + 2))
            .or_else(|| Some(own.oldest).filter(|index| has_lasted(*index, limits.unanswered)))
    }

    /// Records that a handshake was evicted: its peer has had its turn.
    fn had_turn(&mut self, index: u32, now: Duration, limits: &TimeLimits) {
        if let Some((list, way)) = self.place_of_share(index) {
            let next_turn = whole_seconds(now.saturating_add(limits.unanswered));
            self.slot_mut(list).shares[way].next_turn = next_turn;
        }
    }

    fn share_of(&self, index: u32) -> Option<&Share> {
        let (list, way) = self.place_of_share(index)?;
        Some(&self.slot(list).shares[way])
    }

    /// The slot that has the share of a queued connection, and which of the two it is.
    fn place_of_share(&self, index: u32) -> Option<(u32, usize)> {
        let peer = self.entry(index)?.peer;
        Some((self.list_of(peer)?, way(self.slot(index).queue)?))
    }

    fn join_share(&mut self, index: u32) {
        let Some((list, way)) = self.place_of_share(index) else { return };
        self.recount(list, way, 1);
        let older = core::mem::replace(&mut self.slot_mut(list).shares[way].newest, index);
        let slot = self.slot_mut(index);
        (slot.share_older, slot.share_newer) = (older, NONE);
        match older {
            NONE => self.slot_mut(list).shares[way].oldest = index,
            _ => self.slot_mut(older).share_newer = index,
        }
    }

    fn leave_share(&mut self, index: u32) {
        let Some((list, way)) = self.place_of_share(index) else { return };
        self.recount(list, way, -1);
        let ShimSlot { share_older: older, share_newer: newer, .. } = *self.slot(index);
        match older {
            NONE => self.slot_mut(list).shares[way].oldest = newer,
            _ => self.slot_mut(older).share_newer = newer,
        }
        match newer {
            NONE => self.slot_mut(list).shares[way].newest = older,
            _ => self.slot_mut(newer).share_older = older,
        }
    }

    /// Moves a share to those that have one handshake more, or less.
    fn recount(&mut self, list: u32, way: usize, change: i32) {
        let Share { count, before, next, .. } = self.slot(list).shares[way];
        if let Some(rank) = count.checked_sub(1) {
            match before {
                NONE => self.slot_mut(rank).ranked[way] = next,
                _ => self.slot_mut(before).shares[way].next = next,
            }
            if next != NONE {
                self.slot_mut(next).shares[way].before = before;
            }
            // The share leaves the highest rank empty and goes one rank down, or up.
            if self.most[way] == count && self.slot(rank).ranked[way] == NONE {
                self.most[way] = rank;
            }
        }
        let count = count.saturating_add_signed(change);
        let next = match count.checked_sub(1) {
            Some(rank) => core::mem::replace(&mut self.slot_mut(rank).ranked[way], list),
            None => NONE,
        };
        if next != NONE {
            self.slot_mut(next).shares[way].before = list;
        }
        let share = &mut self.slot_mut(list).shares[way];
        (share.count, share.before, share.next) = (count, NONE, next);
        self.most[way] = self.most[way].max(count);
    }
}

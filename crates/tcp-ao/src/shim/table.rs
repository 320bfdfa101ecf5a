//! The bounded table of connections: an index by socket pair and queues by age, both linked through the caller's slots, so that
//! nothing takes longer in a full table than in an empty one.

use core::time::Duration;

use crate::shim::entry::{Entry, Stage, TimeLimits};
use crate::shim::slot::{NONE, ShimSlot};
use crate::shim::{End, HashKey};
use crate::types::SocketPair;

/// How many connections at the head of a queue are looked at to find one whose time is over.
const LOOKED_AT: usize = 8;

/// The connections of one stage, those that came into it first in front.
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
    /// How many handshakes the largest shares have.
    pub(super) most: [u32; 2],
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
        self.slots.as_ref().iter().filter_map(|slot| slot.entry.as_ref())
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

    /// Forgets the connections of a peer that `keep` says `false` of. Looks at that peer's alone, or nearly so.
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

    /// Forgets the connections that `keep` says `false` of. Looks at every slot.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&mut Entry) -> bool) {
        for index in 0..self.slots.as_ref().len().min(NONE as usize) as u32 {
            if self.slot_mut(index).entry.as_mut().is_some_and(|entry| !keep(entry)) {
                self.vacate(index);
            }
        }
    }

    /// Puts a connection into the queue of its stage, which a segment has changed.
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
        if !self.make_room(&pair, (entry.peer, entry.stage()), now, limits, ended) {
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

    /// Makes room for a connection of a peer's. It replaces one with the same pair, or takes a free slot, or that of a connection that
    /// has expired or closed, or of a [handshake](Self::handshake_in_the_way).
    ///
    /// An open connection is evicted only after hours without progress. `ended` hears which connection made way, and why.
    pub(super) fn make_room(
        &mut self,
        pair: &SocketPair,
        newcomer: (usize, Stage),
        now: Duration,
        limits: &TimeLimits,
        mut ended: impl FnMut(&Entry, End),
    ) -> bool {
        let same = self.find(pair).map(|index| (index, End::Replaced));
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

    /// The slot that a new connection may have in a full table. It takes no more steps in a larger one.
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
                // It has been used since it was put here, and goes behind those that may not have been.
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
        (slot.entry, slot.next) = (None, free);
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

    /// The slot that has the first connection of a peer, which others with the same remainder share.
    pub(super) fn list_of(&self, peer: usize) -> Option<u32> {
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

    pub(super) fn entry(&self, index: u32) -> Option<&Entry> {
        self.slots.as_ref().get(index as usize)?.entry.as_ref()
    }

    pub(super) fn slot(&self, index: u32) -> &ShimSlot {
        &self.slots.as_ref()[index as usize]
    }

    pub(super) fn slot_mut(&mut self, index: u32) -> &mut ShimSlot {
        &mut self.slots.as_mut()[index as usize]
    }

    /// The connection that came first into the queue of its stage.
    pub(super) fn oldest(&self, stage: Stage) -> Option<u32> {
        Some(self.queue(stage).oldest).filter(|oldest| *oldest != NONE)
    }

    const fn queue(&self, stage: Stage) -> Queue {
        self.queues[stage as usize]
    }

    const fn queue_mut(&mut self, stage: Stage) -> &mut Queue {
        &mut self.queues[stage as usize]
    }
}

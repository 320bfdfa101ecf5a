//! Half-open connections by peer, so that none takes the places of the others in a full table.
//!
//! A replayed SYN verifies as well as a genuine one, and a peer can send any number. So each peer has two shares, one for what it opens
//! and one for what this end opens to it: in a full table, the share with the most handshakes gives one up. The shares are linked by how
//! many handshakes they have, so that the largest is found at once.

use core::time::Duration;

use crate::shim::entry::{Entry, Stage, TimeLimits};
use crate::shim::slot::{NONE, Share, ShimSlot};
use crate::shim::table::Table;

/// Which of a peer's two shares a connection counts in, if any: 0 for what this end has opened.
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

impl<T: AsRef<[ShimSlot]> + AsMut<[ShimSlot]>> Table<T> {
    /// The handshake that a full table gives up for a new connection of a peer: one of a larger share, or the oldest of its own share if
    /// that has had no answer for a while. An open connection takes the oldest of the largest share.
    ///
    /// A peer without any need not wait so long for another's place, unless it has just had its turn. So a few peers' recorded
    /// SYNs keep no place from others, however often they are replayed.
    pub(super) fn handshake_in_the_way(
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
        // A peer whose turn it is need not wait as long; what this end opens is no replay.
        let has_turn = own.count == 0 && own.next_turn <= whole_seconds(now);
        let limit = if has_turn { limits.turn } else { limits.unanswered };
        let mut oldest = [(Stage::OpenedThere, limit), (Stage::OpenedHere, limits.unanswered)]
            .into_iter()
            .filter_map(|(stage, limit)| self.oldest(stage).filter(|index| has_lasted(*index, limit)));
        // One more than the newcomer's is not enough: the two would take each other's places in turn.
        oldest
            .find(is_of_larger)
            .or_else(|| of_largest().filter(|_| most >= own.count + 2))
            .or_else(|| Some(own.oldest).filter(|index| has_lasted(*index, limits.unanswered)))
    }

    /// Records that a handshake makes way for another: its peer has had its turn.
    pub(super) fn had_turn(&mut self, index: u32, now: Duration, limits: &TimeLimits) {
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

    pub(super) fn join_share(&mut self, index: u32) {
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

    pub(super) fn leave_share(&mut self, index: u32) {
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

    /// Puts a share among those that have one handshake more, or less.
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
            // It goes to the rank below, or above, which then is the highest.
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

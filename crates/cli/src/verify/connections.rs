//! The live connections: found by their ends, over after a while, given up if there are too many.

use std::cmp::Reverse;
use std::collections::VecDeque;

use hashbrown::HashTable;
use slab::Slab;
use wireseal_mac::prefetch;
use wireseal_tcp_ao::{Endpoint, Isn, Segment};

use super::connection::{Phase, TcpConnection};
use super::ends::{Ends, Scopes};
use super::learn::Wait;
use super::live::LiveConnection;
use crate::capture::{Place, Time};

/// How long a closed connection is remembered for late segments.
const LINGER: Wait = Wait { nanoseconds: 60_000_000_000, packets: 100_000 };
/// One in this many live connections may be a closed one that is remembered: a flood of short ones would take much memory.
const CLOSED_OF_LIVE: usize = 8;
/// One in this many live connections may be one that has failed and never had a good segment: anyone can begin such, and they take more
/// memory.
const FAILING_OF_LIVE: usize = 4;
/// How long a connection with nothing but SYNs is kept after its last segment; stacks resend a SYN for about two minutes.
const OPENING: Wait = Wait { nanoseconds: 180_000_000_000, packets: 1_000_000 };

/// A live connection's place in [`Connections`].
pub(super) type Index = u32;

/// The time of a place, or the packet's number if it has no time, in eight octets: a million connections wait.
#[derive(Clone, Copy, Debug)]
struct Since(u64);

impl Since {
    /// Set for a packet's number. Times have this bit from 2262 on.
    const IS_PACKET: u64 = 1 << 63;

    const fn of(place: Place) -> Self {
        Self(match place.time {
            Some(time) => time.unix_nanoseconds() & !Self::IS_PACKET,
            None => place.packet | Self::IS_PACKET,
        })
    }

    const fn place(self) -> Place {
        let number = self.0 & !Self::IS_PACKET;
        match self.0 & Self::IS_PACKET {
            0 => Place { packet: 0, time: Some(Time::from_unix_nanoseconds(number)) },
            _ => Place { packet: number, time: None },
        }
    }
}

/// A connection to look at again.
#[derive(Clone, Copy, Debug)]
struct Due {
    since: Since,
    index: Index,
    /// The lower half of its number, which tells whether the place is another's now.
    number: u32,
}

impl Due {
    const fn new(index: Index, connection: &TcpConnection, since: Place) -> Self {
        Self { since: Since::of(since), index, number: connection.number as u32 }
    }

    /// Whether the connection still has its place.
    fn is_live(&self, live: &Slab<LiveConnection>) -> bool {
        live.get(self.index as usize).is_some_and(|live| live.connection.number as u32 == self.number)
    }
}

/// Adds to a queue. What is over stays in it until its turn, but not if that is most of the queue.
fn enqueue(queue: &mut VecDeque<Due>, due: Due, live: &Slab<LiveConnection>) {
    if queue.len() > LEAST_TIDIED + 2 * live.len() {
        queue.retain(|due| due.is_live(live));
    }
    queue.push_back(due);
}

/// Queues up to this long are left alone.
const LEAST_TIDIED: usize = 1024;

/// Takes the first connection of a queue if it has waited long enough.
#[inline]
fn take_due(queue: &mut VecDeque<Due>, wait: &Wait, now: Place) -> Option<Due> {
    if wait.is_over(queue.front()?.since.place(), now) { queue.pop_front() } else { None }
}

/// Where the connection with this hash is.
#[derive(Clone, Copy, Debug)]
struct Found {
    hash: u32,
    index: Index,
}

/// Spreads half of a hash, so that a table can grow without the connections.
const fn spread(hash: u32) -> u64 {
    (hash as u64) << 32 | hash as u64
}

#[derive(Debug)]
pub(super) struct Connections {
    table: HashTable<Found>,
    live: Slab<LiveConnection>,
    scopes: Scopes,
    /// How often a connection was added or taken out.
    changes: u64,
    /// Connections that had no good segment when they were queued.
    opening: VecDeque<Due>,
    closed: VecDeque<Due>,
    /// Connections that had failed, and had no good segment when they were queued.
    failing: VecDeque<Due>,
    /// How many are live that have failed and have no good segment.
    live_failing: usize,
    /// The most that are live.
    most: usize,
    /// Where the search for one to give up goes on.
    hand: usize,
    given_up: GivenUp,
    /// Those that had closed and were forgotten before their time.
    forgotten: GivenUp,
}

impl Connections {
    pub(super) fn new(most: usize) -> Self {
        Self {
            table: HashTable::new(),
            live: Slab::new(),
            scopes: Scopes::default(),
            changes: 0,
            opening: VecDeque::new(),
            closed: VecDeque::new(),
            failing: VecDeque::new(),
            live_failing: 0,
            most: most.clamp(1, Index::MAX as usize),
            hand: 0,
            given_up: GivenUp::default(),
            forgotten: GivenUp::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.live.len()
    }

    /// The live connections, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &LiveConnection> {
        self.live.iter().map(|(_, live)| live)
    }

    /// An index from [`find`](Self::find) is right as long as this is the same.
    pub(super) const fn changes(&self) -> u64 {
        self.changes
    }

    /// The connection between these ends.
    #[inline]
    pub(super) fn find(&self, ends: &Ends, hash: u64) -> Option<Index> {
        let hash = hash as u32;
        let is_it = |found: &Found| found.hash == hash && self.is_between(found.index, ends);
        self.table.find(spread(hash), is_it).map(|found| found.index)
    }

    /// A connection between ends with this hash: the right one if they are as many as their hashes, which is usual.
    #[inline]
    pub(super) fn guess(&self, hash: u64) -> Option<Index> {
        let hash = hash as u32;
        self.table.find(spread(hash), |found| found.hash == hash).map(|found| found.index)
    }

    /// Whether a live connection is between these ends.
    #[inline]
    pub(super) fn is_between(&self, index: Index, ends: &Ends) -> bool {
        let live = self.live.get(index as usize);
        live.is_some_and(|live| ends.are_of(&live.connection.ends, live.connection.scope))
    }

    #[inline]
    fn ends(&self, index: Index) -> Ends {
        let connection = self.get(index);
        Ends::of_connection(&connection.ends, connection.scope)
    }

    /// Where a segment's connection is that is not with its ends: in another scope, if it is the answer to what was seen there.
    #[inline]
    pub(super) fn home_elsewhere(
        &mut self,
        ends: &Ends,
        segment: &Segment<'_>,
        hash: impl Fn(&Ends) -> u64,
    ) -> Option<Ends> {
        if ends.scope.is_none() && self.scopes.is_empty() {
            return None;
        }
        let source = segment.source();
        if let Some(home) = self.scopes.joined(ends, &source) {
            return Some(home);
        }
        let answers = |other: &Ends| {
            self.find(other, hash(other)).is_some_and(|index| self.get(index).is_answered_by(segment))
        };
        let home = self.scopes.others(ends).find(answers)?;
        self.scopes.join(ends, &source, &home);
        Some(home)
    }

    /// The ISNs of these ends, in this order, in another scope.
    pub(super) fn isns_elsewhere(
        &self,
        ends: &Ends,
        in_order: &[Endpoint; 2],
        hash: impl Fn(&Ends) -> u64,
    ) -> Option<[Isn; 2]> {
        if ends.scope.is_none() && self.scopes.is_empty() {
            return None;
        }
        self.scopes.others(ends).find_map(|other| {
            let connection = self.get(self.find(&other, hash(&other))?);
            let [one, two] = in_order.map(|end| connection.isn(connection.sender(&end)));
            Some([one?, two?])
        })
    }

    #[inline]
    pub(super) fn get(&self, index: Index) -> &TcpConnection {
        &self.live[index as usize].connection
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: Index) -> &mut LiveConnection {
        &mut self.live[index as usize]
    }

    #[inline]
    pub(super) fn prefetch(&self, index: Index) {
        prefetch(&self.live[index as usize], size_of::<LiveConnection>());
    }

    /// Adds a connection, with its first segment at `place`.
    pub(super) fn insert(
        &mut self,
        ends: &Ends,
        hash: u64,
        connection: TcpConnection,
        place: Place,
    ) -> Index {
        self.changes += 1;
        self.scopes.begin(ends);
        let index = self.live.vacant_key() as Index;
        enqueue(&mut self.opening, Due::new(index, &connection, place), &self.live);
        self.live.insert(LiveConnection::new(connection));
        let hash = hash as u32;
        self.table.insert_unique(spread(hash), Found { hash, index }, |found| spread(found.hash));
        index
    }

    /// Takes out a connection.
    pub(super) fn remove(&mut self, index: Index, hash: impl Fn(&Ends) -> u64) -> LiveConnection {
        self.changes += 1;
        let ends = self.ends(index);
        self.scopes.end(&ends);
        if let Ok(entry) = self.table.find_entry(spread(hash(&ends) as u32), |found| found.index == index) {
            entry.remove();
        }
        let removed = self.live.remove(index as usize);
        self.live_failing -= usize::from(removed.connection.is_failing());
        removed
    }

    /// Called when a connection has been closed.
    pub(super) fn note_closed(&mut self, index: Index, place: Place) {
        let due = Due::new(index, self.get(index), place);
        enqueue(&mut self.closed, due, &self.live);
    }

    /// Called when a segment of a connection was judged that was failing before or is now, see [`TcpConnection::is_failing`].
    #[cold]
    pub(super) fn note_failing(&mut self, index: Index, was_failing: bool, place: Place) {
        let connection = self.get(index);
        match (was_failing, connection.is_failing()) {
            (false, true) => {
                let due = Due::new(index, connection, place);
                enqueue(&mut self.failing, due, &self.live);
                self.live_failing += 1;
            }
            (true, false) => self.live_failing -= 1,
            _ => {}
        }
    }

    /// If too many are failing, takes out the one that began to fail first. From now on [`is_given_up`](Self::is_given_up) knows its ends.
    #[inline]
    pub(super) fn take_failing(&mut self, hash: impl Fn(&Ends) -> u64) -> Option<LiveConnection> {
        if self.live_failing <= self.most.div_ceil(FAILING_OF_LIVE) {
            return None;
        }
        let first = self.next_failing()?;
        Some(self.give_up(first, hash))
    }

    /// Takes the connection that began to fail first out of the queue, if one is failing.
    fn next_failing(&mut self) -> Option<Index> {
        while let Some(due) = self.failing.pop_front() {
            if self.due(&due).is_some_and(TcpConnection::is_failing) {
                return Some(due.index);
            }
        }
        None
    }

    fn give_up(&mut self, index: Index, hash: impl Fn(&Ends) -> u64) -> LiveConnection {
        self.given_up.note(hash(&self.ends(index)));
        self.remove(index, hash)
    }

    /// The connection that is to be looked at again, if it is the same.
    fn due(&self, due: &Due) -> Option<&TcpConnection> {
        due.is_live(&self.live).then(|| self.get(due.index))
    }

    /// Takes out a connection that was closed long enough ago or never opened.
    #[inline]
    pub(super) fn take_over(
        &mut self,
        now: Place,
        hash: impl Fn(&Ends) -> u64 + Copy,
    ) -> Option<LiveConnection> {
        let over = self
            .next_closed(now)
            .or_else(|| self.next_of_too_many_closed(hash))
            .or_else(|| self.next_unopened(now))?;
        Some(self.remove(over, hash))
    }

    #[inline]
    fn next_closed(&mut self, now: Place) -> Option<Index> {
        while let Some(due) = take_due(&mut self.closed, &LINGER, now) {
            if self.due(&due).is_some_and(|connection| connection.phase == Phase::Closed) {
                return Some(due.index);
            }
        }
        None
    }

    /// The one that closed first, if too many are remembered. From now on [`is_given_up`](Self::is_given_up) knows its ends.
    #[inline]
    fn next_of_too_many_closed(&mut self, hash: impl Fn(&Ends) -> u64) -> Option<Index> {
        while self.closed.len() > self.most / CLOSED_OF_LIVE {
            let due = self.closed.pop_front()?;
            if self.due(&due).is_some_and(|connection| connection.phase == Phase::Closed) {
                self.forgotten.note(hash(&self.ends(due.index)));
                return Some(due.index);
            }
        }
        None
    }

    #[inline]
    fn next_unopened(&mut self, now: Place) -> Option<Index> {
        while let Some(due) = take_due(&mut self.opening, &OPENING, now) {
            let Some(connection) = self.due(&due) else { continue };
            let since = match connection.phase {
                Phase::Opening if OPENING.is_over(connection.last, now) => return Some(due.index),
                Phase::Opening => connection.last,
                Phase::Open if !connection.has_good() => now,
                Phase::Open | Phase::Closed => continue,
            };
            self.opening.push_back(Due { since: Since::of(since), ..due });
        }
        None
    }

    /// If there are as many as there may be, takes one out: one that is closed, or has no good segment, a failing one first, or was quiet for
    /// long. From now on [`is_given_up`](Self::is_given_up) knows its ends.
    pub(super) fn make_room(&mut self, hash: impl Fn(&Ends) -> u64) -> Option<LiveConnection> {
        if self.live.len() < self.most {
            return None;
        }
        let rank = |connection: &TcpConnection| match connection.phase {
            Phase::Closed => 0,
            _ if !connection.has_good() => 1,
            _ => 2,
        };
        let looked_at = (0..LOOKED_AT).map(|step| (self.hand + step) % self.live.capacity());
        let looked_at = looked_at.filter_map(|index| Some((index, &self.live.get(index)?.connection)));
        let worst = looked_at.min_by_key(|(_, connection)| (rank(connection), connection.last.packet));
        self.hand = (self.hand + LOOKED_AT) % self.live.capacity();
        let is_closed = worst.is_some_and(|(_, connection)| connection.phase == Phase::Closed);
        let worst = worst.map(|(index, _)| index as Index);
        let failing = if is_closed { None } else { self.next_failing() };
        // So many places may be free only if there are few connections.
        let worst = failing.or(worst).or_else(|| Some(self.live.iter().next()?.0 as Index))?;
        Some(self.give_up(worst, hash))
    }

    /// Whether a segment without a live connection may belong to one that was given up, or that had closed and was forgotten. `is_first`
    /// says that it is a SYN without ACK.
    pub(super) fn is_given_up(&self, hash: u64, is_first: bool) -> bool {
        let has_forgotten = self.given_up.has_forgotten || self.forgotten.has_forgotten;
        self.given_up.has(hash) || !is_first && (has_forgotten || self.forgotten.has(hash))
    }

    /// Takes out the rest, in the order of their first segments.
    pub(super) fn into_rest(mut self) -> impl Iterator<Item = LiveConnection> {
        let mut rest: Vec<Index> = self.live.iter().map(|(index, _)| index as Index).collect();
        rest.sort_unstable_by_key(|index| Reverse(self.get(*index).number));
        std::iter::from_fn(move || Some(self.live.remove(rest.pop()? as usize)))
    }
}

/// Of how many connections the one to give up is chosen.
const LOOKED_AT: usize = 32;
/// Of how many connections that were given up the ends are remembered, twice: 16 MiB.
const REMEMBERED: usize = 1 << 20;

/// The hashes of the ends of connections that were given up.
#[derive(Default, Debug)]
struct GivenUp {
    recent: HashTable<u64>,
    before: HashTable<u64>,
    /// Whether some are forgotten.
    has_forgotten: bool,
}

impl GivenUp {
    #[inline]
    fn has(&self, hash: u64) -> bool {
        [&self.recent, &self.before].iter().any(|table| table.find(hash, |known| *known == hash).is_some())
    }

    fn note(&mut self, hash: u64) {
        if self.recent.len() >= REMEMBERED {
            self.has_forgotten |= !self.before.is_empty();
            self.before = std::mem::take(&mut self.recent);
        }
        if !self.has(hash) {
            self.recent.insert_unique(hash, hash, |known| *known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_do_not_grow_with_connections_that_are_over() {
        let (mut queue, live) = (VecDeque::new(), Slab::new());
        for number in 0..100_000 {
            let since = Place { packet: number.into(), time: None };
            enqueue(&mut queue, Due { since: Since::of(since), index: 0, number }, &live);
            assert!(queue.len() <= LEAST_TIDIED + 1);
        }
        // The newest are still there.
        assert_eq!(queue.back().map(|due| due.number), Some(99_999));
    }
}

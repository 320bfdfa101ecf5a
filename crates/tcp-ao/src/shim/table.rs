//! The bounded table of connections: open addressing over whatever slots the caller gave.

use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use crate::connection::Connection;
use crate::peer::MKTS_PER_PEER;
use crate::segment::{Flags, Segment};
use crate::types::{Endpoint, SeqNum, SocketPair};

/// How long a handshake may stand still: what stacks give one before they give it up.
const HALF_OPEN_TIME: Duration = Duration::from_secs(75);
/// How long an ended connection is remembered: twice the maximum segment lifetime (RFC 9293 §3.4.2).
const CLOSED_TIME: Duration = Duration::from_secs(240);
/// How long an open connection may be silent before its place is taken when none is left: TCP's keepalive interval
/// (RFC 9293 §3.8.4).
const IDLE_TIME: Duration = Duration::from_secs(7200);

/// A place for one connection in a [`Shim`](crate::shim::Shim)'s table; about 2 KiB.
pub struct ShimSlot(State);

#[expect(clippy::large_enum_variant, reason = "the slots are the storage, and there is no heap")]
enum State {
    /// Never used since the run of used slots around it began: a search ends here.
    Empty,
    /// Free, but a search has to go on past it.
    Vacated,
    Used(Entry),
}

impl ShimSlot {
    /// A free slot, to build the table from.
    pub const EMPTY: Self = Self(State::Empty);

    const fn entry(&self) -> Option<&Entry> {
        if let State::Used(entry) = &self.0 { Some(entry) } else { None }
    }
}

impl Default for ShimSlot {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl fmt::Debug for ShimSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShimSlot").field(&self.entry().map(|entry| &entry.connection)).finish()
    }
}

/// How far a connection has come, as far as the table cares.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    OpenedHere,
    OpenedThere,
    Open,
    Closed,
}

/// A connection and what the table has to know about it.
pub(super) struct Entry {
    pub(super) connection: Connection<MKTS_PER_PEER>,
    /// The index of the peer it belongs to.
    pub(super) peer: usize,
    stage: Stage,
    /// The sequence number behind the FIN that was sent.
    fin_sent: Option<SeqNum>,
    fin_acknowledged: bool,
    fin_received: bool,
    last_used: Duration,
}

impl Entry {
    /// A connection whose first segment has just passed.
    pub(super) fn new(connection: Connection<MKTS_PER_PEER>, peer: usize, now: Duration) -> Self {
        let stage = if connection.local_isn().is_some() { Stage::OpenedHere } else { Stage::OpenedThere };
        Self {
            connection,
            peer,
            stage,
            fin_sent: None,
            fin_acknowledged: false,
            fin_received: false,
            last_used: now,
        }
    }

    /// Notes that a segment was sent; `end` is the sequence number behind it.
    pub(super) fn sent(&mut self, flags: Flags, end: SeqNum, now: Duration) {
        if flags.fin() {
            self.fin_sent = Some(end);
        }
        self.passed(flags, now);
    }

    /// Notes that a segment was received and verified.
    pub(super) fn received(&mut self, segment: &Segment<'_>, now: Duration) {
        let flags = segment.flags();
        self.fin_received |= flags.fin();
        self.fin_acknowledged |=
            flags.ack() && self.fin_sent.is_some_and(|end| !segment.acknowledgment().before(end));
        self.passed(flags, now);
    }

    fn passed(&mut self, flags: Flags, now: Duration) {
        self.last_used = now;
        // After a reset, and after both FINs, the entry lives on for late segments: a reset may have been outside
        // the stack's window, and TIME-WAIT has to verify and to answer (RFC 5925 §7.7).
        if flags.rst() || (self.fin_acknowledged && self.fin_received) {
            self.stage = Stage::Closed;
        } else if self.stage != Stage::Closed && self.connection.is_established() {
            self.stage = Stage::Open;
        }
    }

    /// Whether a SYN may put a new connection in this one's place: both ends are done with it, or its handshake was
    /// given up.
    pub(super) fn may_be_replaced(&self, now: Duration) -> bool {
        match self.stage {
            Stage::OpenedHere | Stage::OpenedThere => self.has_expired(now),
            Stage::Open => false,
            Stage::Closed => true,
        }
    }

    pub(super) fn has_expired(&self, now: Duration) -> bool {
        let limit = match self.stage {
            Stage::OpenedHere | Stage::OpenedThere => HALF_OPEN_TIME,
            Stage::Open => IDLE_TIME,
            Stage::Closed => CLOSED_TIME,
        };
        now.saturating_sub(self.last_used) >= limit
    }
}

pub(super) struct Table<T> {
    slots: T,
}

impl<T: AsRef<[ShimSlot]> + AsMut<[ShimSlot]>> Table<T> {
    pub(super) const fn new(slots: T) -> Self {
        Self { slots }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.slots.as_ref().iter().filter_map(ShimSlot::entry)
    }

    pub(super) fn get(&self, pair: &SocketPair) -> Option<&Entry> {
        self.slots.as_ref()[self.find(pair)?].entry()
    }

    pub(super) fn get_mut(&mut self, pair: &SocketPair) -> Option<&mut Entry> {
        let index = self.find(pair)?;
        match &mut self.slots.as_mut()[index].0 {
            State::Used(entry) => Some(entry),
            _ => None,
        }
    }

    pub(super) fn remove(&mut self, pair: &SocketPair) {
        if let Some(index) = self.find(pair) {
            self.vacate(index);
        }
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&mut Entry) -> bool) {
        for index in 0..self.slots.as_ref().len() {
            if let State::Used(entry) = &mut self.slots.as_mut()[index].0
                && !keep(entry)
            {
                self.vacate(index);
            }
        }
    }

    /// Puts in a connection, in place of one with the same pair, or in a free slot, or in that of a connection that
    /// has expired, has ended, or is the oldest handshake a peer began: a handshake costs a peer only a replay.
    ///
    /// A connection that is open is never given up. The entry comes back if there is no place.
    pub(super) fn insert(&mut self, entry: Entry, now: Duration) -> Result<&mut Entry, ()> {
        let pair = entry.connection.pair();
        self.remove(&pair);
        let index = match self.find_free(&pair) {
            Some(index) => index,
            None => {
                self.retain(|entry| !entry.has_expired(now));
                if self.find_free(&pair).is_none() {
                    self.vacate(self.least_valuable().ok_or(())?);
                }
                self.find_free(&pair).ok_or(())?
            }
        };
        self.slots.as_mut()[index] = ShimSlot(State::Used(entry));
        match &mut self.slots.as_mut()[index].0 {
            State::Used(entry) => Ok(entry),
            _ => Err(()),
        }
    }

    fn least_valuable(&self) -> Option<usize> {
        let candidates = self.slots.as_ref().iter().enumerate().filter_map(|(index, slot)| {
            let entry = slot.entry()?;
            matches!(entry.stage, Stage::Closed | Stage::OpenedThere)
                .then_some(((entry.stage != Stage::Closed, entry.last_used), index))
        });
        candidates.min().map(|(_, index)| index)
    }

    fn vacate(&mut self, index: usize) {
        let slots = self.slots.as_mut();
        let next = (index + 1) % slots.len();
        slots[index] = ShimSlot(State::Vacated);
        // Nothing was ever put past an empty slot, so the vacated ones before it are the end of a run and need not
        // be passed any more.
        if matches!(slots[next].0, State::Empty) {
            let mut last = index;
            while matches!(slots[last].0, State::Vacated) {
                slots[last] = ShimSlot::EMPTY;
                last = last.checked_sub(1).unwrap_or(slots.len() - 1);
            }
        }
    }

    fn find(&self, pair: &SocketPair) -> Option<usize> {
        let slots = self.slots.as_ref();
        self.probe(pair)
            .take_while(|index| !matches!(slots[*index].0, State::Empty))
            .find(|index| slots[*index].entry().is_some_and(|entry| entry.connection.pair() == *pair))
    }

    fn find_free(&self, pair: &SocketPair) -> Option<usize> {
        self.probe(pair).find(|index| self.slots.as_ref()[*index].entry().is_none())
    }

    /// All slots, from the one that the pair hashes to.
    fn probe(&self, pair: &SocketPair) -> impl Iterator<Item = usize> + use<T> {
        let length = self.slots.as_ref().len();
        let start = hash(pair).checked_rem(length as u64).unwrap_or(0) as usize;
        (0..length).map(move |step| (start + step) % length)
    }
}

/// FNV-1a over the pair. No key is needed: only connections whose SYN has verified get into the table, so strangers
/// cannot choose what collides.
fn hash(pair: &SocketPair) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |octets: &[u8]| {
        for octet in octets {
            hash = (hash ^ u64::from(*octet)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    let mut endpoint = |end: Endpoint| {
        match end.address() {
            IpAddr::V4(address) => add(&address.octets()),
            IpAddr::V6(address) => add(&address.octets()),
        }
        add(&end.port().to_be_bytes());
    };
    endpoint(pair.local);
    endpoint(pair.remote);
    hash
}

//! The bounded table of connections: open addressing over the caller's slots.

use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use crate::connection::Connection;
use crate::peer::MKTS_PER_PEER;
use crate::segment::Segment;
use crate::tcp::Flags;
use crate::types::{Endpoint, Isn, SeqNum, SocketPair};

/// How long a handshake may make no progress: about as long as stacks wait.
const HALF_OPEN_TIME: Duration = Duration::from_secs(75);
/// How long a closed connection is remembered: twice the maximum segment lifetime (RFC 9293 §3.4.2).
const CLOSED_TIME: Duration = Duration::from_secs(240);
/// How long an open connection may be idle before it counts as forgotten by its stack: longer than TCP's keepalive, which waits
/// two hours and then probes (RFC 9293 §3.8.4).
const IDLE_TIME: Duration = Duration::from_secs(3 * 3600);

/// A slot for one connection in a [`Shim`](crate::shim::Shim)'s table; about 2 KiB.
pub struct ShimSlot(Option<Entry>);

impl ShimSlot {
    /// A free slot.
    pub const EMPTY: Self = Self(None);
}

impl Default for ShimSlot {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl fmt::Debug for ShimSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShimSlot").field(&self.0.as_ref().map(|entry| &entry.connection)).finish()
    }
}

/// The state of a connection, as coarse as the table needs it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    OpenedHere,
    OpenedThere,
    Open,
    Closed,
}

/// A connection with the table's own state.
pub(super) struct Entry {
    pub(super) connection: Connection<MKTS_PER_PEER>,
    /// The index of its peer.
    pub(super) peer: usize,
    stage: Stage,
    /// The sequence number after the FIN that was sent.
    fin_sent: Option<SeqNum>,
    fin_acknowledged: bool,
    fin_received: bool,
    was_reset: bool,
    last_used: Duration,
}

impl Entry {
    /// A connection whose first segment is passing now.
    pub(super) fn new(connection: Connection<MKTS_PER_PEER>, peer: usize, now: Duration) -> Self {
        let stage = match connection.local_isn() {
            Some(_) if connection.is_established() => Stage::Open,
            Some(_) => Stage::OpenedHere,
            None => Stage::OpenedThere,
        };
        Self {
            connection,
            peer,
            stage,
            fin_sent: None,
            fin_acknowledged: false,
            fin_received: false,
            was_reset: false,
            last_used: now,
        }
    }

    /// Records that a segment was sent; `end` is the sequence number after it.
    pub(super) fn sent(&mut self, flags: Flags, end: SeqNum, now: Duration) {
        if flags.fin() {
            self.fin_sent = Some(end);
        }
        // Neither a replayed SYN nor the stack's answers to it extend the time of a handshake that makes no progress.
        self.passed(flags, !flags.syn() || !flags.ack(), now);
    }

    /// Records that a segment was received and verified.
    pub(super) fn received(&mut self, segment: &Segment<'_>, now: Duration) {
        let flags = segment.flags();
        self.fin_received |= flags.fin();
        self.fin_acknowledged |=
            flags.ack() && self.fin_sent.is_some_and(|end| !segment.acknowledgment().before(end));
        self.passed(flags, !flags.syn(), now);
    }

    fn passed(&mut self, flags: Flags, is_progress: bool, now: Duration) {
        if is_progress || self.connection.is_established() {
            self.last_used = now;
        }
        // After a reset or both FINs the entry stays for late segments: the reset may have been outside the stack's window,
        // and TIME-WAIT has to verify and to answer (RFC 5925 §7.7).
        self.was_reset |= flags.rst();
        if self.was_reset || (self.fin_acknowledged && self.fin_received) {
            self.stage = Stage::Closed;
        } else if self.stage != Stage::Closed && self.connection.is_established() {
            self.stage = Stage::Open;
        }
    }

    /// Whether a verified SYN may replace this connection: it has expired, or the peer started another handshake, or both ends
    /// are done and the SYN is not a copy from this connection.
    pub(super) fn may_be_replaced(&self, syn: SeqNum, now: Duration) -> bool {
        let is_another = self.connection.remote_isn() != Some(Isn(syn.0));
        let is_later = self.connection.highest_received().before(syn);
        self.has_expired(now)
            || match self.stage {
                Stage::OpenedHere | Stage::Open => false,
                Stage::OpenedThere => is_another,
                // After a reset nothing is left to protect; after FINs there is TIME-WAIT (RFC 9293 §3.10.7.4).
                Stage::Closed => is_another && (self.was_reset || is_later),
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
        self.slots.as_ref().iter().filter_map(|slot| slot.0.as_ref())
    }

    pub(super) fn get(&self, pair: &SocketPair) -> Option<&Entry> {
        self.slots.as_ref()[self.find(pair)?].0.as_ref()
    }

    pub(super) fn get_mut(&mut self, pair: &SocketPair) -> Option<&mut Entry> {
        let index = self.find(pair)?;
        self.slots.as_mut()[index].0.as_mut()
    }

    pub(super) fn remove(&mut self, pair: &SocketPair) {
        if let Some(index) = self.find(pair) {
            self.vacate(index);
        }
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&mut Entry) -> bool) {
        let mut index = 0;
        while let Some(slot) = self.slots.as_mut().get_mut(index) {
            if slot.0.as_mut().is_none_or(&mut keep) {
                index += 1;
            } else {
                // Another entry may have moved up into this slot: look again.
                self.vacate(index);
            }
        }
    }

    /// Inserts a connection. It replaces one with the same pair, or takes a free slot, or that of a connection that has expired or
    /// closed, or of the oldest handshake that a peer started, which a replay could have done.
    ///
    /// An open connection is evicted only after hours of silence. On error, only expired connections are gone.
    pub(super) fn insert(&mut self, entry: Entry, now: Duration) -> Result<(), ()> {
        let pair = entry.connection.pair();
        self.remove(&pair);
        if self.find_free(&pair).is_none() {
            self.retain(|entry| !entry.has_expired(now));
        }
        if self.find_free(&pair).is_none() {
            self.vacate(self.least_valuable().ok_or(())?);
        }
        let index = self.find_free(&pair).ok_or(())?;
        self.slots.as_mut()[index] = ShimSlot(Some(entry));
        Ok(())
    }

    fn least_valuable(&self) -> Option<usize> {
        let candidates = self.slots.as_ref().iter().enumerate().filter_map(|(index, slot)| {
            let entry = slot.0.as_ref()?;
            matches!(entry.stage, Stage::Closed | Stage::OpenedThere)
                .then_some(((entry.stage != Stage::Closed, entry.last_used), index))
        });
        candidates.min().map(|(_, index)| index)
    }

    /// Empties a slot, and moves up later entries that would have used it, because a search ends at the first empty slot.
    fn vacate(&mut self, mut free: usize) {
        let slots = self.slots.as_mut();
        slots[free] = ShimSlot::EMPTY;
        let mut next = free;
        loop {
            next = (next + 1) % slots.len();
            let Some(entry) = &slots[next].0 else { return };
            let home = home(&entry.connection.pair(), slots.len());
            // How far from its home slot the entry is, and would be in the free one.
            let distance = |to: usize| (to + slots.len() - home) % slots.len();
            if distance(free) < distance(next) {
                slots.swap(free, next);
                free = next;
            }
        }
    }

    fn find(&self, pair: &SocketPair) -> Option<usize> {
        let slots = self.slots.as_ref();
        for index in self.probe(pair) {
            let entry = slots[index].0.as_ref()?;
            if entry.connection.pair() == *pair {
                return Some(index);
            }
        }
        None
    }

    fn find_free(&self, pair: &SocketPair) -> Option<usize> {
        self.probe(pair).find(|index| self.slots.as_ref()[*index].0.is_none())
    }

    /// All slots, starting with the pair's home slot.
    fn probe(&self, pair: &SocketPair) -> impl Iterator<Item = usize> + use<T> {
        let length = self.slots.as_ref().len();
        let start = home(pair, length);
        (0..length).map(move |step| (start + step) % length)
    }
}

/// The slot, of `length`, where a search for the pair starts.
fn home(pair: &SocketPair, length: usize) -> usize {
    hash(pair).checked_rem(length as u64).unwrap_or(0) as usize
}

/// FNV-1a over the pair. It needs no key: only connections that this end opened, or whose SYN has verified, enter the table, so
/// strangers cannot cause collisions.
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

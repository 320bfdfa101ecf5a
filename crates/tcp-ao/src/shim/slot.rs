//! A place for one connection, and the links through it that the table's lists are made of.

use core::fmt;

use crate::shim::entry::{Entry, Stage};

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// A slot for one connection in a [`Shim`](crate::shim::Shim)'s table: 1,216 octets, or 896 with HMAC-SHA-1 as the only algorithm.
pub struct ShimSlot {
    pub(super) entry: Option<Entry>,
    /// The first slot of the bucket that has this slot's number.
    pub(super) bucket: u32,
    /// The bucket that this slot's connection is in.
    pub(super) home: u32,
    /// The next slot of the bucket that this slot's connection is in, or the next free slot.
    pub(super) next: u32,
    /// The queue that the connection is in, and its neighbours there.
    pub(super) queue: Stage,
    pub(super) older: u32,
    pub(super) newer: u32,
    /// The first slot of the list of the peers that have this slot's number, modulo the length of the table.
    pub(super) peers_first: u32,
    /// The neighbours in the list of this slot's peer.
    pub(super) peers_before: u32,
    pub(super) peers_next: u32,
    /// The neighbours in the share that the handshake counts in.
    pub(super) share_older: u32,
    pub(super) share_newer: u32,
    /// The shares of the peers that have this slot's number: of what this end opens, and of what the peer opens.
    pub(super) shares: [Share; 2],
    /// The first share that has as many handshakes as this slot's number plus one, for each of the two kinds.
    pub(super) ranked: [u32; 2],
}

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

/// The handshakes of one peer that one end has opened. Peers whose indices have the same remainder share one.
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub(super) count: u32,
    /// Its handshakes, linked from the oldest to the newest.
    pub(super) oldest: u32,
    pub(super) newest: u32,
    /// The neighbours among the shares with as many handshakes.
    pub(super) before: u32,
    pub(super) next: u32,
    /// From which second on a peer without handshakes may take the place of another's after a short while.
    pub(super) next_turn: u32,
}

impl Share {
    pub(super) const EMPTY: Self =
        Self { count: 0, oldest: NONE, newest: NONE, before: NONE, next: NONE, next_turn: 0 };
}

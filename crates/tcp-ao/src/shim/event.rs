//! What a shim tells its observer.

use core::fmt;

use crate::shim::Refusal;
use crate::shim::entry::{Entry, Stage};
use crate::types::{KeyId, SocketPair};

/// Hears what a [`Shim`](crate::shim::Shim) does: for logs, metrics, tests.
///
/// A closure is one, and `()` hears nothing. With the feature `tracing`, so is `TracingObserver`. Everything is told while the packet
/// is handled, so an observer should be quick: an attacker chooses how many packets are refused.
pub trait Observer {
    /// Hears of an event, which has no secret in it.
    fn observe(&mut self, event: &Event);
}

impl Observer for () {
    fn observe(&mut self, _: &Event) {}
}

impl<F: FnMut(&Event)> Observer for F {
    fn observe(&mut self, event: &Event) {
        self(event);
    }
}

/// Something that happened to a packet or a connection. `Display` writes it as a line for a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// The index of the peer, if one is configured for the connection.
    pub peer: Option<usize>,
    /// The connection; `None` for a packet in which no TCP header could be read.
    pub pair: Option<SocketPair>,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// A packet was refused.
    Refused {
        /// Its way.
        direction: Direction,
        /// Why.
        refusal: Refusal,
    },
    /// A packet passed that would have been refused, since the peer's
    /// [mismatches are accepted](crate::shim::Shim::accept_mismatches): it is not protected.
    Passed {
        /// Its way.
        direction: Direction,
        /// Why it would have been refused.
        refusal: Refusal,
    },
    /// A connection is established, or was [adopted](crate::shim::Shim::adopt): its peer has a key of this end's.
    Opened,
    /// A connection or a handshake has ended. An established one ends once.
    Ended(End),
    /// The peer has asked for another key, and this end signs with it from now on (RFC 5925 §7.5).
    KeySwitched {
        /// The SendID of the key used before.
        from: KeyId,
        /// The SendID of the key used from now on.
        to: KeyId,
    },
    /// The peer acknowledged a segment that asked for another key, and still signs with the old one: it does not have the new key,
    /// or may not use it yet. Told once for each key asked for.
    PeerOnOldKey {
        /// The RecvID of the key that it uses.
        signed_with: KeyId,
        /// The RecvID of the key that it was asked to use.
        asked_for: KeyId,
    },
}

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// By FINs of both ends, or by a reset. It keeps its place for late segments, which is not told again.
    Closed,
    /// Another connection with the same pair took its place.
    Replaced,
    /// It had to make room in a full table.
    Evicted,
    /// Its time was over ([`TimeLimits`](crate::shim::TimeLimits)).
    Expired,
    /// The caller forgot it, or removed its peer.
    Forgotten,
    /// Its last key was taken away.
    NoKey,
}

/// The way of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the link to the stack.
    Inbound,
    /// From the stack to the link.
    Outbound,
}

/// Tells of a connection that has just left the table. One that had closed has ended before.
pub(super) fn ended(observer: &mut impl Observer, entry: &Entry, why: End) {
    if entry.stage() != Stage::Closed {
        tell(observer, entry, EventKind::Ended(why));
    }
}

/// Tells of a connection that has come from one stage to another.
pub(super) fn moved(observer: &mut impl Observer, entry: &Entry, before: Stage) {
    let was_open = matches!(before, Stage::Open | Stage::Closing | Stage::Closed);
    if !was_open && entry.connection.is_established() {
        tell(observer, entry, EventKind::Opened);
    }
    if before != Stage::Closed && entry.stage() == Stage::Closed {
        tell(observer, entry, EventKind::Ended(End::Closed));
    }
}

pub(super) fn tell(observer: &mut impl Observer, entry: &Entry, kind: EventKind) {
    observer.observe(&Event { peer: Some(entry.peer), pair: Some(entry.connection.pair()), kind });
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pair {
            Some(pair) => write!(f, "{} to {}: ", pair.local, pair.remote)?,
            None => f.write_str("a packet: ")?,
        }
        match self.kind {
            EventKind::Refused { direction, refusal } => write!(f, "{direction} packet refused: {refusal}"),
            EventKind::Passed { direction, refusal } => {
                write!(f, "{direction} packet NOT PROTECTED, passed since mismatches are accepted: {refusal}")
            }
            EventKind::Opened => f.write_str("established"),
            EventKind::Ended(end) => f.write_str(match end {
                End::Closed => "closed",
                End::Replaced => "replaced by a new connection",
                End::Evicted => "evicted from a full table",
                End::Expired => "expired",
                End::Forgotten => "forgotten",
                End::NoKey => "forgotten, since it has no key left",
            }),
            EventKind::KeySwitched { from, to } => {
                write!(f, "this end signs with the key with SendID {to}, before with {from}")
            }
            EventKind::PeerOnOldKey { signed_with, asked_for } => {
                write!(
                    f,
                    "the peer still signs with the key with RecvID {signed_with}, though asked for {asked_for}"
                )
            }
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inbound => "inbound",
            Self::Outbound => "outbound",
        })
    }
}

//! The events that a shim reports to its observer.

use core::fmt;

use crate::error::Refusal;
use crate::shim::entry::{Entry, Stage};
use crate::types::{KeyId, SocketPair};

/// Receives the events of a [`Shim`](crate::shim::Shim), for logs, metrics and tests.
///
/// Any `FnMut(&Event)` is an observer; `()` ignores all events. The feature `tracing` adds `TracingObserver`. The shim calls it while
/// it handles a packet, so be quick: an attacker chooses how many packets are refused.
pub trait Observer {
    /// Called for each event. Events contain no secrets.
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

/// Something that happened to a packet or a connection. `Display` formats it as one line for a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Event {
    /// The index of the peer, if one is configured for the connection.
    pub peer: Option<usize>,
    /// The connection; `None` if the packet has no readable TCP header.
    pub pair: Option<SocketPair>,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum EventKind {
    /// A packet was refused.
    Refused {
        /// The packet's direction.
        direction: Direction,
        /// Why.
        refusal: Refusal,
    },
    /// A packet that would have been refused passed unprotected, because the peer's
    /// [mismatches are accepted](crate::shim::Shim::accept_mismatches).
    Passed {
        /// The packet's direction.
        direction: Direction,
        /// Why it would have been refused.
        refusal: Refusal,
    },
    /// A protected connection was established, or [adopted](crate::shim::Shim::adopt).
    Opened,
    /// An established connection has ended. Each `Opened` is followed by at most one `Ended`.
    Ended(End),
    /// A handshake ended without a connection. An attacker who replays a recorded SYN can cause any number of these.
    HandshakeEnded(End),
    /// This end signs an established connection with another key from now on: the peer has asked for it (RFC 5925 §7.5), the keys of the
    /// peer were changed, as by its key chain, or the peer has moved on from one that is
    /// [accept-only](crate::MktParameters::accept_only).
    KeySwitched {
        /// The SendID of the key used before.
        from: KeyId,
        /// The SendID of the key used from now on.
        to: KeyId,
    },
    /// The peer acknowledged data that was sent after another key was asked for, but still signs with the old one: it does not have
    /// the new key, or may not use it yet. Reported once for each request.
    PeerOnOldKey {
        /// The RecvID of the key that the peer uses.
        signed_with: KeyId,
        /// The RecvID of the key that the peer was asked to use.
        asked_for: KeyId,
    },
    /// The peer signs with the key that it was asked for, but goes on asking for an old one, whose send lifetime is over
    /// ([`Connection::peer_insists`](crate::Connection::peer_insists)). This end signs with that one as long as it is accepted. Reported
    /// once for each key.
    PeerInsists {
        /// The SendID of the old key.
        on: KeyId,
    },
}

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum End {
    /// By FINs from both ends, or a reset. The shim keeps its keys for late segments, and drops them without an event.
    Closed,
    /// A new connection with the same socket pair took its place.
    Replaced,
    /// A handshake made room in a full table.
    Evicted,
    /// It reached its [time limit](crate::shim::TimeLimits).
    Expired,
    /// The caller forgot or exported it, or removed its peer.
    Forgotten,
    /// Its last key was removed.
    NoKey,
}

/// The direction of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Direction {
    /// From the link to the stack.
    Inbound,
    /// From the stack to the link.
    Outbound,
}

/// Reports a connection that leaves the table, unless it was reported when it closed.
pub(super) fn ended(observer: &mut impl Observer, entry: &Entry, why: End) {
    if entry.stage() != Stage::Closed {
        tell_end(observer, entry, why);
    }
}

fn tell_end(observer: &mut impl Observer, entry: &Entry, why: End) {
    let kind = match entry.connection.is_established() {
        true => EventKind::Ended(why),
        false => EventKind::HandshakeEnded(why),
    };
    tell(observer, entry, kind);
}

/// Reports that a connection was established or has closed.
pub(super) fn moved(observer: &mut impl Observer, entry: &Entry, before: Stage) {
    let was_open = matches!(before, Stage::Open | Stage::Closing | Stage::Closed);
    if !was_open && entry.connection.is_established() {
        tell(observer, entry, EventKind::Opened);
    }
    if before != Stage::Closed && entry.stage() == Stage::Closed {
        tell_end(observer, entry, End::Closed);
    }
}

/// Reports that an open connection is signed with another key than `from`.
pub(super) fn switched(observer: &mut impl Observer, entry: &Entry, from: KeyId) {
    let to = entry.connection.current_key().send_id;
    if from != to && entry.connection.is_established() && entry.stage() != Stage::Closed {
        tell(observer, entry, EventKind::KeySwitched { from, to });
    }
}

pub(super) fn tell(observer: &mut impl Observer, entry: &Entry, kind: EventKind) {
    observer.observe(&Event { peer: Some(entry.peer), pair: Some(entry.connection.pair()), kind });
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(pair) = self.pair {
            write!(f, "{pair}: ")?;
        }
        match self.kind {
            EventKind::Refused { direction, refusal } => write!(f, "{direction} packet refused: {refusal}"),
            EventKind::Passed { direction, refusal } => {
                write!(f, "{direction} packet passed, NOT PROTECTED (mismatches are accepted): {refusal}")
            }
            EventKind::Opened => f.write_str("established"),
            EventKind::Ended(end) => write!(f, "{end}"),
            EventKind::HandshakeEnded(end) => write!(f, "handshake {end}"),
            EventKind::KeySwitched { from, to } => {
                write!(f, "now signing with SendID {to}, no longer with {from}")
            }
            EventKind::PeerOnOldKey { signed_with, asked_for } => {
                write!(f, "peer still signs with RecvID {signed_with}, although asked for {asked_for}")
            }
            EventKind::PeerInsists { on } => {
                write!(
                    f,
                    "peer has moved on, but goes on asking for SendID {on}, whose send lifetime is over"
                )
            }
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "closed",
            Self::Replaced => "replaced by a new connection",
            Self::Evicted => "evicted from a full table",
            Self::Expired => "expired",
            Self::Forgotten => "forgotten",
            Self::NoKey => "lost its last key",
        })
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

/// Logs each event through `tracing`: its `Display` as the message, with the fields `peer` and `pair`.
///
/// | level | events |
/// |---|---|
/// | warn | a packet passed unprotected, the peer is still on the old key or asks for it |
/// | info | a connection opened or ended, key switched |
/// | debug | a packet refused, a handshake ended: an attacker can cause any number of these, and must not fill a disk |
///
/// [`Shim::refused`](crate::shim::Shim::refused) and [`Shim::counters`](crate::shim::Shim::counters) count refused packets.
#[cfg(feature = "tracing")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TracingObserver;

#[cfg(feature = "tracing")]
impl Observer for TracingObserver {
    fn observe(&mut self, event: &Event) {
        let Event { peer, pair, kind } = event;
        match kind {
            EventKind::Passed { .. } | EventKind::PeerOnOldKey { .. } | EventKind::PeerInsists { .. } => {
                tracing::warn!(peer, ?pair, "{event}");
            }
            EventKind::Opened | EventKind::Ended(_) | EventKind::KeySwitched { .. } => {
                tracing::info!(peer, ?pair, "{event}");
            }
            EventKind::Refused { .. } | EventKind::HandshakeEnded(_) => {
                tracing::debug!(peer, ?pair, "{event}");
            }
        }
    }
}

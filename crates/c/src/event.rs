//! Why a shim refuses a packet, and what it tells an observer.

use core::ffi::c_void;

use wireseal_tcp_ao::KeyId;
use wireseal_tcp_ao::shim::{Direction, End, Event, EventKind, Observer, Refusal};

use crate::address::{wireseal_address, wireseal_endpoint, wireseal_pair};
use crate::status::wireseal_status as Status;

/// The direction of a packet.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum wireseal_direction {
    /// From the link to the stack.
    Inbound = 1,
    /// From the stack to the link.
    Outbound = 2,
}

/// What happened.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum wireseal_event_kind {
    /// A packet was refused.
    Refused = 1,
    /// A packet would have been refused, but passed unprotected, because of wireseal_shim_accept_mismatches().
    Passed = 2,
    /// A protected connection was established, or adopted.
    Opened = 3,
    /// An established connection has ended.
    Ended = 4,
    /// A handshake ended without a connection. Anyone who replays a recorded SYN can cause any number of these.
    HandshakeEnded = 5,
    /// This end signs an established connection with another key from now on.
    KeySwitched = 6,
    /// The peer acknowledged data that was sent after this end asked for another key, but still signs with the old one. Reported once for each
    /// request.
    PeerOnOldKey = 7,
    /// The peer signs with the key that it was asked for, but goes on asking for one whose send lifetime is over at this end. Reported once
    /// for each key.
    PeerInsists = 8,
}

/// How a connection ended.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum wireseal_ending {
    /// It has not.
    None = 0,
    /// By FINs from both ends, or a reset.
    Closed = 1,
    /// A new connection of the same socket pair took its place.
    Replaced = 2,
    /// It was removed from a full table, to make room for another handshake.
    Evicted = 3,
    /// It reached its time limit.
    Expired = 4,
    /// It was exported or forgotten, or its peer was removed.
    Forgotten = 5,
    /// Its last key was removed.
    NoKey = 6,
}

/// Something that happened to a packet or a connection. It has no secrets. Later versions may add fields at its end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wireseal_event {
    /// What happened: an enum wireseal_event_kind.
    pub kind: u32,
    /// If a packet was refused or passed, its enum wireseal_direction; else 0.
    pub direction: u32,
    /// If a packet was refused or passed, why: the enum wireseal_status with which it was, or would have been, refused.
    pub reason: u32,
    /// How the connection or handshake ended: an enum wireseal_ending.
    pub ending: u32,
    /// Whether a peer is configured for the connection.
    pub has_peer: bool,
    /// Whether the connection is known; not if the packet has no readable TCP header.
    pub has_pair: bool,
    /// The index of the peer.
    pub peer: usize,
    /// The connection.
    pub pair: wireseal_pair,
    /// WIRESEAL_EVENT_KIND_KEY_SWITCHED: the SendID of the key before. _PEER_ON_OLD_KEY: the RecvID of the key that the peer uses.
    /// _PEER_INSISTS: the SendID of the old key.
    pub from_key: u8,
    /// WIRESEAL_EVENT_KIND_KEY_SWITCHED: the SendID of the key from now on. _PEER_ON_OLD_KEY: the RecvID of the key that was asked for.
    pub to_key: u8,
}

impl From<&Event> for wireseal_event {
    fn from(event: &Event) -> Self {
        let nobody = wireseal_endpoint { address: wireseal_address { version: 0, octets: [0; 16] }, port: 0 };
        let blank = Self {
            kind: wireseal_event_kind::Opened as u32,
            direction: 0,
            reason: Status::Ok as u32,
            ending: wireseal_ending::None as u32,
            has_peer: event.peer.is_some(),
            peer: event.peer.unwrap_or(0),
            has_pair: event.pair.is_some(),
            pair: event.pair.map_or(wireseal_pair { local: nobody, remote: nobody }, Into::into),
            from_key: 0,
            to_key: 0,
        };
        let packet = |kind: wireseal_event_kind, direction, refusal: Refusal| Self {
            kind: kind as u32,
            direction: match direction {
                Direction::Inbound => wireseal_direction::Inbound,
                Direction::Outbound => wireseal_direction::Outbound,
            } as u32,
            reason: Status::from(refusal) as u32,
            ..blank
        };
        let ended = |kind: wireseal_event_kind, end| Self {
            kind: kind as u32,
            ending: match end {
                End::Closed => wireseal_ending::Closed,
                End::Replaced => wireseal_ending::Replaced,
                End::Evicted => wireseal_ending::Evicted,
                End::Expired => wireseal_ending::Expired,
                End::Forgotten => wireseal_ending::Forgotten,
                End::NoKey => wireseal_ending::NoKey,
            } as u32,
            ..blank
        };
        let keys = |kind: wireseal_event_kind, KeyId(from_key): KeyId, KeyId(to_key): KeyId| Self {
            kind: kind as u32,
            from_key,
            to_key,
            ..blank
        };
        match event.kind {
            EventKind::Refused { direction, refusal } => {
                packet(wireseal_event_kind::Refused, direction, refusal)
            }
            EventKind::Passed { direction, refusal } => {
                packet(wireseal_event_kind::Passed, direction, refusal)
            }
            EventKind::Opened => blank,
            EventKind::Ended(end) => ended(wireseal_event_kind::Ended, end),
            EventKind::HandshakeEnded(end) => ended(wireseal_event_kind::HandshakeEnded, end),
            EventKind::KeySwitched { from, to } => keys(wireseal_event_kind::KeySwitched, from, to),
            EventKind::PeerOnOldKey { signed_with, asked_for } => {
                keys(wireseal_event_kind::PeerOnOldKey, signed_with, asked_for)
            }
            EventKind::PeerInsists { on } => keys(wireseal_event_kind::PeerInsists, on, on),
        }
    }
}

/// Receives the events of a shim; may be null. It is called within the call that caused the event, in the same thread, and cannot call
/// functions with the same shim (WIRESEAL_STATUS_BUSY). It must return: no longjmp(), no C++ exception. `event` is valid until it returns. Keep
/// it fast: an attacker decides how many packets are refused.
pub type wireseal_observer = Option<unsafe extern "C" fn(context: *mut c_void, event: *const wireseal_event)>;

/// C's observer of a shim.
pub(crate) struct CObserver {
    pub(crate) call: wireseal_observer,
    pub(crate) context: *mut c_void,
}

impl Observer for CObserver {
    fn observe(&mut self, event: &Event) {
        if let Some(call) = self.call {
            // SAFETY: C gave this function for such calls.
            unsafe { call(self.context, &event.into()) };
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Malformed(_) => Self::Malformed,
            Refusal::Checksum => Self::Checksum,
            Refusal::Verify(error) => error.into(),
            Refusal::ConnectionExists => Self::ConnectionExists,
            Refusal::NoConnection => Self::NoConnection,
            Refusal::SourceRouted => Self::SourceRouted,
            Refusal::NoPeer => Self::NoPeer,
            Refusal::NoKey => Self::NoKey,
            Refusal::TableFull => Self::TableFull,
            Refusal::Icmp => Self::Icmp,
            Refusal::Sign(error) => error.into(),
            Refusal::NoRoom { .. } => Self::NoRoom,
            Refusal::AlreadySigned => Self::AlreadySigned,
            Refusal::TooLong { .. } => Self::TooLongForLink,
            // There is no other.
            _ => Self::Internal,
        }
    }
}

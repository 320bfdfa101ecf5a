//! Whether a connection opened, as far as the capture shows.

use super::connection::TcpConnection;
use super::direction::Direction;
use super::report::{Sender, failed};
use super::waiting::Wait;
use crate::capture::Place;

/// How long an end has to answer; stacks send a SYN again after a second (RFC 6298 §2).
const ANSWER: Wait = Wait { nanoseconds: 1_000_000_000, packets: 1000, most: 0 };
/// How far apart segments are sent again at least. Of a packet that was recorded at two interfaces, the copies are closer.
const REPEATED: Wait = Wait { nanoseconds: 1_000_000, packets: 1, most: 0 };

/// What became of a handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Handshake {
    /// The connection is open, or was before the capture began.
    Open,
    /// The capture has no SYN.
    NotSeen,
    /// The SYN or SYN-ACK of this end had no answer.
    Unanswered(Sender),
    /// The listener repeats its SYN-ACK although the opener goes on.
    HalfOpen,
    /// The listener reset it.
    Refused,
    /// The opener reset it.
    Abandoned,
    /// The capture shows too little after the SYN or SYN-ACK of this end.
    CutShort(Sender),
    /// The capture has the SYN-ACK, and nothing of the opener.
    OnlyListener,
}

impl Handshake {
    /// How the handshake of a connection went, when the capture has been read up to `now`.
    pub(super) fn of(connection: &TcpConnection, now: Place) -> Self {
        let [opener, listener] = &connection.directions;
        let (syns, syn_acks) = (opener.seen.syns, listener.seen.syn_acks);
        if connection.has_opened {
            let only_syn_acks = listener.segments() == syn_acks;
            return if only_syn_acks && listener.seen.late_syn_acks > 1 {
                Self::HalfOpen
            } else {
                Self::Open
            };
        }
        if syns + syn_acks == 0 {
            return Self::NotSeen;
        }
        // An end that signs ignores unsigned resets, so those count only if it does not sign.
        if listener.report.signed_resets > 0 || opener.seen.signed == 0 && listener.report.other_resets > 0 {
            return Self::Refused;
        }
        if opener.report.signed_resets > 0 || listener.seen.signed == 0 && opener.report.other_resets > 0 {
            return Self::Abandoned;
        }
        let sender = if syn_acks > 0 { Sender::Listener } else { Sender::Opener };
        let sent = connection.direction(sender);
        let is_over = first(sent).is_some_and(|first| ANSWER.is_over(first, now));
        let is_repeated = match sender {
            Sender::Opener => syns > 1,
            Sender::Listener => syn_acks > 1,
        };
        if opener.segments() == 0 {
            let waited = ANSWER.is_over(connection.first, connection.last);
            return if is_repeated && waited { Self::Unanswered(sender) } else { Self::OnlyListener };
        }
        if is_over || is_repeated && REPEATED.is_over(connection.first, connection.last) {
            Self::Unanswered(sender)
        } else {
            Self::CutShort(sender)
        }
    }

    /// Whether the connection opened; `None` if the capture does not show it.
    pub(super) const fn has_opened(self) -> Option<bool> {
        match self {
            Self::Open => Some(true),
            Self::Unanswered(_) | Self::HalfOpen | Self::Refused | Self::Abandoned => Some(false),
            Self::NotSeen | Self::CutShort(_) | Self::OnlyListener => None,
        }
    }
}

/// The first segment of a direction.
pub(super) fn first(direction: &Direction) -> Option<Place> {
    direction.seen.first.into_iter().flatten().min_by_key(|place| place.packet)
}

/// Whether segments of a direction failed.
pub(super) fn has_failed(direction: &Direction) -> bool {
    failed(&direction.report.counts) > 0
}

//! Whether a connection opened, as far as the capture shows.

use super::connection::TcpConnection;
use super::direction::Direction;
use super::report::{Sender, failed, not_judged};
use super::waiting::Wait;
use crate::capture::Place;

/// How far apart SYNs are that a stack sends again: a second (RFC 6298 §2), less what clocks of captures are off. What is closer are
/// copies of a packet that was recorded twice.
pub(super) const REPEATED: Wait = Wait { nanoseconds: 900_000_000, packets: 1000, most: 0 };
/// How often an end has repeated a SYN that was surely not answered. After one, the answer may be lost, or come after the capture.
const REPEATS: u64 = 2;
/// After how long an end that has repeated its SYN less often would have done so again; some stacks wait three seconds, then six.
const QUIET: Wait = Wait { nanoseconds: 10_000_000_000, packets: 10_000, most: 0 };

/// What became of a handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Handshake {
    /// The connection is open, or was before the capture began.
    Open,
    /// The capture has no SYN, or has segments that could not be judged and may have opened it.
    NotSeen,
    /// This end repeated its SYN or SYN-ACK, and had no answer.
    Unanswered(Sender),
    /// The listener repeats its SYN-ACK although the opener goes on.
    HalfOpen,
    /// The listener reset it.
    Refused,
    /// The opener reset it.
    Abandoned,
    /// The capture shows too little after the SYN or SYN-ACK of this end.
    CutShort(Sender),
    /// This end soon stopped repeating its SYN or SYN-ACK: it had an answer that the capture lacks, or gave up.
    NotRepeated(Sender),
    /// The capture has the SYN-ACK, and nothing of the opener.
    OnlyListener,
}

impl Handshake {
    /// How the handshake of a connection went, when the capture has been read up to `now`.
    pub(super) fn of(connection: &TcpConnection, now: Place) -> Self {
        let [opener, listener] = &connection.directions;
        let syn_acks = listener.seen.syn_acks;
        if connection.has_opened {
            let only_syn_acks = listener.segments() == syn_acks;
            return if only_syn_acks && listener.seen.late_syn_acks >= REPEATS {
                Self::HalfOpen
            } else {
                Self::Open
            };
        }
        let may_have_opened =
            connection.directions.iter().any(|direction| not_judged(&direction.report.counts) > 0);
        if opener.seen.syns + syn_acks == 0 || may_have_opened {
            return Self::NotSeen;
        }
        if syn_acks == 0 && listener.seen.answers_with_reset {
            return Self::Refused;
        }
        if opener.seen.answers_with_reset {
            return Self::Abandoned;
        }
        let sender = if syn_acks > 0 { Sender::Listener } else { Sender::Opener };
        let seen = &connection.direction(sender).seen;
        if seen.repeats >= REPEATS {
            Self::Unanswered(sender)
        } else if opener.segments() == 0 {
            Self::OnlyListener
        } else if seen.last_syn.is_some_and(|last| QUIET.is_over(last, now)) {
            Self::NotRepeated(sender)
        } else {
            Self::CutShort(sender)
        }
    }

    /// Whether the connection opened; `None` if the capture does not show it.
    pub(super) const fn has_opened(self) -> Option<bool> {
        match self {
            Self::Open => Some(true),
            Self::Unanswered(_) | Self::HalfOpen | Self::Refused | Self::Abandoned => Some(false),
            Self::NotSeen | Self::CutShort(_) | Self::NotRepeated(_) | Self::OnlyListener => None,
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

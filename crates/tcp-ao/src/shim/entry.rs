//! A connection in the table: its stage, and how long it may stay.

use core::time::Duration;

use crate::connection::{Ahead, Connection, Handshake, Verified};
use crate::error::VerifyError;
use crate::mkt::MKTS_PER_PEER;
use crate::segment::Segment;
use crate::tcp::Flags;
use crate::types::{Isn, KeyId, SeqNum};

/// How long the table remembers each kind of connection. An open connection that has expired is forgotten only if the table is full, by
/// [`Shim::expire`](crate::shim::Shim::expire), or when this end's stack answers a new SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeLimits {
    /// A handshake that makes no progress: 75 seconds, about as long as stacks wait.
    pub half_open: Duration,
    /// How long an unanswered handshake cannot be evicted from a full table, unless its peer has more of them than others: 15 seconds,
    /// in which stacks send a SYN four times.
    pub unanswered: Duration,
    /// How long a handshake that a peer has opened cannot be evicted by a peer that has none in the table and has lost none within
    /// `unanswered`: two seconds, in which stacks send a SYN, and a SYN-ACK, twice.
    pub turn: Duration,
    /// A closed connection: 240 seconds, twice the maximum segment lifetime (RFC 9293 §3.4.2).
    pub closed: Duration,
    /// A connection whose peer does not acknowledge this end's FIN: 240 seconds without progress.
    pub fin: Duration,
    /// An open connection without progress: three hours, longer than TCP's keepalive, which waits two hours and then probes (RFC 9293
    /// §3.8.4).
    ///
    /// Call [`Shim::expire`](crate::shim::Shim::expire) every minute or so if your sessions are never silent for that long. Without it, a
    /// peer that restarts on the same ports is refused ([`ConnectionExists`](crate::shim::Refusal::ConnectionExists)) while its ISN is up
    /// to 2^30 + 2^16 ahead of what it sent last, as a quarter of all ISNs are. An older stack would reset the session for such a SYN,
    /// which may be a replay. With it, a session that has been silent for longer is gone, although both stacks still have it.
    pub idle: Duration,
}

impl TimeLimits {
    /// The limits named above.
    pub const DEFAULT: Self = Self {
        half_open: Duration::from_secs(75),
        unanswered: Duration::from_secs(15),
        turn: Duration::from_secs(2),
        closed: Duration::from_secs(240),
        fin: Duration::from_secs(240),
        idle: Duration::from_secs(3 * 3600),
    };

    const fn of(&self, stage: Stage) -> Duration {
        match stage {
            Stage::OpenedHere | Stage::OpenedThere => self.half_open,
            Stage::Open => self.idle,
            Stage::Closing => self.fin,
            Stage::Closed => self.closed,
        }
    }
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Octets of the largest window, plus those of the segment at its start.
const LARGEST_WINDOW: i32 = (1 << 30) + (1 << 16);

/// The stage of a connection, by which the table queues it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// This end has sent a SYN.
    OpenedHere,
    /// The peer has sent a SYN.
    OpenedThere,
    Open,
    /// This end has sent a FIN that is not acknowledged.
    Closing,
    Closed,
}

impl Stage {
    pub(super) const ALL: [Self; 5] =
        [Self::OpenedHere, Self::OpenedThere, Self::Open, Self::Closing, Self::Closed];
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
    /// Whether this end sent its FIN before it received the peer's.
    closes_first: bool,
    was_reset: bool,
    last_used: Duration,
    /// When it got its place in the table's queue.
    pub(super) queued: Duration,
    /// The peer's SYNs and this end's answers, until the connection is established; then SYNs that may open another.
    handshakes: Handshakes,
    /// The RecvID of the key that this end asks the peer to use.
    asked_for: Option<KeyId>,
    /// The end of the data sent when that key was first asked for; `None` once the peer acknowledges more.
    asked_at: Option<SeqNum>,
    /// The sequence number after all that was sent.
    sent_end: Option<SeqNum>,
    /// Whether the last SYN, to a peer whose mismatches are accepted, was signed.
    was_syn_signed: bool,
    /// Whether it was adopted and no segment has yet shown that it goes on.
    may_have_ended: bool,
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
            closes_first: false,
            was_reset: false,
            last_used: now,
            queued: now,
            handshakes: Handshakes::default(),
            asked_for: None,
            asked_at: None,
            sent_end: None,
            was_syn_signed: false,
            may_have_ended: false,
        }
    }

    /// A connection that was established elsewhere.
    pub(super) fn adopted(connection: Connection<MKTS_PER_PEER>, peer: usize, now: Duration) -> Self {
        Self { may_have_ended: true, ..Self::new(connection, peer, now) }
    }

    /// Whether this SYN is sent unsigned: every second one is.
    pub(super) const fn takes_unsigned_turn(&mut self) -> bool {
        self.was_syn_signed = !self.was_syn_signed;
        !self.was_syn_signed
    }

    /// Records another SYN of the peer's, which has verified.
    pub(super) fn heard(&mut self, handshake: Handshake) {
        self.handshakes.add(handshake);
    }

    /// Verifies a segment with the handshake that it acknowledges, or with the MAC that was computed ahead.
    pub(super) fn verify<'a>(
        &mut self,
        segment: &Segment<'a>,
        ahead: Option<&Ahead>,
    ) -> Result<Verified<'a>, VerifyError> {
        let Some(present) = self.connection.handshake() else {
            return match ahead {
                Some(ahead) => self.connection.verify_with(segment, ahead),
                None => self.connection.verify(segment),
            };
        };
        let completed = self.handshakes.of(segment.sequence(), segment.acknowledgment());
        if let Some(completed) = completed.filter(|_| segment.flags().ack() && !segment.flags().syn()) {
            self.connection.adopt_handshake(&completed);
        }
        self.connection.verify(segment).inspect_err(|_| self.connection.adopt_handshake(&present))
    }

    /// Switches to the handshake whose SYN the stack answers, by a SYN-ACK or a refusal.
    pub(super) fn prepare_answer(&mut self, flags: Flags, sequence: SeqNum, acknowledgment: SeqNum) {
        let Some(present) = self.connection.handshake() else { return };
        self.handshakes.add(present);
        let answered = self.handshakes.answered_by(acknowledgment);
        if let Some(answered) = answered
            .filter(|answered| is_answer(flags, sequence) && answered.remote_isn != present.remote_isn)
        {
            self.connection.adopt_handshake(&Handshake { local_isn: present.local_isn, ..answered });
        }
    }

    /// The handshake of a new connection that this end's stack answers. The answer shows that the stack no longer has this one, which has
    /// expired.
    pub(super) fn answered_anew(
        &self,
        flags: Flags,
        (sequence, acknowledgment): (SeqNum, SeqNum),
        now: Duration,
        limits: &TimeLimits,
    ) -> Option<Handshake> {
        if !is_answer(flags, sequence) || !self.may_be_over(now, limits) {
            return None;
        }
        self.handshakes.answered_by(acknowledgment)
    }

    pub(super) const fn stage(&self) -> Stage {
        self.stage
    }

    /// The start of the time that [`Self::has_expired`] compares.
    pub(super) const fn last_used(&self) -> Duration {
        self.last_used
    }

    /// Records that a segment was sent; `end` is the sequence number after it.
    pub(super) fn sent(&mut self, flags: Flags, end: SeqNum, now: Duration) {
        self.record_request(flags, end);
        if flags.fin() && self.fin_sent.is_none() {
            (self.closes_first, self.last_used) = (!self.fin_received, now);
        }
        if flags.fin() {
            self.fin_sent = Some(end);
        }
        if let Some(answered) = self.connection.handshake().filter(|_| flags.syn()) {
            let is_first =
                self.handshakes.of_syn(answered.remote_isn).is_none_or(|known| known.local_isn.is_none());
            self.handshakes.add(answered);
            // A handshake's time starts with the first answer to its SYN, not with a replay before it.
            self.last_used = if is_first { now } else { self.last_used };
        }
        // A sent segment shows that this end's stack still has the connection, but nothing about the peer. So a repeated SYN or FIN, or an
        // answer to a replayed SYN, does not extend the time.
        if self.connection.is_established() && self.stage != Stage::Closing {
            self.last_used = now;
            self.may_have_ended = false;
        }
        self.passed(flags, now);
    }

    /// Records which key a segment asks for. A retransmission may be the first to ask, so `asked_at` is the end of all that was sent.
    fn record_request(&mut self, flags: Flags, end: SeqNum) {
        // Another SYN-ACK may have another ISN.
        let restarts = flags.syn() && !self.connection.is_established();
        let sent_end = self.sent_end.filter(|sent| !restarts && !sent.before(end)).unwrap_or(end);
        self.sent_end = Some(sent_end);
        let asked_for = Some(self.connection.rnext_key().recv_id);
        if restarts || self.asked_for != asked_for {
            (self.asked_for, self.asked_at) = (asked_for, Some(sent_end));
        }
    }

    /// The key that the peer should use by now, if this verified segment shows that it does not. A peer that acknowledges an octet
    /// sent after the request has heard it (RFC 5925 §7.5). Returned once for each request.
    pub(super) fn key_not_used(&mut self, segment: &Segment<'_>, signed_with: KeyId) -> Option<KeyId> {
        let (asked_for, asked_at, sent_end) = (self.asked_for?, self.asked_at?, self.sent_end?);
        let acknowledged = segment.acknowledgment();
        // A replayed acknowledgment from 2^31 octets ago looks as if it were ahead.
        let has_heard =
            segment.flags().ack() && asked_at.before(acknowledged) && !sent_end.before(acknowledged);
        if !has_heard {
            return None;
        }
        self.asked_at = None;
        Some(asked_for).filter(|asked_for| signed_with != *asked_for)
    }

    /// Records that a segment was received and verified.
    pub(super) fn received(&mut self, segment: &Segment<'_>, verified: &Verified<'_>, now: Duration) {
        let flags = segment.flags();
        self.fin_received |= flags.fin();
        self.fin_acknowledged |=
            flags.ack() && self.fin_sent.is_some_and(|end| segment.acknowledgment() == end);
        // A replay makes no progress and must not keep a dead connection.
        if verified.makes_progress() && !flags.syn() {
            self.last_used = now;
            self.may_have_ended = false;
        }
        self.passed(flags, now);
    }

    fn passed(&mut self, flags: Flags, now: Duration) {
        // After a reset or both FINs the entry stays: the reset may have been outside the stack's window, and TIME-WAIT has to verify
        // and answer late segments (RFC 5925 §7.7).
        self.was_reset |= flags.rst();
        let stage = if self.was_reset || (self.fin_acknowledged && self.fin_received) {
            Stage::Closed
        } else if !self.connection.is_established() {
            self.stage
        } else if self.fin_sent.is_some() && !self.fin_acknowledged {
            Stage::Closing
        } else {
            Stage::Open
        };
        if stage != self.stage {
            (self.stage, self.last_used) = (stage, now);
            if self.connection.is_established() {
                self.handshakes = Handshakes::default();
            }
        }
    }

    /// Whether a verified SYN may replace this connection: its handshake has expired, or both ends are done and the SYN is not a copy
    /// from this connection. Never while it is open, since the SYN may be a replay.
    pub(super) fn may_be_replaced(&self, syn: SeqNum, now: Duration, limits: &TimeLimits) -> bool {
        let is_another = self.connection.remote_isn() != Some(Isn(syn.0));
        let is_later = self.connection.highest_received().1.before(syn);
        // After a reset nothing is left to protect. After both FINs, this end is in TIME-WAIT if it closed first (RFC 9293 §3.10.7.4).
        let is_over = self.was_reset || !self.closes_first || is_later;
        match self.stage {
            Stage::Open | Stage::Closing => false,
            Stage::OpenedHere | Stage::OpenedThere => self.has_expired(now, limits),
            Stage::Closed => self.has_expired(now, limits) || is_another && is_over,
        }
    }

    /// Whether a verified SYN for this connection, which is established, goes to this end's stack. It does if the connection has expired,
    /// or was adopted and has received nothing since, because the peer may have restarted. A stack that still has the connection drops the
    /// SYN or acknowledges (RFC 5961 §4). An older one resets for a SYN in its window, which has at most 2^30 octets (RFC 7323 §2.3), so it
    /// does not get such a SYN.
    pub(super) fn may_be_reopened(&self, syn: SeqNum, now: Duration, limits: &TimeLimits) -> bool {
        let ahead = syn.offset_from(self.connection.highest_received().1);
        self.may_be_over(now, limits) && !(0..=LARGEST_WINDOW).contains(&ahead)
    }

    fn may_be_over(&self, now: Duration, limits: &TimeLimits) -> bool {
        self.connection.is_established() && (self.may_have_ended || self.has_expired(now, limits))
    }

    /// Whether it is established, and neither end has begun to close it.
    pub(super) fn is_open(&self) -> bool {
        self.stage == Stage::Open && self.fin_sent.is_none() && !self.fin_received
    }

    /// Whether it should move back in its queue: its stage has changed, or it has been used long after it was queued.
    pub(super) fn is_misplaced(&self, stage_before: Stage, limits: &TimeLimits) -> bool {
        self.stage != stage_before || self.last_used.saturating_sub(self.queued) > limits.of(self.stage) / 2
    }

    pub(super) fn has_expired(&self, now: Duration, limits: &TimeLimits) -> bool {
        now.saturating_sub(self.last_used) >= limits.of(self.stage)
    }
}

/// Whether a segment answers a SYN: a SYN-ACK, or a listener's reset (RFC 9293 §3.10.7.1).
const fn is_answer(flags: Flags, sequence: SeqNum) -> bool {
    flags.ack() && (flags.syn() || flags.rst() && sequence.0 == 0)
}

/// How many handshakes are kept for a connection.
const KEPT: usize = 4;

/// The handshakes that may be genuine before a connection is established, the newest first.
///
/// The key of a SYN depends only on the SYN, so a recorded one verifies at any time. Which of several SYNs is genuine shows only when an
/// acknowledgment verifies; until then the last few are kept, each with this end's answers.
#[derive(Default)]
struct Handshakes([Option<Handshake>; KEPT]);

impl Handshakes {
    /// Adds a handshake, unless it is known. It replaces the oldest without an answer, or else the oldest.
    fn add(&mut self, new: Handshake) {
        let is_same = |old: &Handshake| {
            old.remote_isn == new.remote_isn && (new.local_isn.is_none() || new.local_isn == old.local_isn)
        };
        let payload = |old: &Handshake| if old.remote_isn == new.remote_isn { old.payload } else { 0 };
        // A retransmission may leave the payload out, and an answer does not have it.
        let new = Handshake {
            payload: self.0.iter().flatten().map(payload).max().unwrap_or_default().max(new.payload),
            ..new
        };
        if let Some(same) = self.0.iter_mut().flatten().find(|old| is_same(old)) {
            same.payload = new.payload;
            return;
        }
        let is_answer = |old: &Handshake| old.remote_isn == new.remote_isn && old.local_isn.is_none();
        let replaced = self.0.iter().position(|old| old.as_ref().is_some_and(is_answer));
        let free = || self.0.iter().position(Option::is_none);
        let unanswered = || self.0.iter().rposition(|old| old.is_some_and(|old| old.local_isn.is_none()));
        let place = replaced.or_else(free).or_else(unanswered).unwrap_or(KEPT - 1);
        self.0[..=place].rotate_right(1);
        self.0[0] = Some(new);
    }

    /// The latest handshake with the SYN of this ISN.
    fn of_syn(&self, remote_isn: Isn) -> Option<Handshake> {
        self.0.iter().flatten().find(|handshake| handshake.remote_isn == remote_isn).copied()
    }

    /// The latest handshake with the SYN that this number acknowledges, alone or with its payload.
    fn answered_by(&self, acknowledgment: SeqNum) -> Option<Handshake> {
        let with_payload = || self.0.iter().flatten().find(|handshake| handshake.is_before(acknowledgment));
        self.of_syn(Isn(acknowledgment.0.wrapping_sub(1))).or_else(|| with_payload().copied())
    }

    /// The handshake that the peer completes with these numbers.
    fn of(&self, sequence: SeqNum, acknowledgment: SeqNum) -> Option<Handshake> {
        let local_isn = Some(Isn(acknowledgment.0.wrapping_sub(1)));
        let is_it =
            |handshake: &&Handshake| handshake.local_isn == local_isn && handshake.is_before(sequence);
        self.0.iter().flatten().find(is_it).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syn_ack_and_a_listeners_reset_answer_a_syn() {
        let [fin, syn, rst, ack] = [0x01, 0x02, 0x04, 0x10];
        for (flags, sequence, expected) in [
            (syn | ack, 7, true),
            (syn | ack, 0, true),
            (rst | ack, 0, true),
            (rst | ack, 7, false),
            (rst, 0, false),
            (ack, 0, false),
            (fin | ack, 0, false),
            (syn, 7, false),
        ] {
            assert_eq!(is_answer(Flags(flags), SeqNum(sequence)), expected, "{flags:#x}, {sequence}");
        }
    }

    #[test]
    fn a_retransmission_without_its_payload_leaves_that_of_the_first_syn() {
        let syn = |isn, payload| Handshake {
            remote_isn: Isn(isn),
            payload,
            local_isn: None,
            signed_with: KeyId(1),
            asked_for: KeyId(1),
        };
        let mut handshakes = Handshakes::default();
        [syn(7, 100), syn(9, 0), syn(7, 0)].into_iter().for_each(|syn| handshakes.add(syn));
        let payload = |isn| handshakes.of_syn(Isn(isn)).map(|handshake| handshake.payload);
        assert_eq!((payload(7), payload(9), payload(8)), (Some(100), Some(0), None));
        // An answer may acknowledge the payload too.
        assert!(handshakes.answered_by(SeqNum(108)).is_some_and(|answered| answered.remote_isn == Isn(7)));
        assert!(handshakes.answered_by(SeqNum(109)).is_none());
    }
}

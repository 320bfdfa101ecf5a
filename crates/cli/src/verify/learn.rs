//! What a judged segment shows about its connection, and whether the connection opened.

use std::num::NonZeroU16;

use wireseal_tcp_ao::option::{TcpOption, kind};
use wireseal_tcp_ao::{Isn, Segment, SeqNum};

use super::connection::{OtherSyn, Phase, TcpConnection};
use super::direction::{Direction, Fin, KeyIndex, OnlySyn, Syn};
use super::judge::{Judgement, ObservedSegment};
use super::key_table::{Candidate, KeyTable};
use super::report::{IsnSource, Sender, Verdict, failed, not_judged};
use super::sent::Sent;
use super::traffic_keys::Slot;
use crate::capture::Place;

/// What a segment was, compared with those before it.
pub(super) struct Learned {
    /// Its octets had been sent before.
    pub(super) is_retransmission: bool,
    /// It has another KeyID or key than the segments before it.
    pub(super) starts_key_use: bool,
}

impl TcpConnection {
    /// Counts a segment and learns from it.
    #[inline]
    pub(super) fn learn(
        &mut self,
        table: &KeyTable<'_>,
        sender: Sender,
        observed: &ObservedSegment<'_>,
        judgement: &Judgement,
    ) -> Learned {
        let ObservedSegment { place, segment, .. } = *observed;
        let is_good = judgement.verdict == Verdict::Good;
        // Once an end is known to sign, only what is signed is believed.
        let is_first_good = is_good && self.direction(sender).good() == 0;
        let is_believed = (is_good || self.direction(sender).good() == 0) && !observed.has_part_of_header;
        self.last = place;
        let flags = segment.flags();
        if flags.syn() && !flags.rst() && is_believed {
            self.learn_isns(sender, observed, is_good);
        }
        if flags.rst() && !self.has_opened {
            self.learn_reset(sender, segment, place, judgement.verdict);
        }
        // A SYN with another ISN has none of this connection's numbers.
        let has_own_numbers = !flags.syn() || self.isn(sender) == Some(Isn(segment.sequence().0));
        let direction = self.direction_mut(sender);
        if is_first_good {
            // What was learned before may have been forged.
            direction.sent = Sent::default();
        }
        let starts_key_use = direction.count(table, observed, judgement);
        let start = segment.sequence();
        let mut end = segment.end();
        end.0 = end.0.wrapping_add(observed.missing as u32);
        let is_retransmission =
            has_own_numbers && !observed.has_part_of_header && direction.sent.has(start, end);
        if starts_key_use && is_good {
            direction.unusual_mut().rolled_over = Some((start, direction.retransmissions));
        }
        direction.retransmissions = direction.retransmissions.saturating_add(is_retransmission.into());
        if is_good && let Some(candidate) = judgement.candidate {
            if has_own_numbers && let Some(mut tracker) = direction.tracker() {
                tracker.advance(start);
                direction.sne = Some(tracker);
                direction.sne_searches = 0;
            }
            self.learn_configured_end(table, sender, candidate, observed);
        }
        if is_believed && has_own_numbers {
            self.learn_progress(sender, segment, end, is_good);
        }
        Learned { is_retransmission, starts_key_use }
    }

    /// Takes the ISNs from a SYN or SYN-ACK.
    #[cold]
    fn learn_isns(&mut self, sender: Sender, observed: &ObservedSegment<'_>, is_good: bool) {
        let ObservedSegment { place, segment, .. } = *observed;
        let flags = segment.flags();
        let own = Isn(segment.sequence().0);
        let has_opened = self.has_opened;
        let payload = observed.payload_length() as u32;
        let only = if flags.ack() { OnlySyn::WithAck } else { OnlySyn::WithoutAck };
        let is_opening = self.phase == Phase::Opening;
        let is_plain = payload == 0 && is_opening && self.isn(sender).is_none_or(|known| known == own);
        let direction = self.direction_mut(sender);
        let is_only = is_plain && direction.note_only_syn(only);
        if !is_only {
            direction.note_syn(place, flags.ack(), has_opened);
        }
        if direction.mss.is_none() {
            direction.mss = segment.options().flatten().find_map(|option| match (option.kind, option.data) {
                (kind::MAXIMUM_SEGMENT_SIZE, [high, low]) => {
                    NonZeroU16::new(u16::from_be_bytes([*high, *low]))
                }
                _ => None,
            });
        }
        if sender == Sender::Listener && !flags.ack() {
            // Simultaneous open: count what the opener repeats from now on.
            let opener = self.direction_mut(Sender::Opener);
            if opener.opening().repeats > 0 {
                opener.opening_mut().repeats = 0;
            }
        }
        let known = self.isn(sender);
        if flags.ack() {
            let other = self.answered_isn(sender.other(), segment.acknowledgment());
            let known_other = self.isn(sender.other());
            // Of several answers the good one counts, or the last until there is one. The third segment may be recorded before it.
            let is_answer = self.phase == Phase::Opening || known.is_none() && known_other == Some(other);
            if is_answer && known != Some(own) && (is_good || self.direction(sender).good() == 0) {
                self.direction_mut(sender).set_isn(own, IsnSource::Seen);
                self.forget_traffic_keys();
            }
            // A good answer proves which of several SYNs is genuine.
            if is_answer && known_other != Some(other) && (is_good || known_other.is_none()) {
                let is_seen =
                    self.direction(sender.other()).opening().syn.is_some_and(|syn| syn.isn == other);
                let inferred = IsnSource::Inferred { is_confirmed: is_good };
                let source = if is_seen { IsnSource::Seen } else { inferred };
                self.direction_mut(sender.other()).set_isn(other, source);
                self.forget_traffic_keys();
            }
            return;
        }
        if is_opening {
            if !is_only {
                let opening = self.direction_mut(sender).opening_mut();
                // A retransmission may leave the payload out.
                let before = opening.syn.filter(|syn| syn.isn == own).map_or(0, |syn| syn.payload);
                opening.syn = Some(Syn { isn: own, payload: payload.max(before) });
            }
            // A good SYN takes the place of its copy from the other side of a device.
            let is_first_good = is_good && self.direction(sender).good() == 0;
            if is_first_good || known.is_none_or(|known| known == own) {
                self.direction_mut(sender).set_isn(own, IsnSource::Seen);
            }
        } else if known != Some(own) {
            self.note_other_syn(sender, Syn { isn: own, payload }, place, is_good);
        } else {
            self.direction_mut(sender).set_isn(own, IsnSource::Seen);
        }
    }

    /// Notes a SYN with another ISN in an open connection.
    #[cold]
    fn note_other_syn(&mut self, sender: Sender, syn: Syn, place: Place, is_good: bool) {
        let before = self.direction(sender).good();
        let good = before + u64::from(is_good);
        match self.other_syn.as_deref_mut() {
            // What goes on with the connection has not lost it.
            Some(other) if (other.sender, other.syn.isn) == (sender, syn.isn) && other.good == before => {
                other.count = other.count.saturating_add(1);
                if REPEATED.is_over(other.last, place) {
                    (other.repeats, other.last) = (other.repeats.saturating_add(1), place);
                }
                other.syn.payload = other.syn.payload.max(syn.payload);
                (other.good, other.is_good) = (good, other.is_good && is_good);
            }
            _ => {
                let (first, last, count, repeats) = (place, place, 1, 0);
                self.other_syn =
                    Some(Box::new(OtherSyn { sender, syn, is_good, first, last, count, repeats, good }));
            }
        }
    }

    /// A SYN of an end that repeats it and no longer goes on with the open connection, without an answer.
    pub(super) fn unanswered_other_syn(&self) -> Option<&OtherSyn> {
        let other = self.other_syn.as_deref()?;
        let goes_on = self.direction(other.sender).good() > other.good;
        let is_repeated = other.repeats >= REPEATS && other.is_good;
        (is_repeated && !goes_on && self.phase == Phase::Open).then_some(other)
    }

    /// How often an end sent again what it had sent since it went over to another key, if the other end has acknowledged nothing of that.
    pub(super) fn unacknowledged_since_rollover(&self, sender: Sender) -> Option<u32> {
        let direction = self.direction(sender);
        let (start, before) = direction.unusual().rolled_over?;
        let is_acknowledged = direction.acknowledged.is_none_or(|acknowledged| start.before(acknowledged));
        let has_sent = direction.sent.next.is_some_and(|next| start.before(next));
        let again = direction.retransmissions - before;
        (has_sent && !is_acknowledged && again >= REPEATS).then_some(again)
    }

    /// Notes a reset that answers a SYN or SYN-ACK, not one that ends an open connection whose segments the capture lacks.
    #[cold]
    fn learn_reset(&mut self, sender: Sender, segment: &Segment<'_>, place: Place, verdict: Verdict) {
        let other = self.direction(sender.other());
        // An end that signs ignores unsigned resets.
        let is_unsigned =
            verdict == Verdict::NoOption && !other.has_signed() && not_judged(&other.counts()) == 0;
        let flags = segment.flags();
        let opener = &self.direction(Sender::Opener);
        let syn = opener.isn().map(|isn| {
            let seen = opener.opening().syn.filter(|syn| syn.isn == isn);
            seen.unwrap_or(Syn { isn, payload: 0 })
        });
        let follows_syn = |number| syn.is_some_and(|syn| syn.is_before(number));
        // Their sequence numbers are those of RFC 9293 §3.10.7.1.
        let is_answer = match sender {
            Sender::Listener => {
                flags.ack() && follows_syn(segment.acknowledgment()) && segment.sequence() == SeqNum(0)
            }
            Sender::Opener => {
                let is_soon = other.opening().last_syn.is_some_and(|last| !REPEATED.is_over(last, place));
                !flags.ack() && follows_syn(segment.sequence()) && is_soon
            }
        };
        if is_answer && (verdict == Verdict::Good || is_unsigned) {
            self.direction_mut(sender).answers_with_reset = true;
        }
    }

    fn forget_traffic_keys(&mut self) {
        for direction in &mut self.directions {
            direction.traffic_key = Slot::default();
        }
    }

    /// Learns from the first good segment under a key with two ids at which end the keys are configured.
    #[inline]
    fn learn_configured_end(
        &mut self,
        table: &KeyTable<'_>,
        sender: Sender,
        candidate: Candidate,
        observed: &ObservedSegment<'_>,
    ) {
        if self.configured_end.is_some() {
            return;
        }
        let parameters = table.parameters(candidate);
        if parameters.send_id == parameters.recv_id || candidate.configured_at(None).is_some() {
            return;
        }
        let Ok(Some(ao)) = &observed.ao else { return };
        self.configured_end = Some(if ao.key_id == parameters.send_id { sender } else { sender.other() });
    }

    /// Advances the connection's stage, by segments that are believed.
    #[inline]
    fn learn_progress(&mut self, sender: Sender, segment: &Segment<'_>, end: SeqNum, is_good: bool) {
        let flags = segment.flags();
        if is_good && self.phase == Phase::Closed && !self.is_surely_closed {
            self.reopen();
        }
        self.direction_mut(sender).sent.note(segment.sequence(), end);
        if flags.rst() {
            self.close(is_good);
        }
        if !flags.syn() && !flags.rst() && !self.has_opened {
            self.has_opened = true;
            if self.phase == Phase::Opening {
                self.phase = Phase::Open;
            }
        }
        if flags.fin() {
            let fin = &mut self.direction_mut(sender).fin;
            *fin = if let Fin::Acknowledged(_) = *fin { Fin::Acknowledged(end) } else { Fin::Sent(end) };
        }
        if flags.ack() {
            self.learn_acknowledgment(sender, segment, is_good);
        }
        if self.has_opened {
            self.note_open();
        }
    }

    #[inline]
    fn learn_acknowledgment(&mut self, sender: Sender, segment: &Segment<'_>, is_good: bool) {
        let other = self.direction_mut(sender.other());
        let acknowledgment = segment.acknowledgment();
        if !segment.flags().rst() && other.acknowledged.is_none_or(|before| before.before(acknowledgment)) {
            other.acknowledged = Some(acknowledgment);
        }
        if let Fin::Sent(fin) | Fin::Acknowledged(fin) = other.fin
            && acknowledgment.offset_from(fin) >= 0
        {
            other.fin = Fin::Acknowledged(fin);
            if let Fin::Acknowledged(_) = self.direction(sender).fin {
                self.close(is_good);
            }
        }
    }

    #[cold]
    fn close(&mut self, surely: bool) {
        self.phase = Phase::Closed;
        self.is_surely_closed |= surely;
    }

    /// A good segment proves that what closed the connection before any was good had been forged.
    #[cold]
    fn reopen(&mut self) {
        self.phase = Phase::Open;
        for direction in &mut self.directions {
            direction.fin = Fin::Missing;
        }
    }
}

impl Direction {
    #[cold]
    fn note_syn(&mut self, place: Place, is_answer: bool, has_opened: bool) {
        let opening = self.opening_mut();
        let count = if is_answer { &mut opening.syn_acks } else { &mut opening.syns };
        *count = count.saturating_add(1);
        if opening.last_syn.is_none_or(|last| REPEATED.is_over(last, place)) {
            let is_repeated = opening.last_syn.replace(place).is_some();
            opening.repeats = opening.repeats.saturating_add(is_repeated.into());
            let is_late = is_repeated && is_answer && has_opened;
            opening.late_syn_acks = opening.late_syn_acks.saturating_add(is_late.into());
        }
    }

    /// Counts a segment and what it shows. Returns whether it starts another run of a KeyID.
    #[inline]
    fn count(&mut self, table: &KeyTable<'_>, observed: &ObservedSegment<'_>, judgement: &Judgement) -> bool {
        let ObservedSegment { place, segment, .. } = *observed;
        self.count_verdict(judgement.verdict, place);
        self.payload += observed.payload_length() as u64;
        if segment.flags().rst() {
            self.count_reset(judgement.verdict == Verdict::Good);
        }
        match &observed.ao {
            Ok(Some(ao)) => {
                let key = judgement.candidate.map(|candidate| candidate.key);
                if observed.odd_end.is_some() && key.is_some() {
                    let odd_ends = &mut self.unusual_mut().odd_ends;
                    let (before, first) = odd_ends.unwrap_or((0, place));
                    *odd_ends = Some((before + 1, first));
                }
                let is_outside = key.is_some_and(|key| table.is_outside_lifetime(key as usize, &place));
                let key = key.and_then(|key| KeyIndex::new(key + 1));
                return self.use_key(ao.key_id, key, place, is_outside);
            }
            Ok(None) if !observed.has_part_of_header => self.note_unsigned(segment),
            _ => {}
        }
        false
    }

    #[cold]
    fn note_unsigned(&mut self, segment: &Segment<'_>) {
        let unusual = self.unusual_mut();
        unusual.unsigned_resets += u64::from(segment.flags().rst());
        let has_md5 = segment.options().flatten().any(|option| option.kind == kind::MD5_SIGNATURE);
        unusual.md5 += u64::from(has_md5);
        unusual.enhanced += u64::from(segment.options().flatten().any(is_enhanced_authentication));
    }
}

/// Whether an option has the form of the TCP Enhanced Authentication Option (draft-bonica-tcp-auth-06 §2): an experimental kind, a MAC of
/// 96 bits, and zeros in the bits that it reserves. Most experiments' identifiers (RFC 6994) have other bits there.
fn is_enhanced_authentication(option: TcpOption<'_>) -> bool {
    const RESERVED: [u8; 2] = [0x40, 0xc0];
    let TcpOption { kind, data, .. } = option;
    let has_form = matches!(data, [algorithm, key_id, mac @ ..]
        if mac.len() == 12 && algorithm & RESERVED[0] == 0 && key_id & RESERVED[1] == 0);
    matches!(kind, 253 | 254) && has_form
}

/// The least time between a SYN and its retransmission: a second (RFC 6298 §2), less the error of capture clocks. A closer one is a copy of
/// the same packet, recorded twice.
pub(super) const REPEATED: Wait = Wait { nanoseconds: 900_000_000, packets: 1000 };
/// After how many retransmissions a SYN counts as unanswered. After one, the answer may be lost, or come after the capture.
const REPEATS: u32 = 2;
/// How long to wait for the next retransmission of a SYN; some stacks wait three seconds, then six.
const QUIET: Wait = Wait { nanoseconds: 10_000_000_000, packets: 10_000 };

/// The outcome of a handshake.
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
    /// The outcome of a connection's handshake, with the capture read up to `now`.
    pub(super) fn of(connection: &TcpConnection, now: Place) -> Self {
        let [opener, listener] = &connection.directions;
        let syn_acks = u64::from(listener.opening().syn_acks);
        if connection.has_opened {
            let only_syn_acks = listener.segments() == syn_acks;
            return if only_syn_acks && listener.opening().late_syn_acks >= REPEATS {
                Self::HalfOpen
            } else {
                Self::Open
            };
        }
        let may_have_opened =
            connection.directions.iter().any(|direction| not_judged(&direction.counts()) > 0);
        if u64::from(opener.opening().syns) + syn_acks == 0 || may_have_opened {
            return Self::NotSeen;
        }
        if syn_acks == 0 && listener.answers_with_reset {
            return Self::Refused;
        }
        if opener.answers_with_reset {
            return Self::Abandoned;
        }
        let sender = if syn_acks > 0 { Sender::Listener } else { Sender::Opener };
        let opening = connection.direction(sender).opening();
        if opening.repeats >= REPEATS {
            Self::Unanswered(sender)
        } else if opener.segments() == 0 {
            Self::OnlyListener
        } else if opening.last_syn.is_some_and(|last| QUIET.is_over(last, now)) {
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

pub(super) fn has_failed(direction: &Direction) -> bool {
    failed(&direction.counts()) > 0
}

/// A duration in the capture, or a number of packets if the capture has no times.
pub(super) struct Wait {
    pub(super) nanoseconds: u64,
    pub(super) packets: u64,
}

impl Wait {
    pub(super) fn is_over(&self, since: Place, now: Place) -> bool {
        match (since.time, now.time) {
            (Some(since), Some(now)) => {
                now.unix_nanoseconds().saturating_sub(since.unix_nanoseconds()) >= self.nanoseconds
            }
            _ => now.packet.saturating_sub(since.packet) >= self.packets,
        }
    }
}

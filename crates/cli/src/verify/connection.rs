//! The state of a live TCP connection.

use wireseal_tcp_ao::{Endpoint, Isn, KdfContext, KeyId, Segment, SeqNum, SneTracker, TrafficKey};

use super::key_table::{Candidate, KeyTable};
use super::report::{DirectionReport, IsnSource, KeyUse, Sender, Verdict};
use crate::capture::Place;

/// How many segments of a direction are tried with every SNE.
const SNE_SEARCHES: u8 = 4;
/// How many segments of a connection ISNs are guessed from.
const GUESSES: u8 = 4;

/// The stage of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Only SYNs and resets were seen.
    Opening,
    /// Something else was seen.
    Open,
    /// Both FINs are acknowledged, or an end has reset it.
    Closed,
}

/// A live connection.
#[derive(Debug)]
pub(super) struct TcpConnection {
    pub(super) number: u64,
    /// Opener and listener.
    pub(super) ends: [Endpoint; 2],
    pub(super) first: Place,
    pub(super) last: Place,
    /// The keys that may belong to it.
    pub(super) candidates: Box<[Candidate]>,
    /// Whether `--isn` gave its ISNs.
    pub(super) has_given_isns: bool,
    /// The end at which keys without a peer are configured, once a segment has shown it.
    pub(super) configured_end: Option<Sender>,
    pub(super) directions: [Direction; 2],
    pub(super) phase: Phase,
    /// Whether a segment was believed that is neither a SYN nor a reset.
    pub(super) has_opened: bool,
    /// Whether what closed it was verified.
    pub(super) is_surely_closed: bool,
    /// How many more segments ISNs are guessed from.
    pub(super) guesses: u8,
    /// A SYN that came while the connection was open; a new connection begins if it is answered.
    pub(super) other_syn: Option<(Sender, Syn)>,
}

/// A SYN, and how many octets of payload came with it: an answer may acknowledge these as well (RFC 7413 §4.2, RFC 9293 §3.10.7.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct Syn {
    pub(super) isn: Isn,
    pub(super) payload: u32,
}

impl Syn {
    /// Whether a number is one that follows the SYN: after it, or after any part of its payload.
    pub(super) const fn is_before(self, number: SeqNum) -> bool {
        number.0.wrapping_sub(self.isn.0).wrapping_sub(1) <= self.payload
    }
}

impl TcpConnection {
    /// Begins a connection with its first segment.
    pub(super) fn new(number: u64, place: Place, segment: &Segment<'_>, table: &KeyTable<'_>) -> Self {
        let (source, destination, flags) = (segment.source(), segment.destination(), segment.flags());
        let source_opens = match (flags.syn(), flags.ack()) {
            (true, ack) => !ack,
            (false, _) => source.port() >= destination.port(),
        };
        let ends = if source_opens { [source, destination] } else { [destination, source] };
        let mut directions: [Direction; 2] = Default::default();
        // A connection that begins in the capture has ISNs of its own.
        let given = table.given_isns(&ends).filter(|_| !flags.syn());
        for (direction, isn) in directions.iter_mut().zip(given.into_iter().flatten()) {
            direction.set_isn(isn, IsnSource::Given);
            direction.sne_searches = SNE_SEARCHES;
        }
        let is_opening = flags.syn() || flags.rst();
        Self {
            number,
            ends,
            first: place,
            last: place,
            candidates: table.candidates(&ends),
            has_given_isns: given.is_some(),
            configured_end: None,
            directions,
            phase: if is_opening { Phase::Opening } else { Phase::Open },
            has_opened: !is_opening,
            is_surely_closed: false,
            guesses: GUESSES,
            other_syn: None,
        }
    }

    /// Which end sends from `source`.
    #[inline]
    pub(super) fn sender(&self, source: &Endpoint) -> Sender {
        if self.ends[0] == *source { Sender::Opener } else { Sender::Listener }
    }

    pub(super) fn direction(&self, sender: Sender) -> &Direction {
        &self.directions[sender as usize]
    }

    pub(super) fn direction_mut(&mut self, sender: Sender) -> &mut Direction {
        &mut self.directions[sender as usize]
    }

    pub(super) fn isn(&self, sender: Sender) -> Option<Isn> {
        self.direction(sender).report.isn
    }

    /// The keys that `key_id` names in segments of `sender`.
    pub(super) fn named_by<'c>(
        &'c self,
        table: &'c KeyTable<'_>,
        sender: Sender,
        key_id: KeyId,
    ) -> impl Iterator<Item = Candidate> + 'c {
        let named = move |candidate: &Candidate| candidate.serves(table, self.configured_end, sender, key_id);
        self.candidates.iter().copied().filter(named)
    }

    /// Whether a segment of either end has verified.
    pub(super) fn has_good(&self) -> bool {
        self.directions.iter().any(|direction| direction.good() > 0)
    }

    /// Whether a segment begins another connection between the same ends.
    pub(super) fn is_followed_by(&self, segment: &Segment<'_>) -> bool {
        let flags = segment.flags();
        if !flags.syn() || flags.rst() {
            return false;
        }
        let sender = self.sender(&segment.source());
        let isn = Isn(segment.sequence().0);
        let is_other = self.isn(sender).is_some_and(|own| own != isn);
        // A capture of one direction shows neither answers nor closing.
        let is_alone = self.direction(sender.other()).segments() == 0;
        if flags.ack() {
            let answered = self.answered_isn(sender.other(), segment.acknowledgment());
            let is_of_another = is_other && self.isn(sender.other()) != Some(answered);
            return self.syn_answered_by(segment).is_some()
                || is_of_another && (is_alone || self.phase == Phase::Closed);
        }
        if is_other && is_alone {
            return true;
        }
        match (self.isn(sender), self.phase) {
            (Some(own), _) if own == isn => false,
            // Simultaneous open.
            (None, Phase::Opening) => false,
            (_, Phase::Opening | Phase::Closed) => true,
            // Anyone can send a SYN, or replay an old one, so the connection is over only when the SYN is answered.
            (_, Phase::Open) => false,
        }
    }

    /// The SYN of another connection, if this SYN-ACK answers it.
    pub(super) fn syn_answered_by(&self, segment: &Segment<'_>) -> Option<Syn> {
        let (sender, syn) = self.other_syn?;
        let is_answer = segment.flags().ack() && sender == self.sender(&segment.destination());
        Some(syn).filter(|syn| is_answer && syn.is_before(segment.acknowledgment()))
    }

    /// The ISN that a SYN-ACK acknowledges: that of the SYN of `sender`, if it was seen, and otherwise the acknowledgment less one.
    pub(super) fn answered_isn(&self, sender: Sender, acknowledgment: SeqNum) -> Isn {
        match self.direction(sender).seen.syn {
            Some(syn) if syn.is_before(acknowledgment) => syn.isn,
            _ => Isn(acknowledgment.0.wrapping_sub(1)),
        }
    }

    /// Whether only the other direction was seen so far, and a segment has the numbers that answer it.
    pub(super) fn is_answered_by(&self, segment: &Segment<'_>) -> bool {
        let sender = self.sender(&segment.source());
        let (own, other) = (self.direction(sender), self.direction(sender.other()));
        if own.segments() > 0 || other.segments() == 0 {
            return false;
        }
        let (flags, sequence, acknowledgment) =
            (segment.flags(), segment.sequence(), segment.acknowledgment());
        let sent = other.sent.next;
        let own_next = own.seen.acknowledged;
        match (flags.syn(), flags.ack()) {
            (true, true) => {
                let answered = self.answered_isn(sender.other(), acknowledgment);
                self.isn(sender.other()) == Some(answered) || sent == Some(acknowledgment)
            }
            // Recorded after its answer.
            (true, false) => self.isn(sender) == Some(Isn(sequence.0)),
            (false, true) => match own_next {
                Some(next) => {
                    sent.is_some_and(|sent| is_near(sent, acknowledgment)) && is_near(next, sequence)
                }
                None => sent == Some(acknowledgment),
            },
            (false, false) => flags.rst() && own_next == Some(sequence),
        }
    }

    /// What a segment's traffic key is derived from, if the ISNs are known.
    pub(super) fn context(&self, sender: Sender, segment: &Segment<'_>) -> Option<KdfContext> {
        let flags = segment.flags();
        let own = Isn(segment.sequence().0);
        match (flags.syn(), flags.ack()) {
            (true, false) => Some(self.context_of(sender, own, Isn::UNKNOWN)),
            (true, true) => {
                let other = self.answered_isn(sender.other(), segment.acknowledgment());
                Some(self.context_of(sender, own, other))
            }
            _ => {
                let other = self.isn(sender.other())?;
                // A listener's reset in answer to a SYN has no ISN and carries its own (RFC 9293 §3.10.7.2).
                let own = self.isn(sender).or(flags.rst().then_some(own))?;
                Some(self.context_of(sender, own, other))
            }
        }
    }

    /// As [`context`](Self::context), with these ISNs, the sender's first.
    pub(super) fn context_of(&self, sender: Sender, source_isn: Isn, destination_isn: Isn) -> KdfContext {
        let (source, destination) = (self.ends[sender as usize], self.ends[sender.other() as usize]);
        KdfContext { source, destination, source_isn, destination_isn }
    }
}

/// Whether two sequence numbers are so close that those of two connections hardly are.
fn is_near(one: SeqNum, other: SeqNum) -> bool {
    one.offset_from(other).unsigned_abs() < 1 << 20
}

/// The most runs of one KeyID kept per direction; the last one absorbs the rest.
const KEY_USES: usize = 1000;

/// The most traffic keys kept per direction: if many keys have one KeyID, most are derived in vain.
const TRAFFIC_KEYS: usize = 4;

/// One direction of a live connection.
#[derive(Default, Debug)]
pub(super) struct Direction {
    /// The report at the end.
    pub(super) report: DirectionReport,
    /// How far good segments have come.
    pub(super) sne: Option<SneTracker>,
    /// How many more segments to search for the SNE, after `--isn` gave the ISN but not the wraps since.
    pub(super) sne_searches: u8,
    /// Traffic keys for segments without SYN, most recently used first.
    pub(super) traffic_keys: Vec<(Candidate, TrafficKey)>,
    /// Which octets were sent.
    pub(super) sent: Sent,
    /// The sequence number after the FIN.
    pub(super) fin: Option<SeqNum>,
    /// Whether the other end has acknowledged the FIN.
    pub(super) fin_is_acknowledged: bool,
    /// The verdict on the last segment.
    pub(super) last_verdict: Option<Verdict>,
    /// What the diagnosis needs when the connection is over.
    pub(super) seen: Seen,
}

/// What a direction showed apart from verdicts.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Seen {
    /// The last SYN without ACK that was believed.
    pub(super) syn: Option<Syn>,
    /// SYNs without ACK.
    pub(super) syns: u64,
    /// SYNs with ACK.
    pub(super) syn_acks: u64,
    /// Retransmissions of either, at least [`REPEATED`](super::learn::REPEATED) after the one before.
    pub(super) repeats: u64,
    /// Retransmitted SYN-ACKs after a segment that only an open connection has.
    pub(super) late_syn_acks: u64,
    /// The last SYN or SYN-ACK that was not a copy of the one before.
    pub(super) last_syn: Option<Place>,
    /// Whether it answered the SYN or SYN-ACK of the other end with a reset that the other end accepts.
    pub(super) answers_with_reset: bool,
    /// The highest acknowledgment number the other end has sent.
    pub(super) acknowledged: Option<SeqNum>,
    /// Segments with a TCP-AO option.
    pub(super) signed: u64,
    /// The KeyID of the last segment that had one.
    pub(super) key_id: Option<KeyId>,
    /// Good segments with octets behind the option that are not padding, and the first of them.
    pub(super) odd_ends: Option<(u64, Place)>,
    /// Segments with TCP-MD5 and without TCP-AO.
    pub(super) md5: u64,
    /// Segments with what looks like a TCP Enhanced Authentication Option, and without TCP-AO.
    pub(super) enhanced: u64,
    /// Resets without a TCP-AO option.
    pub(super) unsigned_resets: u64,
    /// The first segment of each verdict, at [`Verdict::index`].
    pub(super) first: [Option<Place>; Verdict::KINDS],
    /// The MSS option of the SYN.
    pub(super) mss: Option<u16>,
}

impl Direction {
    pub(super) fn good(&self) -> u64 {
        self.report.counts[Verdict::Good.index()]
    }

    pub(super) fn segments(&self) -> u64 {
        self.report.counts.iter().sum()
    }

    /// Sets the ISN; another one than before resets the SNE.
    pub(super) fn set_isn(&mut self, isn: Isn, source: IsnSource) {
        if self.report.isn != Some(isn) {
            self.report.isn = Some(isn);
            self.report.isn_source = Some(source);
            self.sne = None;
        } else if source == IsnSource::Seen {
            self.report.isn_source = Some(source);
        }
    }

    /// Keeps a traffic key for later segments: first if it has just verified one, otherwise only if there is room.
    pub(super) fn keep_traffic_key(&mut self, candidate: Candidate, key: TrafficKey, is_good: bool) {
        let keys = &mut self.traffic_keys;
        if is_good {
            keys.truncate(TRAFFIC_KEYS - 1);
            keys.insert(0, (candidate, key));
        } else if keys.len() < TRAFFIC_KEYS {
            keys.push((candidate, key));
        }
    }

    /// The tracker of good segments; at the ISN before there are any.
    #[inline]
    pub(super) fn tracker(&self) -> Option<SneTracker> {
        self.sne.or_else(|| self.report.isn.map(SneTracker::new))
    }

    /// Records a segment with this KeyID; `key` is the key that verified it. Returns whether it starts a new run.
    pub(super) fn use_key(
        &mut self,
        key_id: KeyId,
        key: Option<usize>,
        place: Place,
        outside_lifetime: bool,
    ) -> bool {
        let uses = &mut self.report.key_uses;
        let is_full = uses.len() >= KEY_USES;
        // Anyone can send a segment that does not verify, so its KeyID does not end the run of a key that verifies.
        let is_same =
            |last: &KeyUse| last.key_id == key_id && (key.is_none() || last.key.is_none() || last.key == key);
        let verified = uses.iter().rposition(|key_use| key_use.key.is_some()).unwrap_or(0);
        let same = uses.get(verified..).unwrap_or_default().iter().position(is_same);
        let last = same.map(|index| verified + index).or(is_full.then(|| uses.len() - 1));
        if let Some(last) = last.and_then(|index| uses.get_mut(index)) {
            last.key = last.key.or(key);
            last.last = place;
            last.segments += 1;
            last.outside_lifetime += u64::from(outside_lifetime);
            return false;
        }
        uses.push(KeyUse {
            key_id,
            key,
            key_name: None,
            first: place,
            last: place,
            segments: 1,
            outside_lifetime: outside_lifetime.into(),
        });
        uses.len() > 1
    }
}

/// How many gaps are remembered; the oldest is forgotten first.
const GAPS: usize = 4;

/// What one direction has sent so far in the capture.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Sent {
    /// The sequence number after everything sent.
    next: Option<SeqNum>,
    /// Where the capture skipped numbers; segments that fill them are late, not sent again.
    gaps: [Option<(SeqNum, SeqNum)>; GAPS],
}

impl Sent {
    /// Whether a segment with the numbers from `start` up to `end` was sent before.
    pub(super) fn has(&self, start: SeqNum, end: SeqNum) -> bool {
        start != end
            && self.next.is_some_and(|next| start.before(next))
            && !self.gaps.iter().flatten().any(|(from, until)| !start.before(*from) && start.before(*until))
    }

    pub(super) fn note(&mut self, start: SeqNum, end: SeqNum) {
        if start == end {
            return;
        }
        let Some(next) = self.next else {
            self.next = Some(end);
            return;
        };
        if start.before(next) {
            self.fill(start, end);
        } else if next.before(start) {
            self.remember((next, start));
        }
        if next.before(end) {
            self.next = Some(end);
        }
    }

    #[cold]
    fn fill(&mut self, start: SeqNum, end: SeqNum) {
        for place in 0..GAPS {
            let Some((from, until)) = self.gaps[place] else { continue };
            if !start.before(until) || !from.before(end) {
                continue;
            }
            self.gaps[place] = None;
            if from.before(start) {
                self.remember((from, start));
            }
            if end.before(until) {
                self.remember((end, until));
            }
        }
    }

    #[cold]
    fn remember(&mut self, gap: (SeqNum, SeqNum)) {
        match self.gaps.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(gap),
            None => {
                self.gaps.rotate_left(1);
                self.gaps[GAPS - 1] = Some(gap);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retransmissions<const N: usize>(sent: [(u32, u32); N]) -> [bool; N] {
        let mut tracker = Sent::default();
        sent.map(|(start, end)| {
            let (start, end) = (SeqNum(start), SeqNum(end));
            let has = tracker.has(start, end);
            tracker.note(start, end);
            has
        })
    }

    #[test]
    fn what_was_sent_before_is_a_retransmission() {
        assert_eq!(
            retransmissions([(1, 11), (11, 21), (1, 11), (21, 21), (11, 31)]),
            [false, false, true, false, true]
        );
    }

    #[test]
    fn what_fills_a_gap_is_new() {
        let sent = [(1, 11), (31, 41), (11, 21), (11, 21), (21, 31), (21, 31), (31, 41)];
        assert_eq!(retransmissions(sent), [false, false, false, true, false, true, true]);
    }

    #[test]
    fn numbers_wrap() {
        let near = u32::MAX - 4;
        assert_eq!(retransmissions([(near, 5), (5, 10), (near, 5)]), [false, false, true]);
    }

    #[test]
    fn what_is_as_far_ahead_as_behind_opens_no_gap() {
        let far = 11 + (1 << 31);
        assert_eq!(
            retransmissions([(1, 11), (far, far + 10), (11, 12), (12, 22), (12, 22)]),
            [false, false, false, false, true]
        );
    }

    #[test]
    fn of_many_gaps_the_oldest_are_forgotten() {
        let mut tracker = Sent::default();
        for number in 0..10 {
            tracker.note(SeqNum(number * 10), SeqNum(number * 10 + 5));
        }
        assert!(tracker.has(SeqNum(5), SeqNum(10)));
        assert!(!tracker.has(SeqNum(85), SeqNum(90)));
    }
}

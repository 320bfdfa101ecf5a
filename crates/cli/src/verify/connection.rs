//! The state of a live TCP connection.

use std::num::{NonZeroU16, NonZeroU32};

use smallvec::SmallVec;
use wireseal_tcp_ao::{Endpoint, Isn, KdfContext, KeyId, Segment, SeqNum, SneTracker};

use super::key_table::{Candidate, Candidates, KeyTable};
use super::report::{Counts, DirectionReport, IsnSource, KeyUse, Sender, Verdict};
use super::traffic_keys::Slot;
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
///
/// There may be a million, so what most of them do not have is in boxes.
#[derive(Debug)]
pub(super) struct TcpConnection {
    pub(super) number: u64,
    /// Opener and listener.
    pub(super) ends: [Endpoint; 2],
    pub(super) last: Place,
    /// The keys that may belong to it.
    pub(super) candidates: Candidates,
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
    pub(super) other_syn: Option<Box<(Sender, Syn)>>,
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
    pub(super) fn new(number: u64, place: Place, segment: &Segment<'_>, table: &mut KeyTable<'_>) -> Self {
        let (source, destination, flags) = (segment.source(), segment.destination(), segment.flags());
        let source_opens = match (flags.syn(), flags.ack()) {
            (true, ack) => !ack,
            (false, _) => source.port() >= destination.port(),
        };
        let ends = if source_opens { [source, destination] } else { [destination, source] };
        let mut directions: [Direction; 2] = Default::default();
        // A connection that begins in the capture has ISNs of its own.
        let given = match flags.syn() {
            true => None,
            false => table.options.isns.iter().find_map(|hint| hint.isns(&ends)),
        };
        for (direction, isn) in directions.iter_mut().zip(given.into_iter().flatten()) {
            direction.set_isn(isn, IsnSource::Given);
            direction.sne_searches = SNE_SEARCHES;
        }
        let is_opening = flags.syn() || flags.rst();
        Self {
            number,
            ends,
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
        self.direction(sender).isn()
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
        let (sender, syn) = **self.other_syn.as_ref()?;
        let is_answer = segment.flags().ack() && sender == self.sender(&segment.destination());
        Some(syn).filter(|syn| is_answer && syn.is_before(segment.acknowledgment()))
    }

    /// The ISN that a SYN-ACK acknowledges: that of the SYN of `sender`, if it was seen, and otherwise the acknowledgment less one.
    pub(super) fn answered_isn(&self, sender: Sender, acknowledgment: SeqNum) -> Isn {
        match self.direction(sender).opening().syn {
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
        let own_next = own.acknowledged;
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

/// One direction of a live connection.
#[derive(Default, Debug)]
pub(super) struct Direction {
    known_isn: Option<(Isn, IsnSource)>,
    /// How far good segments have come.
    pub(super) sne: Option<SneTracker>,
    /// How many more segments to search for the SNE, after `--isn` gave the ISN but not the wraps since.
    pub(super) sne_searches: u8,
    /// Segments that are good. The others are in [`Unusual::counts`].
    good: u64,
    /// Octets of payload.
    pub(super) payload: u64,
    /// Segments whose octets had been sent before.
    pub(super) retransmissions: u32,
    /// Resets that verified. Those that do not fit are in [`Unusual::more_signed_resets`].
    signed_resets: u16,
    /// The traffic key of its latest segments without SYN.
    pub(super) traffic_key: Slot,
    /// Which octets were sent.
    pub(super) sent: Sent,
    pub(super) fin: Fin,
    /// The verdict on the last segment, see [`Verdict::index`].
    pub(super) last_verdict: Option<u8>,
    /// The KeyIDs used, in order.
    pub(super) key_runs: SmallVec<[KeyRun; 1]>,
    /// The KeyID of the last segment that had one.
    pub(super) key_id: Option<KeyId>,
    /// The highest acknowledgment number the other end has sent.
    pub(super) acknowledged: Option<SeqNum>,
    /// The MSS option of the SYN.
    pub(super) mss: Option<NonZeroU16>,
    /// Whether it answered the SYN or SYN-ACK of the other end with a reset that the other end accepts.
    pub(super) answers_with_reset: bool,
    only_syn: Option<OnlySyn>,
    opening: Option<Box<Opening>>,
    unusual: Option<Box<Unusual>>,
}

// A million connections are to fit 512 MiB.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Direction>() <= 168);

/// The FIN of a direction.
#[derive(Clone, Copy, Default, Debug)]
pub(super) enum Fin {
    /// There was none.
    #[default]
    Missing,
    /// The sequence number after it.
    Sent(SeqNum),
    /// The other end has acknowledged it.
    Acknowledged(SeqNum),
}

/// The one SYN of a direction, if it was its first segment and had no payload. [`Direction::opening`] follows from it.
#[derive(Clone, Copy, Debug)]
pub(super) enum OnlySyn {
    WithoutAck,
    WithAck,
}

/// What a direction's SYNs show, until the connection is open in both directions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    /// The last SYN without ACK that was believed.
    pub(super) syn: Option<Syn>,
    /// SYNs without ACK.
    pub(super) syns: u32,
    /// SYNs with ACK.
    pub(super) syn_acks: u32,
    /// Retransmissions of either, at least [`REPEATED`](super::learn::REPEATED) after the one before.
    pub(super) repeats: u32,
    /// Retransmitted SYN-ACKs after a segment that only an open connection has.
    pub(super) late_syn_acks: u32,
    /// The last SYN or SYN-ACK that was not a copy of the one before.
    pub(super) last_syn: Option<Place>,
}

/// What a direction shows only if something is wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unusual {
    /// Segments by verdict, those that are good excepted.
    pub(super) counts: Counts,
    /// The first segment of each verdict, at [`Verdict::index`], those that are good excepted.
    pub(super) first: [Option<Place>; Verdict::KINDS],
    /// Resets that did not verify.
    other_resets: u64,
    more_signed_resets: u64,
    /// Segments with TCP-MD5 and without TCP-AO.
    pub(super) md5: u64,
    /// Resets without a TCP-AO option.
    pub(super) unsigned_resets: u64,
}

impl Unusual {
    const NOTHING: Self = Self {
        counts: [0; Verdict::KINDS],
        first: [None; Verdict::KINDS],
        other_resets: 0,
        more_signed_resets: 0,
        md5: 0,
        unsigned_resets: 0,
    };
}

/// A run of segments with the same KeyID, see [`KeyUse`].
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyRun {
    pub(super) first: Place,
    pub(super) last: Place,
    pub(super) segments: u64,
    pub(super) outside_lifetime: u32,
    /// The key that verified.
    pub(super) key: Option<KeyIndex>,
    pub(super) key_id: KeyId,
}

/// A key's index in [`Keys`](crate::keys::Keys), plus one.
pub(super) type KeyIndex = NonZeroU32;

impl KeyRun {
    /// The index of the key that verified.
    pub(super) fn key(&self) -> Option<usize> {
        self.key.map(|key| key.get() as usize - 1)
    }
}

impl Direction {
    #[inline]
    pub(super) fn isn(&self) -> Option<Isn> {
        self.known_isn.map(|(isn, _)| isn)
    }

    #[inline]
    pub(super) const fn good(&self) -> u64 {
        self.good
    }

    pub(super) fn segments(&self) -> u64 {
        self.counts().iter().sum()
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = self.unusual().counts;
        counts[Verdict::Good.index()] = self.good;
        counts
    }

    /// Whether it has sent a segment with a TCP-AO option.
    pub(super) const fn has_signed(&self) -> bool {
        self.key_id.is_some()
    }

    /// Its first segment.
    pub(super) fn first(&self) -> Option<Place> {
        // All that are good are in a run.
        let signed = self.key_runs.first().map(|run| run.first);
        self.unusual().first.into_iter().chain([signed]).flatten().min_by_key(|place| place.packet)
    }

    /// What its SYNs have shown.
    pub(super) fn opening(&self) -> Opening {
        let nothing =
            Opening { syn: None, syns: 0, syn_acks: 0, repeats: 0, late_syn_acks: 0, last_syn: None };
        match (&self.opening, self.only_syn) {
            (Some(opening), _) => **opening,
            (None, None) => nothing,
            (None, Some(OnlySyn::WithoutAck)) => {
                let syn = self.isn().map(|isn| Syn { isn, payload: 0 });
                Opening { syn, syns: 1, last_syn: self.first(), ..nothing }
            }
            (None, Some(OnlySyn::WithAck)) => Opening { syn_acks: 1, last_syn: self.first(), ..nothing },
        }
    }

    pub(super) fn opening_mut(&mut self) -> &mut Opening {
        if self.opening.is_none() {
            self.opening = Some(Box::new(self.opening()));
        }
        self.opening.get_or_insert_with(|| unreachable!("it was just set"))
    }

    /// Notes a SYN that was believed, before it is counted, if that is all there is to note: it is the direction's first segment.
    pub(super) fn note_only_syn(&mut self, syn: OnlySyn) -> bool {
        let is_first = self.key_runs.is_empty() && self.unusual.is_none() && self.opening.is_none();
        if is_first {
            self.only_syn = Some(syn);
        }
        is_first
    }

    pub(super) fn unusual(&self) -> &Unusual {
        self.unusual.as_deref().unwrap_or(&Unusual::NOTHING)
    }

    pub(super) fn unusual_mut(&mut self) -> &mut Unusual {
        self.unusual.get_or_insert(Box::new(Unusual::NOTHING))
    }

    /// Counts a segment with this verdict.
    #[inline]
    pub(super) fn count_verdict(&mut self, verdict: Verdict, place: Place) {
        if verdict == Verdict::Good {
            self.good += 1;
            return;
        }
        let unusual = self.unusual_mut();
        unusual.counts[verdict.index()] += 1;
        unusual.first[verdict.index()].get_or_insert(place);
    }

    #[cold]
    pub(super) fn count_reset(&mut self, is_good: bool) {
        match (is_good, self.signed_resets.checked_add(1)) {
            (true, Some(count)) => self.signed_resets = count,
            (true, None) => self.unusual_mut().more_signed_resets += 1,
            (false, _) => self.unusual_mut().other_resets += 1,
        }
    }

    /// Sets the ISN; another one than before resets the SNE.
    pub(super) fn set_isn(&mut self, isn: Isn, source: IsnSource) {
        if self.isn() != Some(isn) {
            if self.only_syn.is_some() && self.isn().is_some() {
                // The SYN had the ISN before.
                self.opening_mut();
            }
            self.known_isn = Some((isn, source));
            self.sne = None;
        } else if source == IsnSource::Seen {
            self.known_isn = Some((isn, source));
        }
    }

    /// The tracker of good segments; at the ISN before there are any.
    #[inline]
    pub(super) fn tracker(&self) -> Option<SneTracker> {
        self.sne.or_else(|| self.isn().map(SneTracker::new))
    }

    /// Records a segment with this KeyID; `key` is the key that verified it. Returns whether it starts a new run.
    #[inline]
    pub(super) fn use_key(
        &mut self,
        key_id: KeyId,
        key: Option<KeyIndex>,
        place: Place,
        outside_lifetime: bool,
    ) -> bool {
        // Anyone can send a segment that does not verify, so its KeyID does not end the run of a key that verifies.
        let is_same =
            |run: &KeyRun| run.key_id == key_id && (key.is_none() || run.key.is_none() || run.key == key);
        self.key_id = Some(key_id);
        let runs = &mut self.key_runs[..];
        let same = match runs {
            [run] => is_same(run).then_some(run),
            runs => {
                let verified = runs.iter().rposition(|run| run.key.is_some()).unwrap_or(0);
                let is_full = runs.len() >= KEY_USES;
                let same = runs.get(verified..).unwrap_or_default().iter().position(is_same);
                let last = same.map(|index| verified + index).or(is_full.then(|| runs.len() - 1));
                last.and_then(|index| runs.get_mut(index))
            }
        };
        let outside_lifetime = u32::from(outside_lifetime);
        if let Some(run) = same {
            run.key = run.key.or(key);
            run.last = place;
            run.segments += 1;
            run.outside_lifetime = run.outside_lifetime.saturating_add(outside_lifetime);
            return false;
        }
        self.key_runs.push(KeyRun { key_id, key, first: place, last: place, segments: 1, outside_lifetime });
        self.key_runs.len() > 1
    }

    /// The report at the end.
    pub(super) fn into_report(self, table: &KeyTable<'_>) -> DirectionReport {
        let key_use = |run: &KeyRun| {
            let key = run.key();
            KeyUse {
                key_id: run.key_id,
                key,
                key_name: key.map(|key| table.name(key).to_owned()),
                first: run.first,
                last: run.last,
                segments: run.segments,
                outside_lifetime: run.outside_lifetime.into(),
            }
        };
        DirectionReport {
            isn: self.isn(),
            isn_source: self.known_isn.map(|(_, source)| source),
            counts: self.counts(),
            payload: self.payload,
            retransmissions: self.retransmissions.into(),
            signed_resets: u64::from(self.signed_resets) + self.unusual().more_signed_resets,
            other_resets: self.unusual().other_resets,
            sne: self.sne.map(|tracker| tracker.highest().0),
            key_uses: self.key_runs.iter().map(key_use).collect(),
        }
    }
}

impl TcpConnection {
    /// Its first segment.
    pub(super) fn first(&self) -> Place {
        let firsts = self.directions.iter().filter_map(Direction::first);
        firsts.min_by_key(|place| place.packet).unwrap_or(self.last)
    }

    /// Forgets what the SYNs have shown if nothing depends on it any more: both ends have signed segments that are good, and the listener
    /// has gone on after its SYN-ACK. A SYN with payload is kept, because its answer may come again.
    #[cold]
    fn forget_opening(&mut self) {
        let [opener, listener] = &self.directions;
        let goes_on = listener.segments() > listener.opening().syn_acks.into();
        let has_payload = |direction: &Direction| direction.opening().syn.is_some_and(|syn| syn.payload > 0);
        if goes_on && opener.good > 0 && listener.good > 0 && !self.directions.iter().any(has_payload) {
            for direction in &mut self.directions {
                (direction.opening, direction.only_syn) = (None, None);
            }
        }
    }

    /// Called for every segment that is believed once the connection has opened.
    #[inline]
    pub(super) fn note_open(&mut self) {
        let [opener, listener] = &self.directions;
        if opener.opening.is_some() || listener.opening.is_some() {
            self.forget_opening();
        }
    }
}

/// How many gaps are remembered; the oldest is forgotten first.
const GAPS: usize = 4;

/// What one direction has sent so far in the capture.
#[derive(Default, Debug)]
pub(super) struct Sent {
    /// The sequence number after everything sent.
    next: Option<SeqNum>,
    /// Where the capture skipped numbers; segments that fill them are late, not sent again.
    gaps: Option<Box<Gaps>>,
}

type Gaps = [Option<(SeqNum, SeqNum)>; GAPS];

impl Sent {
    /// Whether a segment with the numbers from `start` up to `end` was sent before.
    pub(super) fn has(&self, start: SeqNum, end: SeqNum) -> bool {
        start != end
            && self.next.is_some_and(|next| start.before(next))
            && !self.gaps.as_deref().is_some_and(|gaps| {
                gaps.iter().flatten().any(|(from, until)| !start.before(*from) && start.before(*until))
            })
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
            let Some(gap) = self.gaps.as_deref_mut().map(|gaps| &mut gaps[place]) else { return };
            let Some((from, until)) = *gap else { continue };
            if !start.before(until) || !from.before(end) {
                continue;
            }
            *gap = None;
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
        let gaps = self.gaps.get_or_insert_default();
        match gaps.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(gap),
            None => {
                gaps.rotate_left(1);
                gaps[GAPS - 1] = Some(gap);
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

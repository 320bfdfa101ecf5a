//! The state of a live TCP connection.

use wireseal_tcp_ao::{Endpoint, Isn, KdfContext, KeyId, Segment, SeqNum};

use super::direction::{Direction, Syn};
use super::key_table::{Candidate, Candidates, KeyTable};
use super::report::{IsnSource, Sender};
use crate::capture::{Place, Scope};

/// How many segments of a direction are tried with every SNE.
pub(super) const SNE_SEARCHES: u8 = 4;
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
    /// The virtual network it was first seen in.
    pub(super) scope: Scope,
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
    pub(super) other_syn: Option<Box<OtherSyn>>,
}

/// A SYN with another ISN, sent while the connection was open.
#[derive(Clone, Copy, Debug)]
pub(super) struct OtherSyn {
    pub(super) sender: Sender,
    pub(super) syn: Syn,
    pub(super) is_good: bool,
    pub(super) first: Place,
    pub(super) last: Place,
    /// How often it was sent.
    pub(super) count: u32,
    /// How often it was sent again, at least [`REPEATED`](super::learn::REPEATED) after the one before.
    pub(super) repeats: u32,
    /// The sender's segments that were good, up to the last such SYN.
    pub(super) good: u64,
}

impl TcpConnection {
    /// Begins a connection with its first segment.
    pub(super) fn new(
        number: u64,
        scope: Scope,
        place: Place,
        segment: &Segment<'_>,
        table: &mut KeyTable<'_>,
    ) -> Self {
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
            scope,
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
        if goes_on && opener.good() > 0 && listener.good() > 0 && !self.directions.iter().any(has_payload) {
            for direction in &mut self.directions {
                direction.forget_opening();
            }
        }
    }

    /// Forgets what only the handshake needs. Call it for each believed segment of an open connection.
    #[inline]
    pub(super) fn note_open(&mut self) {
        let [opener, listener] = &self.directions;
        if opener.has_much_of_opening() || listener.has_much_of_opening() {
            self.forget_opening();
        }
    }

    /// Whether a segment of either end has verified.
    pub(super) fn has_good(&self) -> bool {
        self.directions.iter().any(|direction| direction.good() > 0)
    }

    /// Whether segments failed, and none has verified.
    #[inline]
    pub(super) fn is_failing(&self) -> bool {
        !self.has_good() && self.directions.iter().any(Direction::has_failed)
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
        let OtherSyn { sender, syn, .. } = **self.other_syn.as_ref()?;
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

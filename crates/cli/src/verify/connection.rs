//! What is known of a live TCP connection.

use wireseal_tcp_ao::{Endpoint, Isn, KdfContext, KeyId, Segment};

use super::direction::Direction;
use super::key_table::{Candidate, KeyTable};
use super::report::Sender;
use crate::capture::Place;

/// For how many segments of a direction the SNE is searched.
const SNE_SEARCHES: u8 = 4;
/// For how many segments ISNs are guessed.
const GUESSES: u8 = 4;

/// How far a connection has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Only SYNs and resets were seen.
    Opening,
    /// Something else was seen.
    Open,
    /// Both FINs are acknowledged, or an end has reset it.
    Closed,
}

/// What is known of a connection while it lives.
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
    /// For how many more segments ISNs are guessed.
    pub(super) guesses: u8,
    /// A SYN that came while the connection was open: if it is answered, a new connection begins.
    pub(super) other_syn: Option<(Sender, Isn)>,
}

impl TcpConnection {
    /// A connection whose first segment this is.
    pub(super) fn new(number: u64, place: Place, segment: &Segment<'_>, table: &KeyTable<'_>) -> Self {
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
            direction.set_isn(isn);
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

    /// What an end has sent.
    pub(super) fn direction(&self, sender: Sender) -> &Direction {
        &self.directions[sender as usize]
    }

    /// What an end has sent, to be changed.
    pub(super) fn direction_mut(&mut self, sender: Sender) -> &mut Direction {
        &mut self.directions[sender as usize]
    }

    /// The ISN of an end, if known.
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
            let answered = Isn(segment.acknowledgment().0.wrapping_sub(1));
            let is_of_another = is_other && self.isn(sender.other()) != Some(answered);
            return self.other_syn == Some((sender.other(), answered))
                || is_of_another && (is_alone || self.phase == Phase::Closed);
        }
        if is_other && is_alone {
            return true;
        }
        match (self.isn(sender), self.phase) {
            (Some(own), _) if own == isn => false,
            // Both ends open at once.
            (None, Phase::Opening) => false,
            (_, Phase::Opening | Phase::Closed) => true,
            // Anyone can send a SYN, or repeat an old one: the connection is over only when the SYN is answered.
            (_, Phase::Open) => false,
        }
    }

    /// What a segment's traffic key is derived from, if the ISNs are known.
    pub(super) fn context(&self, sender: Sender, segment: &Segment<'_>) -> Option<KdfContext> {
        let flags = segment.flags();
        let own = Isn(segment.sequence().0);
        match (flags.syn(), flags.ack()) {
            (true, false) => Some(self.context_of(sender, own, Isn::UNKNOWN)),
            (true, true) => {
                let other = Isn(segment.acknowledgment().0.wrapping_sub(1));
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

    /// The same with these ISNs, the sender's first.
    pub(super) fn context_of(&self, sender: Sender, source_isn: Isn, destination_isn: Isn) -> KdfContext {
        let (source, destination) = (self.ends[sender as usize], self.ends[sender.other() as usize]);
        KdfContext { source, destination, source_isn, destination_isn }
    }
}

//! A live connection.

use wireseal_tcp_ao::{AoOption, Endpoint, Isn, OptionError, Segment};

use super::diagnose::{Diagnosis, Search};
use super::direction::Direction;
use super::key_table::{Candidate, KeyTable};
use super::report::{ConnectionReport, Counts, Place, SegmentReport, Sender, Verdict};
use super::verifier::Options;

/// Segments kept of a connection from its start on, and in all.
const KEPT_FIRST: usize = 400;
const KEPT: usize = 800;
/// For how many segments of a direction a search over the SNE is made.
const SNE_SEARCHES: u8 = 4;
/// On how many segments ISNs are guessed.
const GUESSES: u8 = 4;

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Nothing but SYNs was seen, and resets.
    Opening,
    /// Something else was seen.
    Open,
    /// Both FINs are acknowledged, or one end has reset it.
    Closed,
}

/// A segment of a connection.
pub(super) struct Observed<'a> {
    pub(super) place: Place,
    pub(super) sender: Sender,
    pub(super) segment: Segment<'a>,
    /// The AO option.
    pub(super) ao: Result<Option<AoOption<'a>>, OptionError>,
    /// Octets that the capture lacks.
    pub(super) missing: usize,
    /// Whether the header itself is cut off; what it lacks is zero here.
    pub(super) has_part_of_header: bool,
}

/// What is known of a connection while it lives.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) number: u64,
    /// Opener and listener.
    pub(super) ends: [Endpoint; 2],
    pub(super) first: Place,
    pub(super) last: Place,
    /// The keys that may be for it.
    pub(super) candidates: Box<[Candidate]>,
    /// Whether the command line has given its ISNs.
    pub(super) has_given_isns: bool,
    /// The end that those keys are configured at that do not say so themselves, once a segment has shown it.
    pub(super) configured_end: Option<Sender>,
    pub(super) directions: [Direction; 2],
    pub(super) phase: Phase,
    /// Whether what closed it has verified.
    pub(super) is_surely_closed: bool,
    /// On how many more segments ISNs are guessed.
    pub(super) guesses: u8,
    /// A SYN that came while the connection was open: if it is answered, another one begins.
    pub(super) other_syn: Option<(Sender, Isn)>,
    /// Why segments failed, if some did.
    pub(super) diagnosis: Option<Box<Diagnosis>>,
    segments: Vec<SegmentReport>,
    segments_left_out: u64,
}

impl Connection {
    /// A connection of which this is the first segment.
    pub(super) fn new(
        number: u64,
        place: Place,
        segment: &Segment<'_>,
        table: &KeyTable<'_>,
        options: &Options,
    ) -> Self {
        let (source, destination, flags) = (segment.source(), segment.destination(), segment.flags());
        let source_opens = match (flags.syn(), flags.ack()) {
            (true, ack) => !ack,
            (false, _) => source.port() >= destination.port(),
        };
        let ends = if source_opens { [source, destination] } else { [destination, source] };
        let mut directions: [Direction; 2] = Default::default();
        // A connection that begins here has its own.
        let given = match flags.syn() {
            true => None,
            false => options.isns.iter().find_map(|hint| hint.isns(&ends)),
        };
        for (direction, isn) in directions.iter_mut().zip(given.into_iter().flatten()) {
            direction.set_isn(isn);
            direction.sne_searches = SNE_SEARCHES;
        }
        Self {
            number,
            ends,
            first: place,
            last: place,
            candidates: table.candidates(&ends, &options.nat),
            has_given_isns: given.is_some(),
            configured_end: None,
            directions,
            phase: if flags.syn() || flags.rst() { Phase::Opening } else { Phase::Open },
            is_surely_closed: false,
            guesses: GUESSES,
            other_syn: None,
            diagnosis: None,
            segments: Vec::new(),
            segments_left_out: 0,
        }
    }

    /// Which end sends from there.
    #[inline]
    pub(super) fn sender(&self, source: &Endpoint) -> Sender {
        if self.ends[0] == *source { Sender::Opener } else { Sender::Listener }
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
        // Of one direction alone, neither an answer is seen nor that the connection was closed.
        let is_alone = self.directions[sender.other() as usize].report.counts == Counts::default();
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
            // Anyone can send a SYN, and an old one again: the connection is over when it is answered.
            (_, Phase::Open) => false,
        }
    }

    /// Whether a segment of either end has verified.
    pub(super) fn has_good(&self) -> bool {
        self.directions.iter().any(|direction| direction.good() > 0)
    }

    pub(super) fn isn(&self, sender: Sender) -> Option<Isn> {
        self.directions[sender as usize].report.isn
    }

    /// Judges a segment and learns from it.
    pub(super) fn segment(
        &mut self,
        table: &KeyTable<'_>,
        options: &Options,
        search: &mut Search,
        observed: &Observed<'_>,
    ) -> SegmentReport {
        let Observed { place, sender, ref segment, .. } = *observed;
        let judgement = self.judge(table, observed);
        if matches!(judgement.verdict, Verdict::BadMac | Verdict::UnknownKeyId) && observed.missing == 0 {
            self.diagnose(table, options, search, observed, judgement.verdict);
        }
        if judgement.verdict == Verdict::Good
            && let Some(diagnosis) = &mut self.diagnosis
        {
            diagnosis.note_good(sender, segment);
        }
        let (is_retransmission, uses_other_key) = self.learn(table, observed, &judgement);
        let key_ids = match observed.ao {
            Ok(Some(ao)) => Some([ao.key_id, ao.rnext_key_id]),
            _ => None,
        };
        let payload_length = (segment.payload().len() + observed.missing) as u32;
        let report = SegmentReport {
            place,
            sender,
            flags: segment.flags(),
            sequence: segment.sequence(),
            acknowledgment: segment.acknowledgment(),
            sne: judgement.sne,
            payload_length,
            key_ids,
            is_retransmission,
            verdict: judgement.verdict,
        };
        let direction = &mut self.directions[sender as usize];
        let begins_run = uses_other_key || direction.last_verdict != Some(judgement.verdict);
        direction.last_verdict = Some(judgement.verdict);
        if options.keep_segments {
            let kept = self.segments.len();
            if kept < KEPT_FIRST || begins_run && kept < KEPT {
                self.segments.push(report);
            } else {
                self.segments_left_out += 1;
            }
        } else {
            self.segments_left_out += 1;
        }
        report
    }

    /// Has the diagnosis look at a segment that failed.
    #[cold]
    fn diagnose(
        &mut self,
        table: &KeyTable<'_>,
        options: &Options,
        search: &mut Search,
        observed: &Observed<'_>,
        verdict: Verdict,
    ) {
        let mut diagnosis = self.diagnosis.take().unwrap_or_default();
        diagnosis.explain(self, table, options, search, observed, verdict);
        self.diagnosis = Some(diagnosis);
    }

    /// What is known of the connection when it is over.
    pub(super) fn into_report(mut self, table: &KeyTable<'_>) -> ConnectionReport {
        let diagnosis = self.diagnosis.take().unwrap_or_default();
        let diagnoses = diagnosis.conclude(&self, table);
        ConnectionReport {
            number: self.number,
            ends: self.ends,
            first: self.first,
            last: self.last,
            directions: self.directions.map(|direction| direction.report),
            diagnoses,
            segments: self.segments,
            segments_left_out: self.segments_left_out,
        }
    }
}

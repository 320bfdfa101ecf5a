//! The findings about the failed segments of one connection.

use std::borrow::Cow;

use wireseal_tcp_ao::{AoOption, KeyId, Segment, SeqNum, Sne, checksum};

use super::case::Case;
use super::hypothesis::Hypothesis;
use super::options::may_have_other_timestamps;
use crate::capture::Place;
use crate::verify::connection::TcpConnection;
use crate::verify::report::Sender;

/// How many different explanations are kept for a connection.
const FINDINGS: usize = 16;

#[derive(Default, Debug)]
pub(super) struct Findings {
    pub(super) explained: Vec<Finding>,
    /// How many segments have other explanations than these.
    pub(super) explained_otherwise: u64,
    pub(super) unexplained: [UnexplainedOfSender; 2],
}

/// Segments that one hypothesis explains.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) sender: Sender,
    pub(super) hypothesis: Hypothesis,
    pub(super) first: Place,
    pub(super) segments: u64,
    pub(super) key_id: KeyId,
    pub(super) mac_length: usize,
    /// MACs computed until this one matched.
    pub(super) tries: u64,
    pub(super) sne: Sne,
    /// The sequence number after the first segment that has octets.
    pub(super) end: Option<SeqNum>,
}

/// Segments of one end that nothing explains.
#[derive(Default, Debug)]
pub(super) struct UnexplainedOfSender {
    /// Those with a wrong MAC.
    pub(super) bad_mac: Option<Box<Unexplained>>,
    /// Those whose KeyID no key has.
    pub(super) unknown_key_id: Option<Box<Unexplained>>,
    /// How many of them were searched.
    pub(super) searched: u64,
    /// What was tried on these.
    pub(super) tried: Option<Box<Tried>>,
}

impl UnexplainedOfSender {
    pub(super) fn bad_mac(&self) -> &Unexplained {
        self.bad_mac.as_deref().unwrap_or(Unexplained::NOTHING)
    }

    pub(super) fn unknown_key_id(&self) -> &Unexplained {
        self.unknown_key_id.as_deref().unwrap_or(Unexplained::NOTHING)
    }

    pub(super) fn tried(&self) -> &Tried {
        self.tried.as_deref().unwrap_or(Tried::NOTHING)
    }
}

/// What a search tried, in words.
#[derive(Default, Debug)]
pub(super) struct Tried {
    pub(super) tried: Vec<Cow<'static, str>>,
    /// What it should have tried, if a limit cut it short.
    pub(super) left_out: Vec<Cow<'static, str>>,
}

impl Tried {
    const NOTHING: &Self = &Self { tried: Vec::new(), left_out: Vec::new() };

    pub(super) fn note(&mut self, what: impl Into<Cow<'static, str>>) {
        Self::add(&mut self.tried, what.into());
    }

    pub(super) fn note_left_out(&mut self, what: impl Into<Cow<'static, str>>) {
        Self::add(&mut self.left_out, what.into());
    }

    /// Adds what another search tried.
    pub(super) fn merge(&mut self, other: Self) {
        other.tried.into_iter().for_each(|what| Self::add(&mut self.tried, what));
        other.left_out.into_iter().for_each(|what| Self::add(&mut self.left_out, what));
    }

    fn add(list: &mut Vec<Cow<'static, str>>, what: Cow<'static, str>) {
        if !list.contains(&what) {
            list.push(what);
        }
    }
}

/// Segments that nothing explains.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Unexplained {
    pub(super) first: Option<Place>,
    pub(super) segments: u64,
    /// How many of them have a wrong TCP checksum too.
    pub(super) damaged: u64,
    /// How many of them have SYN.
    pub(super) syns: u64,
    /// How many of them are resets.
    pub(super) resets: u64,
    /// Whether one of them may have had other timestamps.
    pub(super) may_have_other_timestamps: bool,
    /// KeyID and MAC length of the first.
    pub(super) ao: Option<(KeyId, usize)>,
    /// The sequence number after the first segment that has octets.
    pub(super) end: Option<SeqNum>,
    /// Whether the sender has sent a good segment after the first of them.
    pub(super) is_followed_by_good: bool,
}

impl Unexplained {
    /// Whether all that the sender has sent since the first of them fails as well, so that its key has changed. A single segment, and
    /// resets, are more likely forged.
    pub(super) const fn is_lasting(&self) -> bool {
        self.segments > 1 && self.segments > self.resets && !self.is_followed_by_good
    }
    const NOTHING: &Self = &Self {
        first: None,
        segments: 0,
        damaged: 0,
        syns: 0,
        resets: 0,
        is_followed_by_good: false,
        may_have_other_timestamps: false,
        ao: None,
        end: None,
    };

    pub(super) fn note(&mut self, place: Place, segment: &Segment<'_>, ao: &AoOption<'_>) {
        self.first = self.first.or(Some(place));
        self.segments += 1;
        self.ao = self.ao.or(Some((ao.key_id, ao.mac.len())));
        self.end = self.end.or(end_of_octets(segment));
        let (source, destination) = (segment.source_address(), segment.destination_address());
        self.syns += u64::from(segment.flags().syn());
        self.resets += u64::from(segment.flags().rst());
        self.may_have_other_timestamps |= may_have_other_timestamps(segment);
        self.damaged += u64::from(checksum::tcp(source, destination, segment.tcp()) != 0);
    }
}

impl Findings {
    /// Notes that a hypothesis explains `segments` segments, the first at `first`.
    pub(super) fn note(&mut self, case: &Case<'_, '_>, hypothesis: Hypothesis, first: Place, segments: u64) {
        let end = end_of_octets(case.segment);
        let mut known = self.explained.iter_mut();
        let known = known.find(|known| known.sender == case.sender && known.hypothesis.is_like(&hypothesis));
        if let Some(known) = known {
            known.segments += segments;
            known.end = known.end.or(end);
        } else if self.explained.len() < FINDINGS {
            self.explained.push(Finding {
                sender: case.sender,
                hypothesis,
                first,
                segments,
                key_id: case.ao.key_id,
                mac_length: case.ao.mac.len(),
                tries: case.tries.get(),
                sne: case.sne,
                end,
            });
        } else {
            self.explained_otherwise += segments;
        }
    }

    /// Notes a good segment. If it repeats the octets of a failed one, acknowledging them says nothing about the failed one.
    pub(super) fn note_good(&mut self, sender: Sender, segment: &Segment<'_>) {
        let (start, after) = (segment.sequence(), segment.end());
        let unexplained = &mut self.unexplained[sender as usize];
        for unexplained in [&mut unexplained.bad_mac, &mut unexplained.unknown_key_id].into_iter().flatten() {
            unexplained.is_followed_by_good = unexplained.first.is_some();
        }
        let explained = self.explained.iter_mut().filter(|finding| finding.sender == sender);
        let ends = explained.map(|finding| &mut finding.end);
        let unexplained = [&mut unexplained.bad_mac, &mut unexplained.unknown_key_id].into_iter().flatten();
        for end in ends.chain(unexplained.map(|unexplained| &mut unexplained.end)) {
            if end.is_some_and(|end| start.before(end) && !after.before(end)) {
                *end = None;
            }
        }
    }
}

/// The sequence number after a segment that has octets, SYN or FIN.
fn end_of_octets(segment: &Segment<'_>) -> Option<SeqNum> {
    (segment.end() != segment.sequence()).then_some(segment.end())
}

/// Whether the other end has acknowledged everything before `end`. False if it does not sign, because such an end accepts anything.
pub(super) fn is_acknowledged(connection: &TcpConnection, sender: Sender, end: Option<SeqNum>) -> bool {
    let acknowledged = connection.direction(sender).acknowledged;
    let signs = connection.direction(sender.other()).has_signed();
    signs
        && matches!((acknowledged, end), (Some(acknowledged), Some(end)) if acknowledged.offset_from(end) >= 0)
}

//! Segments that an offload merged or split: what was recorded is more, or less, than what was signed.

use wireseal_tcp_ao::SeqNum;
use wireseal_tcp_ao::option::MAX_OPTIONS_LENGTH;

use super::case::Case;
use super::hypothesis::{Change, FLAGS_AT, Hypothesis};
use crate::capture::Place;

/// The longest part of a recorded segment that is searched octet by octet.
const LONGEST_PART: usize = 1500;
/// FIN and PSH, which a merged segment takes from the last segment it is made of.
const FIN_AND_PSH: u8 = 0x01 | 0x08;
/// The most octets a stack hands to a network card in one send, and the most segments made of them: with the smallest MSS in
/// use, 536 octets.
const LONGEST_SEND: usize = 65_535;
const MOST_PARTS: u64 = 128;

/// How many of the recorded octets of payload the MAC covers, if not all: merged segments keep the header of the first. Tries the likely
/// sizes, and then a bounded number of others.
pub(super) fn find_part(case: &Case<'_, '_>, hypothesis: &Hypothesis, others: usize) -> Option<usize> {
    let (key, options) = (case.key(hypothesis)?, case.options(hypothesis));
    let header = case.segment.header();
    let payload = case.segment.payload();
    let longest = payload.len().saturating_sub(1).min(LONGEST_PART).min(others);
    let known = match hypothesis.change {
        Some(Change::Merged(part)) => Some(part),
        _ => None,
    };
    let mss = case.connection.direction(case.sender.other()).mss;
    let from_mss = mss.map(|mss| usize::from(mss.get())).into_iter().flat_map(|mss| {
        // The MSS does not count options, so these shorten the segments (RFC 6691).
        (0..=MAX_OPTIONS_LENGTH).step_by(4).filter_map(move |options| mss.checked_sub(options))
    });
    let lengths = known.into_iter().chain(from_mss).filter(|part| *part < payload.len());
    let mut tcp = Vec::with_capacity(header.len() + payload.len());
    lengths.chain(1..=longest).find(|part| {
        let recorded = header[FLAGS_AT];
        let without = recorded & !FIN_AND_PSH;
        let differing = (recorded != without).then_some(recorded);
        [without].into_iter().chain(differing).any(|flags| {
            tcp.clear();
            tcp.extend(header);
            tcp[FLAGS_AT] = flags;
            tcp.extend(&payload[..*part]);
            case.matches(&key, case.sne, &tcp, options)
        })
    })
}

/// A segment that a network card may have split: consecutive segments with the same MAC.
#[derive(Debug)]
pub(super) struct SplitSegment {
    pub(super) first: Place,
    /// The header of the first part, and the payload of all.
    tcp: Vec<u8>,
    mac: Vec<u8>,
    next: SeqNum,
    pub(super) parts: u64,
}

impl SplitSegment {
    /// Begins with this segment, if it can be the first part.
    pub(super) fn begin(case: &Case<'_, '_>) -> Option<Self> {
        let segment = case.segment;
        if segment.payload().is_empty() || segment.flags().syn() || segment.flags().fin() {
            return None;
        }
        Some(Self {
            first: case.place,
            tcp: segment.tcp().to_vec(),
            mac: case.ao.mac.to_vec(),
            next: segment.end(),
            parts: 1,
        })
    }

    /// Adds a segment if it is the next part.
    pub(super) fn add(&mut self, case: &Case<'_, '_>) -> bool {
        let segment = case.segment;
        let is_next = segment.sequence() == self.next
            && case.ao.mac == self.mac
            && self.parts < MOST_PARTS
            && self.tcp.len() + segment.payload().len() <= LONGEST_SEND;
        if is_next {
            self.tcp.extend(segment.payload());
            self.tcp[FLAGS_AT] |= segment.header()[FLAGS_AT] & FIN_AND_PSH;
            self.next = segment.end();
            self.parts += 1;
        }
        is_next
    }

    /// Whether the MAC is that of all parts together, under a hypothesis without other changes.
    pub(super) fn verifies(&self, case: &Case<'_, '_>, hypothesis: &Hypothesis) -> bool {
        let key = case.key(hypothesis);
        key.is_some_and(|key| case.matches(&key, case.sne, &self.tcp, case.options(hypothesis)))
    }
}

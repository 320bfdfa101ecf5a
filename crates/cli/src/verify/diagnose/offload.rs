//! Segments that network cards and kernels merge on receipt, or split on sending, after they were signed.

use wireseal_tcp_ao::option::MAX_OPTIONS_LENGTH;
use wireseal_tcp_ao::{OptionCoverage, SeqNum, TrafficKey};

use super::case::Case;
use super::hypothesis::{Change, Hypothesis};
use crate::verify::report::Place;

/// The longest part of a recorded segment that is searched for octet by octet.
const LONGEST_PART: usize = 1500;
/// FIN and PSH: those of the last segment that a recorded one is made of stand in its header.
const FIN_AND_PSH: u8 = 0x01 | 0x08;
const FLAGS_AT: usize = 13;
/// The most octets that one send of a stack hands to a network card, and the most segments that are made of it: of the
/// smallest MSS in use, 536 octets.
const LONGEST_TRAIN: usize = 65_535;
const MOST_IN_TRAIN: u64 = 128;

/// The octets of payload, fewer than recorded, over which the MAC is that of the segment: the segments that were merged
/// into one kept the header of the first. The sizes that are likely, and then, if `every_size`, all up to a bound.
pub(super) fn find_part(
    case: &Case<'_, '_>,
    key: &TrafficKey,
    hypothesis: &Hypothesis,
    options: OptionCoverage,
    every_size: bool,
) -> Option<usize> {
    let header = case.segment.header();
    let payload = case.segment.payload();
    let longest = if every_size { payload.len().saturating_sub(1).min(LONGEST_PART) } else { 0 };
    let known = match hypothesis.change {
        Some(Change::Merged(part)) => Some(part),
        _ => None,
    };
    let from_mss = case.mss.map(usize::from).into_iter().flat_map(|mss| {
        // The MSS counts no options (RFC 6691), so they make the segments shorter.
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
            case.matches(key, case.sne, &tcp, options)
        })
    })
}

/// Consecutive segments with one and the same MAC, as a network card makes them of one large send.
#[derive(Debug)]
pub(super) struct Train {
    pub(super) first: Place,
    /// The first one's header, and everything's payload.
    tcp: Vec<u8>,
    header_length: usize,
    mac: Vec<u8>,
    next: SeqNum,
    /// How many segments it has.
    pub(super) segments: u64,
}

impl Train {
    /// A train that begins with this segment, if one can.
    pub(super) fn begin(case: &Case<'_, '_>) -> Option<Self> {
        let segment = case.segment;
        if segment.payload().is_empty() || segment.flags().syn() || segment.flags().fin() {
            return None;
        }
        Some(Self {
            first: case.place,
            tcp: segment.tcp().to_vec(),
            header_length: segment.header().len(),
            mac: case.ao.mac.to_vec(),
            next: segment.end(),
            segments: 1,
        })
    }

    /// Whether this segment goes on where the train ended; then the train has it.
    pub(super) fn goes_on(&mut self, case: &Case<'_, '_>) -> bool {
        let segment = case.segment;
        let goes_on = segment.sequence() == self.next
            && case.ao.mac == self.mac
            && self.segments < MOST_IN_TRAIN
            && self.tcp.len() + segment.payload().len() <= LONGEST_TRAIN;
        if goes_on {
            self.tcp.extend(segment.payload());
            self.tcp[FLAGS_AT] |= segment.header()[FLAGS_AT] & FIN_AND_PSH;
            self.next = segment.end();
            self.segments += 1;
        }
        goes_on
    }

    /// Whether the MAC is that of the whole train, under a hypothesis without other changes.
    pub(super) fn verifies(&self, case: &Case<'_, '_>, hypothesis: &Hypothesis) -> bool {
        let Some(key) = case.key(hypothesis) else { return false };
        // The payload has grown; the header is the first segment's.
        debug_assert!(self.tcp.len() >= self.header_length);
        case.matches(&key, case.sne, &self.tcp, case.options(hypothesis))
    }
}

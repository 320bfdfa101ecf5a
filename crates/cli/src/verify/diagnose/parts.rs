//! Segments that an offload merged or split: what was recorded is more, or less, than what was signed.

use std::collections::VecDeque;

use wireseal_tcp_ao::SeqNum;
use wireseal_tcp_ao::option::MAX_OPTIONS_LENGTH;

use super::case::Case;
use super::hypothesis::{Change, FLAGS_AT, Hypothesis};
use crate::capture::Place;
use crate::verify::report::Sender;

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

/// How many segments that may have been split are kept, at up to 64 KiB each. Their parts follow each other closely, so these are enough.
const MOST_SPLIT: usize = 256;

/// The segments of all connections that may have been split, the one that was added to last at the end.
#[derive(Default, Debug)]
pub(super) struct SplitSegments(VecDeque<((u64, Sender), SplitSegment)>);

impl SplitSegments {
    /// Takes out that of one end of the connection with this number.
    pub(super) fn take(&mut self, of: (u64, Sender)) -> Option<SplitSegment> {
        let place = self.0.iter().rposition(|(known, _)| *known == of)?;
        Some(self.0.remove(place)?.1)
    }

    /// Keeps that of one end of a connection, which had none.
    pub(super) fn keep(&mut self, of: (u64, Sender), split: SplitSegment) {
        if self.0.len() == MOST_SPLIT {
            self.0.pop_front();
        }
        self.0.push_back((of, split));
    }
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

    /// With this segment, if it is the next part.
    pub(super) fn with(mut self, case: &Case<'_, '_>) -> Option<Self> {
        let segment = case.segment;
        let is_next = segment.sequence() == self.next
            && case.ao.mac == self.mac
            && self.parts < MOST_PARTS
            && self.tcp.len() + segment.payload().len() <= LONGEST_SEND;
        if !is_next {
            return None;
        }
        self.tcp.extend(segment.payload());
        self.tcp[FLAGS_AT] |= segment.header()[FLAGS_AT] & FIN_AND_PSH;
        self.next = segment.end();
        self.parts += 1;
        Some(self)
    }

    /// Whether the MAC is that of all parts together, under a hypothesis without other changes.
    pub(super) fn verifies(&self, case: &Case<'_, '_>, hypothesis: &Hypothesis) -> bool {
        let key = case.key(hypothesis);
        key.is_some_and(|key| case.matches(&key, case.sne, &self.tcp, case.options(hypothesis)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_segments_that_may_have_been_split_are_kept() {
        let split = |packet| SplitSegment {
            first: Place { packet, time: None },
            tcp: vec![0; 20],
            mac: vec![0; 12],
            next: SeqNum(0),
            parts: 1,
        };
        let mut kept = SplitSegments::default();
        for number in 0..10_000 {
            kept.keep((number, Sender::Opener), split(number));
            kept.keep((number, Sender::Listener), split(number));
            assert!(kept.0.len() <= MOST_SPLIT);
        }
        // The newest, each once.
        assert_eq!(kept.take((9999, Sender::Opener)).map(|split| split.first.packet), Some(9999));
        assert!(kept.take((9999, Sender::Opener)).is_none());
        assert!(kept.take((0, Sender::Listener)).is_none());
        assert_eq!(kept.0.len(), MOST_SPLIT - 1);
    }
}

//! A segment of the capture with its header read.

use wireseal_tcp_ao::option::TCP_HEADER_LENGTH;
use wireseal_tcp_ao::{AoOption, OptionError, Segment};

use crate::capture::{CapturedSegment, Place};

pub(super) struct ObservedSegment<'a> {
    pub(super) place: Place,
    pub(super) segment: &'a Segment<'a>,
    /// The TCP-AO option.
    pub(super) ao: Result<Option<AoOption<'a>>, OptionError>,
    /// Octets of payload that the capture lacks.
    pub(super) missing: usize,
    /// Whether the header itself is cut off; what it lacks is zero here.
    pub(super) has_part_of_header: bool,
}

impl ObservedSegment<'_> {
    /// Reads a segment and gives it to `each`. Returns `None` for an impossible header.
    #[inline]
    pub(super) fn read<R>(
        place: Place,
        captured: &CapturedSegment<'_>,
        each: impl FnOnce(&ObservedSegment<'_>) -> R,
    ) -> Option<R> {
        let CapturedSegment { source, destination, octets, missing } = *captured;
        // Matched as a reference, because moving a segment takes longer than reading it.
        match &Segment::from_tcp(source, destination, octets) {
            Ok(segment) => {
                let ao = segment.ao_option();
                Some(each(&ObservedSegment { place, segment, ao, missing, has_part_of_header: false }))
            }
            Err(_) if missing > 0 && is_cut_in_header(octets) => {
                // As much of the header as there is, without options.
                let mut start = [0; TCP_HEADER_LENGTH];
                let recorded = octets.len().min(TCP_HEADER_LENGTH);
                start[..recorded].copy_from_slice(&octets[..recorded]);
                start[12] = (TCP_HEADER_LENGTH as u8 / 4) << 4;
                let segment = &Segment::from_tcp(source, destination, &start).ok()?;
                let header = header_length(octets).unwrap_or(TCP_HEADER_LENGTH);
                let missing = (octets.len() + missing).saturating_sub(header);
                let ao = Ok(None);
                Some(each(&ObservedSegment { place, segment, ao, missing, has_part_of_header: true }))
            }
            Err(_) => None,
        }
    }

    /// Octets of payload, recorded or not.
    pub(super) fn payload_length(&self) -> usize {
        self.segment.payload().len() + self.missing
    }
}

fn header_length(octets: &[u8]) -> Option<usize> {
    octets.get(12).map(|octet| usize::from(octet >> 4) * 4)
}

/// Whether the capture ends within a header that is possible so far.
fn is_cut_in_header(octets: &[u8]) -> bool {
    header_length(octets).is_none_or(|length| length >= TCP_HEADER_LENGTH && octets.len() < length)
}

//! Segments that wait to be judged together.

use std::net::IpAddr;

use super::ends::Ends;
use super::mac_batch::BATCH;
use crate::capture::{CapturedSegment, Place};

/// Segments that wait, with copies of their octets.
#[derive(Debug, Default)]
pub(super) struct Queue {
    octets: Vec<u8>,
    segments: Vec<QueuedSegment>,
}

/// A segment whose octets end here in the queue's.
#[derive(Debug)]
struct QueuedSegment {
    place: Place,
    ends: Ends,
    source: IpAddr,
    destination: IpAddr,
    octets_until: usize,
    missing: usize,
}

impl Queue {
    #[inline]
    pub(super) fn push(&mut self, place: Place, ends: Ends, captured: &CapturedSegment<'_>) {
        let CapturedSegment { source, destination, octets, missing } = *captured;
        self.octets.extend_from_slice(octets);
        let octets_until = self.octets.len();
        self.segments.push(QueuedSegment { place, ends, source, destination, octets_until, missing });
    }

    pub(super) fn is_full(&self) -> bool {
        self.segments.len() == BATCH
    }

    /// The ends of the segments in order.
    pub(super) fn ends(&self) -> impl Iterator<Item = &Ends> {
        self.segments.iter().map(|segment| &segment.ends)
    }

    /// The segments in order.
    pub(super) fn segments(&self) -> impl Iterator<Item = (Place, CapturedSegment<'_>)> {
        let mut start = 0;
        self.segments.iter().map(move |queued| {
            let octets = &self.octets[start..queued.octets_until];
            start = queued.octets_until;
            let QueuedSegment { place, source, destination, missing, .. } = *queued;
            (place, CapturedSegment { source, destination, octets, missing })
        })
    }

    pub(super) fn clear(&mut self) {
        self.octets.clear();
        self.segments.clear();
    }
}

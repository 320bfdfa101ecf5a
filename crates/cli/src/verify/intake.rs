//! From packets to segments that wait to be judged.

use std::hash::BuildHasher;
use std::mem;
use std::net::IpAddr;

use foldhash::fast::RandomState;
use wireseal_tcp_ao::Endpoint;

use super::ends::Ends;
use super::options::VerifyOptions;
use super::report::Totals;
use crate::capture::{CapturedSegment, Content, Decoder, GivenUp, Packet, Place, Skipped, Unreadable};

/// Decodes packets, selects segments and queues them. It knows nothing of connections, so it can be on a thread of its own.
#[derive(Debug)]
pub(super) struct Intake {
    decoder: Decoder,
    options: VerifyOptions,
    hasher: RandomState,
    pub(super) queue: Queue,
    /// What was read and skipped.
    pub(super) totals: Totals,
    /// The last packet that was read, with the last time.
    pub(super) now: Place,
}

impl Intake {
    pub(super) fn new(options: VerifyOptions) -> Self {
        Self {
            decoder: Decoder::default(),
            options,
            hasher: RandomState::default(),
            queue: Queue::default(),
            totals: Totals::default(),
            now: Place { packet: 0, time: None },
        }
    }

    /// Takes everything out but how ends are hashed, and what to select.
    pub(super) fn take(&mut self) -> Self {
        let empty = Self { hasher: self.hasher.clone(), ..Self::new(self.options.clone()) };
        mem::replace(self, empty)
    }

    /// Counts a packet, and queues its segment if it has a selected one.
    #[inline]
    pub(super) fn packet(&mut self, packet: &Packet<'_>) {
        self.totals.packets += 1;
        self.now = Place { packet: packet.number, time: packet.time.or(self.now.time) };
        match self.decoder.content(packet) {
            Content::Tcp(segment) => {
                let CapturedSegment { source, destination, scope, octets, missing } = segment;
                if let Some(&[a, b, c, d]) = octets.first_chunk() {
                    let ports = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
                    if self.options.select(source, destination, ports) {
                        let ends = Ends::of(source, destination, ports, scope);
                        self.queue.push(packet.place(), ends, self.hasher.hash_one(ends), ports[0], &segment);
                    } else {
                        self.totals.left_out += 1;
                    }
                } else {
                    let why = if missing > 0 { Unreadable::CutOff { missing } } else { Unreadable::Tcp };
                    self.totals.skip(Skipped::Unreadable(why), 1);
                }
            }
            Content::Fragment { .. } => self.count_fragments(),
            Content::Other(skipped) => self.totals.skip(skipped, 1),
            Content::Unreadable(why) => self.totals.skip(Skipped::Unreadable(why), 1),
        }
    }

    #[inline]
    pub(super) fn hash(&self, ends: &Ends) -> u64 {
        self.hasher.hash_one(ends)
    }

    /// Counts the fragments that were given up.
    #[cold]
    fn count_fragments(&mut self) {
        for GivenUp { protocol, why, packets } in self.decoder.given_up() {
            self.totals.skip(Skipped::Fragment { protocol, why }, packets);
        }
        self.totals.reassembled = self.decoder.reassembled();
    }

    /// Ends the capture: gives up the fragments that are left.
    pub(super) fn finish(&mut self) {
        self.decoder.finish();
        self.count_fragments();
    }
}

/// Segments that wait, with copies of their octets.
#[derive(Debug, Default)]
pub(super) struct Queue {
    octets: Vec<u8>,
    segments: Vec<Waiting>,
}

/// A segment in a queue.
#[derive(Debug)]
struct Waiting {
    place: Place,
    ends: Ends,
    hash: u64,
    source: IpAddr,
    destination: IpAddr,
    source_port: u16,
    /// Where its octets are.
    start: u32,
    end: u32,
    missing: u32,
}

/// From how many octets on a queue is full, so that it fits a processor's cache.
const MOST_OCTETS: usize = 1 << 17;

impl Queue {
    #[inline]
    fn push(
        &mut self,
        place: Place,
        ends: Ends,
        hash: u64,
        source_port: u16,
        captured: &CapturedSegment<'_>,
    ) {
        let CapturedSegment { source, destination, octets, missing, .. } = *captured;
        let start = self.octets.len() as u32;
        self.octets.extend_from_slice(octets);
        let end = self.octets.len() as u32;
        // A length field of 32 bits says how long the packet was.
        let missing = missing as u32;
        self.segments.push(Waiting {
            place,
            ends,
            hash,
            source,
            destination,
            source_port,
            start,
            end,
            missing,
        });
    }

    /// Whether there are `most` segments, or so many octets that no more should wait.
    #[inline]
    pub(super) fn is_full(&self, most: usize) -> bool {
        self.segments.len() >= most || self.octets.len() >= MOST_OCTETS
    }

    pub(super) fn len(&self) -> usize {
        self.segments.len()
    }

    /// The ends of a segment, and their hash.
    #[inline]
    pub(super) fn ends(&self, index: usize) -> (&Ends, u64) {
        let waiting = &self.segments[index];
        (&waiting.ends, waiting.hash)
    }

    /// The sender of a segment.
    #[inline]
    pub(super) fn source(&self, index: usize) -> Endpoint {
        let Waiting { source, source_port, .. } = self.segments[index];
        Endpoint::new(source, source_port)
    }

    #[inline]
    pub(super) fn segment(&self, index: usize) -> (Place, CapturedSegment<'_>) {
        let Waiting { place, ref ends, source, destination, start, end, missing, .. } = self.segments[index];
        let octets = &self.octets[start as usize..end as usize];
        let (scope, missing) = (ends.scope, missing as usize);
        (place, CapturedSegment { source, destination, scope, octets, missing })
    }

    pub(super) fn clear(&mut self) {
        self.octets.clear();
        self.segments.clear();
    }
}

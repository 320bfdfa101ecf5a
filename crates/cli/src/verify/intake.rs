//! From packets to segments that wait to be judged.

use std::hash::{BuildHasher, Hash, Hasher};
use std::net::IpAddr;

use foldhash::fast::RandomState;
use wireseal_tcp_ao::Endpoint;
use wireseal_tcp_ao::ip::PROTOCOL_TCP;

use super::options::VerifyOptions;
use super::report::Totals;
use crate::capture::{CapturedSegment, Content, Packet, Place};

/// Decodes packets, selects segments and queues them. It knows nothing of connections, so it can be on a thread of its own.
#[derive(Debug)]
pub(super) struct Intake {
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
            options,
            hasher: RandomState::default(),
            queue: Queue::default(),
            totals: Totals::default(),
            now: Place { packet: 0, time: None },
        }
    }

    /// Counts a packet, and queues its segment if it has a selected one.
    #[inline]
    pub(super) fn packet(&mut self, packet: &Packet<'_>) {
        self.totals.packets += 1;
        self.now = Place { packet: packet.number, time: packet.time.or(self.now.time) };
        match Content::of(packet) {
            Content::Tcp(segment) => self.enqueue(packet.place(), &segment),
            Content::Fragment { protocol: PROTOCOL_TCP } => self.totals.fragments += 1,
            Content::Fragment { .. } | Content::Other => self.totals.other += 1,
            Content::Unreadable(_) => self.totals.unreadable += 1,
        }
    }

    #[inline]
    pub(super) fn hash(&self, ends: &Ends) -> u64 {
        self.hasher.hash_one(ends)
    }

    #[inline]
    fn enqueue(&mut self, place: Place, captured: &CapturedSegment<'_>) {
        let CapturedSegment { source, destination, octets, .. } = *captured;
        let Some((&[a, b, c, d], _)) = octets.split_first_chunk() else {
            self.totals.unreadable += 1;
            return;
        };
        let ports = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
        if self.options.select(source, destination, ports) {
            let ends = Ends::of(source, destination, ports);
            self.queue.push(place, ends, self.hash(&ends), captured);
        } else {
            self.totals.left_out += 1;
        }
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
    /// Where its octets are.
    start: u32,
    end: u32,
    missing: u32,
}

/// From how many octets on a queue is full, so that it fits a processor's cache.
const MOST_OCTETS: usize = 1 << 17;

impl Queue {
    #[inline]
    fn push(&mut self, place: Place, ends: Ends, hash: u64, captured: &CapturedSegment<'_>) {
        let CapturedSegment { source, destination, octets, missing } = *captured;
        let start = self.octets.len() as u32;
        self.octets.extend_from_slice(octets);
        let end = self.octets.len() as u32;
        // A length field of 32 bits says how long the packet was.
        let missing = missing as u32;
        self.segments.push(Waiting { place, ends, hash, source, destination, start, end, missing });
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

    #[inline]
    pub(super) fn segment(&self, index: usize) -> (Place, CapturedSegment<'_>) {
        let Waiting { place, source, destination, start, end, missing, .. } = self.segments[index];
        let octets = &self.octets[start as usize..end as usize];
        (place, CapturedSegment { source, destination, octets, missing: missing as usize })
    }

    pub(super) fn clear(&mut self) {
        self.octets.clear();
        self.segments.clear();
    }
}

/// A connection's ends in an order that does not depend on who sends, IPv4 addresses mapped to IPv6.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ends {
    addresses: [u128; 2],
    ports: u32,
}

impl Ends {
    #[inline]
    fn of(source: IpAddr, destination: IpAddr, ports: [u16; 2]) -> Self {
        let bits = |address| match address {
            IpAddr::V4(address) => 0xffff_0000_0000 | u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        let (source, destination) = (bits(source), bits(destination));
        let [source_port, destination_port] = ports.map(u32::from);
        if (source, source_port) < (destination, destination_port) {
            Self { addresses: [source, destination], ports: source_port << 16 | destination_port }
        } else {
            Self { addresses: [destination, source], ports: destination_port << 16 | source_port }
        }
    }
}

impl Ends {
    /// Those of a connection.
    #[inline]
    pub(super) fn of_connection([opener, listener]: &[Endpoint; 2]) -> Self {
        Self::of(opener.address(), listener.address(), [opener.port(), listener.port()])
    }
}

impl Hash for Ends {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(self.addresses[0]);
        state.write_u128(self.addresses[1]);
        state.write_u32(self.ports);
    }
}

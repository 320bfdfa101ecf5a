//! All connections of a capture.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use cidr::IpCidr;
use foldhash::fast::RandomState;
use wireseal_tcp_ao::ip::PROTOCOL_TCP;
use wireseal_tcp_ao::option::TCP_HEADER_LENGTH;
use wireseal_tcp_ao::{Endpoint, Segment};

use super::connection::{Connection, Observed, Phase};
use super::diagnose::Search;
use super::hints::{IsnHint, NatHint};
use super::key_table::KeyTable;
use super::report::{ConnectionReport, Place, SegmentReport, Totals};
use crate::capture::{self, Content, Packet};
use crate::keys::Keys;

/// For how long a connection that was closed is remembered, so that late segments are taken for its own.
const LINGER: Wait = Wait { nanoseconds: 60_000_000_000, packets: 100_000, most: 4096 };
/// After how long without a segment a connection is given up of which nothing but SYNs was seen: a SYN is sent again for
/// about two minutes.
const OPENING: Wait = Wait { nanoseconds: 180_000_000_000, packets: 1_000_000, most: 16_384 };

/// What to look at, and what is known beside the capture.
#[derive(Clone, Default, Debug)]
pub struct Options {
    /// Connections with one of these peers at either end; all, if there are none.
    pub peers: Vec<IpCidr>,
    /// Connections with one of these ports at either end; all, if there are none.
    pub ports: Vec<u16>,
    /// The ISNs of connections that began before the capture.
    pub isns: Vec<IsnHint>,
    /// Translations of addresses on the way.
    pub nat: Vec<NatHint>,
    /// Whether [`ConnectionReport::segments`] is filled.
    pub keep_segments: bool,
}

impl Options {
    fn select(&self, source: IpAddr, destination: IpAddr, ports: [u16; 2]) -> bool {
        let is_peer = |address: IpAddr| self.peers.iter().any(|peer| peer.contains(&address.to_canonical()));
        (self.peers.is_empty() || is_peer(source) || is_peer(destination))
            && (self.ports.is_empty() || ports.iter().any(|port| self.ports.contains(port)))
    }
}

/// A segment that was judged.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'v> {
    /// The number of its connection.
    pub connection: u64,
    /// Opener and listener.
    pub ends: &'v [Endpoint; 2],
    /// What was found.
    pub segment: SegmentReport,
}

/// Checks the segments of a capture in their order. Memory grows with live connections alone, given that
/// [`next_finished`](Self::next_finished) is asked for those that are over.
#[derive(Debug)]
pub struct Verifier<'k> {
    table: KeyTable<'k>,
    options: Options,
    connections: HashMap<Ends, Box<Connection>, RandomState>,
    /// Connections to look at again later: those that nothing good was seen of yet, and those that were closed.
    opening: VecDeque<Due>,
    closed: VecDeque<Due>,
    finished: VecDeque<Box<Connection>>,
    search: Search,
    totals: Totals,
}

/// A connection's ends in an order that does not depend on who sends. IPv4 addresses as IPv6 ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ends {
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

impl Hash for Ends {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(self.addresses[0]);
        state.write_u128(self.addresses[1]);
        state.write_u32(self.ports);
    }
}

/// A wait in the capture's time, or in packets where it has none.
struct Wait {
    nanoseconds: u64,
    packets: u64,
    /// How many connections wait at most: a scan or a flood opens them by the thousand.
    most: usize,
}

impl Wait {
    fn is_over(&self, since: Place, now: Place) -> bool {
        match (since.time, now.time) {
            (Some(since), Some(now)) => {
                now.unix_nanoseconds().saturating_sub(since.unix_nanoseconds()) >= self.nanoseconds
            }
            _ => now.packet.saturating_sub(since.packet) >= self.packets,
        }
    }

    /// The first connection that has waited long enough, or is one too many.
    #[inline]
    fn take_due(&self, queue: &mut VecDeque<Due>, now: Place) -> Option<Due> {
        let first = queue.front()?;
        if self.is_over(first.since, now) || queue.len() > self.most { queue.pop_front() } else { None }
    }
}

/// A connection that is to be looked at again.
#[derive(Clone, Copy, Debug)]
struct Due {
    ends: Ends,
    number: u64,
    since: Place,
}

impl<'k> Verifier<'k> {
    /// Checks against these keys.
    #[must_use]
    pub fn new(keys: &'k Keys, options: Options) -> Self {
        Self {
            table: KeyTable::new(keys),
            options,
            connections: HashMap::default(),
            opening: VecDeque::new(),
            closed: VecDeque::new(),
            finished: VecDeque::new(),
            search: Search::default(),
            totals: Totals::default(),
        }
    }

    /// Counts a packet, and judges the segment in it if it has one that is selected.
    #[inline]
    pub fn packet(&mut self, packet: &Packet<'_>) -> Option<Judged<'_>> {
        self.totals.packets += 1;
        let place = Place { packet: packet.number, time: packet.time };
        match Content::of(packet) {
            Content::Tcp(segment) => return self.segment(place, &segment),
            Content::Fragment { protocol: PROTOCOL_TCP, .. } => self.totals.fragments += 1,
            Content::Fragment { .. } | Content::Udp(_) | Content::Other => self.totals.other += 1,
            Content::Unreadable(_) => self.totals.unreadable += 1,
        }
        None
    }

    /// Judges a segment; `None` if the selection leaves it out, or if it is no segment.
    #[inline]
    pub fn segment(&mut self, place: Place, captured: &capture::Segment<'_>) -> Option<Judged<'_>> {
        let capture::Segment { source, destination, octets, missing } = *captured;
        let Some((ports, _)) = octets.split_first_chunk::<4>() else {
            self.totals.unreadable += 1;
            return None;
        };
        let ports = [u16::from_be_bytes([ports[0], ports[1]]), u16::from_be_bytes([ports[2], ports[3]])];
        if !self.options.select(source, destination, ports) {
            self.totals.left_out += 1;
            return None;
        }
        let mut start = [0; TCP_HEADER_LENGTH];
        let (segment, missing, has_part_of_header) = match Segment::from_tcp(source, destination, octets) {
            Ok(segment) => (segment, missing, false),
            Err(_) if missing > 0 && is_cut_in_header(octets) => {
                // As much of the header as there is, without options.
                let recorded = octets.len().min(TCP_HEADER_LENGTH);
                start[..recorded].copy_from_slice(&octets[..recorded]);
                start[12] = 5 << 4;
                let segment = Segment::from_tcp(source, destination, &start).ok()?;
                (segment, payload_of(octets, missing), true)
            }
            Err(_) => {
                self.totals.unreadable += 1;
                return None;
            }
        };
        self.hand_out_what_is_over(place);
        let ends = Ends::of(source, destination, ports);
        let is_next = segment.flags().syn()
            && self.connections.get(&ends).is_some_and(|connection| connection.is_followed_by(&segment));
        if is_next && let Some(connection) = self.connections.remove(&ends) {
            self.finished.push_back(connection);
        }
        let connection = match self.connections.entry(ends) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                self.totals.connections += 1;
                let number = self.totals.connections;
                self.opening.push_back(Due { ends, number, since: place });
                let connection = Connection::new(number, place, &segment, &self.table, &self.options);
                entry.insert(Box::new(connection))
            }
        };
        let was_closed = connection.phase == Phase::Closed;
        let sender = connection.sender(&segment.source());
        let ao = segment.ao_option();
        let observed = Observed { place, sender, segment, ao, missing, has_part_of_header };
        let report = connection.segment(&self.table, &self.options, &mut self.search, &observed);
        if connection.phase == Phase::Closed && !was_closed {
            self.closed.push_back(Due { ends, number: connection.number, since: place });
        }
        self.totals.counts[report.verdict.index()] += 1;
        Some(Judged { connection: connection.number, ends: &connection.ends, segment: report })
    }

    /// Takes connections from the live ones that are closed for long enough, or were never opened.
    #[inline]
    fn hand_out_what_is_over(&mut self, now: Place) {
        while let Some(due) = LINGER.take_due(&mut self.closed, now) {
            if let Entry::Occupied(entry) = self.connections.entry(due.ends)
                && entry.get().number == due.number
                && entry.get().phase == Phase::Closed
            {
                self.finished.push_back(entry.remove());
            }
        }
        while let Some(due) = OPENING.take_due(&mut self.opening, now) {
            let Entry::Occupied(entry) = self.connections.entry(due.ends) else { continue };
            let connection = entry.get();
            let is_unproven = match connection.phase {
                Phase::Opening => true,
                Phase::Open => !connection.has_good(),
                Phase::Closed => false,
            };
            if connection.number != due.number || !is_unproven {
                continue;
            }
            let last = connection.last;
            let is_given_up = connection.phase == Phase::Opening && OPENING.is_over(last, now);
            if is_given_up || self.opening.len() >= OPENING.most {
                self.finished.push_back(entry.remove());
            } else {
                let since = if connection.phase == Phase::Opening { last } else { now };
                self.opening.push_back(Due { since, ..due });
            }
        }
    }

    /// A connection that is over, if there is one; to be asked for after every segment.
    #[inline]
    pub fn next_finished(&mut self) -> Option<ConnectionReport> {
        self.finished.pop_front().map(|connection| connection.into_report(&self.table))
    }

    /// The capture is over: hands out the other connections in the order of their first segments. `damage` says how the file
    /// broke off, if it did.
    pub fn finish(
        self,
        damage: Option<String>,
    ) -> (impl Iterator<Item = ConnectionReport> + use<'k>, Totals) {
        let mut rest: Vec<_> = self.finished.into_iter().chain(self.connections.into_values()).collect();
        rest.sort_unstable_by_key(|connection| connection.number);
        let table = self.table;
        let reports = rest.into_iter().map(move |connection| connection.into_report(&table));
        (reports, Totals { damage, ..self.totals })
    }

    /// How many connections are live.
    #[must_use]
    pub fn live(&self) -> usize {
        self.connections.len()
    }
}

/// Whether a segment that is cut off lacks a part of its header, rather than having none that could be.
fn is_cut_in_header(octets: &[u8]) -> bool {
    match octets.get(12).map(|octet| usize::from(octet >> 4) * 4) {
        None => true,
        Some(length) => length >= TCP_HEADER_LENGTH && octets.len() < length,
    }
}

/// How many octets of payload a segment has that is cut off in its header, as far as that can be said.
fn payload_of(octets: &[u8], missing: usize) -> usize {
    let header = octets.get(12).map_or(TCP_HEADER_LENGTH, |octet| usize::from(octet >> 4) * 4);
    (octets.len() + missing).saturating_sub(header)
}

//! All connections of a capture.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use foldhash::fast::RandomState;
use wireseal_tcp_ao::Endpoint;
use wireseal_tcp_ao::ip::PROTOCOL_TCP;
use wireseal_tcp_ao::option::TCP_HEADER_LENGTH;

use super::connection::Phase;
use super::diagnose::Search;
use super::ends::Ends;
use super::key_table::KeyTable;
use super::live::LiveConnection;
use super::observed::ObservedSegment;
use super::options::VerifyOptions;
use super::report::{ConnectionReport, SegmentReport, Totals};
use super::waiting::{Due, Wait};
use crate::capture::{CapturedSegment, Content, Packet, Place};
use crate::keys::Keys;

/// How long a closed connection is remembered, so that late segments still belong to it.
const LINGER: Wait = Wait { nanoseconds: 60_000_000_000, packets: 100_000, most: 4096 };
/// After how long without a segment a connection with nothing but SYNs is given up; stacks resend a SYN for about two minutes.
const OPENING: Wait = Wait { nanoseconds: 180_000_000_000, packets: 1_000_000, most: 16_384 };

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

/// Checks the segments of a capture in order.
///
/// Call [`next_finished`](Self::next_finished) after every packet: then memory grows only with the connections that are live.
#[derive(Debug)]
pub struct Verifier<'k> {
    table: KeyTable<'k>,
    options: VerifyOptions,
    connections: HashMap<Ends, Box<LiveConnection>, RandomState>,
    /// Connections that had no good segment when they were queued.
    opening: VecDeque<Due>,
    closed: VecDeque<Due>,
    finished: VecDeque<Box<LiveConnection>>,
    search: Search,
    totals: Totals,
}

impl<'k> Verifier<'k> {
    /// Checks against these keys.
    #[must_use]
    pub fn new(keys: &'k Keys, options: VerifyOptions) -> Self {
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

    /// Counts a packet and judges its segment, if it has one that is selected.
    #[inline]
    pub fn packet(&mut self, packet: &Packet<'_>) -> Option<Judged<'_>> {
        self.totals.packets += 1;
        match Content::of(packet) {
            Content::Tcp(segment) => return self.segment(packet.place(), &segment),
            Content::Fragment { protocol: PROTOCOL_TCP, .. } => self.totals.fragments += 1,
            Content::Fragment { .. } | Content::Udp(_) | Content::Other => self.totals.other += 1,
            Content::Unreadable(_) => self.totals.unreadable += 1,
        }
        None
    }

    #[inline]
    fn segment(&mut self, place: Place, captured: &CapturedSegment<'_>) -> Option<Judged<'_>> {
        let CapturedSegment { source, destination, octets, .. } = *captured;
        let Some((&[a, b, c, d], _)) = octets.split_first_chunk() else {
            self.totals.unreadable += 1;
            return None;
        };
        let ports = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
        if !self.options.select(source, destination, ports) {
            self.totals.left_out += 1;
            return None;
        }
        let mut start = [0; TCP_HEADER_LENGTH];
        let Some(observed) = ObservedSegment::read(place, captured, &mut start) else {
            self.totals.unreadable += 1;
            return None;
        };
        let segment = &observed.segment;
        self.finish_what_is_over(place);
        let ends = Ends::of(source, destination, ports);
        let begins_another = segment.flags().syn()
            && self.connections.get(&ends).is_some_and(|live| live.connection.is_followed_by(segment));
        if begins_another && let Some(before) = self.connections.remove(&ends) {
            self.finished.push_back(before);
        }
        let live = match self.connections.entry(ends) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                self.totals.connections += 1;
                let number = self.totals.connections;
                self.opening.push_back(Due { ends, number, since: place });
                let live = LiveConnection::new(number, place, segment, &self.table, &self.options);
                entry.insert(Box::new(live))
            }
        };
        let was_closed = live.connection.phase == Phase::Closed;
        let report = live.segment(&self.table, &self.options, &mut self.search, &observed);
        let connection = &live.connection;
        if connection.phase == Phase::Closed && !was_closed {
            self.closed.push_back(Due { ends, number: connection.number, since: place });
        }
        self.totals.counts[report.verdict.index()] += 1;
        Some(Judged { connection: connection.number, ends: &connection.ends, segment: report })
    }

    /// Takes out the connections that were closed long enough ago or never opened.
    #[inline]
    fn finish_what_is_over(&mut self, now: Place) {
        while let Some(due) = LINGER.take_due(&mut self.closed, now) {
            if let Entry::Occupied(entry) = self.connections.entry(due.ends)
                && entry.get().connection.number == due.number
                && entry.get().connection.phase == Phase::Closed
            {
                self.finished.push_back(entry.remove());
            }
        }
        while let Some(due) = OPENING.take_due(&mut self.opening, now) {
            let Entry::Occupied(entry) = self.connections.entry(due.ends) else { continue };
            let connection = &entry.get().connection;
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

    /// The next connection that is over.
    #[inline]
    pub fn next_finished(&mut self) -> Option<ConnectionReport> {
        self.finished.pop_front().map(|live| live.into_report(&self.table))
    }

    /// Ends the capture: returns the remaining connections in the order of their first segments, and the totals. `damage` says
    /// where and how the file is damaged, if it is.
    pub fn finish(
        self,
        damage: Option<String>,
    ) -> (impl Iterator<Item = ConnectionReport> + use<'k>, Totals) {
        let mut rest: Vec<_> = self.finished.into_iter().chain(self.connections.into_values()).collect();
        rest.sort_unstable_by_key(|live| live.connection.number);
        let table = self.table;
        let reports = rest.into_iter().map(move |live| live.into_report(&table));
        (reports, Totals { damage, ..self.totals })
    }

    /// How many connections are live.
    #[must_use]
    pub fn live(&self) -> usize {
        self.connections.len()
    }
}

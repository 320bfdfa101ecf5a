//! All connections of a capture.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::mem;
use std::net::IpAddr;

use foldhash::fast::RandomState;
use wireseal_tcp_ao::{Endpoint, Segment};

use super::across::Agreement;
use super::connection::{Phase, TcpConnection};
use super::diagnose::{Diagnoser, Search};
use super::drops::Drops;
use super::ends::{Ends, Scopes};
use super::judge::{BATCH, BatchedMac, MacBatch, ObservedSegment, judge};
use super::key_table::KeyTable;
use super::learn::{Handshake, Wait};
use super::options::VerifyOptions;
use super::report::{ConnectionReport, Diagnosis, IsnSource, SegmentReport, Totals, Verdict};
use crate::capture::{CapturedSegment, Content, Decoder, GivenUp, Packet, Place, Scope, Skipped, Unreadable};
use crate::keys::Keys;

/// How long a closed connection is remembered for late segments.
const LINGER: Wait = Wait { nanoseconds: 60_000_000_000, packets: 100_000, most: 4096 };
/// How long a connection with nothing but SYNs is kept after its last segment; stacks resend a SYN for about two minutes.
const OPENING: Wait = Wait { nanoseconds: 180_000_000_000, packets: 1_000_000, most: 16_384 };

/// A connection to look at again.
#[derive(Clone, Copy, Debug)]
struct Due {
    ends: Ends,
    number: u64,
    since: Place,
}

/// Takes the first connection of a queue if it has waited long enough or the queue is too long.
#[inline]
fn take_due(queue: &mut VecDeque<Due>, wait: &Wait, now: Place) -> Option<Due> {
    let first = queue.front()?;
    if wait.is_over(first.since, now) || queue.len() > wait.most { queue.pop_front() } else { None }
}

/// Something found in a capture.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it is passed on at once and never stored")]
pub enum VerifyEvent<'v> {
    /// A segment was judged.
    Segment {
        /// The number of its connection.
        connection: u64,
        /// Opener and listener.
        ends: &'v [Endpoint; 2],
        /// What was found.
        segment: SegmentReport,
    },
    /// A connection is over.
    Connection(Box<ConnectionReport>),
}

/// Checks the segments of a capture in order.
///
/// Segments are judged in order, but several at a time. Memory grows only with the connections that are live.
#[derive(Debug)]
pub struct Verifier<'k> {
    decoder: Decoder,
    pub(super) table: KeyTable<'k>,
    scopes: Scopes,
    pub(super) connections: HashMap<Ends, Box<LiveConnection>, RandomState>,
    /// Connections that had no good segment when they were queued.
    opening: VecDeque<Due>,
    closed: VecDeque<Due>,
    finished: VecDeque<Box<LiveConnection>>,
    queue: Queue,
    search: Search,
    pub(super) agreement: Agreement,
    pub(super) drops: Drops,
    totals: Totals,
    /// The last packet that was read, with the last time.
    pub(super) now: Place,
}

impl<'k> Verifier<'k> {
    /// Checks against these keys.
    #[must_use]
    pub fn new(keys: &'k Keys, options: VerifyOptions) -> Self {
        Self {
            search: Search::new(&options.limits),
            decoder: Decoder::default(),
            table: KeyTable::new(keys, options),
            scopes: Scopes::default(),
            connections: HashMap::default(),
            opening: VecDeque::new(),
            closed: VecDeque::new(),
            finished: VecDeque::new(),
            queue: Queue::default(),
            agreement: Agreement::default(),
            drops: Drops::default(),
            totals: Totals::default(),
            now: Place { packet: 0, time: None },
        }
    }

    /// Counts a packet. If it has a selected segment, that waits to be judged together with others; when there are enough, `each` is called
    /// for everything found, in order.
    ///
    /// # Errors
    /// Those of `each`; drop the verifier then.
    #[inline]
    pub fn packet<E>(
        &mut self,
        packet: &Packet<'_>,
        each: impl FnMut(VerifyEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.totals.packets += 1;
        self.now = Place { packet: packet.number, time: packet.time.or(self.now.time) };
        match self.decoder.content(packet) {
            Content::Tcp(segment) => {
                let CapturedSegment { source, destination, scope, octets, missing } = segment;
                if let Some(&[a, b, c, d]) = octets.first_chunk() {
                    let ports = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
                    if self.table.options.select(source, destination, ports) {
                        self.queue.push(
                            packet.place(),
                            Ends::of(source, destination, ports, scope),
                            &segment,
                        );
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
        if self.queue.is_full() { self.judge_queued(each) } else { Ok(()) }
    }

    /// Counts the fragments that were given up.
    #[cold]
    fn count_fragments(&mut self) {
        for GivenUp { protocol, why, packets } in self.decoder.given_up() {
            self.totals.skip(Skipped::Fragment { protocol, why }, packets);
        }
        self.totals.reassembled = self.decoder.reassembled();
    }

    /// Judges the segments that wait. Call it before a pause, so that `each` gets everything found so far.
    ///
    /// # Errors
    /// Those of `each`; drop the verifier then.
    pub fn judge_queued<E>(
        &mut self,
        mut each: impl FnMut(VerifyEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut queue = mem::take(&mut self.queue);
        let mut connections = [None; BATCH];
        for (connection, ends) in connections.iter_mut().zip(queue.ends()) {
            *connection = self.connections.get(ends).map(|live| &live.connection);
        }
        let mut batch = MacBatch::EMPTY;
        batch.compute(&self.table, queue.segments().map(|(_, segment)| segment), &connections);
        for ((ends, (place, captured)), batched) in queue.ends().zip(queue.segments()).zip(batch.each()) {
            let judged = ObservedSegment::read(place, &captured, |observed| {
                self.judge(ends, observed, batched, &mut each)
            });
            match judged {
                Some(outcome) => outcome?,
                None => self.totals.skip(Skipped::Unreadable(Unreadable::Tcp), 1),
            }
            while let Some(live) = self.finished.pop_front() {
                let report = live.into_report(&self.table, &self.agreement, &self.drops, self.now);
                each(VerifyEvent::Connection(Box::new(report)))?;
            }
        }
        queue.clear();
        self.queue = queue;
        Ok(())
    }

    /// Where a segment's connection is: with these ends, or in another scope if it is the answer to what was seen there.
    #[inline]
    fn home(&mut self, ends: &Ends, segment: &Segment<'_>) -> Ends {
        let is_there = ends.scope.is_none() && self.scopes.is_empty() || self.connections.contains_key(ends);
        if is_there { *ends } else { self.home_elsewhere(ends, segment) }
    }

    #[cold]
    fn home_elsewhere(&mut self, ends: &Ends, segment: &Segment<'_>) -> Ends {
        let source = segment.source();
        if let Some(home) = self.scopes.joined(ends, &source) {
            return home;
        }
        let answers = |other: &Ends| {
            self.connections.get(other).is_some_and(|live| live.connection.is_answered_by(segment))
        };
        let Some(home) = self.scopes.others(ends).find(answers) else { return *ends };
        self.scopes.join(ends, &source, &home);
        home
    }

    #[inline]
    fn judge<E>(
        &mut self,
        ends: &Ends,
        observed: &ObservedSegment<'_>,
        batched: Option<BatchedMac<'_>>,
        each: impl FnOnce(VerifyEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let ObservedSegment { place, segment, .. } = *observed;
        self.finish_what_is_over(place);
        let ends = &self.home(ends, segment);
        let begins_another = segment.flags().syn()
            && self.connections.get(ends).is_some_and(|live| live.connection.is_followed_by(segment));
        let mut answered = None;
        if begins_another && let Some(before) = self.connections.remove(ends) {
            answered = before.connection.syn_answered_by(segment);
            self.scopes.end(ends);
            self.finished.push_back(before);
        }
        let live = match self.connections.get_mut(ends) {
            Some(live) => live,
            None => {
                self.totals.connections += 1;
                let number = self.totals.connections;
                self.opening.push_back(Due { ends: *ends, number, since: place });
                let mut connection = TcpConnection::new(number, place, segment, &self.table);
                let receiver = connection.sender(&segment.destination());
                connection.direction_mut(receiver).seen.syn = answered;
                self.scopes.begin(ends);
                let live = LiveConnection::new(connection, ends.scope);
                self.connections.entry(*ends).or_insert(Box::new(live))
            }
        };
        let was_closed = live.connection.phase == Phase::Closed;
        let report = live.segment(&self.table, &mut self.search, &mut self.agreement, observed, batched);
        let connection = &live.connection;
        if connection.phase == Phase::Closed && !was_closed {
            self.closed.push_back(Due { ends: *ends, number: connection.number, since: place });
        }
        self.totals.counts[report.verdict.index()] += 1;
        each(VerifyEvent::Segment { connection: connection.number, ends: &connection.ends, segment: report })
    }

    /// Takes out the connections that were closed long enough ago or never opened.
    #[inline]
    fn finish_what_is_over(&mut self, now: Place) {
        while let Some(due) = take_due(&mut self.closed, &LINGER, now) {
            if let Entry::Occupied(entry) = self.connections.entry(due.ends)
                && entry.get().connection.number == due.number
                && entry.get().connection.phase == Phase::Closed
            {
                self.scopes.end(&due.ends);
                self.finished.push_back(entry.remove());
            }
        }
        while let Some(due) = take_due(&mut self.opening, &OPENING, now) {
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
                self.scopes.end(&due.ends);
                self.finished.push_back(entry.remove());
            } else {
                let since = if connection.phase == Phase::Opening { last } else { now };
                self.opening.push_back(Due { since, ..due });
            }
        }
    }

    /// Notes that the kernel dropped so many packets of those that were to be read up to now, 0 if none. What a gap explains is not blamed
    /// on anything else from then on.
    pub fn note_dropped(&mut self, count: u64) {
        self.drops.note(count, self.now);
        self.totals.dropped = self.drops.count;
    }

    /// How many packets the kernel dropped, as far as was noted.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.drops.count
    }

    /// Ends the capture: judges the segments that wait, calls `each` for the remaining connections in the order of their first
    /// segments, and returns the totals. `damage` says where and how the file is damaged, if it is.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn finish<E>(
        mut self,
        damage: Option<String>,
        mut each: impl FnMut(VerifyEvent<'_>) -> Result<(), E>,
    ) -> Result<Totals, E> {
        self.decoder.finish();
        self.count_fragments();
        self.judge_queued(&mut each)?;
        let mut rest: Vec<_> = self.connections.into_values().collect();
        rest.sort_unstable_by_key(|live| live.connection.number);
        for live in rest {
            let report = live.into_report(&self.table, &self.agreement, &self.drops, self.now);
            each(VerifyEvent::Connection(Box::new(report)))?;
        }
        Ok(Totals { damage, unused_hints: self.table.unused_hints(), ..self.totals })
    }

    /// How many connections are live.
    #[must_use]
    pub fn live(&self) -> usize {
        self.connections.len()
    }
}

/// How many segments are kept from a connection's start, and how many in all.
const KEPT_FIRST: usize = 400;
const KEPT: usize = 800;

#[derive(Debug)]
pub(super) struct LiveConnection {
    pub(super) connection: TcpConnection,
    scope: Scope,
    /// Why segments failed, if some did.
    diagnoser: Option<Box<Diagnoser>>,
    segments: Vec<SegmentReport>,
    segments_left_out: u64,
}

impl LiveConnection {
    pub(super) fn new(connection: TcpConnection, scope: Scope) -> Self {
        Self { connection, scope, diagnoser: None, segments: Vec::new(), segments_left_out: 0 }
    }

    /// Judges a segment and learns from it.
    pub(super) fn segment(
        &mut self,
        table: &KeyTable<'_>,
        search: &mut Search,
        agreement: &mut Agreement,
        observed: &ObservedSegment<'_>,
        batched: Option<BatchedMac<'_>>,
    ) -> SegmentReport {
        let segment = observed.segment;
        let sender = self.connection.sender(&segment.source());
        let (from, to) = (segment.source().address(), segment.destination().address());
        let judgement = judge(&mut self.connection, table, sender, observed, batched);
        let verdict = judgement.verdict;
        if segment.flags().syn()
            && let Ok(Some(ao)) = observed.ao
        {
            let (number, is_good) = (self.connection.number, verdict == Verdict::Good);
            agreement.copies.note(number, observed.place, segment, ao.mac, is_good);
        }
        if matches!(verdict, Verdict::BadMac | Verdict::UnknownKeyId) && observed.missing == 0 {
            let diagnoser = self.diagnoser.get_or_insert_default();
            let was_in_vain = diagnoser.explain(&self.connection, table, search, sender, observed, verdict);
            if was_in_vain && let Ok(Some(ao)) = observed.ao {
                for candidate in self.connection.named_by(table, sender, ao.key_id) {
                    agreement.note_unexplained(from, to, candidate.key);
                }
            }
        } else if verdict == Verdict::Good
            && let Some(diagnoser) = &mut self.diagnoser
        {
            diagnoser.note_good(sender, segment);
        }
        let learned = self.connection.learn(table, sender, observed, &judgement);
        let is_first_good = verdict == Verdict::Good && self.connection.direction(sender).good() == 1;
        if let Some(candidate) = judgement.candidate
            && (is_first_good || learned.starts_key_use)
        {
            agreement.note_verified(from, to, candidate.key);
        }
        let key_ids = match observed.ao {
            Ok(Some(ao)) => Some([ao.key_id, ao.rnext_key_id]),
            _ => None,
        };
        let report = SegmentReport {
            place: observed.place,
            sender,
            flags: segment.flags(),
            sequence: segment.sequence(),
            acknowledgment: segment.flags().ack().then_some(segment.acknowledgment()),
            payload_length: observed.payload_length() as u32,
            key_ids,
            key: judgement.candidate.map(|candidate| candidate.key as usize),
            sne: judgement.sne,
            is_retransmission: learned.is_retransmission,
            verdict,
        };
        let last_verdict = self.connection.direction_mut(sender).last_verdict.replace(verdict);
        let starts_run = learned.starts_key_use || last_verdict != Some(verdict);
        let kept = self.segments.len();
        if table.options.keep_segments && (kept < KEPT_FIRST || starts_run && kept < KEPT) {
            self.segments.push(report);
        } else {
            self.segments_left_out += 1;
        }
        report
    }

    /// Why segments failed so far, with the capture read up to `now`.
    pub(super) fn diagnoses(
        &self,
        table: &KeyTable<'_>,
        agreement: &Agreement,
        drops: &Drops,
        now: Place,
    ) -> Vec<Diagnosis> {
        let conclude = |diagnoser: &Diagnoser| diagnoser.conclude(&self.connection, table, agreement, now);
        let mut diagnoses = match &self.diagnoser {
            Some(diagnoser) => conclude(diagnoser),
            None => conclude(&Diagnoser::default()),
        };
        drops.soften(&mut diagnoses, &self.connection);
        diagnoses
    }

    /// The report when the connection is over, with the capture read up to `now`.
    fn into_report(
        self,
        table: &KeyTable<'_>,
        agreement: &Agreement,
        drops: &Drops,
        now: Place,
    ) -> ConnectionReport {
        let diagnoses = self.diagnoses(table, agreement, drops, now);
        let Self { connection, scope, segments, segments_left_out, .. } = self;
        let has_opened = Handshake::of(&connection, now).has_opened();
        let TcpConnection { number, ends, first, last, directions, .. } = connection;
        let is_proved = directions.iter().any(|direction| direction.good() > 0);
        let mut directions = directions.map(|direction| direction.report);
        for source in directions.iter_mut().filter_map(|direction| direction.isn_source.as_mut()) {
            if let IsnSource::Inferred { is_confirmed } = source {
                *is_confirmed |= is_proved;
            }
        }
        for key_use in directions.iter_mut().flat_map(|direction| &mut direction.key_uses) {
            key_use.key_name = key_use.key.map(|key| table.name(key).to_owned());
        }
        ConnectionReport {
            number,
            ends,
            scope,
            first,
            last,
            has_opened,
            directions,
            diagnoses,
            segments,
            segments_left_out,
        }
    }
}

/// Segments that wait, with copies of their octets.
#[derive(Debug, Default)]
pub(super) struct Queue {
    octets: Vec<u8>,
    segments: Vec<QueuedSegment>,
}

/// A segment, and where its octets end in the queue.
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
        let CapturedSegment { source, destination, octets, missing, .. } = *captured;
        self.octets.extend_from_slice(octets);
        let octets_until = self.octets.len();
        self.segments.push(QueuedSegment { place, ends, source, destination, octets_until, missing });
    }

    pub(super) fn is_full(&self) -> bool {
        self.segments.len() == BATCH
    }

    pub(super) fn ends(&self) -> impl Iterator<Item = &Ends> {
        self.segments.iter().map(|segment| &segment.ends)
    }

    pub(super) fn segments(&self) -> impl Iterator<Item = (Place, CapturedSegment<'_>)> {
        let mut start = 0;
        self.segments.iter().map(move |queued| {
            let octets = &self.octets[start..queued.octets_until];
            start = queued.octets_until;
            let QueuedSegment { place, source, destination, missing, .. } = *queued;
            (place, CapturedSegment { source, destination, scope: queued.ends.scope, octets, missing })
        })
    }

    pub(super) fn clear(&mut self) {
        self.octets.clear();
        self.segments.clear();
    }
}

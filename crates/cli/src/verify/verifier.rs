//! All connections of a capture.

use std::cmp::min;
use std::collections::VecDeque;
use std::mem;
use std::ops::Range;

use wireseal_tcp_ao::Endpoint;

use super::across::Agreement;
use super::connection::{Phase, SNE_SEARCHES, TcpConnection};
use super::connections::{Connections, Index};
use super::diagnose::Search;
use super::drops::Drops;
use super::ends::Ends;
use super::intake::{Intake, Queue};
use super::judge::{BATCH, BatchedMac, MacBatch, ObservedSegment, judge};
use super::key_table::KeyTable;
use super::live::{End, LiveConnection, Shared};
use super::options::VerifyOptions;
use super::report::{ConnectionReport, IsnSource, SegmentReport, Totals, Verdict};
use super::traffic_keys::{Owner, TrafficKeys};
use crate::capture::{Packet, Place, Skipped, Unreadable};
use crate::keys::Keys;

/// How many segments wait for [`Verifier::packet`] to judge them.
const WAITING: usize = 8 * BATCH;

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
    pub(super) intake: Intake,
    pub(super) shared: Shared<'k>,
    pub(super) connections: Connections,
    /// Connections that are over and not yet reported.
    finished: VecDeque<(LiveConnection, End)>,
    /// What was judged.
    totals: Totals,
    /// The last segment that was judged, with the last time.
    now: Place,
}

type Guessed = [Option<Index>; BATCH];

/// The connections of the segments of a batch.
struct LookedUp {
    connections: [Option<Index>; BATCH],
    changes: u64,
}

impl<'k> Verifier<'k> {
    /// Checks against these keys.
    #[must_use]
    pub fn new(keys: &'k Keys, options: VerifyOptions) -> Self {
        Self {
            intake: Intake::new(options.clone()),
            connections: Connections::new(options.most_connections),
            shared: Shared {
                search: Search::new(&options.limits),
                table: KeyTable::new(keys, options),
                traffic_keys: TrafficKeys::default(),
                agreement: Agreement::default(),
                drops: Drops::default(),
            },
            finished: VecDeque::new(),
            totals: Totals::default(),
            now: Place { packet: 0, time: None },
        }
    }

    /// Counts a packet. If it has a selected segment, that waits to be judged together with others; when there are enough, `each` is called
    /// with every event, in order.
    ///
    /// # Errors
    /// Those of `each`; drop the verifier then.
    #[inline]
    pub fn packet<E>(
        &mut self,
        packet: &Packet<'_>,
        each: impl FnMut(VerifyEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.intake.packet(packet);
        if self.intake.queue.is_full(WAITING) { self.judge_queued(each) } else { Ok(()) }
    }

    /// Judges the segments that wait. Call it before a pause, so that `each` gets everything found so far.
    ///
    /// # Errors
    /// Those of `each`; drop the verifier then.
    pub fn judge_queued<E>(&mut self, each: impl FnMut(VerifyEvent<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut queue = mem::take(&mut self.intake.queue);
        let outcome = self.judge_all(&queue, each);
        queue.clear();
        self.intake.queue = queue;
        outcome
    }

    /// Judges the segments of a queue, a batch at a time. The connections of the next batch are looked up and prefetched meanwhile.
    pub(super) fn judge_all<E>(
        &mut self,
        queue: &Queue,
        mut each: impl FnMut(VerifyEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut batch = MacBatch::EMPTY;
        let mut next = self.look_up(queue, 0, &self.guess(queue, 0));
        let mut guessed = self.guess(queue, BATCH);
        for start in (0..queue.len()).step_by(BATCH) {
            let is_right = next.changes == self.connections.changes();
            let looked_up = if is_right { next } else { self.look_up(queue, start, &[None; BATCH]) };
            let end = min(start + BATCH, queue.len());
            next = self.look_up(queue, end, &guessed);
            guessed = self.guess(queue, end + BATCH);
            self.judge_batch(queue, start..end, &looked_up, &mut batch, &mut each)?;
        }
        Ok(())
    }

    /// Prefetches what are most likely the connections of a batch.
    #[inline]
    fn guess(&self, queue: &Queue, start: usize) -> Guessed {
        let mut connections = [None; BATCH];
        for (guess, index) in connections.iter_mut().zip(start..queue.len()) {
            *guess = self.connections.guess(queue.ends(index).1);
            if let Some(index) = *guess {
                self.connections.prefetch(index);
            }
        }
        connections
    }

    /// The connections of a batch. Prefetches their traffic keys.
    #[inline]
    fn look_up(&self, queue: &Queue, start: usize, guessed: &Guessed) -> LookedUp {
        let mut connections = [None; BATCH];
        for ((place, guess), index) in connections.iter_mut().zip(guessed).zip(start..queue.len()) {
            let (ends, hash) = queue.ends(index);
            *place = guess.filter(|guess| self.connections.is_between(*guess, ends));
            if place.is_none() {
                *place = self.connections.find(ends, hash);
            }
            if let Some(connection) = *place {
                let connection = self.connections.get(connection);
                let sender = connection.sender(&queue.source(index));
                self.shared.traffic_keys.prefetch(connection.direction(sender).traffic_key);
            }
        }
        LookedUp { connections, changes: self.connections.changes() }
    }

    fn judge_batch<E>(
        &mut self,
        queue: &Queue,
        range: Range<usize>,
        looked_up: &LookedUp,
        batch: &mut MacBatch,
        each: &mut impl FnMut(VerifyEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let with_connections = range.clone().zip(&looked_up.connections).map(|(index, connection)| {
            (queue.segment(index).1, connection.map(|connection| self.connections.get(connection)))
        });
        batch.compute(&self.shared.table, &self.shared.traffic_keys, with_connections);
        for ((index, connection), batched) in range.zip(&looked_up.connections).zip(batch.each()) {
            let (place, captured) = queue.segment(index);
            let (ends, hash) = queue.ends(index);
            let judged = ObservedSegment::read(place, &captured, |observed| {
                self.finish_what_is_over(place);
                let is_right = looked_up.changes == self.connections.changes();
                let connection = if is_right { *connection } else { self.connections.find(ends, hash) };
                self.judge(connection, ends, hash, observed, batched, each)
            });
            match judged {
                Some(outcome) => outcome?,
                None => self.totals.skip(Skipped::Unreadable(Unreadable::Tcp), 1),
            }
            while let Some((live, end)) = self.finished.pop_front() {
                let report = live.into_report(&mut self.shared, self.now, end);
                each(VerifyEvent::Connection(Box::new(report)))?;
            }
        }
        Ok(())
    }

    #[inline]
    fn judge<E>(
        &mut self,
        mut found: Option<Index>,
        ends: &Ends,
        mut hash: u64,
        observed: &ObservedSegment<'_>,
        batched: Option<BatchedMac<'_>>,
        each: &mut impl FnMut(VerifyEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let ObservedSegment { place, segment, .. } = *observed;
        let flags = segment.flags();
        let hash_of = |ends: &Ends| self.intake.hash(ends);
        let mut ends = *ends;
        if found.is_none()
            && let Some(elsewhere) = self.connections.home_elsewhere(&ends, segment, hash_of)
        {
            (ends, hash) = (elsewhere, hash_of(&elsewhere));
            found = self.connections.find(&ends, hash);
        }
        let mut answered = None;
        if flags.syn()
            && let Some(before) = found
            && self.connections.get(before).is_followed_by(segment)
            && !self.is_copy(self.connections.get(before), observed)
        {
            answered = self.connections.get(before).syn_answered_by(segment);
            self.finished.push_back((self.connections.remove(before, hash_of), End::Over));
            found = None;
        }
        let index = match found {
            Some(index) => index,
            None if self.connections.is_given_up(hash, flags.syn() && !flags.ack() && !flags.rst()) => {
                self.totals.after_given_up += 1;
                return Ok(());
            }
            None => {
                if let Some(given_up) = self.connections.make_room(hash_of) {
                    self.totals.given_up += 1;
                    self.finished.push_back((given_up, End::GivenUp));
                }
                self.totals.connections += 1;
                let number = self.totals.connections;
                let table = &mut self.shared.table;
                let mut connection = TcpConnection::new(number, ends.scope, place, segment, table);
                if !flags.syn() && !connection.has_given_isns && matches!(observed.ao, Ok(Some(_))) {
                    self.take_isns_from_elsewhere(&ends, &mut connection, observed);
                }
                if answered.is_some() {
                    let receiver = connection.sender(&segment.destination());
                    connection.direction_mut(receiver).opening_mut().syn = answered;
                }
                self.connections.insert(&ends, hash, connection, place)
            }
        };
        let live = self.connections.get_mut(index);
        let was_closed = live.connection.phase == Phase::Closed;
        let was_failing = live.connection.is_failing();
        let report = live.segment(&mut self.shared, observed, batched);
        self.totals.counts[report.verdict.index()] += 1;
        let TcpConnection { number, ref ends, phase, .. } = live.connection;
        let outcome = each(VerifyEvent::Segment { connection: number, ends, segment: report });
        if phase == Phase::Closed && !was_closed {
            self.connections.note_closed(index, place);
        }
        if was_failing || report.verdict.is_failure() {
            self.connections.note_failing(index, was_failing, place);
            if let Some(given_up) = self.connections.take_failing(|ends| self.intake.hash(ends)) {
                self.totals.given_up += 1;
                self.finished.push_back((given_up, End::GivenUp));
            }
        }
        outcome
    }

    /// Whether a SYN with another ISN is one of this connection, from the other side of a device that shifts sequence numbers.
    #[cold]
    fn is_copy(&self, connection: &TcpConnection, observed: &ObservedSegment<'_>) -> bool {
        let ObservedSegment { place, segment, .. } = *observed;
        let copies = &self.shared.agreement.copies;
        matches!(observed.ao, Ok(Some(ao)) if copies.is_shifted_in(connection.number, segment, ao.mac, place))
    }

    /// Takes the ISNs of a connection that goes on in another scope, for one that begins without a SYN, if its first segment verifies
    /// with them.
    #[cold]
    fn take_isns_from_elsewhere(
        &mut self,
        ends: &Ends,
        connection: &mut TcpConnection,
        observed: &ObservedSegment<'_>,
    ) {
        let isns = self.connections.isns_elsewhere(ends, &connection.ends, |ends| self.intake.hash(ends));
        let Some(isns) = isns else { return };
        let (sender, none) = (connection.sender(&observed.segment.source()), Default::default());
        let before = mem::replace(&mut connection.directions, none);
        for (direction, isn) in connection.directions.iter_mut().zip(isns) {
            direction.set_isn(isn, IsnSource::Inferred { is_confirmed: true });
            direction.sne_searches = SNE_SEARCHES;
        }
        let Shared { table, traffic_keys, .. } = &mut self.shared;
        let judgement = judge(connection, table, traffic_keys, sender, observed, None);
        if judgement.verdict != Verdict::Good {
            let owner = Owner::new(connection.number, sender);
            traffic_keys.release(connection.direction(sender).traffic_key, owner);
            connection.directions = before;
        }
    }

    /// Takes out the connections that were closed long enough ago or never opened.
    #[inline]
    fn finish_what_is_over(&mut self, place: Place) {
        self.now = Place { time: place.time.or(self.now.time), ..place };
        while let Some(over) = self.connections.take_over(self.now, |ends| self.intake.hash(ends)) {
            self.finished.push_back((over, End::Over));
        }
    }

    /// Notes that the kernel dropped `count` more packets, 0 if none. From then on, what a missing packet may explain is not blamed on an end.
    pub fn note_dropped(&mut self, count: u64) {
        self.shared.drops.note(count, self.intake.now);
        self.totals.dropped = self.shared.drops.count;
    }

    /// How many packets the kernel dropped, as far as was noted.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.drops.count
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
        self.intake.finish();
        self.judge_queued(&mut each)?;
        let Self { intake, mut shared, connections, totals, .. } = self;
        for live in connections.into_rest() {
            let report = live.into_report(&mut shared, intake.now, End::Over);
            each(VerifyEvent::Connection(Box::new(report)))?;
        }
        let Totals { counts, connections, given_up, after_given_up, dropped, .. } = totals;
        let mut all =
            Totals { counts, connections, given_up, after_given_up, dropped, damage, ..intake.totals };
        all.unused_hints = shared.table.unused_hints();
        // Only impossible TCP headers are noticed that late.
        if totals.unreadable > 0 {
            all.skip(Skipped::Unreadable(Unreadable::Tcp), totals.unreadable);
        }
        Ok(all)
    }

    /// How many connections are live.
    #[must_use]
    pub fn live(&self) -> usize {
        self.connections.len()
    }
}

//! A live connection with the diagnosis of its failures, and its report when it is over.

use super::across::Agreement;
use super::connection::{Phase, TcpConnection};
use super::diagnose::{Diagnoser, Search};
use super::direction::Direction;
use super::drops::Drops;
use super::judge::{BatchedMac, ObservedSegment, judge};
use super::key_table::KeyTable;
use super::learn::Handshake;
use super::report::{ConnectionReport, Diagnosis, IsnSource, SegmentReport, Sender, Standing, Verdict};
use super::traffic_keys::{Owner, TrafficKeys};
use crate::capture::Place;

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shared<'k> {
    pub(super) table: KeyTable<'k>,
    pub(super) traffic_keys: TrafficKeys,
    pub(super) search: Search,
    pub(super) agreement: Agreement,
    pub(super) drops: Drops,
}

/// How many segments are kept from a connection's start, and how many in all.
const KEPT_FIRST: usize = 400;
const KEPT: usize = 800;

#[derive(Debug)]
pub(super) struct LiveConnection {
    pub(super) connection: TcpConnection,
    more: Option<Box<More>>,
}

/// What most connections do not have.
#[derive(Default, Debug)]
struct More {
    /// Why segments failed, if some did.
    diagnoser: Option<Diagnoser>,
    /// The segments to show.
    segments: Vec<SegmentReport>,
}

// A million are to fit 512 MiB.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<LiveConnection>() <= 448);

impl LiveConnection {
    pub(super) const fn new(connection: TcpConnection) -> Self {
        Self { connection, more: None }
    }

    /// Judges a segment and learns from it.
    pub(super) fn segment(
        &mut self,
        shared: &mut Shared<'_>,
        observed: &ObservedSegment<'_>,
        batched: Option<BatchedMac<'_>>,
    ) -> SegmentReport {
        let Shared { table, traffic_keys, search, agreement, .. } = shared;
        let segment = observed.segment;
        let sender = self.connection.sender(&segment.source());
        let scope = self.connection.scope;
        let (from, to) = (segment.source().address(), segment.destination().address());
        let judgement = judge(&mut self.connection, table, traffic_keys, sender, observed, batched);
        let verdict = judgement.verdict;
        if segment.flags().syn()
            && let Ok(ao) = observed.ao
            && !observed.has_part_of_header
        {
            agreement.removed.note(observed.place, segment, ao.is_some());
        }
        if segment.flags().syn()
            && let Ok(Some(ao)) = observed.ao
        {
            let (number, is_good) = (self.connection.number, verdict == Verdict::Good);
            agreement.copies.note(number, observed.place, segment, ao.mac, is_good);
        }
        if matches!(verdict, Verdict::BadMac | Verdict::UnknownKeyId) && observed.missing == 0 {
            let diagnoser = self.more.get_or_insert_default().diagnoser.get_or_insert_default();
            let was_in_vain = diagnoser.explain(&self.connection, table, search, sender, observed, verdict);
            if was_in_vain && let Ok(Some(ao)) = observed.ao {
                for candidate in self.connection.named_by(table, sender, ao.key_id) {
                    agreement.note_unexplained(scope, from, to, candidate.key);
                }
            }
        } else if verdict == Verdict::Good
            && let Some(diagnoser) = self.more.as_mut().and_then(|more| more.diagnoser.as_mut())
        {
            diagnoser.note_good(sender, segment);
        }
        let learned = self.connection.learn(table, sender, observed, &judgement);
        let is_first_good = verdict == Verdict::Good && self.connection.direction(sender).good() == 1;
        if let Some(candidate) = judgement.candidate
            && (is_first_good || learned.starts_key_use)
        {
            agreement.note_verified(scope, from, to, candidate.key);
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
        let kind = verdict.index() as u8;
        let last_kind = self.connection.direction_mut(sender).last_verdict.replace(kind);
        let starts_run = learned.starts_key_use || last_kind != Some(kind);
        if table.options.keep_segments {
            let segments = &mut self.more.get_or_insert_default().segments;
            if segments.len() < KEPT_FIRST || starts_run && segments.len() < KEPT {
                segments.push(report);
            }
        }
        report
    }

    /// Why segments failed so far, with the capture read up to `now`.
    pub(super) fn diagnoses(&self, shared: &Shared<'_>, now: Place) -> Vec<Diagnosis> {
        let Shared { table, agreement, drops, .. } = shared;
        let conclude = |diagnoser: &Diagnoser| diagnoser.conclude(&self.connection, table, agreement, now);
        let diagnoser = self.more.as_ref().and_then(|more| more.diagnoser.as_ref());
        let mut diagnoses = diagnoser.map_or_else(|| conclude(&Diagnoser::default()), conclude);
        drops.soften(&mut diagnoses, &self.connection);
        diagnoses
    }

    /// The report when the connection is over, or was given up, with the capture read up to `now`.
    pub(super) fn into_report(self, shared: &mut Shared<'_>, now: Place, end: End) -> ConnectionReport {
        let mut diagnoses = self.diagnoses(shared, now);
        let Self { connection, more } = self;
        let scope = connection.scope;
        let segments = more.map(|more| more.segments).unwrap_or_default();
        let Shared { table, traffic_keys, .. } = shared;
        for sender in Sender::BOTH {
            let slot = connection.direction(sender).traffic_key;
            traffic_keys.release(slot, Owner::new(connection.number, sender));
        }
        let has_opened = Handshake::of(&connection, now).has_opened();
        if end == End::GivenUp && connection.phase != Phase::Closed {
            diagnoses.push(given_up(&connection));
        }
        let (first, is_proved) = (connection.first(), connection.has_good());
        let TcpConnection { number, ends, last, directions, .. } = connection;
        let all: u64 = directions.iter().map(Direction::segments).sum();
        let mut directions = directions.map(|direction| direction.into_report(table));
        for source in directions.iter_mut().filter_map(|direction| direction.isn_source.as_mut()) {
            if let IsnSource::Inferred { is_confirmed } = source {
                *is_confirmed |= is_proved;
            }
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
            segments_left_out: all - segments.len() as u64,
            segments,
        }
    }
}

/// How a live connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// It is over, or the capture is.
    Over,
    /// Its state was given up for another connection.
    GivenUp,
}

fn given_up(connection: &TcpConnection) -> Diagnosis {
    Diagnosis {
        about: Standing::NotJudged,
        sender: Sender::Opener,
        first: connection.last,
        segments: connection.directions.iter().map(Direction::segments).sum(),
        kind: "given-up",
        cause:
            "too many connections were live or kept failing, so what came later in this one was not judged"
                .to_owned(),
        advice: "Select connections with --peer or --port.".to_owned(),
    }
}

//! A live connection with what will be reported of it.

use super::agreement::Agreement;
use super::connection::TcpConnection;
use super::diagnose::{Diagnoser, Search};
use super::handshake::Handshake;
use super::judge::judge;
use super::key_table::KeyTable;
use super::mac_batch::BatchedMac;
use super::observed::ObservedSegment;
use super::report::{ConnectionReport, SegmentReport, Verdict};
use crate::capture::Place;

/// How many segments of a connection are kept from its start, and how many in all.
const KEPT_FIRST: usize = 400;
const KEPT: usize = 800;

#[derive(Debug)]
pub(super) struct LiveConnection {
    pub(super) connection: TcpConnection,
    /// Why segments failed, if some did.
    diagnoser: Option<Box<Diagnoser>>,
    segments: Vec<SegmentReport>,
    segments_left_out: u64,
}

impl LiveConnection {
    /// A connection with nothing to report so far.
    pub(super) fn new(connection: TcpConnection) -> Self {
        Self { connection, diagnoser: None, segments: Vec::new(), segments_left_out: 0 }
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

    /// What is reported when the connection is over.
    ///
    /// `now` is how far the capture has been read.
    pub(super) fn into_report(
        self,
        table: &KeyTable<'_>,
        agreement: &Agreement,
        now: Place,
    ) -> ConnectionReport {
        let Self { connection, diagnoser, segments, segments_left_out } = self;
        let diagnoses = diagnoser.unwrap_or_default().conclude(&connection, table, agreement, now);
        let has_opened = Handshake::of(&connection, now).has_opened();
        let TcpConnection { number, ends, first, last, directions, .. } = connection;
        let mut directions = directions.map(|direction| direction.report);
        for key_use in directions.iter_mut().flat_map(|direction| &mut direction.key_uses) {
            key_use.key_name = key_use.key.map(|key| table.name(key).to_owned());
        }
        ConnectionReport {
            number,
            ends,
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

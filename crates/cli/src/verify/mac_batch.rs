//! MACs of several segments, computed side by side before the segments are judged, which is faster than one after the other.
//!
//! A MAC depends on key, ISNs, SNE and segment. It is computed with those of the connection as it is now, and used only if they are
//! still the same when it is the segment's turn. Otherwise it is computed again, so only the time differs.

use wireseal_mac::{Mac, MessageHead, mac_batch};
use wireseal_tcp_ao::{AoOption, Isn, Segment, Sne, TrafficKey};

use super::connection::TcpConnection;
use super::key_table::{Candidate, KeyTable};
use crate::capture::CapturedSegment;

/// How many segments are judged together at most.
pub(super) const BATCH: usize = 16;

/// What a MAC is computed with, apart from the segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Basis {
    /// See [`Candidate::key`].
    pub(super) key: u32,
    /// The sender's and the receiver's, which the traffic key is derived from.
    pub(super) isns: [Isn; 2],
    pub(super) sne: Sne,
}

/// The MACs of the segments in a queue.
#[derive(Debug)]
pub(super) struct MacBatch {
    bases: [Option<Basis>; BATCH],
    /// One for each basis, in order.
    macs: [Mac; BATCH],
}

impl MacBatch {
    pub(super) const EMPTY: Self = Self { bases: [None; BATCH], macs: [const { Mac::EMPTY }; BATCH] };

    /// Computes the MACs of these segments, each with its connection if it has one so far, and if its MAC can be predicted.
    pub(super) fn compute<'a>(
        &mut self,
        table: &KeyTable<'_>,
        segments: impl Iterator<Item = CapturedSegment<'a>>,
        connections: &[Option<&TcpConnection>; BATCH],
    ) {
        let mut heads = [const { MessageHead::new() }; BATCH];
        let mut inputs = [None; BATCH];
        let rooms = heads.iter_mut().zip(&mut inputs).zip(&mut self.bases);
        for ((captured, connection), ((head, input), basis)) in segments.zip(connections).zip(rooms) {
            // Matched as references, because moving a segment takes longer than reading it.
            if let Some(connection) = connection
                && let CapturedSegment { source, destination, octets, missing: 0 } = captured
                && let Ok(segment) = &Segment::from_tcp(source, destination, octets)
                && let Ok(Some(ao)) = &segment.ao_option()
                && let Some(((candidate, key), expected)) = expected(connection, table, segment, ao)
                && let Ok(mac_input) = &segment.mac_input(expected.sne, table.parameters(*candidate).options)
            {
                *input = Some((key.mac_key(), mac_input.message(head)));
                *basis = Some(expected);
            }
        }
        let jobs = inputs.iter().flatten().map(|(key, input)| (*key, &input[..]));
        mac_batch(jobs, &mut self.macs);
    }

    /// What was computed of each segment in order.
    pub(super) fn each(&self) -> impl Iterator<Item = Option<BatchedMac<'_>>> {
        let mut macs = self.macs.iter();
        self.bases.iter().map(move |basis| Some(BatchedMac { basis: basis.as_ref()?, mac: macs.next()? }))
    }
}

/// A MAC computed ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchedMac<'a> {
    basis: &'a Basis,
    mac: &'a Mac,
}

impl<'a> BatchedMac<'a> {
    /// The MAC, if it is the one of this basis.
    #[inline]
    pub(super) fn of(self, basis: &Basis) -> Option<&'a Mac> {
        (self.basis == basis).then_some(self.mac)
    }
}

/// What a segment's MAC will be computed with if nothing changes until its turn. `None` in a handshake, and if a MAC is not needed.
#[inline]
fn expected<'c>(
    connection: &'c TcpConnection,
    table: &KeyTable<'_>,
    segment: &Segment<'_>,
    ao: &AoOption<'_>,
) -> Option<(&'c (Candidate, TrafficKey), Basis)> {
    if segment.flags().syn() {
        return None;
    }
    let sender = connection.sender(&segment.source());
    let direction = connection.direction(sender);
    let known @ (candidate, _) = direction.traffic_keys.first()?;
    let is_needed = candidate.serves(table, connection.configured_end, sender, ao.key_id)
        && table.parameters(*candidate).mac_length() == ao.mac.len();
    let basis = Basis {
        key: candidate.key,
        isns: [connection.isn(sender)?, connection.isn(sender.other())?],
        sne: direction.tracker()?.sne_of(segment.sequence()),
    };
    is_needed.then_some((known, basis))
}

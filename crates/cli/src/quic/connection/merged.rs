//! Datagrams recorded as one: on the sending machine before the network card splits them (UDP_SEGMENT of Linux), or on the
//! receiving machine after they were merged.
//!
//! A long header says where its packet ends; for a short one the end has to be tried.

use super::found::{Found, Opening, Stop};
use super::state::QuicConnection;
use crate::quic::report::Reason;

/// The lengths of packets that fill a datagram, tried where no connection ID marks where the next packet begins.
const LENGTHS: std::ops::RangeInclusive<usize> = 1200..=1500;
/// After how many failed searches no more are made for forged packets.
const MOST_FAILED_SEARCHES: usize = 16;
/// How many ends of a packet are tried.
const MOST_TRIES: usize = 512;
/// Header, packet number and tag with nothing between.
const SHORTEST: usize = 1 + 4 + 16;

impl QuicConnection {
    /// Opens 1-RTT packets that were found as one. What is left when one does not open is noted as one packet.
    pub(super) fn open_merged(&mut self, with: &mut Opening<'_>, found: &Found<'_>) -> Result<(), Stop> {
        let mut length = self.open_first(with, found).ok_or(Reason::Forged)?;
        let mut rest = found.octets;
        loop {
            rest = &rest[length..];
            let found = found.with(rest);
            if let Some(first) = self.open_first(with, &found) {
                length = first;
                continue;
            }
            if let Err(Stop::Never(reason)) = self.open_one(with, &found) {
                self.not_opened(found.sender, Some(found.packet_type.into()), reason, found.place);
            }
            return Ok(());
        }
    }

    /// Opens the first of several packets and returns its length.
    fn open_first(&mut self, with: &mut Opening<'_>, found: &Found<'_>) -> Option<usize> {
        let octets = found.octets;
        let id = octets.get(1..=found.destination.map_or(0, |id| id.len()))?;
        // The next packet begins with another short header for the same connection ID.
        let may_end = |length: &usize| {
            let behind = octets.get(*length..).and_then(<[u8]>::split_first);
            behind.is_some_and(|(first, rest)| (first ^ octets[0]) & 0xc0 == 0 && rest.starts_with(id))
        };
        let known = self.merged_length.filter(may_end);
        if let Some(length) = known
            && self.open_one(with, &found.with(&octets[..length])).is_ok()
        {
            return Some(length);
        }
        // The last one is no longer than those before it.
        let is_last = self.merged_length.is_some_and(|length| octets.len() <= length);
        if is_last || self.failed_merged_searches == MOST_FAILED_SEARCHES {
            return None;
        }
        let lengths = if id.is_empty() { LENGTHS } else { SHORTEST + id.len()..=octets.len() };
        let mut has_tried = false;
        for length in lengths.filter(may_end).take(MOST_TRIES) {
            has_tried = true;
            if self.open_one(with, &found.with(&octets[..length])).is_ok() {
                self.merged_length = Some(length);
                return Some(length);
            }
        }
        self.failed_merged_searches += usize::from(has_tried);
        None
    }
}

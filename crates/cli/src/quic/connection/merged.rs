//! Datagrams that the network card was to cut apart: a capture on the sending machine has them in one (UDP_SEGMENT of Linux), and
//! one on the receiving machine may have them put together again.
//!
//! A long header says where its packet ends, and a short one does not: it has to be tried.

use super::{Connection, Found, Stop};
use crate::quic::key_log::KeyLog;
use crate::quic::report::Reason;

/// What is known of a connection's datagrams that are several in one.
#[derive(Default)]
pub(super) struct Merged {
    /// Octets of the packet that was found last.
    length: Option<usize>,
    failed_searches: usize,
}

/// Octets of a packet that senders fill datagrams with where the receiver has no connection IDs which mark its end.
const LENGTHS: std::ops::RangeInclusive<usize> = 1200..=1500;
/// After as many searches that nothing came of, forged packets are no longer searched.
const MOST_FAILED_SEARCHES: usize = 16;
/// As many ends of a packet are tried.
const MOST_TRIES: usize = 512;
/// Header, packet number and tag, with nothing between.
const SHORTEST: usize = 1 + 4 + 16;

impl Connection {
    /// Opens 1-RTT packets that were found as one, one after another. What is left when one does not open is noted as one packet.
    pub(super) fn open_merged(
        &mut self,
        log: &KeyLog,
        found: &Found<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), Stop> {
        let mut length = self.open_first(log, found, scratch).ok_or(Reason::Forged)?;
        let mut rest = found.octets;
        loop {
            rest = &rest[length..];
            let found = Found { octets: rest, ..*found };
            if let Some(first) = self.open_first(log, &found, scratch) {
                length = first;
                continue;
            }
            if let Err(Stop::Never(reason)) = self.open_one(log, &found, scratch) {
                self.not_opened(found.sender, Some(found.packet_type.into()), reason, found.place);
            }
            return Ok(());
        }
    }

    /// Opens the first of several packets, and returns its length.
    fn open_first(&mut self, log: &KeyLog, found: &Found<'_>, scratch: &mut Vec<u8>) -> Option<usize> {
        let octets = found.octets;
        let id = octets.get(1..=found.destination.map_or(0, |id| id.len()))?;
        // Another short header for the same connection ID begins where it ends.
        let may_end = |length: &usize| {
            let behind = octets.get(*length..).and_then(<[u8]>::split_first);
            behind.is_some_and(|(first, rest)| (first ^ octets[0]) & 0xc0 == 0 && rest.starts_with(id))
        };
        let known = self.merged.length.filter(may_end);
        if let Some(length) = known
            && self.open_one(log, &Found { octets: &octets[..length], ..*found }, scratch).is_ok()
        {
            return Some(length);
        }
        // The last one is not longer than those before it.
        let is_last = self.merged.length.is_some_and(|length| octets.len() <= length);
        if is_last || self.merged.failed_searches == MOST_FAILED_SEARCHES {
            return None;
        }
        let lengths = if id.is_empty() { LENGTHS } else { SHORTEST + id.len()..=octets.len() };
        let mut has_tried = false;
        for length in lengths.filter(may_end).take(MOST_TRIES) {
            has_tried = true;
            if self.open_one(log, &Found { octets: &octets[..length], ..*found }, scratch).is_ok() {
                self.merged.length = Some(length);
                return Some(length);
            }
        }
        self.merged.failed_searches += usize::from(has_tried);
        None
    }
}

//! Queues of connections to look at again after a time.

use std::collections::VecDeque;

use super::ends::Ends;
use crate::capture::Place;

/// A connection to look at again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) ends: Ends,
    pub(super) number: u64,
    pub(super) since: Place,
}

/// A time in the capture, or a number of packets if the capture has no times.
pub(super) struct Wait {
    pub(super) nanoseconds: u64,
    pub(super) packets: u64,
    /// The most connections that wait: a scan or flood opens them by the thousand.
    pub(super) most: usize,
}

impl Wait {
    pub(super) fn is_over(&self, since: Place, now: Place) -> bool {
        match (since.time, now.time) {
            (Some(since), Some(now)) => {
                now.unix_nanoseconds().saturating_sub(since.unix_nanoseconds()) >= self.nanoseconds
            }
            _ => now.packet.saturating_sub(since.packet) >= self.packets,
        }
    }

    /// Takes the first connection that has waited long enough or is one too many.
    #[inline]
    pub(super) fn take_due(&self, queue: &mut VecDeque<Due>, now: Place) -> Option<Due> {
        let first = queue.front()?;
        if self.is_over(first.since, now) || queue.len() > self.most { queue.pop_front() } else { None }
    }
}

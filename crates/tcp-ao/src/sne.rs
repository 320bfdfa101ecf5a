//! The sequence number extension: which turn of the 32-bit circle a sequence number belongs to (RFC 9187).
//!
//! RFC 5925 §6.2 shows sample code for this that is wrong (errata 5672 and others); RFC 9187 replaces it. This is
//! the same computation in 64 bits: the extended number that is nearest to the highest one seen.

use crate::types::{Isn, SeqNum, Sne};

/// Tracks one direction of a connection. Eight octets.
///
/// ```
/// use wireseal_tcp_ao::{Isn, SeqNum, Sne, SneTracker};
///
/// let mut tracker = SneTracker::new(Isn(0xffff_ff00));
/// assert_eq!(tracker.sne_of(SeqNum(0xffff_ff01)), Sne(0));
/// assert_eq!(tracker.sne_of(SeqNum(0x10)), Sne(1)); // the number wrapped
/// tracker.advance(SeqNum(0x10));
/// assert_eq!(tracker.sne_of(SeqNum(0xffff_ff01)), Sne(0)); // a retransmission from before the wrap
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SneTracker {
    sne: u32,
    sequence: u32,
}

impl SneTracker {
    /// Starts at the direction's ISN, with an SNE of zero (RFC 5925 §6.2).
    #[must_use]
    pub const fn new(isn: Isn) -> Self {
        Self { sne: 0, sequence: isn.0 }
    }

    /// Takes up where another tracker was, from what [`SneTracker::highest`] gave there.
    #[must_use]
    pub const fn resume(sne: Sne, sequence: SeqNum) -> Self {
        Self { sne: sne.0, sequence: sequence.0 }
    }

    /// The highest sequence number the tracker was advanced to, with its SNE.
    #[must_use]
    pub const fn highest(&self) -> (Sne, SeqNum) {
        (Sne(self.sne), SeqNum(self.sequence))
    }

    /// The SNE of a segment with this sequence number, wherever it lies within 2^31 octets of the highest seen.
    ///
    /// A number from before the first turn has SNE 0, never a negative one.
    #[inline]
    #[must_use]
    pub const fn sne_of(&self, sequence: SeqNum) -> Sne {
        Sne((self.extended(sequence) >> 32) as u32)
    }

    /// Notes that a segment with this sequence number was sent or verified; an older number changes nothing.
    ///
    /// Call it on receipt only once the MAC has verified: a forged number must not turn the circle.
    #[inline]
    pub const fn advance(&mut self, sequence: SeqNum) {
        self.advance_to(self.sne_of(sequence), sequence);
    }

    /// [`advance`](Self::advance) to a number whose SNE is known.
    #[inline(always)]
    pub(crate) const fn advance_to(&mut self, sne: Sne, sequence: SeqNum) {
        if SeqNum(self.sequence).before(sequence) {
            (self.sne, self.sequence) = (sne.0, sequence.0);
        }
    }

    const fn extended(&self, sequence: SeqNum) -> u64 {
        let highest = (self.sne as u64) << 32 | self.sequence as u64;
        let offset = sequence.offset_from(SeqNum(self.sequence));
        match highest.checked_add_signed(offset as i64) {
            Some(extended) => extended,
            // Below zero: older than the ISN's own turn, so SNE 0. Above 2^64 cannot come from 32-bit steps of a
            // connection that lives less than 2^64 octets, and stays on the last turn.
            None if offset < 0 => sequence.0 as u64,
            None => (u32::MAX as u64) << 32 | sequence.0 as u64,
        }
    }
}

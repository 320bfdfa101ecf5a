//! The sequence number extension: how often a 32-bit sequence number has wrapped (RFC 9187).
//!
//! The sample code in RFC 5925 §6.2 is wrong (errata 5672 and others); RFC 9187 replaces it. This computes the same in 64
//! bits: of all numbers with these lower 32 bits, the one nearest to the highest seen. Of two that are equally near, 2^31 octets away, it
//! is the older one.

use crate::types::{Isn, SeqNum, Sne};

/// Tracks the SNE of one direction of a connection. Eight octets.
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
    /// Starts at the direction's ISN with an SNE of zero (RFC 5925 §6.2).
    #[must_use]
    pub const fn new(isn: Isn) -> Self {
        Self { sne: 0, sequence: isn.0 }
    }

    /// Continues from what another tracker's [`SneTracker::highest`] returned.
    #[must_use]
    pub const fn resume(sne: Sne, sequence: SeqNum) -> Self {
        Self { sne: sne.0, sequence: sequence.0 }
    }

    /// The highest sequence number so far, with its SNE.
    #[must_use]
    pub const fn highest(&self) -> (Sne, SeqNum) {
        (Sne(self.sne), SeqNum(self.sequence))
    }

    /// The SNE of a sequence number within 2^31 octets of the highest seen.
    ///
    /// A number from before the ISN has SNE 0, never a negative one.
    #[inline]
    #[must_use]
    pub const fn sne_of(&self, sequence: SeqNum) -> Sne {
        Sne((self.extended(sequence) >> 32) as u32)
    }

    /// Records that a segment with this sequence number was sent or verified; an older number changes nothing.
    ///
    /// For received segments, call it only after the MAC has verified: a forged number must not advance the SNE.
    #[inline]
    pub const fn advance(&mut self, sequence: SeqNum) {
        // The same comparison as for the SNE, so that what counts as older never takes the tracker back.
        if self.offset_of(sequence) > 0 {
            (self.sne, self.sequence) = (self.sne_of(sequence).0, sequence.0);
        }
    }

    /// How many octets a number is ahead of the highest, or behind it: what decides both its SNE and whether it is newer.
    #[inline(always)]
    const fn offset_of(&self, sequence: SeqNum) -> i32 {
        sequence.offset_from(SeqNum(self.sequence))
    }

    const fn extended(&self, sequence: SeqNum) -> u64 {
        let highest = (self.sne as u64) << 32 | self.sequence as u64;
        let offset = self.offset_of(sequence);
        match highest.checked_add_signed(offset as i64) {
            Some(extended) => extended,
            // Before the ISN: SNE 0. Beyond 2^64, which no connection reaches, the SNE stays at its last value.
            None if offset < 0 => sequence.0 as u64,
            None => (u32::MAX as u64) << 32 | sequence.0 as u64,
        }
    }
}

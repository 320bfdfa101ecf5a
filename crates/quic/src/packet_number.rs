//! Counts, encodes and decodes packet numbers.

use crate::error::SealError;

/// The largest packet number: 2^62-1 (RFC 9000 §12.3).
pub const MAX_PACKET_NUMBER: u64 = (1 << 62) - 1;

/// How many octets of a packet number are sent (RFC 9000 §17.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NumberLength {
    /// One octet.
    One,
    /// Two octets.
    Two,
    /// Three octets.
    Three,
    /// Four octets.
    Four,
}

impl NumberLength {
    /// The fewest octets from which the peer can decode `number`, where `largest_acknowledged` is the largest number it has
    /// acknowledged in this packet number space (RFC 9000 §17.1 and §A.2).
    ///
    /// With more than 2^31 numbers in flight even four octets are too few; it still returns four. A packet that arrives after later ones
    /// may need more: use [`advised`](Self::advised).
    #[must_use]
    pub const fn needed(number: u64, largest_acknowledged: Option<u64>) -> Self {
        match unacknowledged(number, largest_acknowledged) {
            0..=0x80 => Self::One,
            0x81..=0x8000 => Self::Two,
            0x8001..=0x80_0000 => Self::Three,
            _ => Self::Four,
        }
    }

    /// How many octets of `number` to send, so that the peer can also decode it if the packet arrives after others that were sent later, as
    /// RFC 9000 §17.1 asks (SHOULD): two, three or four, which tell apart four times as many numbers as are unacknowledged. Otherwise like
    /// [`needed`](Self::needed), and never fewer.
    ///
    /// | unacknowledged, up to this packet | octets | later packets that may arrive before it |
    /// |---|---|---|
    /// | up to 2^14 | 2 | 32,766 |
    /// | up to 2^22 | 3 | 8,388,606 |
    /// | more | 4 | 2,147,483,646 |
    ///
    /// One octet would allow 126, which a burst on one of two paths exceeds. A packet overtaken by more than this is lost, and the peer
    /// counts it as not authentic.
    #[must_use]
    pub const fn advised(number: u64, largest_acknowledged: Option<u64>) -> Self {
        match unacknowledged(number, largest_acknowledged) {
            0..=0x4000 => Self::Two,
            0x4001..=0x40_0000 => Self::Three,
            _ => Self::Four,
        }
    }

    /// Checks that the peer can decode `number` from this many octets.
    #[inline]
    pub(crate) fn check(self, number: u64, largest_acknowledged: Option<u64>) -> Result<(), SealError> {
        let unacknowledged = unacknowledged(number, largest_acknowledged);
        // RFC 9000 §17.1: "the sender MUST use a packet number size able to represent more than twice as large a range as the difference
        // between the largest acknowledged packet number and the packet number being sent."
        if unacknowledged <= 1 << (8 * self.octets() - 1) {
            return Ok(());
        }
        let bits = u64::BITS - (2 * unacknowledged - 1).leading_zeros();
        Err(SealError::NumberTooShort { needed: bits.div_ceil(8) as usize, got: self.octets() })
    }

    /// The number of octets, 1 to 4.
    #[must_use]
    pub const fn octets(self) -> usize {
        self.bits() as usize + 1
    }

    /// The length in the two low bits of the first octet (RFC 9000 §17.2 and §17.3.1).
    pub(crate) const fn from_bits(first: u8) -> Self {
        match first & 0x03 {
            0 => Self::One,
            1 => Self::Two,
            2 => Self::Three,
            _ => Self::Four,
        }
    }

    /// The two low bits of the first octet.
    pub(crate) const fn bits(self) -> u8 {
        match self {
            Self::One => 0,
            Self::Two => 1,
            Self::Three => 2,
            Self::Four => 3,
        }
    }
}

/// How many numbers up to `number` are unacknowledged (RFC 9000 §A.2).
const fn unacknowledged(number: u64, largest_acknowledged: Option<u64>) -> u64 {
    match largest_acknowledged {
        Some(largest) => number.saturating_sub(largest),
        None => number.saturating_add(1),
    }
}

/// Decodes a packet number: `truncated` is its last `length` octets, and `largest` the largest number authenticated so far in
/// this packet number space (RFC 9000 §17.1 and §A.3).
#[must_use]
pub const fn decode_packet_number(largest: Option<u64>, truncated: u32, length: NumberLength) -> u64 {
    let expected = match largest {
        Some(largest) => largest.saturating_add(1),
        None => 0,
    };
    let window = 1_u64 << (8 * length.octets());
    // RFC 9000 §A.3 in fewer steps, because decryption waits for the number. The window of candidates ends here.
    let end = expected.saturating_add(window / 2);
    let before_end = end.wrapping_sub(truncated as u64) & (window - 1);
    let number = end.wrapping_sub(before_end);
    if end < before_end {
        number.wrapping_add(window)
    } else if number > MAX_PACKET_NUMBER && expected <= MAX_PACKET_NUMBER {
        number - window
    } else {
        number
    }
}

/// Gives out the packet numbers of one packet number space, each once.
///
/// It cannot be copied or set back, and a [`Sealer`](crate::Sealer) takes its numbers from the counter it owns. So no two packets
/// under one key have the same number, and no nonce is used twice (RFC 9001 §5.3). When a packet number space gets new keys,
/// after a Retry or from 0-RTT to 1-RTT, move the counter to them with
/// [`Sealer::into_counter`](crate::Sealer::into_counter).
#[derive(Debug, PartialEq, Eq)]
pub struct PacketNumberCounter {
    next: u64,
    /// The skipped ranges, each with its start and end, the latest last. Unused entries are empty and come first.
    skipped: [(u64, u64); Self::GAPS],
}

impl PacketNumberCounter {
    /// The number of gaps it remembers.
    const GAPS: usize = 8;

    /// A counter that starts at 0, as every packet number space does (RFC 9000 §12.3).
    #[must_use]
    pub const fn new() -> Self {
        Self::at(0)
    }

    /// A counter with this next number, above 2^62-1 if none is left.
    pub(crate) const fn at(next: u64) -> Self {
        Self { next, skipped: [(0, 0); Self::GAPS] }
    }

    /// A counter that starts at `first`: to hide how many packets were sent, or for a known packet in a test. For a connection `first` must
    /// be below 2^31, because the peer decodes it without an earlier number (RFC 9000 §17.1); [`OneRtt`](crate::OneRtt) seals nothing
    /// otherwise.
    ///
    /// # Errors
    ///
    /// [`SealError::NumbersExhausted`] if `first` is above 2^62-1.
    pub const fn starting_at(first: u64) -> Result<Self, SealError> {
        if first <= MAX_PACKET_NUMBER { Ok(Self::at(first)) } else { Err(SealError::NumbersExhausted) }
    }

    /// The next number, or `None` when all are used.
    #[must_use]
    pub const fn peek(&self) -> Option<u64> {
        if self.next <= MAX_PACKET_NUMBER { Some(self.next) } else { None }
    }

    /// Skips the next `count` numbers, to expose peers that acknowledge packets they never received (RFC 9000 §21.4).
    ///
    /// [`OneRtt::acknowledged`](crate::OneRtt::acknowledged) ignores acknowledgments of the last eight gaps; gaps without a packet
    /// between them count as one.
    pub fn skip(&mut self, count: u64) {
        let start = self.next;
        self.next = start.saturating_add(count).min(MAX_PACKET_NUMBER + 1);
        if self.next == start {
            return;
        }
        let [.., (_, end)] = &mut self.skipped;
        if *end == start {
            *end = self.next;
        } else {
            self.skipped.rotate_left(1);
            self.skipped[Self::GAPS - 1] = (start, self.next);
        }
    }

    /// Whether `number` was given out. Numbers below the first of [`starting_at`](Self::starting_at) count as given out elsewhere.
    pub(crate) fn has_given(&self, number: u64) -> bool {
        number < self.next && !self.skipped.iter().any(|(start, end)| (*start..*end).contains(&number))
    }

    /// Gives out the next number.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u64> {
        let number = self.peek()?;
        self.next += 1;
        Some(number)
    }
}

impl Default for PacketNumberCounter {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_eight_gaps_are_remembered() {
        for gaps in 0..20 {
            let mut counter = PacketNumberCounter::new();
            let mut given = [u64::MAX; 20];
            let given = &mut given[..gaps];
            for (gap, given) in (0..).zip(&mut *given) {
                *given = counter.take().unwrap_or(u64::MAX);
                counter.skip(0);
                // In two calls, which make one gap.
                counter.skip(1);
                counter.skip(gap);
            }
            let end = counter.peek().unwrap_or(0);
            let first_remembered = given.len().checked_sub(8).map_or(0, |at| given[at]);
            for number in first_remembered..end {
                assert_eq!(counter.has_given(number), given.contains(&number), "{gaps} {number}");
            }
            // Earlier numbers count as given out; later ones do not.
            assert!((0..first_remembered).all(|number| counter.has_given(number)));
            assert!(
                ![end, end + 1, MAX_PACKET_NUMBER, u64::MAX].iter().any(|number| counter.has_given(*number))
            );
        }
    }

    #[test]
    fn the_numbers_after_the_last_were_never_given() {
        let mut counter = PacketNumberCounter::new();
        counter.skip(MAX_PACKET_NUMBER);
        assert_eq!(counter.take(), Some(MAX_PACKET_NUMBER));
        counter.skip(u64::MAX);
        assert!(counter.has_given(MAX_PACKET_NUMBER));
        assert!(
            ![0, MAX_PACKET_NUMBER - 1, MAX_PACKET_NUMBER + 1]
                .iter()
                .any(|number| counter.has_given(*number))
        );
    }
}

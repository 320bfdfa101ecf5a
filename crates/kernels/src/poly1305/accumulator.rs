//! Numbers modulo 2^130 - 5, in 64-bit words.

pub(super) const fn word(octets: [u8; 8]) -> u64 {
    u64::from_le_bytes(octets)
}

/// The factor r, and 5/4 of its upper half: multiplied past 2^130, that half, a multiple of four, is worth this.
#[derive(Clone, Copy)]
pub(super) struct R {
    pub(super) low: u64,
    pub(super) high: u64,
    folded: u64,
}

impl R {
    pub(super) const fn clamped(low: u64, high: u64) -> Self {
        let high = high & 0x0fff_fffc_0fff_fffc;
        Self { low: low & 0x0fff_fffc_0fff_ffff, high, folded: high + (high >> 2) }
    }
}

/// The accumulator modulo 2^130 - 5, the least significant word first. The third word is below 8.
#[derive(Clone, Copy)]
pub(super) struct H(pub(super) [u64; 3]);

impl H {
    #[inline]
    pub(super) fn one_by_one(self, blocks: &[[u8; 16]], r: R) -> Self {
        blocks.iter().fold(self, |h, block| h.block(block, 1, r))
    }

    /// Adds a block followed by the octet `end`, and multiplies by r.
    #[inline]
    pub(super) fn block(self, block: &[u8; 16], end: u64, r: R) -> Self {
        let Self([h0, h1, h2]) = self;
        leak!("Poly1305: one block", r.low);
        let block = block.as_chunks().0;
        let sum = wide(h0) + wide(word(block[0]));
        let h0 = low(sum);
        let sum = wide(h1) + wide(word(block[1])) + (sum >> 64);
        let h1 = low(sum);
        let h2 = h2 + end + high(sum);
        Self([h0, h1, h2]).times(r)
    }

    /// Multiplies by r. The third word is below 8.
    #[inline]
    pub(super) fn times(self, r: R) -> Self {
        let Self([h0, h1, h2]) = self;
        // r is below 2^124, so no sum of products overflows.
        let d0 = wide(h0) * wide(r.low) + wide(h1) * wide(r.folded);
        let d1 = wide(h0) * wide(r.high) + wide(h1) * wide(r.low) + wide(h2 * r.folded);
        let d1 = d1 + (d0 >> 64);
        let d2 = h2 * r.low + high(d1);
        Self([low(d0), low(d1), d2]).folded()
    }

    /// Moves the bits from 2^130 on to the low end, times five.
    #[inline]
    pub(super) fn folded(self) -> Self {
        let Self([h0, h1, h2]) = self;
        let sum = wide(h0) + wide((h2 >> 2) + (h2 & !3));
        let next = wide(h1) + (sum >> 64);
        Self([low(sum), low(next), (h2 & 3) + high(next)])
    }

    /// The number fully reduced, plus s, modulo 2^128.
    #[inline]
    pub(super) fn plus(self, s0: u64, s1: u64) -> u128 {
        let Self([h0, h1, h2]) = self.folded();
        leak!("Poly1305: reduction", h0);
        let whole = wide(h0) | wide(h1) << 64;
        // If adding five reaches 2^130, the number was at least 2^130 - 5, and the sum without 2^130 is the reduced number.
        let (five_more, is_carried) = whole.overflowing_add(5);
        let is_reduced = (h2 + u64::from(is_carried)) >> 2;
        let mask = wide(is_reduced).wrapping_neg();
        let smallest = whole & !mask | five_more & mask;
        smallest.wrapping_add(wide(s0) | wide(s1) << 64)
    }
}

pub(super) const fn wide(word: u64) -> u128 {
    word as u128
}

const fn low(sum: u128) -> u64 {
    sum as u64
}

const fn high(sum: u128) -> u64 {
    (sum >> 64) as u64
}

//! One-time Poly1305 (RFC 8439 §2.5), without tables: the first octet costs no more than the others.
//!
//! Blocks go one by one through 64-bit multiplication. Long runs go eight at once where the processor multiplies vectors of 52-bit
//! limbs.

#[cfg(target_arch = "x86_64")]
use crate::cpu::Avx512Ifma;

#[cfg(target_arch = "x86_64")]
mod ifma;
#[cfg(feature = "model")]
pub mod model;

/// The tag, 16 octets, of the slices of `message`, taken as one message. The key is r, which is clamped here, and s.
///
/// Never use a key for two messages: that reveals it.
#[must_use]
pub fn mac(key: &[u8; 32], message: &[&[u8]]) -> [u8; 16] {
    let key = key.as_chunks().0;
    let r = R::clamped(word(key[0]), word(key[1]));
    let mut h = H([0; 3]);
    // The octets of a block that lies in more than one slice.
    let mut left = [0; 16];
    let mut length = 0;
    for mut slice in message.iter().copied() {
        if length != 0 {
            let more = slice.len().min(16 - length);
            left[length..length + more].copy_from_slice(&slice[..more]);
            length += more;
            slice = &slice[more..];
            if length < 16 {
                continue;
            }
            h = h.block(&left, 1, r);
        }
        let (blocks, rest) = slice.as_chunks();
        h = h.blocks(blocks, r);
        length = rest.len();
        left[..length].copy_from_slice(rest);
    }
    if length != 0 {
        left[length] = 1;
        left[length + 1..].fill(0);
        h = h.block(&left, 0, r);
    }
    h.plus(word(key[2]), word(key[3])).to_le_bytes()
}

/// The tag of `texts`, each padded with zeros to whole blocks, and a last block: what the AEAD authenticates (RFC 8439 §2.8).
#[cfg(target_arch = "x86_64")]
pub(crate) fn mac_of_padded(key: &[u8; 32], texts: [&[u8]; 2], end: &[u8; 16]) -> [u8; 16] {
    let key = key.as_chunks().0;
    let r = R::clamped(word(key[0]), word(key[1]));
    let mut h = H([0; 3]);
    for text in texts {
        let (blocks, rest) = text.as_chunks();
        h = h.blocks(blocks, r);
        if !rest.is_empty() {
            let mut padded = [0; 16];
            padded[..rest.len()].copy_from_slice(rest);
            h = h.block(&padded, 1, r);
        }
    }
    h.block(end, 1, r).plus(word(key[2]), word(key[3])).to_le_bytes()
}

const fn word(octets: [u8; 8]) -> u64 {
    u64::from_le_bytes(octets)
}

/// The factor r, and 5/4 of its upper half: beyond 2^130 that half, a multiple of four, counts as so much.
#[derive(Clone, Copy)]
struct R {
    low: u64,
    high: u64,
    folded: u64,
}

impl R {
    const fn clamped(low: u64, high: u64) -> Self {
        let high = high & 0x0fff_fffc_0fff_fffc;
        Self { low: low & 0x0fff_fffc_0fff_ffff, high, folded: high + (high >> 2) }
    }
}

/// The accumulator modulo 2^130 - 5, the least significant word first. The third word is below 8.
#[derive(Clone, Copy)]
struct H([u64; 3]);

impl H {
    #[inline]
    fn blocks(self, blocks: &[[u8; 16]], r: R) -> Self {
        #[cfg(target_arch = "x86_64")]
        if blocks.len() >= MANY
            && let Some(_token) = Avx512Ifma::detect()
        {
            let (eights, rest) = blocks.as_chunks();
            // SAFETY: the token proves the target features.
            let h = unsafe { ifma::blocks(self, eights, r) };
            return h.one_by_one(rest, r);
        }
        self.one_by_one(blocks, r)
    }

    #[inline]
    fn one_by_one(self, blocks: &[[u8; 16]], r: R) -> Self {
        blocks.iter().fold(self, |h, block| h.block(block, 1, r))
    }

    /// Adds a block with the octet `end` behind it, and multiplies by r.
    #[inline]
    fn block(self, block: &[u8; 16], end: u64, r: R) -> Self {
        let Self([h0, h1, h2]) = self;
        let block = block.as_chunks().0;
        let sum = wide(h0) + wide(word(block[0]));
        let h0 = low(sum);
        let sum = wide(h1) + wide(word(block[1])) + (sum >> 64);
        let h1 = low(sum);
        let h2 = h2 + end + high(sum);

        // r is below 2^124, so no sum of products overflows.
        let d0 = wide(h0) * wide(r.low) + wide(h1) * wide(r.folded);
        let d1 = wide(h0) * wide(r.high) + wide(h1) * wide(r.low) + wide(h2 * r.folded);
        let d1 = d1 + (d0 >> 64);
        let d2 = h2 * r.low + high(d1);
        Self([low(d0), low(d1), d2]).folded()
    }

    /// Moves what is at and above 2^130 to the other end, five times.
    #[inline]
    fn folded(self) -> Self {
        let Self([h0, h1, h2]) = self;
        let sum = wide(h0) + wide((h2 >> 2) + (h2 & !3));
        let next = wide(h1) + (sum >> 64);
        Self([low(sum), low(next), (h2 & 3) + high(next)])
    }

    /// The number fully reduced, plus s, modulo 2^128.
    #[inline]
    fn plus(self, s0: u64, s1: u64) -> u128 {
        let Self([h0, h1, h2]) = self.folded();
        let whole = wide(h0) | wide(h1) << 64;
        // If adding five reaches 2^130, the number was not below 2^130 - 5, and the sum without 2^130 is the reduced one.
        let (five_more, is_carried) = whole.overflowing_add(5);
        let is_reduced = (h2 + u64::from(is_carried)) >> 2;
        let mask = wide(is_reduced).wrapping_neg();
        let smallest = whole & !mask | five_more & mask;
        smallest.wrapping_add(wide(s0) | wide(s1) << 64)
    }
}

/// From this many blocks on, vectors make up for computing the powers of r.
#[cfg(target_arch = "x86_64")]
const MANY: usize = 16;

const fn wide(word: u64) -> u128 {
    word as u128
}

const fn low(sum: u128) -> u64 {
    sum as u64
}

const fn high(sum: u128) -> u64 {
    (sum >> 64) as u64
}

//! The end of a message, behind its whole blocks.

#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::*;

use zeroize::optimization_barrier;

#[cfg(target_arch = "x86_64")]
use crate::partial_block::{last_octets, load, padding_bit};

/// Octets of a block of SHA-1 and SHA-256 (FIPS 180-4 §1).
pub(crate) const BLOCK: usize = 64;

/// The part read so far of a block that spans slices; wiped on drop.
pub(super) struct Buffer {
    pub(super) octets: [u8; BLOCK],
    pub(super) length: usize,
}

impl Buffer {
    #[inline]
    pub(super) fn new() -> Self {
        Self { octets: [0; BLOCK], length: 0 }
    }

    /// Takes as many octets of a slice as there is room for, and returns the rest.
    pub(super) fn take<'a>(&mut self, slice: &'a [u8]) -> &'a [u8] {
        let (taken, rest) = slice.split_at(slice.len().min(BLOCK - self.length));
        self.octets[self.length..][..taken.len()].copy_from_slice(taken);
        self.length += taken.len();
        rest
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        self.octets = [0; BLOCK];
        optimization_barrier(&self.octets);
    }
}

/// The last `length` octets of `octets`, fewer than a block, with the bit that ends a message and zeros behind them.
///
/// # Panics
/// If there are fewer.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
pub(super) fn last_block(octets: &[u8], length: usize) -> [__m128i; 4] {
    let zero = _mm_setzero_si128();
    let (parts, rest) = octets[octets.len() - length..].as_chunks();
    let end = _mm_or_si128(last_octets(octets, rest.len()), padding_bit(rest.len()));
    match parts {
        [] => [end, zero, zero, zero],
        [first] => [load(first), end, zero, zero],
        [first, second] => [load(first), load(second), end, zero],
        [first, second, third, ..] => [load(first), load(second), load(third), end],
    }
}

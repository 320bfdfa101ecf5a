//! What is left of a message behind its whole blocks.

use core::arch::x86_64::*;

use zeroize::optimization_barrier;

use crate::cut::{end, load, tail};

/// The octets of a block of SHA-1 and of SHA-256 (FIPS 180-4, section 1).
pub(crate) const BLOCK: usize = 64;

/// Octets of a block that are of more than one slice, wiped on drop.
pub(crate) struct Buffer {
    pub(crate) octets: [u8; BLOCK],
    pub(crate) length: usize,
}

impl Buffer {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { octets: [0; BLOCK], length: 0 }
    }

    /// Takes as many octets of a slice as there is room for, and gives the others back.
    pub(crate) fn take<'a>(&mut self, slice: &'a [u8]) -> &'a [u8] {
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

/// The last `length` octets of `whole`, fewer than a block, with the bit behind them that ends a message, then zeros.
#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
pub(crate) fn last_block(whole: &[u8], length: usize) -> [__m128i; 4] {
    let mut block = [_mm_setzero_si128(); 4];
    let last = &whole[whole.len() - length..];
    let (parts, _) = last.as_chunks();
    for (at, part) in block.iter_mut().enumerate() {
        if let Some(octets) = parts.get(at) {
            *part = load(octets);
        } else if at == length / 16 {
            let octets = if length.is_multiple_of(16) { *part } else { tail(whole, length % 16) };
            *part = _mm_or_si128(octets, end(length % 16));
        }
    }
    block
}

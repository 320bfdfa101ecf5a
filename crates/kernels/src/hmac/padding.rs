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
        let room = self.octets.get_mut(self.length..).unwrap_or_default();
        let (taken, rest) = slice.split_at(slice.len().min(room.len()));
        room[..taken.len()].copy_from_slice(taken);
        self.length += taken.len();
        rest
    }

    /// What has been read.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(super) fn filled(&self) -> &[u8] {
        // `take` fills no more, which the compiler does not know.
        self.octets.get(..self.length).unwrap_or(&self.octets)
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        self.octets = [0; BLOCK];
        optimization_barrier(&self.octets);
    }
}

/// What is behind the whole blocks of `octets`, with the bit that ends a message and zeros behind it.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
pub(super) fn last_block(octets: &[u8]) -> [__m128i; 4] {
    let zero = _mm_setzero_si128();
    let (parts, rest) = octets.as_chunks::<BLOCK>().1.as_chunks();
    let end = _mm_or_si128(last_octets(octets, rest.len()), padding_bit(rest.len()));
    match parts {
        [] => [end, zero, zero, zero],
        [first] => [load(first), end, zero, zero],
        [first, second] => [load(first), load(second), end, zero],
        [first, second, third, ..] => [load(first), load(second), load(third), end],
    }
}

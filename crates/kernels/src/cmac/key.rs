//! The key. Having one proves that the processor has AES-NI.

use core::arch::x86_64::*;
use core::fmt;

use zeroize::ZeroizeOnDrop;

use crate::cpu::{AesNi, InstructionSet};
use crate::partial_block::{last_octets, load, padding_bit};

/// A key for AES-128-CMAC with its round keys: 192 octets, wiped on drop.
#[derive(ZeroizeOnDrop)]
pub struct Key {
    pub(super) round_keys: [__m128i; 11],
    /// The subkey K1 (RFC 4493 §2.3). Doubled, it is K2.
    pub(super) k1: __m128i,
}

impl Key {
    /// Expands a key, or returns `None` if the processor lacks [`InstructionSet::AesNi`].
    #[must_use]
    pub fn new(key: &[u8; 16]) -> Option<Self> {
        AesNi::detect()?;
        // SAFETY: the processor has AES-NI.
        Some(unsafe { Self::expand(key) })
    }

    /// The instructions that compute one message at a time.
    #[must_use]
    pub fn path(&self) -> InstructionSet {
        InstructionSet::AesNi
    }

    #[target_feature(enable = "aes,sse4.1,ssse3")]
    fn expand(key: &[u8; 16]) -> Self {
        let round_keys = round_keys(load(key));
        leak!("CMAC: key", round_keys);
        let mut l = round_keys[0];
        for round_key in &round_keys[1..10] {
            l = _mm_aesenc_si128(l, *round_key);
        }
        let k1 = double(_mm_aesenclast_si128(l, round_keys[10]));
        Self { round_keys, k1 }
    }

    /// The last block of a message, padded if it is not whole, with the subkey added (RFC 4493 §2.4). `slice` holds its octets, at
    /// least one unless the message is empty.
    #[inline]
    #[target_feature(enable = "aes,sse4.1,ssse3")]
    pub(super) fn last_block(&self, slice: &[u8]) -> __m128i {
        let length = slice.len() - slice.len().saturating_sub(1) / 16 * 16;
        leak!("CMAC: last block of one of many", self.k1);
        let subkey = match length {
            16 => self.k1,
            _ => _mm_xor_si128(double(self.k1), padding_bit(length)),
        };
        _mm_xor_si128(last_octets(slice, length), subkey)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

/// KEYEXPANSION of a key of 16 octets (FIPS 197 §5.2).
#[target_feature(enable = "aes,sse2")]
fn round_keys(key: __m128i) -> [__m128i; 11] {
    let mut keys = [key; 11];
    macro_rules! expand {
        ($($round:literal $constant:literal)*) => {$({
            let previous = keys[$round - 1];
            // Each word is the sum of the words before it and of the last word as AESKEYGENASSIST changes it.
            let mut sum = _mm_xor_si128(previous, _mm_slli_si128::<4>(previous));
            sum = _mm_xor_si128(sum, _mm_slli_si128::<8>(sum));
            let assist = _mm_shuffle_epi32::<0xff>(_mm_aeskeygenassist_si128::<$constant>(previous));
            keys[$round] = _mm_xor_si128(sum, assist);
        })*};
    }
    expand!(1 0x01  2 0x02  3 0x04  4 0x08  5 0x10  6 0x20  7 0x40  8 0x80  9 0x1b  10 0x36);
    keys
}

/// Doubles in GF(2^128) (RFC 4493 §2.3), without a branch on the secret top bit.
#[inline]
#[target_feature(enable = "sse2,ssse3")]
pub(super) fn double(v: __m128i) -> __m128i {
    let reverse = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let number = _mm_shuffle_epi8(v, reverse);
    // The carries: from the top bit of each half into the lowest bit of the other, reduced at the top.
    let tops = _mm_shuffle_epi32::<0b00_01_00_11>(_mm_srai_epi32::<31>(number));
    let carries = _mm_and_si128(tops, _mm_set_epi32(0, 1, 0, 0x87));
    _mm_shuffle_epi8(_mm_xor_si128(_mm_add_epi64(number, number), carries), reverse)
}

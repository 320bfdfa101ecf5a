//! The key, which proves that the processor has AES-NI.

use core::arch::x86_64::*;
use core::fmt;

use zeroize::ZeroizeOnDrop;

use super::{chain, lanes, same};
use crate::cpu::{AesNi, Vaes512};
use crate::cut::load;
use crate::shape;
use crate::worth::{Cost, octets};

/// A key for AES-128-CMAC, expanded: 192 octets, wiped on drop.
#[derive(ZeroizeOnDrop)]
pub struct Key {
    pub(super) round_keys: [__m128i; 11],
    /// The subkey K1 (RFC 4493, section 2.3), from which K2 follows by one doubling.
    pub(super) k1: __m128i,
}

impl Key {
    /// The key where this processor has [`Path::AesNi`](crate::cpu::Path::AesNi), `None` elsewhere.
    #[must_use]
    pub fn new(key: &[u8; 16]) -> Option<Self> {
        AesNi::detect()?;
        // SAFETY: the processor has AES-NI.
        Some(unsafe { Self::expand(key) })
    }

    #[target_feature(enable = "aes,sse4.1,ssse3")]
    fn expand(key: &[u8; 16]) -> Self {
        let round_keys = round_keys(load(key));
        let mut l = round_keys[0];
        for round_key in &round_keys[1..10] {
            l = _mm_aesenc_si128(l, *round_key);
        }
        let k1 = double(_mm_aesenclast_si128(l, round_keys[10]));
        Self { round_keys, k1 }
    }

    /// The MAC of the slices of `message` in order, as of their concatenation.
    #[inline]
    #[must_use]
    pub fn mac(&self, message: &[&[u8]]) -> [u8; 16] {
        // SAFETY: a key is made only where the processor has AES-NI.
        unsafe { chain::mac(self, message) }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

/// Lanes in vectors, where the processor begins the next message before the last one has ended anyway.
const BY_VAES512: Cost = Cost { once: 88, block: 3 };
/// Eight lanes of one block each, twice.
const BY_AES_NI: Cost = Cost { once: 138, block: 5 };

/// Computes the MACs of many messages, each under its own key, as many side by side as the processor can.
///
/// A job is its number, which `done` is told with the MAC, in any order.
pub fn mac_many<'a>(
    jobs: impl Iterator<Item = (usize, &'a Key, &'a [&'a [u8]])> + Clone,
    mut done: impl FnMut(usize, &[u8; 16]),
) {
    let mut jobs = jobs;
    if Vaes512::detect().is_some() {
        while let Some(group) = shape::group(&mut jobs, 16) {
            // SAFETY: the token proves the path.
            unsafe { same::by_vaes512(&group, &mut done) };
        }
    }
    if AesNi::detect().is_some() {
        while let Some(group) = shape::group(&mut jobs, 16) {
            // SAFETY: the token proves the path.
            unsafe { same::by_aes_ni(&group, &mut done) };
        }
    }
    if jobs.clone().next().is_none() {
        return;
    }
    let blocks = jobs.clone().map(|(.., message)| octets(message) / 16 + 1);
    if Vaes512::detect().is_some() && BY_VAES512.is_worth(blocks.clone()) {
        // SAFETY: the token proves the path.
        unsafe { lanes::by_vaes512(jobs, done) }
    } else if AesNi::detect().is_some() && BY_AES_NI.is_worth(blocks) {
        // SAFETY: the token proves the path.
        unsafe { lanes::by_aes_ni(jobs, done) }
    } else {
        for (number, key, message) in jobs {
            done(number, &key.mac(message));
        }
    }
}

/// KEYEXPANSION of a key of 16 octets (FIPS 197, section 5.2).
#[target_feature(enable = "aes,sse2")]
fn round_keys(key: __m128i) -> [__m128i; 11] {
    let mut keys = [key; 11];
    macro_rules! expand {
        ($($round:literal $constant:literal)*) => {$({
            let previous = keys[$round - 1];
            // Each word is the sum of those before it, and of the last one as AESKEYGENASSIST changes it.
            let mut sum = _mm_xor_si128(previous, _mm_slli_si128::<4>(previous));
            sum = _mm_xor_si128(sum, _mm_slli_si128::<8>(sum));
            let assist = _mm_shuffle_epi32::<0xff>(_mm_aeskeygenassist_si128::<$constant>(previous));
            keys[$round] = _mm_xor_si128(sum, assist);
        })*};
    }
    expand!(1 0x01  2 0x02  3 0x04  4 0x08  5 0x10  6 0x20  7 0x40  8 0x80  9 0x1b  10 0x36);
    keys
}

/// Doubling in GF(2^128) (RFC 4493, section 2.3), without a branch on the secret top bit.
#[inline]
#[target_feature(enable = "sse2,ssse3")]
pub(super) fn double(v: __m128i) -> __m128i {
    let reverse = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let number = _mm_shuffle_epi8(v, reverse);
    // The top bit of the upper half where the lower one begins, that of the lower half where the upper one begins.
    let tops = _mm_shuffle_epi32::<0b00_01_00_11>(_mm_srai_epi32::<31>(number));
    let carries = _mm_and_si128(tops, _mm_set_epi32(0, 1, 0, 0x87));
    _mm_shuffle_epi8(_mm_xor_si128(_mm_add_epi64(number, number), carries), reverse)
}

//! SHA-1 by SHA-NI.

use core::arch::x86_64::*;

use super::Sha1;
use crate::hmac::one::{Block, ShaNiHash};

/// A chaining value: the words a, b, c and d with a in the highest place, and e in the highest place.
#[derive(Clone, Copy)]
pub(crate) struct State {
    abcd: __m128i,
    e: __m128i,
}

/// The first word of a block is in the highest place.
impl ShaNiHash<5> for Sha1 {
    type State = State;

    #[inline]
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    unsafe fn state(words: &[u32; 5]) -> State {
        // SAFETY: there are 16 octets, and they need no alignment.
        let abcd = unsafe { _mm_loadu_si128(words.as_ptr().cast()) };
        State { abcd: _mm_shuffle_epi32::<0b00_01_10_11>(abcd), e: _mm_set_epi32(words[4] as i32, 0, 0, 0) }
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    unsafe fn big_endian(octets: __m128i) -> __m128i {
        big_endian(octets)
    }

    #[inline]
    #[target_feature(enable = "sse4.1")]
    unsafe fn with_length(part: __m128i, octets: u64) -> __m128i {
        with_length(part, octets)
    }

    // FIPS 180-4 §6.1.2.
    #[inline]
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    unsafe fn compress(mut state: State, mut w: Block) -> State {
        let before = state;
        macro_rules! rounds {
            ($($at:literal)*) => {$(
                {
                    if $at >= 4 {
                        let sum = _mm_xor_si128(_mm_sha1msg1_epu32(w[$at % 4], w[($at + 1) % 4]), w[($at + 2) % 4]);
                        w[$at % 4] = _mm_sha1msg2_epu32(sum, w[($at + 3) % 4]);
                    }
                    // From the second time on, e is the word a of four rounds before, which the instruction rotates.
                    let e = if $at == 0 {
                        _mm_add_epi32(state.e, w[0])
                    } else {
                        _mm_sha1nexte_epu32(state.e, w[$at % 4])
                    };
                    state.e = state.abcd;
                    state.abcd = _mm_sha1rnds4_epu32::<{ $at / 5 }>(state.abcd, e);
                }
            )*};
        }
        rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19);
        State { abcd: _mm_add_epi32(state.abcd, before.abcd), e: _mm_sha1nexte_epu32(state.e, before.e) }
    }

    #[inline]
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    unsafe fn outer_block(inner: State) -> Block {
        let zero = _mm_setzero_si128();
        let e = _mm_insert_epi32::<2>(inner.e, i32::MIN);
        [inner.abcd, e, zero, with_length(zero, 64 + 20)]
    }

    #[inline]
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    unsafe fn mac(outer: State) -> [u8; 20] {
        let mut octets = [0; 20];
        let e = _mm_extract_epi32::<3>(outer.e) as u32;
        octets[16..].copy_from_slice(&e.to_be_bytes());
        // SAFETY: there are 16 octets, and they need no alignment.
        unsafe { _mm_storeu_si128(octets.as_mut_ptr().cast(), big_endian(outer.abcd)) };
        octets
    }
}

#[inline]
#[target_feature(enable = "ssse3")]
fn big_endian(octets: __m128i) -> __m128i {
    _mm_shuffle_epi8(octets, _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn with_length(part: __m128i, octets: u64) -> __m128i {
    let part = _mm_insert_epi32::<1>(part, (octets >> 29) as i32);
    _mm_insert_epi32::<0>(part, (octets << 3) as i32)
}

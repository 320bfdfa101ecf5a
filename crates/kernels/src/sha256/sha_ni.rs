//! SHA-256 by SHA-NI.

use core::arch::x86_64::*;

use super::{K, Sha256};
use crate::cpu::ShaNi;
use crate::groups::Job;
use crate::hmac::one::{BLOCK, Block, OneMessageHash, words_of};
use crate::hmac::pairs::{self, PairHash};

/// A chaining value: the words a, b, e and f with a in the highest place, and c, d, g and h with c in the highest place.
#[derive(Clone, Copy)]
pub(crate) struct State {
    abef: __m128i,
    cdgh: __m128i,
}

impl OneMessageHash<ShaNi, 8> for Sha256 {
    const ORDER: [u8; 16] = [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12];

    type State = State;

    #[inline]
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    unsafe fn state(words: &[u32; 8]) -> State {
        // SAFETY: there are 32 octets, and they need no alignment.
        let (low, high) = unsafe {
            let words: *const __m128i = words.as_ptr().cast();
            (_mm_loadu_si128(words), _mm_loadu_si128(words.add(1)))
        };
        let low = _mm_shuffle_epi32::<0b10_11_00_01>(low);
        let high = _mm_shuffle_epi32::<0b00_01_10_11>(high);
        State { abef: _mm_alignr_epi8::<8>(low, high), cdgh: _mm_blend_epi16::<0xf0>(high, low) }
    }

    type Memory = ();

    #[inline]
    unsafe fn memory() {}

    #[inline]
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    unsafe fn compress(state: &mut State, _: &mut (), block: Block) {
        compress(core::array::from_mut(state), [block]);
    }

    #[inline]
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    unsafe fn compress_all(state: &mut State, _: &mut (), blocks: &[[u8; BLOCK]]) {
        for octets in blocks {
            compress(core::array::from_mut(state), [words_of::<Self, ShaNi, 8>(octets)]);
        }
    }

    #[inline]
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    unsafe fn words(state: State) -> [__m128i; 2] {
        let abef = _mm_shuffle_epi32::<0b00_01_10_11>(state.abef);
        let cdgh = _mm_shuffle_epi32::<0b10_11_00_01>(state.cdgh);
        [_mm_blend_epi16::<0xf0>(abef, cdgh), _mm_alignr_epi8::<8>(cdgh, abef)]
    }
}

impl PairHash<8, 32> for Sha256 {
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    unsafe fn hmac_pair(pair: &[Job<'_, [&[u32; 8]; 2]>; 2], macs: &mut [[u8; 32]; 2]) {
        pairs::hmacs::<Sha256, 8, 32>(pair, macs);
    }

    #[inline]
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    unsafe fn compress_pair(states: &mut [State; 2], blocks: [Block; 2]) {
        compress(states, blocks);
    }
}

/// Takes a block of each message into its chaining value, four rounds of all messages and then the next four (FIPS 180-4 §6.2.2).
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn compress<const MESSAGES: usize>(states: &mut [State; MESSAGES], mut blocks: [Block; MESSAGES]) {
    let before = *states;
    leak!("HMAC-SHA-256: one block", states[0].abef);
    // SAFETY: there are 16 times four words, and they need no alignment.
    let constant = |at: usize| unsafe { _mm_loadu_si128(K.as_ptr().cast::<__m128i>().add(at)) };
    macro_rules! rounds {
        ($($at:literal)*) => {$(
            for (state, w) in states.iter_mut().zip(&mut blocks) {
                if $at >= 4 {
                    let (last, middle) = (w[($at + 3) % 4], w[($at + 2) % 4]);
                    let sum = _mm_sha256msg1_epu32(w[$at % 4], w[($at + 1) % 4]);
                    let sum = _mm_add_epi32(sum, _mm_alignr_epi8::<4>(last, middle));
                    w[$at % 4] = _mm_sha256msg2_epu32(sum, last);
                }
                let sum = _mm_add_epi32(w[$at % 4], constant($at));
                state.cdgh = _mm_sha256rnds2_epu32(state.cdgh, state.abef, sum);
                state.abef = _mm_sha256rnds2_epu32(state.abef, state.cdgh, _mm_unpackhi_epi64(sum, sum));
            }
        )*};
    }
    rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    for (state, before) in states.iter_mut().zip(before) {
        state.abef = _mm_add_epi32(state.abef, before.abef);
        state.cdgh = _mm_add_epi32(state.cdgh, before.cdgh);
    }
}

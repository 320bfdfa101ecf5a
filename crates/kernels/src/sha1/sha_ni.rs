//! SHA-1 by SHA-NI.

use core::arch::x86_64::*;

use super::Sha1;
use crate::cpu::ShaNi;
use crate::groups::Job;
use crate::hmac::one::{BLOCK, Block, OneMessageHash, words_of};
use crate::hmac::pairs::{self, PairHash};

/// A chaining value: the words a, b, c and d with a in the highest place, and e in the highest place.
#[derive(Clone, Copy)]
pub(crate) struct State {
    abcd: __m128i,
    e: __m128i,
}

impl OneMessageHash<ShaNi, 5> for Sha1 {
    const ORDER: [u8; 16] = [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0];

    type State = State;

    #[inline]
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    unsafe fn state(words: &[u32; 5]) -> State {
        // SAFETY: there are 16 octets, and they need no alignment.
        let abcd = unsafe { _mm_loadu_si128(words.as_ptr().cast()) };
        State { abcd: _mm_shuffle_epi32::<0b00_01_10_11>(abcd), e: _mm_set_epi32(words[4] as i32, 0, 0, 0) }
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
            compress(core::array::from_mut(state), [words_of::<Self, ShaNi, 5>(octets)]);
        }
    }

    #[inline]
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    unsafe fn words(state: State) -> [__m128i; 2] {
        [state.abcd, state.e]
    }
}

impl PairHash<5, 20> for Sha1 {
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    unsafe fn hmac_pair(pair: &[Job<'_, [&[u32; 5]; 2]>; 2], macs: &mut [[u8; 20]; 2]) {
        pairs::hmacs::<Sha1, 5, 20>(pair, macs);
    }

    #[inline]
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    unsafe fn compress_pair(states: &mut [State; 2], blocks: [Block; 2]) {
        compress(states, blocks);
    }
}

/// Takes a block of each message into its chaining value, four rounds of all messages and then the next four (FIPS 180-4 §6.1.2).
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn compress<const MESSAGES: usize>(states: &mut [State; MESSAGES], mut blocks: [Block; MESSAGES]) {
    let before = *states;
    leak!("HMAC-SHA-1: one block", states[0].abcd);
    macro_rules! rounds {
        ($($at:literal)*) => {$(
            for (state, w) in states.iter_mut().zip(&mut blocks) {
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
    for (state, before) in states.iter_mut().zip(before) {
        state.abcd = _mm_add_epi32(state.abcd, before.abcd);
        state.e = _mm_sha1nexte_epu32(state.e, before.e);
    }
}

//! SHA-1 by the SHA instructions of AArch64.

use core::arch::aarch64::*;

use super::Sha1;
use crate::hmac::aarch64::{Aarch64Hash, Block, block};

/// A chaining value: the words a, b, c and d, and e, with zeros behind it.
#[derive(Clone, Copy)]
pub(crate) struct State {
    abcd: uint32x4_t,
    e: uint32x4_t,
}

impl Aarch64Hash<5> for Sha1 {
    type State = State;

    #[inline]
    #[target_feature(enable = "neon,sha2")]
    unsafe fn state(words: &[u32; 5]) -> State {
        // SAFETY: there are 16 octets.
        let abcd = unsafe { vld1q_u32(words.as_ptr()) };
        State { abcd, e: alone(words[4]) }
    }

    // FIPS 180-4 §6.1.2.
    #[inline]
    #[target_feature(enable = "neon,sha2")]
    unsafe fn compress<const N: usize>(states: &mut [State; N], mut blocks: [Block; N]) {
        let before = *states;
        leak!("HMAC-SHA-1: one block", before);
        macro_rules! rounds {
            ($rounds:ident $constant:literal: $($at:literal)*) => {$(
                for (state, w) in states.iter_mut().zip(&mut blocks) {
                    if $at >= 4 {
                        let sum = vsha1su0q_u32(w[$at % 4], w[($at + 1) % 4], w[($at + 2) % 4]);
                        w[$at % 4] = vsha1su1q_u32(sum, w[($at + 3) % 4]);
                    }
                    let sum = vaddq_u32(w[$at % 4], vdupq_n_u32($constant));
                    // The next e is the word a of now, rotated.
                    let e = vsha1h_u32(vgetq_lane_u32::<0>(state.abcd));
                    state.abcd = $rounds(state.abcd, vgetq_lane_u32::<0>(state.e), sum);
                    state.e = alone(e);
                }
            )*};
        }
        rounds!(vsha1cq_u32 0x5a827999: 0 1 2 3 4);
        rounds!(vsha1pq_u32 0x6ed9eba1: 5 6 7 8 9);
        rounds!(vsha1mq_u32 0x8f1bbcdc: 10 11 12 13 14);
        rounds!(vsha1pq_u32 0xca62c1d6: 15 16 17 18 19);
        for (state, before) in states.iter_mut().zip(before) {
            state.abcd = vaddq_u32(state.abcd, before.abcd);
            state.e = vaddq_u32(state.e, before.e);
        }
    }

    #[inline(never)]
    #[target_feature(enable = "neon,sha2")]
    unsafe fn compress_two(states: &mut [State; 2], [first, second]: [&[[u8; 64]]; 2]) {
        for (first, second) in first.iter().zip(second) {
            // SAFETY: this function is compiled for the same instructions.
            unsafe { Self::compress(states, [block(first), block(second)]) };
        }
    }

    #[inline]
    #[target_feature(enable = "neon,sha2")]
    unsafe fn words(state: State) -> [uint32x4_t; 2] {
        [state.abcd, state.e]
    }
}

/// A vector of this word and zeros.
#[inline]
#[target_feature(enable = "neon")]
fn alone(word: u32) -> uint32x4_t {
    vsetq_lane_u32::<0>(word, vdupq_n_u32(0))
}

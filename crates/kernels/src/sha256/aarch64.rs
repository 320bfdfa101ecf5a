//! SHA-256 by the SHA instructions of AArch64.

use core::arch::aarch64::*;
use core::arch::asm;

use super::{K, Sha256};
use crate::hmac::aarch64::{Aarch64Hash, Block, block};

/// A chaining value: the words a to d, and e to h.
#[derive(Clone, Copy)]
pub(crate) struct State {
    abcd: uint32x4_t,
    efgh: uint32x4_t,
}

impl Aarch64Hash<8> for Sha256 {
    type State = State;

    #[inline]
    #[target_feature(enable = "neon,sha2")]
    unsafe fn state(words: &[u32; 8]) -> State {
        // SAFETY: there are twice 16 octets.
        unsafe { State { abcd: vld1q_u32(words.as_ptr()), efgh: vld1q_u32(words.as_ptr().add(4)) } }
    }

    // FIPS 180-4 §6.2.2.
    #[inline]
    #[target_feature(enable = "neon,sha2")]
    unsafe fn compress<const N: usize>(states: &mut [State; N], mut blocks: [Block; N]) {
        let before = *states;
        leak!("HMAC-SHA-256: one block", before);
        macro_rules! rounds {
            ($($at:literal)*) => {$(
                // SAFETY: there are 16 times four words.
                let constants = unsafe { vld1q_u32(K.as_ptr().add(4 * $at)) };
                for (State { abcd, efgh }, w) in states.iter_mut().zip(&mut blocks) {
                    if $at >= 4 {
                        let sum = vsha256su0q_u32(w[$at % 4], w[($at + 1) % 4]);
                        w[$at % 4] = vsha256su1q_u32(sum, w[($at + 2) % 4], w[($at + 3) % 4]);
                    }
                    let sum = vaddq_u32(w[$at % 4], constants);
                    let copy = copy(*abcd);
                    *abcd = vsha256hq_u32(*abcd, *efgh, sum);
                    *efgh = vsha256h2q_u32(*efgh, copy, sum);
                }
            )*};
        }
        rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        for (state, before) in states.iter_mut().zip(before) {
            state.abcd = vaddq_u32(state.abcd, before.abcd);
            state.efgh = vaddq_u32(state.efgh, before.efgh);
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
        [state.abcd, state.efgh]
    }
}

/// The same value in a register of its own. SHA256H overwrites its first operand, which SHA256H2 needs too. The compiler would give
/// the copy to SHA256H, and so put it on the way from round to round: 98 cycles for a block instead of 83 in llvm-mca's model of
/// Neoverse N1.
#[inline]
#[target_feature(enable = "neon")]
fn copy(mut v: uint32x4_t) -> uint32x4_t {
    // SAFETY: the assembly is empty.
    unsafe { asm!("/* {0:v} */", inout(vreg) v, options(pure, nomem, nostack, preserves_flags)) };
    v
}

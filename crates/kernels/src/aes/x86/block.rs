//! A block in a register.

use core::arch::x86_64::*;

use crate::aes::instructions::instructions;

#[derive(Clone, Copy)]
pub(crate) struct V128(pub(super) __m128i);

/// Unsafe to call as the functions of [`Vector`] are.
impl V128 {
    instructions! {
        "aes,pclmulqdq,ssse3,sse4.1":
        /// The block with these halves, the first octets in `low`.
        pub(crate) fn of(low: u64, high: u64) -> Self = Self(_mm_set_epi64x(high as i64, low as i64));
        /// The octets at `places`; zero where the place is not below 16.
        pub(crate) fn shuffled(v: Self, places: Self) -> Self = Self(_mm_shuffle_epi8(v.0, places.0));
        /// Whether all bits are zeros, without a branch.
        pub(crate) fn is_zero(v: Self) -> bool = _mm_testz_si128(v.0, v.0) == 1;
    }
}

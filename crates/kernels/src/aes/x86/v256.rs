//! Two blocks: VAES and VPCLMULQDQ with AVX2.

use core::arch::asm;
use core::arch::x86_64::*;

use super::block::V128;
use crate::aes::instructions::instructions;
use crate::aes::vector::{Vector, load_part, ones, store_part};

#[derive(Clone, Copy)]
pub(crate) struct V256(__m256i);

/// The octets `from..to` of two blocks.
#[derive(Clone, Copy)]
pub(crate) struct Edge {
    /// How many there are in the first and in the second.
    counts: [usize; 2],
    is_long: bool,
    octets: __m256i,
}

impl Vector for V256 {
    const BLOCKS: usize = 2;
    const GROUP: usize = 8;
    const KARATSUBA: bool = false;

    type Edge = Edge;

    instructions! {
        "aes,pclmulqdq,avx2,vaes,vpclmulqdq":
        fn zero() -> Self = Self(_mm256_setzero_si256());
        fn load(from: *const u8) -> Self = Self(_mm256_loadu_si256(from.cast()));
        fn store(to: *mut u8, v: Self) = _mm256_storeu_si256(to.cast(), v.0);
        fn load_every(from: *const u8) -> Self = Self::every(V128::load(from));
        fn every(block: V128) -> Self = Self(_mm256_broadcastsi128_si256(block.0));
        fn first(block: V128) -> Self = Self(_mm256_zextsi128_si256(block.0));
        fn to_first(v: Self) -> V128 = V128(_mm256_castsi256_si128(v.0));
        fn second_and_third(registers: [Self; 3]) -> [V128; 2] = {
            [V128(_mm256_extracti128_si256::<1>(registers[0].0)), Self::to_first(registers[1])]
        };
        fn sum(v: Self) -> V128 = V128(_mm_xor_si128(_mm256_castsi256_si128(v.0), _mm256_extracti128_si256::<1>(v.0)));
        fn count(number: u32) -> Self = {
            Self::every(V128::count(number))
        };
        fn with_last(v: Self, next: Self) -> Self = Self(_mm256_blend_epi32::<0xf0>(v.0, next.0));

        fn xor(a: Self, b: Self) -> Self = Self(_mm256_xor_si256(a.0, b.0));
        fn xor3(a: Self, b: Self, c: Self) -> Self = Self::xor(Self::xor(a, b), c);
        fn opaque(v: Self) -> Self = {
            let mut v = v.0;
            asm!("/* {} */", inout(ymm_reg) v, options(pure, nomem, nostack, preserves_flags));
            Self(v)
        };
        fn tied(v: Self) -> Self = v;
        fn swap_octets(v: Self) -> Self = {
            let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
            Self(_mm256_shuffle_epi8(v.0, _mm256_broadcastsi128_si256(order)))
        };
        fn swap_halves(v: Self) -> Self = Self(_mm256_shuffle_epi32::<0x4e>(v.0));

        fn aes(state: Self, key: Self) -> Self = Self(_mm256_aesenc_epi128(state.0, key.0));
        fn aes_last(state: Self, key: Self) -> Self = Self(_mm256_aesenclast_epi128(state.0, key.0));

        fn low(a: Self, b: Self) -> Self = Self(_mm256_clmulepi64_epi128::<0x00>(a.0, b.0));
        fn high(a: Self, b: Self) -> Self = Self(_mm256_clmulepi64_epi128::<0x11>(a.0, b.0));
        fn low_high(a: Self, b: Self) -> Self = Self(_mm256_clmulepi64_epi128::<0x10>(a.0, b.0));
        fn high_low(a: Self, b: Self) -> Self = Self(_mm256_clmulepi64_epi128::<0x01>(a.0, b.0));

        fn edge(from: usize, to: usize, is_long: bool) -> Edge = {
            let end = _mm256_loadu_si256(ones(to).cast());
            let start = _mm256_loadu_si256(ones(from).cast());
            let counts = [to.min(16).saturating_sub(from), to.saturating_sub(16)];
            Edge { counts, is_long, octets: _mm256_andnot_si256(start, end) }
        };
        fn load_edge(from: *const u8, edge: Edge) -> Self = match edge.counts {
            [16, 16] => Self::load(from),
            [first, second] => {
                let first = _mm256_zextsi128_si256(load_part(from, first, edge.is_long).0);
                let second = load_part(from.wrapping_add(16), second, edge.is_long).0;
                Self(_mm256_inserti128_si256::<1>(first, second))
            }
        };
        fn store_edge(to: *mut u8, v: Self, edge: Edge) = match edge.counts {
            [16, 16] => Self::store(to, v),
            [first, second] => {
                store_part(to, V128(_mm256_castsi256_si128(v.0)), first, edge.is_long);
                let upper = V128(_mm256_extracti128_si256::<1>(v.0));
                store_part(to.wrapping_add(16), upper, second, edge.is_long);
            }
        };
        fn keep(v: Self, edge: Edge) -> Self = Self(_mm256_and_si256(v.0, edge.octets));
    }
}

//! Two blocks: VAES and VPCLMULQDQ with AVX2.

use core::arch::asm;
use core::arch::x86_64::*;

use super::V128;
use crate::aes::vector::{Vector, instructions, slide};

#[derive(Clone, Copy)]
pub(crate) struct V256(__m256i);

/// The octets `from..to` of two blocks.
#[derive(Clone, Copy)]
pub(crate) struct Edge {
    /// Whether there are any in the first and in the second.
    blocks: [bool; 2],
    octets: __m256i,
}

instructions! {
    "aes,pclmulqdq,avx2,vaes,vpclmulqdq":
    /// The blocks that an edge has octets in.
    fn load_blocks(from: *const u8, blocks: [bool; 2]) -> __m256i = match blocks {
        [true, true] => _mm256_loadu_si256(from.cast()),
        [true, false] => _mm256_zextsi128_si256(_mm_loadu_si128(from.cast())),
        [false, true] => {
            let second = _mm_loadu_si128(from.wrapping_add(16).cast());
            _mm256_inserti128_si256::<1>(_mm256_setzero_si256(), second)
        }
        [false, false] => _mm256_setzero_si256(),
    };
}

impl Vector for V256 {
    const BLOCKS: usize = 2;

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
        fn settled(v: Self) -> Self = {
            let mut v = v.0;
            asm!("/* {} */", inout(ymm_reg) v, options(pure, nomem, nostack, preserves_flags));
            Self(v)
        };
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

        fn edge(from: usize, to: usize) -> Edge = {
            let end = _mm256_loadu_si256(slide(to).cast());
            let start = _mm256_loadu_si256(slide(from).cast());
            Edge { blocks: [from == 0 && to > 0, to > 16], octets: _mm256_andnot_si256(start, end) }
        };
        fn load_edge(from: *const u8, edge: Edge) -> Self = {
            Self::keep(Self(load_blocks(from, edge.blocks)), edge)
        };
        fn store_edge(to: *mut u8, v: Self, edge: Edge) = {
            let beyond = _mm256_andnot_si256(edge.octets, load_blocks(to, edge.blocks));
            let blocks = _mm256_or_si256(beyond, Self::keep(v, edge).0);
            match edge.blocks {
                [true, true] => Self::store(to, Self(blocks)),
                [true, false] => _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(blocks)),
                [false, true] => {
                    _mm_storeu_si128(to.wrapping_add(16).cast(), _mm256_extracti128_si256::<1>(blocks));
                }
                [false, false] => {}
            }
        };
        fn keep(v: Self, edge: Edge) -> Self = Self(_mm256_and_si256(v.0, edge.octets));
    }
}

//! One block: AES-NI and PCLMULQDQ with SSSE3 and SSE4.1.

use core::arch::asm;
use core::arch::x86_64::*;

use super::block::V128;
use crate::aes::instructions::instructions;
use crate::aes::vector::{Vector, load_part, ones, store_part};

/// The octets `from..to` of a block.
#[derive(Clone, Copy)]
pub(crate) struct Edge {
    count: usize,
    is_long: bool,
    octets: __m128i,
}

impl Vector for V128 {
    const BLOCKS: usize = 1;
    const GROUP: usize = 8;
    const KARATSUBA: bool = true;

    type Edge = Edge;

    instructions! {
        "aes,pclmulqdq,ssse3,sse4.1":
        fn zero() -> Self = Self(_mm_setzero_si128());
        fn load(from: *const u8) -> Self = Self(_mm_loadu_si128(from.cast()));
        fn store(to: *mut u8, v: Self) = _mm_storeu_si128(to.cast(), v.0);
        fn load_every(from: *const u8) -> Self = Self::load(from);
        fn every(block: V128) -> Self = block;
        fn first(block: V128) -> Self = block;
        fn to_first(v: Self) -> V128 = v;
        fn second_and_third(registers: [Self; 3]) -> [V128; 2] = [registers[1], registers[2]];
        fn sum(v: Self) -> V128 = v;
        fn count(number: u32) -> Self = Self(_mm_insert_epi32::<3>(_mm_setzero_si128(), number.swap_bytes() as i32));
        fn with_last(_v: Self, next: Self) -> Self = next;

        fn xor(a: Self, b: Self) -> Self = Self(_mm_xor_si128(a.0, b.0));
        fn xor3(a: Self, b: Self, c: Self) -> Self = Self::xor(Self::xor(a, b), c);
        fn opaque(v: Self) -> Self = {
            let mut v = v.0;
            asm!("/* {} */", inout(xmm_reg) v, options(pure, nomem, nostack, preserves_flags));
            Self(v)
        };
        fn tied(v: Self) -> Self = {
            let mut v = v.0;
            asm!("/* {} */", inout(xmm_reg) v, options(nomem, nostack, preserves_flags));
            Self(v)
        };
        fn swap_octets(v: Self) -> Self = {
            Self(_mm_shuffle_epi8(v.0, _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f)))
        };
        fn swap_halves(v: Self) -> Self = Self(_mm_shuffle_epi32::<0x4e>(v.0));

        fn aes(state: Self, key: Self) -> Self = Self(_mm_aesenc_si128(state.0, key.0));
        fn aes_last(state: Self, key: Self) -> Self = Self(_mm_aesenclast_si128(state.0, key.0));

        fn low(a: Self, b: Self) -> Self = Self(_mm_clmulepi64_si128::<0x00>(a.0, b.0));
        fn high(a: Self, b: Self) -> Self = Self(_mm_clmulepi64_si128::<0x11>(a.0, b.0));
        fn low_high(a: Self, b: Self) -> Self = Self(_mm_clmulepi64_si128::<0x10>(a.0, b.0));
        fn high_low(a: Self, b: Self) -> Self = Self(_mm_clmulepi64_si128::<0x01>(a.0, b.0));

        fn edge(from: usize, to: usize, is_long: bool) -> Edge = {
            Edge { count: to - from, is_long, octets: _mm_loadu_si128(ones(to - from).cast()) }
        };
        fn load_edge(from: *const u8, edge: Edge) -> Self = load_part(from, edge.count, edge.is_long);
        fn store_edge(to: *mut u8, v: Self, edge: Edge) = store_part(to, v, edge.count, edge.is_long);
        fn keep(v: Self, edge: Edge) -> Self = Self(_mm_and_si128(v.0, edge.octets));
    }
}

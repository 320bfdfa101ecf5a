//! Four blocks: VAES and VPCLMULQDQ with AVX-512.

use core::arch::x86_64::*;

use super::block::V128;
use crate::aes::instructions::instructions;
use crate::aes::vector::Vector;

#[derive(Clone, Copy)]
pub(crate) struct V512(__m512i);

impl Vector for V512 {
    const BLOCKS: usize = 4;
    const GROUP: usize = 4;
    const KARATSUBA: bool = false;
    const FOLDS_IN_REGISTERS: bool = true;

    type Edge = __mmask64;

    instructions! {
        "aes,pclmulqdq,avx2,vaes,vpclmulqdq,avx512f,avx512bw,avx512dq,avx512vl":
        fn zero() -> Self = Self(_mm512_setzero_si512());
        fn load(from: *const u8) -> Self = Self(_mm512_loadu_si512(from.cast()));
        fn store(to: *mut u8, v: Self) = _mm512_storeu_si512(to.cast(), v.0);
        fn load_every(from: *const u8) -> Self = Self::every(V128::load(from));
        fn every(block: V128) -> Self = Self(_mm512_broadcast_i32x4(block.0));
        fn first(block: V128) -> Self = Self(_mm512_zextsi128_si512(block.0));
        fn to_first(v: Self) -> V128 = V128(_mm512_castsi512_si128(v.0));
        fn second_and_third(registers: [Self; 3]) -> [V128; 2] = {
            let v = registers[0].0;
            [V128(_mm512_extracti32x4_epi32::<1>(v)), V128(_mm512_extracti32x4_epi32::<2>(v))]
        };
        fn sum(v: Self) -> V128 = {
            let two = _mm256_xor_si256(_mm512_castsi512_si256(v.0), _mm512_extracti64x4_epi64::<1>(v.0));
            V128(_mm_xor_si128(_mm256_castsi256_si128(two), _mm256_extracti128_si256::<1>(two)))
        };
        fn count(number: u32) -> Self = Self(_mm512_maskz_set1_epi32(0x8888, number.swap_bytes() as i32));
        fn with_last(v: Self, next: Self) -> Self = Self(_mm512_mask_mov_epi64(v.0, 0xc0, next.0));

        fn xor(a: Self, b: Self) -> Self = Self(_mm512_xor_si512(a.0, b.0));
        fn xor3(a: Self, b: Self, c: Self) -> Self = Self(_mm512_ternarylogic_epi64::<0x96>(a.0, b.0, c.0));
        fn opaque(v: Self) -> Self = v;
        fn tied(v: Self) -> Self = v;
        fn swap_octets(v: Self) -> Self = {
            let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
            Self(_mm512_shuffle_epi8(v.0, _mm512_broadcast_i32x4(order)))
        };
        fn swap_halves(v: Self) -> Self = Self(_mm512_shuffle_epi32::<0x4e>(v.0));

        fn aes(state: Self, key: Self) -> Self = Self(_mm512_aesenc_epi128(state.0, key.0));
        fn aes_last(state: Self, key: Self) -> Self = Self(_mm512_aesenclast_epi128(state.0, key.0));

        fn low(a: Self, b: Self) -> Self = Self(_mm512_clmulepi64_epi128::<0x00>(a.0, b.0));
        fn high(a: Self, b: Self) -> Self = Self(_mm512_clmulepi64_epi128::<0x11>(a.0, b.0));
        fn low_high(a: Self, b: Self) -> Self = Self(_mm512_clmulepi64_epi128::<0x10>(a.0, b.0));
        fn high_low(a: Self, b: Self) -> Self = Self(_mm512_clmulepi64_epi128::<0x01>(a.0, b.0));

        fn edge(from: usize, to: usize, _is_long: bool) -> __mmask64 = !0 >> (64 - to) & !0 << from;
        fn load_edge(from: *const u8, edge: __mmask64) -> Self = Self(_mm512_maskz_loadu_epi8(edge, from.cast()));
        fn store_edge(to: *mut u8, v: Self, edge: __mmask64) = _mm512_mask_storeu_epi8(to.cast(), edge, v.0);
        fn keep(v: Self, edge: __mmask64) -> Self = Self(_mm512_maskz_mov_epi8(edge, v.0));
    }
}

//! AES on x86-64: the registers of each path, and the choice of a path.

use core::arch::asm;
use core::arch::x86_64::*;

use super::vector::{
    Block, Edge, Multiplication, RoundKeys, Rounds, Vector, encrypt, expand, functions, load_part, ones,
    store_part,
};
use crate::cpu::{AesNi, AesNiAvx, InstructionSet, Vaes256, Vaes512};

/// The path that a key uses, with the proof that the processor has it.
#[derive(Clone, Copy)]
pub(crate) enum Engine {
    AesNi(AesNi),
    AesNiAvx(AesNiAvx),
    Vaes256(Vaes256),
    Vaes512(Vaes512),
}

impl Engine {
    /// The best path that is available.
    pub(crate) fn detect() -> Option<Self> {
        let wide = Vaes512::detect().map(Self::Vaes512);
        wide.or_else(|| Vaes256::detect().map(Self::Vaes256))
            .or_else(|| AesNiAvx::detect().map(Self::AesNiAvx))
            .or_else(|| AesNi::detect().map(Self::AesNi))
    }

    pub(crate) fn path(self) -> InstructionSet {
        match self {
            Self::AesNi(_) => InstructionSet::AesNi,
            Self::AesNiAvx(_) => InstructionSet::AesNiAvx,
            Self::Vaes256(_) => InstructionSet::Vaes256,
            Self::Vaes512(_) => InstructionSet::Vaes512,
        }
    }

    #[inline]
    fn aes_ni(self) -> AesNi {
        match self {
            Self::AesNi(token) => token,
            Self::AesNiAvx(token) => token.into(),
            Self::Vaes256(token) => token.into(),
            Self::Vaes512(token) => token.into(),
        }
    }

    pub(crate) fn expand(self, key: &[u8], keys: &mut RoundKeys) -> Option<Rounds> {
        #[target_feature(enable = "aes,pclmulqdq,ssse3,sse4.1")]
        fn expand_aes_ni(key: &[u8], keys: &mut RoundKeys) -> Option<Rounds> {
            expand(key, keys, |word| {
                _mm_cvtsi128_si32(_mm_aeskeygenassist_si128::<0>(_mm_set1_epi32(word as i32))) as u32
            })
        }
        let _: AesNi = self.aes_ni();
        // SAFETY: the token proves AES-NI.
        unsafe { expand_aes_ni(key, keys) }
    }

    #[inline]
    pub(crate) fn encrypt(self, keys: &RoundKeys, rounds: Rounds, block: &[u8; 16]) -> [u8; 16] {
        #[target_feature(enable = "aes,pclmulqdq,ssse3,sse4.1")]
        fn encrypt_aes_ni(token: AesNi, keys: &RoundKeys, rounds: Rounds, block: &[u8; 16]) -> [u8; 16] {
            let mut encrypted = [0; 16];
            V128::store(&mut encrypted, encrypt(token, keys, rounds, V128::load(token, block)));
            encrypted
        }
        // SAFETY: the token proves AES-NI.
        unsafe { encrypt_aes_ni(self.aes_ni(), keys, rounds, block) }
    }
}

/// One block: AES-NI and PCLMULQDQ with SSSE3 and SSE4.1.
#[derive(Clone, Copy)]
pub(crate) struct V128(__m128i);

impl Block for V128 {
    functions! {
        "aes,pclmulqdq,ssse3,sse4.1":
        fn of(_token: AesNi, number: u128) -> V128 = V128(_mm_set_epi64x((number >> 64) as i64, number as i64));
        fn shuffled(v: V128, places: V128) -> V128 = V128(_mm_shuffle_epi8(v.0, places.0));
        fn is_zero(v: V128) -> bool = _mm_testz_si128(v.0, v.0) == 1;
    }
}

impl Vector for V128 {
    const BLOCKS: usize = 1;
    const MULTIPLICATION: Multiplication = Multiplication::Karatsuba;

    type Octets = [u8; 16];
    type Token = AesNi;
    type Block = Self;

    functions! {
        "aes,pclmulqdq,ssse3,sse4.1":
        fn zero(_token: AesNi) -> V128 = V128(_mm_setzero_si128());
        // SAFETY: the array has 16 octets; the access needs no alignment.
        fn load(_token: AesNi, from: &[u8; 16]) -> V128 = V128(unsafe { _mm_loadu_si128(from.as_ptr().cast()) });
        // SAFETY: as for `load`.
        fn store(to: &mut [u8; 16], v: V128) -> () = unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), v.0) };
        fn every(_token: AesNi, block: V128) -> V128 = block;
        fn first(_token: AesNi, block: V128) -> V128 = block;
        fn to_first(v: V128) -> V128 = v;
        fn second_and_third(registers: [V128; 3]) -> [V128; 2] = [registers[1], registers[2]];
        fn sum(v: V128) -> V128 = v;
        fn count(_token: AesNi, number: u32) -> V128 = {
            V128(_mm_insert_epi32::<3>(_mm_setzero_si128(), number.swap_bytes() as i32))
        };
        fn with_last(_v: V128, next: V128) -> V128 = next;

        fn xor(a: V128, b: V128) -> V128 = V128(_mm_xor_si128(a.0, b.0));
        fn xor3(a: V128, b: V128, c: V128) -> V128 = V128(_mm_xor_si128(_mm_xor_si128(a.0, b.0), c.0));
        fn opaque(v: V128) -> V128 = {
            let mut v = v.0;
            // SAFETY: the assembly is empty.
            unsafe { asm!("/* {} */", inout(xmm_reg) v, options(pure, nomem, nostack, preserves_flags)) };
            V128(v)
        };
        fn tied(v: V128) -> V128 = {
            let mut v = v.0;
            // SAFETY: the assembly is empty.
            unsafe { asm!("/* {} */", inout(xmm_reg) v, options(nomem, nostack, preserves_flags)) };
            V128(v)
        };
        fn swap_octets(v: V128) -> V128 = {
            V128(_mm_shuffle_epi8(v.0, _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f)))
        };
        fn swap_halves(v: V128) -> V128 = V128(_mm_shuffle_epi32::<0x4e>(v.0));

        fn aes(state: V128, key: V128) -> V128 = V128(_mm_aesenc_si128(state.0, key.0));
        fn aes_last(state: V128, key: V128) -> V128 = V128(_mm_aesenclast_si128(state.0, key.0));

        fn low(a: V128, b: V128) -> V128 = V128(_mm_clmulepi64_si128::<0x00>(a.0, b.0));
        fn high(a: V128, b: V128) -> V128 = V128(_mm_clmulepi64_si128::<0x11>(a.0, b.0));
        fn low_high(a: V128, b: V128) -> V128 = V128(_mm_clmulepi64_si128::<0x10>(a.0, b.0));
        fn high_low(a: V128, b: V128) -> V128 = V128(_mm_clmulepi64_si128::<0x01>(a.0, b.0));

        fn keep(v: V128, edge: Edge) -> V128 = {
            // SAFETY: an edge has at most 64 octets. The array has 16; the access needs no alignment.
            let ones = unsafe { _mm_loadu_si128(ones::<16>(edge.to - edge.from).as_ptr().cast()) };
            V128(_mm_and_si128(v.0, ones))
        };
    }

    #[inline(always)]
    unsafe fn load_edge(token: AesNi, from: *const u8, edge: Edge) -> Self {
        // SAFETY: the caller guarantees the edge's octets, which are this part.
        unsafe { load_part(token, from, edge.to - edge.from, edge.is_long) }
    }

    #[inline(always)]
    unsafe fn store_edge(token: AesNi, to: *mut u8, v: Self, edge: Edge) {
        // SAFETY: the caller guarantees the edge's octets, which are this part.
        unsafe { store_part(token, to, v, edge.to - edge.from, edge.is_long) };
    }
}

/// Two blocks: VAES and VPCLMULQDQ with AVX2.
#[derive(Clone, Copy)]
pub(crate) struct V256(__m256i);

impl V256 {
    /// The number of an edge's octets in the first block, and in the second.
    #[inline(always)]
    fn counts(edge: Edge) -> [usize; 2] {
        [edge.to.min(16).saturating_sub(edge.from), edge.to.saturating_sub(16)]
    }
}

impl Vector for V256 {
    const BLOCKS: usize = 2;
    const MULTIPLICATION: Multiplication = Multiplication::Simple;

    type Octets = [u8; 32];
    type Token = Vaes256;
    type Block = V128;

    functions! {
        "aes,pclmulqdq,avx2,vaes,vpclmulqdq":
        fn zero(_token: Vaes256) -> V256 = V256(_mm256_setzero_si256());
        // SAFETY: the array has 32 octets; the access needs no alignment.
        fn load(_token: Vaes256, from: &[u8; 32]) -> V256 = V256(unsafe { _mm256_loadu_si256(from.as_ptr().cast()) });
        // SAFETY: as for `load`.
        fn store(to: &mut [u8; 32], v: V256) -> () = unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), v.0) };
        fn every(_token: Vaes256, block: V128) -> V256 = V256(_mm256_broadcastsi128_si256(block.0));
        fn first(_token: Vaes256, block: V128) -> V256 = V256(_mm256_zextsi128_si256(block.0));
        fn to_first(v: V256) -> V128 = V128(_mm256_castsi256_si128(v.0));
        fn second_and_third(registers: [V256; 3]) -> [V128; 2] = [
            V128(_mm256_extracti128_si256::<1>(registers[0].0)),
            V128(_mm256_castsi256_si128(registers[1].0)),
        ];
        fn sum(v: V256) -> V128 = {
            V128(_mm_xor_si128(_mm256_castsi256_si128(v.0), _mm256_extracti128_si256::<1>(v.0)))
        };
        fn count(_token: Vaes256, number: u32) -> V256 = {
            let block = _mm_insert_epi32::<3>(_mm_setzero_si128(), number.swap_bytes() as i32);
            V256(_mm256_broadcastsi128_si256(block))
        };
        fn with_last(v: V256, next: V256) -> V256 = V256(_mm256_blend_epi32::<0xf0>(v.0, next.0));

        fn xor(a: V256, b: V256) -> V256 = V256(_mm256_xor_si256(a.0, b.0));
        fn xor3(a: V256, b: V256, c: V256) -> V256 = V256(_mm256_xor_si256(_mm256_xor_si256(a.0, b.0), c.0));
        fn opaque(v: V256) -> V256 = {
            let mut v = v.0;
            // SAFETY: the assembly is empty.
            unsafe { asm!("/* {} */", inout(ymm_reg) v, options(pure, nomem, nostack, preserves_flags)) };
            V256(v)
        };
        fn tied(v: V256) -> V256 = v;
        fn swap_octets(v: V256) -> V256 = {
            let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
            V256(_mm256_shuffle_epi8(v.0, _mm256_broadcastsi128_si256(order)))
        };
        fn swap_halves(v: V256) -> V256 = V256(_mm256_shuffle_epi32::<0x4e>(v.0));

        fn aes(state: V256, key: V256) -> V256 = V256(_mm256_aesenc_epi128(state.0, key.0));
        fn aes_last(state: V256, key: V256) -> V256 = V256(_mm256_aesenclast_epi128(state.0, key.0));

        fn low(a: V256, b: V256) -> V256 = V256(_mm256_clmulepi64_epi128::<0x00>(a.0, b.0));
        fn high(a: V256, b: V256) -> V256 = V256(_mm256_clmulepi64_epi128::<0x11>(a.0, b.0));
        fn low_high(a: V256, b: V256) -> V256 = V256(_mm256_clmulepi64_epi128::<0x10>(a.0, b.0));
        fn high_low(a: V256, b: V256) -> V256 = V256(_mm256_clmulepi64_epi128::<0x01>(a.0, b.0));

        fn keep(v: V256, edge: Edge) -> V256 = {
            // SAFETY: an edge starts and ends within 64 octets. The array has 32; the access needs no alignment.
            let ones = |count| unsafe { _mm256_loadu_si256(ones::<32>(count).as_ptr().cast()) };
            V256(_mm256_and_si256(v.0, _mm256_andnot_si256(ones(edge.from), ones(edge.to))))
        };
    }

    #[inline(always)]
    unsafe fn load_edge(token: Vaes256, from: *const u8, edge: Edge) -> Self {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn join(first: V128, second: V128) -> V256 {
            V256(_mm256_inserti128_si256::<1>(_mm256_zextsi128_si256(first.0), second.0))
        }
        // SAFETY: the caller guarantees the edge's octets, and these are the parts in each block; the token proves AVX2.
        unsafe {
            match Self::counts(edge) {
                [16, 16] => Self::load(token, &*from.cast()),
                [first, second] => join(
                    load_part(token.into(), from, first, edge.is_long),
                    load_part(token.into(), from.wrapping_add(16), second, edge.is_long),
                ),
            }
        }
    }

    #[inline(always)]
    unsafe fn store_edge(token: Vaes256, to: *mut u8, v: Self, edge: Edge) {
        // SAFETY: the caller guarantees the edge's octets, and these are the parts in each block.
        unsafe {
            match Self::counts(edge) {
                [16, 16] => Self::store(&mut *to.cast(), v),
                [first, second] => {
                    store_part(token.into(), to, Self::to_first(v), first, edge.is_long);
                    let [upper, _] = Self::second_and_third([v; 3]);
                    store_part(token.into(), to.wrapping_add(16), upper, second, edge.is_long);
                }
            }
        }
    }
}

/// Four blocks: VAES and VPCLMULQDQ with AVX-512.
#[derive(Clone, Copy)]
pub(crate) struct V512(__m512i);

/// A mask bit for each octet of an edge of [`V512`].
#[inline(always)]
fn mask(edge: Edge) -> __mmask64 {
    !0 >> (64 - edge.to) & !0 << edge.from
}

/// Whether an edge after the first block begins a page. If the page before is not present, a masked access to it takes 320 ns longer
/// (Zen 5), although no octet of it is selected.
#[inline(always)]
fn starts_page(start: *const u8, edge: Edge) -> bool {
    edge.from != 0 && start.addr() % 4096 < edge.from
}

impl Vector for V512 {
    const BLOCKS: usize = 4;
    const MULTIPLICATION: Multiplication = Multiplication::KaratsubaForGroups;

    type Octets = [u8; 64];
    type Token = Vaes512;
    type Block = V128;

    functions! {
        "aes,pclmulqdq,avx2,vaes,vpclmulqdq,avx512f,avx512bw,avx512dq,avx512vl":
        fn zero(_token: Vaes512) -> V512 = V512(_mm512_setzero_si512());
        // SAFETY: the array has 64 octets; the access needs no alignment.
        fn load(_token: Vaes512, from: &[u8; 64]) -> V512 = V512(unsafe { _mm512_loadu_si512(from.as_ptr().cast()) });
        // SAFETY: as for `load`.
        fn store(to: &mut [u8; 64], v: V512) -> () = unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), v.0) };
        fn every(_token: Vaes512, block: V128) -> V512 = V512(_mm512_broadcast_i32x4(block.0));
        fn first(_token: Vaes512, block: V128) -> V512 = V512(_mm512_zextsi128_si512(block.0));
        fn to_first(v: V512) -> V128 = V128(_mm512_castsi512_si128(v.0));
        fn second_and_third(registers: [V512; 3]) -> [V128; 2] = [
            V128(_mm512_extracti32x4_epi32::<1>(registers[0].0)),
            V128(_mm512_extracti32x4_epi32::<2>(registers[0].0)),
        ];
        fn sum(v: V512) -> V128 = {
            let two = _mm256_xor_si256(_mm512_castsi512_si256(v.0), _mm512_extracti64x4_epi64::<1>(v.0));
            V128(_mm_xor_si128(_mm256_castsi256_si128(two), _mm256_extracti128_si256::<1>(two)))
        };
        fn count(_token: Vaes512, number: u32) -> V512 = {
            V512(_mm512_maskz_set1_epi32(0x8888, number.swap_bytes() as i32))
        };
        fn with_last(v: V512, next: V512) -> V512 = V512(_mm512_mask_mov_epi64(v.0, 0xc0, next.0));

        fn xor(a: V512, b: V512) -> V512 = V512(_mm512_xor_si512(a.0, b.0));
        fn xor3(a: V512, b: V512, c: V512) -> V512 = V512(_mm512_ternarylogic_epi64::<0x96>(a.0, b.0, c.0));
        fn opaque(v: V512) -> V512 = v;
        fn tied(v: V512) -> V512 = v;
        fn swap_octets(v: V512) -> V512 = {
            let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
            V512(_mm512_shuffle_epi8(v.0, _mm512_broadcast_i32x4(order)))
        };
        fn swap_halves(v: V512) -> V512 = V512(_mm512_shuffle_epi32::<0x4e>(v.0));

        fn aes(state: V512, key: V512) -> V512 = V512(_mm512_aesenc_epi128(state.0, key.0));
        fn aes_last(state: V512, key: V512) -> V512 = V512(_mm512_aesenclast_epi128(state.0, key.0));

        fn low(a: V512, b: V512) -> V512 = V512(_mm512_clmulepi64_epi128::<0x00>(a.0, b.0));
        fn high(a: V512, b: V512) -> V512 = V512(_mm512_clmulepi64_epi128::<0x11>(a.0, b.0));
        fn low_high(a: V512, b: V512) -> V512 = V512(_mm512_clmulepi64_epi128::<0x10>(a.0, b.0));
        fn high_low(a: V512, b: V512) -> V512 = V512(_mm512_clmulepi64_epi128::<0x01>(a.0, b.0));

        fn keep(v: V512, edge: Edge) -> V512 = V512(_mm512_maskz_mov_epi8(mask(edge), v.0));
    }

    #[inline(always)]
    unsafe fn load_edge(_: Vaes512, from: *const u8, edge: Edge) -> Self {
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw")]
        unsafe fn load(from: *const u8, edge: Edge) -> V512 {
            let start = from.wrapping_add(edge.from);
            // SAFETY: only octets of the edge are read.
            V512(unsafe {
                if starts_page(start, edge) {
                    let octets = _mm512_maskz_loadu_epi8(mask(edge) >> edge.from, start.cast());
                    _mm512_maskz_shuffle_i32x4::<0b10_01_00_00>(0xfff0, octets, octets)
                } else {
                    _mm512_maskz_loadu_epi8(mask(edge), from.cast())
                }
            })
        }
        // SAFETY: the token proves the features, and the caller guarantees the edge's octets.
        unsafe { load(from, edge) }
    }

    #[inline(always)]
    unsafe fn store_edge(_: Vaes512, to: *mut u8, v: Self, edge: Edge) {
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw")]
        unsafe fn store(to: *mut u8, V512(v): V512, edge: Edge) {
            let start = to.wrapping_add(edge.from);
            // SAFETY: only octets of the edge are written.
            unsafe {
                if starts_page(start, edge) {
                    let octets = _mm512_shuffle_i32x4::<0b11_11_10_01>(v, v);
                    _mm512_mask_storeu_epi8(start.cast(), mask(edge) >> edge.from, octets);
                } else {
                    _mm512_mask_storeu_epi8(to.cast(), mask(edge), v);
                }
            }
        }
        // SAFETY: the token proves the features, and the caller guarantees the edge's octets.
        unsafe { store(to, v, edge) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets never reach the counter's upper octets; only long texts do.
    #[test]
    fn counts_are_big_endian_in_every_block() {
        let count = 0x0102_0304_u128.to_be_bytes();
        if let Some(token) = AesNi::detect() {
            let mut octets = [0xa5; 16];
            V128::store(&mut octets, V128::count(token, 0x0102_0304));
            assert_eq!(octets, count);
        }
        if let Some(token) = Vaes256::detect() {
            let mut octets = [0xa5; 32];
            V256::store(&mut octets, V256::count(token, 0x0102_0304));
            assert_eq!(octets, [count; 2].as_flattened());
        }
        if let Some(token) = Vaes512::detect() {
            let mut octets = [0xa5; 64];
            V512::store(&mut octets, V512::count(token, 0x0102_0304));
            assert_eq!(octets, [count; 4].as_flattened());
        }
    }
}

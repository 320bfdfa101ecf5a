//! AES on AArch64, by AES and PMULL.

use core::arch::aarch64::*;

use super::expand::{RoundKeys, Rounds, expand};
use super::instructions::instructions;
use super::vector::{Vector, encrypt_rounds, load_part, ones, store_part};
use crate::cpu::{Aarch64Aes, InstructionSet};

/// The path that a key uses, with its proof.
#[derive(Clone, Copy)]
pub(crate) enum Engine {
    Aarch64Aes(Aarch64Aes),
}

impl Engine {
    pub(crate) fn detect() -> Option<Self> {
        Aarch64Aes::detect().map(Self::Aarch64Aes)
    }

    pub(crate) const fn path(self) -> InstructionSet {
        InstructionSet::Aarch64Aes
    }

    pub(crate) fn expand(self, key: &[u8], keys: &mut RoundKeys) -> Option<Rounds> {
        // SAFETY: there is the path's proof.
        unsafe { expand_aes(key, keys) }
    }

    #[inline]
    pub(crate) fn encrypt(self, keys: &RoundKeys, rounds: Rounds, block: [u8; 16]) -> [u8; 16] {
        let mut block = block;
        // SAFETY: there is the path's proof, and a key has as many round keys as rounds need.
        unsafe { encrypt_aes(keys.as_ptr().cast(), rounds, &mut block) };
        block
    }
}

#[target_feature(enable = "neon,aes")]
fn expand_aes(key: &[u8], keys: &mut RoundKeys) -> Option<Rounds> {
    expand(key, keys, |word| {
        // Four equal words, so that nothing changes when rows are shifted.
        let words = vaeseq_u8(vreinterpretq_u8_u32(vdupq_n_u32(word)), vdupq_n_u8(0));
        vgetq_lane_u32::<0>(vreinterpretq_u32_u8(words))
    })
}

#[target_feature(enable = "neon,aes")]
unsafe fn encrypt_aes(keys: *const u8, rounds: Rounds, block: &mut [u8; 16]) {
    // SAFETY: the caller's keys, and the function's features.
    unsafe {
        let [encrypted] = encrypt_rounds(keys, rounds, [V128::load(block.as_ptr())]);
        V128::store(block.as_mut_ptr(), encrypted);
    }
}

/// The octets of a number, the lowest first.
#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn octets_of_number(number: u128) -> uint8x16_t {
    vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(number as u64), vcreate_u64((number >> 64) as u64)))
}

#[derive(Clone, Copy)]
pub(crate) struct V128(uint8x16_t);

/// The octets `from..to` of a block.
#[derive(Clone, Copy)]
pub(crate) struct Edge {
    count: usize,
    is_long: bool,
    octets: uint8x16_t,
}

/// Unsafe to call as the functions of [`Vector`] are.
impl V128 {
    instructions! {
        "neon,aes":
        /// The block with these halves, the first octets in `low`.
        pub(crate) fn of(low: u64, high: u64) -> Self = {
            Self(octets_of_number(u128::from(low) | u128::from(high) << 64))
        };
        /// The octets at `places`; zero where the place is not below 16.
        pub(crate) fn shuffled(v: Self, places: Self) -> Self = Self(vqtbl1q_u8(v.0, places.0));
        /// Whether all bits are zeros, without a branch.
        pub(crate) fn is_zero(v: Self) -> bool = vmaxvq_u8(v.0) == 0;
        fn lower(v: Self) -> u64 = vgetq_lane_u64::<0>(vreinterpretq_u64_u8(v.0));
        fn upper(v: Self) -> u64 = vgetq_lane_u64::<1>(vreinterpretq_u64_u8(v.0));
        fn multiply(a: u64, b: u64) -> Self = Self(vreinterpretq_u8_p128(vmull_p64(a, b)));
    }
}

impl Vector for V128 {
    const BLOCKS: usize = 1;
    const GROUP: usize = 8;
    const KARATSUBA: bool = false;

    type Edge = Edge;

    instructions! {
        "neon,aes":
        fn zero() -> Self = Self(vdupq_n_u8(0));
        fn load(from: *const u8) -> Self = Self(vld1q_u8(from));
        fn store(to: *mut u8, v: Self) = vst1q_u8(to, v.0);
        fn load_every(from: *const u8) -> Self = Self::load(from);
        fn every(block: V128) -> Self = block;
        fn first(block: V128) -> Self = block;
        fn to_first(v: Self) -> V128 = v;
        fn second_and_third(registers: [Self; 3]) -> [V128; 2] = [registers[1], registers[2]];
        fn sum(v: Self) -> V128 = v;
        fn count(number: u32) -> Self = Self::of(0, u64::from(number.swap_bytes()) << 32);
        fn with_last(_v: Self, next: Self) -> Self = next;

        fn xor(a: Self, b: Self) -> Self = Self(veorq_u8(a.0, b.0));
        fn xor3(a: Self, b: Self, c: Self) -> Self = Self::xor(Self::xor(a, b), c);
        // There are enough registers.
        fn opaque(v: Self) -> Self = v;
        fn tied(v: Self) -> Self = v;
        fn swap_octets(v: Self) -> Self = Self(vrev64q_u8(vextq_u8::<8>(v.0, v.0)));
        fn swap_halves(v: Self) -> Self = Self(vextq_u8::<8>(v.0, v.0));

        // AESE adds its key first. With a key of zeros, the compiler can fold in the key of the round before.
        fn aes(state: Self, key: Self) -> Self = {
            Self::xor(Self(vaesmcq_u8(vaeseq_u8(state.0, vdupq_n_u8(0)))), key)
        };
        fn aes_last(state: Self, key: Self) -> Self = Self::xor(Self(vaeseq_u8(state.0, vdupq_n_u8(0))), key);

        fn low(a: Self, b: Self) -> Self = Self::multiply(Self::lower(a), Self::lower(b));
        fn high(a: Self, b: Self) -> Self = Self::multiply(Self::upper(a), Self::upper(b));
        fn low_high(a: Self, b: Self) -> Self = Self::multiply(Self::lower(a), Self::upper(b));
        fn high_low(a: Self, b: Self) -> Self = Self::multiply(Self::upper(a), Self::lower(b));

        fn edge(from: usize, to: usize, is_long: bool) -> Edge = {
            Edge { count: to - from, is_long, octets: vld1q_u8(ones(to - from)) }
        };
        fn load_edge(from: *const u8, edge: Edge) -> Self = load_part(from, edge.count, edge.is_long);
        fn store_edge(to: *mut u8, v: Self, edge: Edge) = store_part(to, v, edge.count, edge.is_long);
        fn keep(v: Self, edge: Edge) -> Self = Self(vandq_u8(v.0, edge.octets));
    }
}

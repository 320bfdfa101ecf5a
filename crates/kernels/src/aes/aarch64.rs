//! AES on AArch64, with its AES and PMULL instructions.

use core::arch::aarch64::*;

use super::vector::{
    Block, Edge, Multiplication, RoundKeys, Rounds, Vector, encrypt, expand, functions, load_part, ones,
    store_part,
};
use crate::cpu::{Aarch64Aes, InstructionSet};

/// The path that a key uses, with the proof that the processor has it.
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
        #[target_feature(enable = "neon,aes")]
        fn expand_aes(key: &[u8], keys: &mut RoundKeys) -> Option<Rounds> {
            expand(key, keys, |word| {
                // Four equal words, so that the shift of rows changes nothing.
                let words = vaeseq_u8(vreinterpretq_u8_u32(vdupq_n_u32(word)), vdupq_n_u8(0));
                vgetq_lane_u32::<0>(vreinterpretq_u32_u8(words))
            })
        }
        let Self::Aarch64Aes(_token) = self;
        // SAFETY: the token proves these features.
        unsafe { expand_aes(key, keys) }
    }

    #[inline]
    pub(crate) fn encrypt(self, keys: &RoundKeys, rounds: Rounds, block: &[u8; 16]) -> [u8; 16] {
        #[target_feature(enable = "neon,aes")]
        fn encrypt_aes(token: Aarch64Aes, keys: &RoundKeys, rounds: Rounds, block: &[u8; 16]) -> [u8; 16] {
            let mut encrypted = [0; 16];
            V128::store(&mut encrypted, encrypt(token, keys, rounds, V128::load(token, block)));
            encrypted
        }
        let Self::Aarch64Aes(token) = self;
        // SAFETY: the token proves these features.
        unsafe { encrypt_aes(token, keys, rounds, block) }
    }
}

/// The octets of a number, the lowest octet first.
#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn octets_of_number(number: u128) -> uint8x16_t {
    vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(number as u64), vcreate_u64((number >> 64) as u64)))
}

/// The product of the chosen halves.
#[inline]
#[target_feature(enable = "neon,aes")]
fn product<const A: i32, const B: i32>(a: V128, b: V128) -> V128 {
    let (a, b) = (vreinterpretq_u64_u8(a.0), vreinterpretq_u64_u8(b.0));
    V128(vreinterpretq_u8_p128(vmull_p64(vgetq_lane_u64::<A>(a), vgetq_lane_u64::<B>(b))))
}

/// One block.
#[derive(Clone, Copy)]
pub(crate) struct V128(uint8x16_t);

impl Block for V128 {
    functions! {
        "neon,aes":
        fn of(_token: Aarch64Aes, number: u128) -> V128 = V128(octets_of_number(number));
        fn shuffled(v: V128, places: V128) -> V128 = V128(vqtbl1q_u8(v.0, places.0));
        fn is_zero(v: V128) -> bool = vmaxvq_u8(v.0) == 0;
    }
}

impl Vector for V128 {
    const BLOCKS: usize = 1;
    const MULTIPLICATION: Multiplication = Multiplication::Simple;

    type Octets = [u8; 16];
    type Token = Aarch64Aes;
    type Block = Self;

    functions! {
        "neon,aes":
        fn zero(_token: Aarch64Aes) -> V128 = V128(vdupq_n_u8(0));
        // SAFETY: the array has 16 octets.
        fn load(_token: Aarch64Aes, from: &[u8; 16]) -> V128 = V128(unsafe { vld1q_u8(from.as_ptr()) });
        // SAFETY: the array has 16 octets.
        fn store(to: &mut [u8; 16], v: V128) -> () = unsafe { vst1q_u8(to.as_mut_ptr(), v.0) };
        fn every(_token: Aarch64Aes, block: V128) -> V128 = block;
        fn first(_token: Aarch64Aes, block: V128) -> V128 = block;
        fn to_first(v: V128) -> V128 = v;
        fn second_and_third(registers: [V128; 3]) -> [V128; 2] = [registers[1], registers[2]];
        fn sum(v: V128) -> V128 = v;
        fn count(_token: Aarch64Aes, number: u32) -> V128 = {
            V128(octets_of_number(u128::from(number.swap_bytes()) << 96))
        };
        fn with_last(_v: V128, next: V128) -> V128 = next;

        fn xor(a: V128, b: V128) -> V128 = V128(veorq_u8(a.0, b.0));
        fn xor3(a: V128, b: V128, c: V128) -> V128 = V128(veorq_u8(veorq_u8(a.0, b.0), c.0));
        // This processor has enough registers, so nothing needs to be hidden.
        fn opaque(v: V128) -> V128 = v;
        fn tied(v: V128) -> V128 = v;
        fn swap_octets(v: V128) -> V128 = V128(vrev64q_u8(vextq_u8::<8>(v.0, v.0)));
        fn swap_halves(v: V128) -> V128 = V128(vextq_u8::<8>(v.0, v.0));

        // AESE adds its key first. With a key of zeros, the compiler can fold in the previous round's key.
        fn aes(state: V128, key: V128) -> V128 = {
            V128(veorq_u8(vaesmcq_u8(vaeseq_u8(state.0, vdupq_n_u8(0))), key.0))
        };
        fn aes_last(state: V128, key: V128) -> V128 = V128(veorq_u8(vaeseq_u8(state.0, vdupq_n_u8(0)), key.0));

        fn low(a: V128, b: V128) -> V128 = product::<0, 0>(a, b);
        fn high(a: V128, b: V128) -> V128 = product::<1, 1>(a, b);
        fn low_high(a: V128, b: V128) -> V128 = product::<0, 1>(a, b);
        fn high_low(a: V128, b: V128) -> V128 = product::<1, 0>(a, b);

        fn keep(v: V128, edge: Edge) -> V128 = {
            // SAFETY: an edge has at most 64 octets. The array has 16.
            V128(vandq_u8(v.0, unsafe { vld1q_u8(ones::<16>(edge.to - edge.from).as_ptr()) }))
        };
    }

    #[inline(always)]
    unsafe fn load_edge(token: Aarch64Aes, from: *const u8, edge: Edge) -> Self {
        // SAFETY: the caller guarantees the edge's octets, which are this part.
        unsafe { load_part(token, from, edge.to - edge.from, edge.is_long) }
    }

    #[inline(always)]
    unsafe fn store_edge(token: Aarch64Aes, to: *mut u8, v: Self, edge: Edge) {
        // SAFETY: the caller guarantees the edge's octets, which are this part.
        unsafe { store_part(token, to, v, edge.to - edge.from, edge.is_long) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets never reach the counter's upper octets; only long texts do.
    #[test]
    fn a_count_is_big_endian() {
        if let Some(token) = Aarch64Aes::detect() {
            let mut octets = [0xa5; 16];
            V128::store(&mut octets, V128::count(token, 0x0102_0304));
            assert_eq!(octets, 0x0102_0304_u128.to_be_bytes());
        }
    }
}

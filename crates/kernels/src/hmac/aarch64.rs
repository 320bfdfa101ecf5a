//! HMAC with AArch64's SHA instructions, of one message or of two side by side.
//!
//! A hash is a chain. Its instructions take four cycles each, but one can start in every cycle. In llvm-mca's models of Neoverse N1 and V2,
//! two chains keep the unit busy: a third would gain nothing.

use core::arch::aarch64::*;
use core::arch::asm;

use zeroize::optimization_barrier;

use super::message::{BLOCK, K, Rest};
use crate::aes::aarch64::octets_of_number;
use crate::aes::vector::short_number;
use crate::cpu::{Aarch64Sha, InstructionSet};
use crate::groups::{Job, each_group};

/// The path, with the proof that the processor has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path(Aarch64Sha);

impl Path {
    #[inline]
    pub(super) fn detect() -> Option<Self> {
        Aarch64Sha::detect().map(Self)
    }

    pub(super) fn set(self) -> InstructionSet {
        InstructionSet::Aarch64Sha
    }

    #[inline]
    pub(super) fn sha1(self, keys: [&[u32; 5]; 2], before: u64, message: &[&[u8]]) -> [u8; 20] {
        // SAFETY: the token proves the path.
        in_network_order(unsafe { hmac_of_one::<Sha1, 5>(keys, before, message) })
    }

    #[inline]
    pub(super) fn sha1_blocks(self, value: &mut [u32; 5], blocks: &[[u8; BLOCK]]) {
        // SAFETY: the token proves the path.
        unsafe { absorb::<Sha1, 5>(value, blocks) }
    }

    #[inline]
    pub(super) fn sha1_key(self, values: &mut [[u32; 5]; 2], key: &[u8]) {
        // SAFETY: the token proves the path.
        unsafe { absorb_key::<Sha1, 5>(values, key) }
    }

    #[inline]
    pub(super) fn sha256(self, keys: [&[u32; 8]; 2], before: u64, message: &[&[u8]]) -> [u8; 32] {
        // SAFETY: the token proves the path.
        in_network_order(unsafe { hmac_of_one::<Sha256, 8>(keys, before, message) })
    }

    #[inline]
    pub(super) fn sha256_blocks(self, value: &mut [u32; 8], blocks: &[[u8; BLOCK]]) {
        // SAFETY: the token proves the path.
        unsafe { absorb::<Sha256, 8>(value, blocks) }
    }

    #[inline]
    pub(super) fn sha256_key(self, values: &mut [[u32; 8]; 2], key: &[u8]) {
        // SAFETY: the token proves the path.
        unsafe { absorb_key::<Sha256, 8>(values, key) }
    }
}

pub(super) fn sha1_many<'a>(
    jobs: impl Iterator<Item = (usize, [&'a [u32; 5]; 2], &'a [&'a [u8]])>,
    done: impl FnMut(usize, &[u8; 20]),
) -> usize {
    hmac_many::<Sha1, 5, 20>(jobs, done)
}

pub(super) fn sha256_many<'a>(
    jobs: impl Iterator<Item = (usize, [&'a [u32; 8]; 2], &'a [&'a [u8]])>,
    done: impl FnMut(usize, &[u8; 32]),
) -> usize {
    hmac_many::<Sha256, 8, 32>(jobs, done)
}

/// Computes the HMACs of messages two by two, and returns the number computed.
fn hmac_many<'a, H: Hash<WORDS>, const WORDS: usize, const OCTETS: usize>(
    jobs: impl Iterator<Item = (usize, [&'a [u32; WORDS]; 2], &'a [&'a [u8]])>,
    mut done: impl FnMut(usize, &[u8; OCTETS]),
) -> usize {
    if Aarch64Sha::detect().is_none() {
        return 0;
    }
    let mut count = 0;
    each_group::<_, BLOCK>(jobs, |group| {
        for pair in group.as_chunks().0 {
            // SAFETY: the token proves the path.
            let macs = unsafe { hmac_of_two::<H, WORDS>(pair) };
            pair.iter().zip(macs).for_each(|(job, mac)| done(job.number, &in_network_order(mac)));
            count += pair.len();
        }
    });
    count
}

/// The octets of a hash value.
fn in_network_order<const WORDS: usize, const OCTETS: usize>(words: [u32; WORDS]) -> [u8; OCTETS] {
    const { assert!(OCTETS == 4 * WORDS) };
    let mut octets = [0; OCTETS];
    for (octets, word) in octets.as_chunks_mut().0.iter_mut().zip(words) {
        *octets = word.to_be_bytes();
    }
    octets
}

#[target_feature(enable = "neon,sha2")]
fn hmac_of_one<H: Hash<WORDS>, const WORDS: usize>(
    [inner, outer]: [&[u32; WORDS]; 2],
    before: u64,
    message: &[&[u8]],
) -> [u32; WORDS] {
    // SAFETY: this function is compiled with the features that the hash needs.
    let mut state = unsafe { [H::state(inner)] };
    let mut rest = Rest::new();
    rest.behind_blocks(message, |blocks| compress_all::<H, WORDS>(&mut state, blocks));
    let (_, end) = rest.octets().as_chunks::<BLOCK>();
    let [mac] = finish::<H, WORDS, 1>(state, [(end, before + rest.length as u64)], [outer]);
    mac
}

/// Processes blocks into a chaining value.
#[target_feature(enable = "neon,sha2")]
fn absorb<H: Hash<WORDS>, const WORDS: usize>(value: &mut [u32; WORDS], blocks: &[[u8; BLOCK]]) {
    // SAFETY: this function is compiled with the features that the hash needs.
    unsafe {
        let mut state = [H::state(value)];
        compress_all::<H, WORDS>(&mut state, blocks);
        *value = stored::<WORDS>(H::words(state[0]));
    }
}

/// Processes the inner and the outer key block of a key of at most 64 octets into two chaining values.
#[target_feature(enable = "neon,sha2")]
fn absorb_key<H: Hash<WORDS>, const WORDS: usize>(values: &mut [[u32; WORDS]; 2], key: &[u8]) {
    let mut block = [vdupq_n_u8(0); 4];
    let (parts, rest) = key.as_chunks::<16>();
    for (place, part) in block.iter_mut().zip(parts) {
        // SAFETY: the array has 16 octets; the access needs no alignment.
        *place = unsafe { vld1q_u8(part.as_ptr()) };
    }
    if let Some(end) = block.get_mut(parts.len()) {
        *end = octets_of_number(short_number(rest));
    }
    leak!("HMAC: key", block[0]);
    // The inner and the outer pad (RFC 2104 §2).
    let blocks = [0x36, 0x5c].map(|pad| block.map(|octets| big_endian(veorq_u8(octets, vdupq_n_u8(pad)))));
    // Indexed by a number, it lies in memory.
    block = [vdupq_n_u8(0); 4];
    optimization_barrier(&block);
    // SAFETY: this function is compiled with the features that the hash needs.
    unsafe {
        let mut states = values.each_ref().map(|words| H::state(words));
        H::compress(&mut states, blocks);
        *values = states.map(|state| stored(H::words(state)));
    }
}

#[inline]
#[target_feature(enable = "neon,sha2")]
fn compress_all<H: Hash<WORDS>, const WORDS: usize>(state: &mut [H::State; 1], blocks: &[[u8; BLOCK]]) {
    for octets in blocks {
        // SAFETY: this function is compiled with the features that the hash needs.
        unsafe { H::compress(state, [block(octets)]) };
    }
}

/// The words of a chaining value, from those of a block.
#[inline]
#[target_feature(enable = "neon")]
fn stored<const WORDS: usize>([low, high]: [uint32x4_t; 2]) -> [u32; WORDS] {
    let mut words = [0; 8];
    // SAFETY: eight words are two times 16 octets.
    unsafe {
        vst1q_u32(words.as_mut_ptr(), low);
        vst1q_u32(words.as_mut_ptr().add(4), high);
    }
    *words.first_chunk().expect("a hash has at most eight words")
}

/// The HMACs of two jobs, the longer first.
#[target_feature(enable = "neon,sha2")]
fn hmac_of_two<H: Hash<WORDS>, const WORDS: usize>(
    jobs: &[Job<'_, [&[u32; WORDS]; 2]>; 2],
) -> [[u32; WORDS]; 2] {
    let [inner, outer] = [0, 1].map(|at| jobs.each_ref().map(|job| job.key[at]));
    leak!("HMAC: two keys", *inner[0]);
    // SAFETY: this function is compiled with the features that the hash needs.
    let mut states = unsafe { inner.map(|words| H::state(words)) };
    let [(long, long_end), (short, short_end)] = jobs.each_ref().map(|job| job.tail.as_chunks());
    // SAFETY: this function is compiled with the features that the hash needs.
    unsafe {
        H::compress_two(&mut states, jobs.each_ref().map(|job| job.head.as_chunks().0));
        H::compress_two(&mut states, [long, short]);
    }
    let [mut longer, shorter] = states.map(|state| [state]);
    for octets in &long[short.len()..] {
        // SAFETY: this function is compiled with the features that the hash needs.
        unsafe { H::compress(&mut longer, [block(octets)]) };
    }
    let lengths = jobs.each_ref().map(|job| (BLOCK + job.head.len() + job.tail.len()) as u64);
    finish::<H, WORDS, 2>([longer[0], shorter[0]], [(long_end, lengths[0]), (short_end, lengths[1])], outer)
}

/// The words of a block.
type Block = [uint32x4_t; 4];

/// A hash with the SHA instructions.
///
/// # Safety
/// Call its functions only on a processor with these instructions.
trait Hash<const WORDS: usize> {
    /// A chaining value, in the form that the instructions take.
    type State: Copy;

    unsafe fn state(words: &[u32; WORDS]) -> Self::State;

    /// Processes a block of each message into its chaining value.
    unsafe fn compress<const N: usize>(states: &mut [Self::State; N], blocks: [Block; N]);

    /// Processes the blocks of two messages side by side, as many as the shorter has. A single copy for all calls.
    unsafe fn compress_two(states: &mut [Self::State; 2], messages: [&[[u8; BLOCK]]; 2]);

    /// The words of a chaining value as those of a block, followed by zeros.
    unsafe fn words(state: Self::State) -> [uint32x4_t; 2];
}

/// The words of these octets.
#[inline]
#[target_feature(enable = "neon")]
fn block(octets: &[u8; BLOCK]) -> Block {
    // SAFETY: the array has 64 octets; the access needs no alignment.
    core::array::from_fn(|at| big_endian(unsafe { vld1q_u8(octets.as_ptr().add(16 * at)) }))
}

#[inline]
#[target_feature(enable = "neon")]
fn big_endian(octets: uint8x16_t) -> uint32x4_t {
    vreinterpretq_u32_u8(vrev32q_u8(octets))
}

/// The end of a message, shorter than a block, followed by the bit that ends it (FIPS 180-4 §5.1.1) and zeros.
#[inline]
#[target_feature(enable = "neon")]
fn last_block(octets: &[u8]) -> Block {
    let mut block = [vdupq_n_u8(0); 4];
    let (parts, rest) = octets.as_chunks::<16>();
    for (place, part) in block.iter_mut().zip(parts) {
        // SAFETY: the array has 16 octets; the access needs no alignment.
        *place = unsafe { vld1q_u8(part.as_ptr()) };
    }
    let end = short_number(rest) | 0x80 << (8 * rest.len());
    leak!("CMAC and HMAC: short message", end);
    block[parts.len()] = octets_of_number(end);
    block.map(|octets| big_endian(octets))
}

/// The last part of a block that gives the message's length in bits (FIPS 180-4 §5.1.1).
#[inline]
#[target_feature(enable = "neon")]
fn bits(octets: u64) -> uint32x4_t {
    let bits = 8 * octets;
    vreinterpretq_u32_u64(vcombine_u64(vcreate_u64(0), vcreate_u64(bits.rotate_left(32))))
}

/// The HMACs of messages whose whole blocks are in the states. For each, it gets the end of the message, its length including the key
/// block, and the chaining value after the outer key block.
#[inline]
#[target_feature(enable = "neon,sha2")]
fn finish<H: Hash<WORDS>, const WORDS: usize, const N: usize>(
    mut states: [H::State; N],
    ends: [(&[u8], u64); N],
    outer: [&[u32; WORDS]; N],
) -> [[u32; WORDS]; N] {
    let zero = vdupq_n_u32(0);
    let mut blocks = ends.map(|(octets, _)| last_block(octets));
    leak!("HMAC: last block", states);
    for (at, (octets, length)) in ends.into_iter().enumerate() {
        if octets.len() >= BLOCK - 8 {
            let mut state = [states[at]];
            // SAFETY: this function is compiled with the features that the hash needs.
            unsafe { H::compress(&mut state, [blocks[at]]) };
            (states[at], blocks[at]) = (state[0], [zero; 4]);
        }
        blocks[at][3] = vorrq_u32(blocks[at][3], bits(length));
    }
    // SAFETY: this function is compiled with the features that the hash needs.
    unsafe { H::compress(&mut states, blocks) };

    // SAFETY: this function is compiled with the features that the hash needs.
    let hashes = states.map(|state| unsafe { H::words(state) });
    leak!("HMAC: inner hash", hashes);
    let blocks = hashes.map(|[low, high]| {
        let mut block = [low, high, zero, bits((BLOCK + 4 * WORDS) as u64)];
        // The bit that ends a message comes after the fifth word with SHA-1, and after the eighth with SHA-256.
        let [end, _, _, _] = last_block(&[0; 16][..WORDS % 4 * 4]);
        block[WORDS / 4] = vorrq_u32(block[WORDS / 4], end);
        block
    });
    // SAFETY: this function is compiled with the features that the hash needs.
    unsafe {
        let mut states = outer.map(|words| H::state(words));
        H::compress(&mut states, blocks);
        states.map(|state| stored(H::words(state)))
    }
}

struct Sha1;

/// A chaining value: the words a, b, c and d; and e, followed by zeros.
#[derive(Clone, Copy)]
struct Sha1State {
    abcd: uint32x4_t,
    e: uint32x4_t,
}

impl Hash<5> for Sha1 {
    type State = Sha1State;

    #[inline]
    #[target_feature(enable = "neon,sha2")]
    unsafe fn state(words: &[u32; 5]) -> Sha1State {
        // SAFETY: `words` has five words, of which four, 16 octets, are read.
        let abcd = unsafe { vld1q_u32(words.as_ptr()) };
        Sha1State { abcd, e: alone(words[4]) }
    }

    // FIPS 180-4 §6.1.2.
    #[inline]
    #[target_feature(enable = "neon,sha2")]
    unsafe fn compress<const N: usize>(states: &mut [Sha1State; N], mut blocks: [Block; N]) {
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
                    // The next e is the current word a, rotated.
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
    unsafe fn compress_two(states: &mut [Sha1State; 2], [first, second]: [&[[u8; 64]]; 2]) {
        for (first, second) in first.iter().zip(second) {
            // SAFETY: this function is compiled with the same features.
            unsafe { Self::compress(states, [block(first), block(second)]) };
        }
    }

    #[inline]
    #[target_feature(enable = "neon,sha2")]
    unsafe fn words(state: Sha1State) -> [uint32x4_t; 2] {
        [state.abcd, state.e]
    }
}

/// A vector of this word and zeros.
#[inline]
#[target_feature(enable = "neon")]
fn alone(word: u32) -> uint32x4_t {
    vsetq_lane_u32::<0>(word, vdupq_n_u32(0))
}

struct Sha256;

/// A chaining value: the words a to d, and e to h.
#[derive(Clone, Copy)]
struct Sha256State {
    abcd: uint32x4_t,
    efgh: uint32x4_t,
}

impl Hash<8> for Sha256 {
    type State = Sha256State;

    #[inline]
    #[target_feature(enable = "neon,sha2")]
    unsafe fn state(words: &[u32; 8]) -> Sha256State {
        // SAFETY: eight words are two times 16 octets.
        unsafe { Sha256State { abcd: vld1q_u32(words.as_ptr()), efgh: vld1q_u32(words.as_ptr().add(4)) } }
    }

    // FIPS 180-4 §6.2.2.
    #[inline]
    #[target_feature(enable = "neon,sha2")]
    unsafe fn compress<const N: usize>(states: &mut [Sha256State; N], mut blocks: [Block; N]) {
        let before = *states;
        leak!("HMAC-SHA-256: one block", before);
        macro_rules! rounds {
            ($($at:literal)*) => {$(
                // SAFETY: `K` has 16 times four words.
                let constants = unsafe { vld1q_u32(K.as_ptr().add(4 * $at)) };
                for (Sha256State { abcd, efgh }, w) in states.iter_mut().zip(&mut blocks) {
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
    unsafe fn compress_two(states: &mut [Sha256State; 2], [first, second]: [&[[u8; 64]]; 2]) {
        for (first, second) in first.iter().zip(second) {
            // SAFETY: this function is compiled with the same features.
            unsafe { Self::compress(states, [block(first), block(second)]) };
        }
    }

    #[inline]
    #[target_feature(enable = "neon,sha2")]
    unsafe fn words(state: Sha256State) -> [uint32x4_t; 2] {
        [state.abcd, state.efgh]
    }
}

/// The same value in a register of its own. SHA256H overwrites its first operand, which SHA256H2 needs too. The compiler would give the
/// copy to SHA256H and so add it to the chain from round to round: 98 cycles for a block instead of 83 in llvm-mca's model of Neoverse N1.
#[inline]
#[target_feature(enable = "neon")]
fn copy(mut v: uint32x4_t) -> uint32x4_t {
    // SAFETY: the assembly is empty.
    unsafe { asm!("/* {0:v} */", inout(vreg) v, options(pure, nomem, nostack, preserves_flags)) };
    v
}

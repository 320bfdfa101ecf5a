//! HMAC by the SHA instructions of AArch64, of one message or of two side by side.

mod many;
mod one;

use core::arch::aarch64::*;

use super::padding::BLOCK;
use crate::aes::octets_of_number;
use crate::aes::vector::short_number;

pub(crate) use many::hmac_many;

/// The words of a block.
pub(crate) type Block = [uint32x4_t; 4];

/// A hash by the SHA instructions.
///
/// # Safety
/// Every function needs a processor with these instructions.
pub(crate) trait Aarch64Hash<const WORDS: usize> {
    /// A chaining value, as the instructions take it.
    type State: Copy;

    unsafe fn state(words: &[u32; WORDS]) -> Self::State;

    /// Takes a block of each message into its chaining value.
    unsafe fn compress<const N: usize>(states: &mut [Self::State; N], blocks: [Block; N]);

    /// Takes the blocks of two messages side by side, as many as the shorter has. One copy for all calls.
    unsafe fn compress_two(states: &mut [Self::State; 2], messages: [&[[u8; BLOCK]]; 2]);

    /// The words of a chaining value as those of a block, zeros behind them.
    unsafe fn words(state: Self::State) -> [uint32x4_t; 2];
}

/// The words of these octets.
#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn block(octets: &[u8; BLOCK]) -> Block {
    // SAFETY: there are 64 octets, and they need no alignment.
    core::array::from_fn(|at| big_endian(unsafe { vld1q_u8(octets.as_ptr().add(16 * at)) }))
}

#[inline]
#[target_feature(enable = "neon")]
fn big_endian(octets: uint8x16_t) -> uint32x4_t {
    vreinterpretq_u32_u8(vrev32q_u8(octets))
}

/// The end of a message, fewer octets than a block, with the bit that ends it (FIPS 180-4 §5.1.1) and zeros behind them.
#[inline]
#[target_feature(enable = "neon")]
fn last_block(octets: &[u8]) -> Block {
    let mut block = [vdupq_n_u8(0); 4];
    let (parts, rest) = octets.as_chunks::<16>();
    for (place, part) in block.iter_mut().zip(parts) {
        // SAFETY: there are 16 octets, and they need no alignment.
        *place = unsafe { vld1q_u8(part.as_ptr()) };
    }
    let end = short_number(rest) | 0x80 << (8 * rest.len());
    leak!("CMAC and HMAC: short message", end);
    block[parts.len()] = octets_of_number(end);
    block.map(|octets| big_endian(octets))
}

/// The last part of a block that says how many bits the message has (FIPS 180-4 §5.1.1).
#[inline]
#[target_feature(enable = "neon")]
fn bits(octets: usize) -> uint32x4_t {
    let bits = 8 * octets as u64;
    vreinterpretq_u32_u64(vcombine_u64(vcreate_u64(0), vcreate_u64(bits.rotate_left(32))))
}

/// The HMACs of messages whose whole blocks are in the states. Each has its end behind those, its length with the key's block, and
/// the chaining value after the outer key block.
#[inline]
#[target_feature(enable = "neon,sha2")]
fn finish<H: Aarch64Hash<WORDS>, const WORDS: usize, const N: usize>(
    mut states: [H::State; N],
    ends: [(&[u8], usize); N],
    outer: [&[u32; WORDS]; N],
) -> [[u32; WORDS]; N] {
    let zero = vdupq_n_u32(0);
    let mut blocks = ends.map(|(octets, _)| last_block(octets));
    leak!("HMAC: last block", states);
    for (at, (octets, length)) in ends.into_iter().enumerate() {
        if octets.len() >= BLOCK - 8 {
            let mut state = [states[at]];
            // SAFETY: this function is compiled for all that the hash needs.
            unsafe { H::compress(&mut state, [blocks[at]]) };
            (states[at], blocks[at]) = (state[0], [zero; 4]);
        }
        blocks[at][3] = vorrq_u32(blocks[at][3], bits(length));
    }
    // SAFETY: as above.
    unsafe { H::compress(&mut states, blocks) };

    // SAFETY: as above.
    let hashes = states.map(|state| unsafe { H::words(state) });
    leak!("HMAC: inner hash", hashes);
    let blocks = hashes.map(|[low, high]| {
        let mut block = [low, high, zero, bits(BLOCK + 4 * WORDS)];
        // The bit that ends a message is behind the fifth word with SHA-1, and behind the eighth with SHA-256.
        let [end, _, _, _] = last_block(&[0; 16][..WORDS % 4 * 4]);
        block[WORDS / 4] = vorrq_u32(block[WORDS / 4], end);
        block
    });
    // SAFETY: as above.
    unsafe {
        let mut states = outer.map(|words| H::state(words));
        H::compress(&mut states, blocks);
        states.map(|state| {
            let mut words = [0; 8];
            let [low, high] = H::words(state);
            vst1q_u32(words.as_mut_ptr(), low);
            vst1q_u32(words.as_mut_ptr().add(4), high);
            *words.first_chunk().expect("a hash has at most eight words")
        })
    }
}

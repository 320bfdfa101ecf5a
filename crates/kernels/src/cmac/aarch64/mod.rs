//! AES-128-CMAC by AES instructions of AArch64, of one message or of eight side by side.
//!
//! AESE adds a round key before it substitutes, so that a block can come in with the first round key and the last one of the block
//! before: nothing but AES lies on the way from block to block. A state is what AES leaves without its last round key.

mod eight;
mod many;
mod one;

use core::arch::aarch64::*;
use core::fmt;

use zeroize::{ZeroizeOnDrop, Zeroizing};

use crate::aes::vector::short_number;
use crate::aes::{Engine, ROUND_KEYS};
use crate::cpu::InstructionSet;

pub use many::mac_many;

/// A key for AES-128-CMAC with its round keys: 192 octets, wiped on drop. Having one proves that the processor has AES.
#[derive(ZeroizeOnDrop)]
pub struct Key {
    /// The round keys without the last.
    round_keys: [u128; 10],
    /// The sum of the last round key and the first.
    between: u128,
    /// The subkey K1 (RFC 4493 §2.3). Doubled, it is K2.
    k1: u128,
}

impl Key {
    /// Expands a key, or returns `None` if the processor lacks
    /// [`InstructionSet::Aarch64Aes`].
    #[must_use]
    pub fn new(key: &[u8; 16]) -> Option<Self> {
        let engine = Engine::detect()?;
        let mut keys = Zeroizing::new([0; ROUND_KEYS]);
        let rounds = engine.expand(key, &mut keys)?;
        leak!("CMAC: key", *keys);
        let l = u128::from_le_bytes(engine.encrypt(&keys, rounds, [0; 16]));
        let (round_keys, last) = keys.split_first_chunk()?;
        Some(Self { round_keys: *round_keys, between: last[0] ^ round_keys[0], k1: double(l) })
    }

    /// The instructions that compute one message at a time.
    #[must_use]
    pub fn path(&self) -> InstructionSet {
        InstructionSet::Aarch64Aes
    }

    /// The last block of a message, which holds these octets, with the subkey added (RFC 4493 §2.4).
    #[inline]
    fn last_block(&self, octets: &[u8]) -> u128 {
        self.with_subkey(short_number(octets), octets.len())
    }

    /// The last block, of which these octets are in, padded if it is not whole, with the subkey added.
    #[inline]
    fn with_subkey(&self, block: u128, octets: usize) -> u128 {
        leak!("CMAC and HMAC: short message", block);
        match octets {
            16 => block ^ self.k1,
            _ => block ^ 0x80 << (8 * octets) ^ double(self.k1),
        }
    }

    /// The state before the first block: with it, the last round key cancels out.
    #[inline]
    fn start(&self) -> u128 {
        self.between ^ self.round_keys[0]
    }

    /// The MAC from the state behind the last block.
    #[inline]
    fn finish(&self, state: u128) -> [u8; 16] {
        (state ^ self.start()).to_le_bytes()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

/// Doubles in GF(2^128) (RFC 4493 §2.3), without a branch on the secret top bit.
#[inline]
fn double(block: u128) -> u128 {
    let number = block.swap_bytes();
    (number << 1 ^ 0x87 & (number >> 127).wrapping_neg()).swap_bytes()
}

/// The 16 octets of a round key.
#[inline]
#[target_feature(enable = "neon")]
fn vector(key: &u128) -> uint8x16_t {
    // SAFETY: there are 16 octets.
    unsafe { vld1q_u8(core::ptr::from_ref(key).cast()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn load(block: &[u8; 16]) -> uint8x16_t {
    // SAFETY: there are 16 octets, and they need no alignment.
    unsafe { vld1q_u8(block.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn number(v: uint8x16_t) -> u128 {
    let words = vreinterpretq_u64_u8(v);
    u128::from(vgetq_lane_u64::<0>(words)) | u128::from(vgetq_lane_u64::<1>(words)) << 64
}

//! One message: the latency of AES is all the time it takes.

use core::arch::aarch64::*;

use super::{Key, load, number, vector};
use crate::aes::octets_of_number;
use crate::aes::vector::short_number;

impl Key {
    /// The MAC, 16 octets, of the slices of `message`, taken as one message.
    #[inline]
    #[must_use]
    pub fn mac(&self, message: &[&[u8]]) -> [u8; 16] {
        // SAFETY: a key is made only where the processor has AES.
        unsafe { mac(self, message) }
    }
}

#[target_feature(enable = "neon,aes")]
fn mac(key: &Key, message: &[&[u8]]) -> [u8; 16] {
    let between = vector(&key.between);
    let mut state = octets_of_number(key.start());
    // The current block, and how many of its octets are in. A full block waits, because the last one is treated differently.
    let mut block = vdupq_n_u8(0);
    let mut position = 0;
    for slice in message {
        let (octets, slice) = slice.split_at(slice.len().min(16 - position));
        if !octets.is_empty() {
            leak!("CMAC: block in two slices", state);
            block = veorq_u8(block, octets_of_number(short_number(octets) << (8 * position)));
            position += octets.len();
        }
        let (blocks, rest) = slice.as_chunks();
        for next in blocks {
            state = encrypt(key, state, veorq_u8(between, block));
            block = load(next);
        }
        if !rest.is_empty() {
            state = encrypt(key, state, veorq_u8(between, block));
            block = octets_of_number(short_number(rest));
            position = rest.len();
        }
    }
    let last = octets_of_number(key.with_subkey(number(block), position));
    key.finish(number(encrypt(key, state, veorq_u8(between, last))))
}

/// CIPHER (FIPS 197 §5.1) without its last round key, of the sum of two blocks.
#[inline]
#[target_feature(enable = "neon,aes")]
fn encrypt(key: &Key, mut state: uint8x16_t, mut added: uint8x16_t) -> uint8x16_t {
    leak!("CMAC: one block", state);
    for round_key in &key.round_keys[1..] {
        state = vaesmcq_u8(vaeseq_u8(state, added));
        added = vector(round_key);
    }
    vaeseq_u8(state, added)
}

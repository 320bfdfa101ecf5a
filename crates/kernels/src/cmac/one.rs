//! One message. Only AES may lie on the way from one block to the next: its latency is all the time a message takes.

use core::arch::x86_64::*;

use super::key::{Key, double};
use crate::partial_block::{first_octets, last_octets, load, padding_bit, shifted_up, store};

impl Key {
    /// The MAC, 16 octets, of the slices of `message`, taken as one message.
    #[inline]
    #[must_use]
    pub fn mac(&self, message: &[&[u8]]) -> [u8; 16] {
        // SAFETY: a key is made only where the processor has AES-NI.
        unsafe { mac(self, message) }
    }
}

/// The state is the one of RFC 4493 with the first round key and the octets of the current block added. The next block comes in
/// with the last round of AES, which adds a round key anyway: that key, the first one and the block in one step.
#[target_feature(enable = "aes,sse4.1,ssse3")]
fn mac(key: &Key, message: &[&[u8]]) -> [u8; 16] {
    let keys = &key.round_keys;
    let between = _mm_xor_si128(keys[10], keys[0]);
    let mut state = keys[0];
    // How many octets of the current block are in. A full block waits, because the last one is treated differently.
    let mut position = 0;
    for slice in message {
        let mut slice = *slice;
        if position == 0
            && let Some((block, rest)) = slice.split_first_chunk()
        {
            state = _mm_xor_si128(state, load(block));
            position = 16;
            slice = rest;
        } else if position < 16 {
            let taken = slice.len().min(16 - position);
            leak!("CMAC: block in two slices", state);
            state = _mm_xor_si128(state, shifted_up(first_octets(slice, taken), position));
            position += taken;
            slice = &slice[taken..];
        }
        if slice.is_empty() {
            continue;
        }
        // Unrolled by four: with less loop overhead, the processor starts sooner on what follows the chain.
        let (fours, rest) = slice.as_chunks::<64>();
        for four in fours {
            for block in four.as_chunks().0 {
                state = encrypt(keys, state, _mm_xor_si128(between, load(block)));
            }
        }
        let (blocks, rest) = rest.as_chunks();
        for block in blocks {
            state = encrypt(keys, state, _mm_xor_si128(between, load(block)));
        }
        position = 16;
        if !rest.is_empty() {
            state = encrypt(keys, state, _mm_xor_si128(between, last_octets(slice, rest.len())));
            position = rest.len();
        }
    }
    let last = if position == 16 { key.k1 } else { _mm_xor_si128(double(key.k1), padding_bit(position)) };
    store(encrypt(keys, _mm_xor_si128(state, last), keys[10]))
}

/// CIPHER (FIPS 197 §5.1) from the first round on, with `last` for the last round key.
#[inline]
#[target_feature(enable = "aes,sse2")]
fn encrypt(keys: &[__m128i; 11], mut state: __m128i, last: __m128i) -> __m128i {
    leak!("CMAC: one block", state);
    for key in &keys[1..10] {
        state = _mm_aesenc_si128(state, *key);
    }
    _mm_aesenclast_si128(state, last)
}

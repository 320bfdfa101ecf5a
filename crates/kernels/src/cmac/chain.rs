//! One message: only the time of AES from one block to the next counts, so that nothing else may lie in between.

use core::arch::x86_64::*;

use super::x86::{Key, double};
use crate::cut::{end, head, load, store, tail, up};

/// The MAC of a message.
///
/// The state is that of RFC 4493 with the octets of the block so far and the first round key added. A block comes in by the
/// last round of the one before it, which adds a round key anyway: this one, the first one and the block in one.
#[target_feature(enable = "aes,sse4.1,ssse3")]
pub(super) fn mac(key: &Key, message: &[&[u8]]) -> [u8; 16] {
    let keys = &key.round_keys;
    let between = _mm_xor_si128(keys[10], keys[0]);
    let mut state = keys[0];
    // How many octets of the block are in. A full one waits for those behind it, because the last one is treated apart.
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
            state = _mm_xor_si128(state, up(head(slice, taken), position));
            position += taken;
            slice = &slice[taken..];
        }
        if slice.is_empty() {
            continue;
        }
        // What follows the chain must be in sight of the processor before the chain is done: every instruction counts that
        // is none of AES.
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
            state = encrypt(keys, state, _mm_xor_si128(between, tail(slice, rest.len())));
            position = rest.len();
        }
    }
    let last = if position == 16 { key.k1 } else { _mm_xor_si128(double(key.k1), end(position)) };
    store(encrypt(keys, _mm_xor_si128(state, last), keys[10]))
}

/// CIPHER (FIPS 197, section 5.1) from the first round on, with another last round key.
#[inline]
#[target_feature(enable = "aes,sse2")]
fn encrypt(keys: &[__m128i; 11], mut state: __m128i, last: __m128i) -> __m128i {
    for key in &keys[1..10] {
        state = _mm_aesenc_si128(state, *key);
    }
    _mm_aesenclast_si128(state, last)
}

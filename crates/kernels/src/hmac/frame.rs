//! Shared by the paths on x86-64: a message's words, its end, and the frame of HMAC.

use core::arch::x86_64::*;

use zeroize::optimization_barrier;

use super::message::BLOCK;
use crate::groups::Job;
use crate::partial_block::{last_octets, load, padding_bit, store};

/// The words of a block, in the order that the hash's instructions take.
pub(super) type Block = [__m128i; 4];

/// A shuffle from a message's octets to a vector of words, with the first word in the lowest place.
pub(super) const FIRST_LOWEST: [u8; 16] = [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12];

/// The same with the first word in the highest place.
pub(super) const FIRST_HIGHEST: [u8; 16] = [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0];

/// `hmac`, `absorb` and `absorb_key` of one message, compiled for a path. The module must have the hash's `State`, the functions `start`, `restart`,
/// `finish`, `compress_all`, `compress`, `compress_both` and `words`, and the order of words.
macro_rules! hmac {
    ($words:literal, $octets:literal, $order:ident, $features:literal) => {
        /// Processes blocks into a chaining value.
        #[target_feature(enable = $features)]
        pub(crate) fn absorb(value: &mut [u32; $words], blocks: &[[u8; BLOCK]]) {
            let mut state = start(value);
            compress_all(&mut state, blocks);
            finish(&state, value);
        }

        /// Processes the inner and the outer key block of a key of at most 64 octets into two chaining values.
        #[target_feature(enable = $features)]
        pub(crate) fn absorb_key(values: &mut [[u32; $words]; 2], key: &[u8]) {
            let key = reordered(key_block(key), &$order);
            leak!("HMAC: key", key[0]);
            let [inner, outer] = &*values;
            let mut pair = KeyBlocks {
                states: [start(inner), start(outer)],
                // The inner and the outer pad (RFC 2104 §2).
                blocks: [padded(key, 0x36), padded(key, 0x5c)],
            };
            compress_both(&mut pair.states, &mut pair.blocks);
            for (state, value) in pair.states.iter().zip(values) {
                finish(state, value);
            }
        }

        /// The HMAC of the slices of `message`, after `before` octets in the inner chaining value; the outer one is that after its key
        /// block.
        #[target_feature(enable = $features)]
        pub(crate) fn hmac(
            [inner, outer]: [&[u32; $words]; 2],
            before: u64,
            message: &[&[u8]],
        ) -> [u8; $octets] {
            let mut state = start(inner);
            let mut rest;
            // In most messages no block spans two slices, so the end need not be copied.
            let in_place: Option<[&[u8]; 2]> = match *message {
                [tail] => Some([&[], tail]),
                [head, tail] if head.len().is_multiple_of(BLOCK) => Some([head, tail]),
                _ => None,
            };
            let (octets, length) = if let Some([head, tail]) = in_place {
                for slice in [head, tail] {
                    compress_all(&mut state, slice.as_chunks().0);
                }
                (tail, head.len() + tail.len())
            } else {
                rest = Rest::new();
                rest.behind_blocks(message, |blocks| compress_all(&mut state, blocks));
                (rest.octets(), rest.length)
            };
            let mut last = last_block(octets);
            leak!("HMAC: last block", last);
            if octets.len() % BLOCK >= BLOCK - 8 {
                compress(&mut state, reordered(last, &$order));
                last = [_mm_setzero_si128(); 4];
            }
            last[3] = _mm_or_si128(last[3], bits(before + length as u64));
            compress(&mut state, reordered(last, &$order));

            let inner_hash = words(&state);
            leak!("HMAC: inner hash", inner_hash[0]);
            restart(&mut state, outer);
            compress(&mut state, outer_block::<$octets>(inner_hash, &$order));
            octets_of(words(&state), &$order)
        }
    };
}
pub(super) use hmac;

/// The words of a block of a message.
#[inline]
#[target_feature(enable = "ssse3")]
pub(super) fn words_of(octets: &[u8; BLOCK], order: &[u8; 16]) -> Block {
    let (parts, _) = octets.as_chunks();
    reordered(core::array::from_fn(|at| load(&parts[at])), order)
}

/// Octets of a message to words, or words to octets.
#[inline]
#[target_feature(enable = "ssse3")]
pub(super) fn reordered<const PARTS: usize>(parts: [__m128i; PARTS], order: &[u8; 16]) -> [__m128i; PARTS] {
    parts.map(|part| _mm_shuffle_epi8(part, load(order)))
}

/// The octets after the whole blocks of `octets`, followed by the bit that ends a message (FIPS 180-4 §5.1.1) and zeros.
#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
pub(super) fn last_block(octets: &[u8]) -> Block {
    let zero = _mm_setzero_si128();
    let (parts, rest) = octets.as_chunks::<BLOCK>().1.as_chunks();
    let end = _mm_or_si128(last_octets(octets, rest.len()), padding_bit(rest.len()));
    match parts {
        [] => [end, zero, zero, zero],
        [first] => [load(first), end, zero, zero],
        [first, second] => [load(first), load(second), end, zero],
        [first, second, third, ..] => [load(first), load(second), load(third), end],
    }
}

/// The octets of a key, at most 64, followed by zeros.
#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
pub(super) fn key_block(octets: &[u8]) -> Block {
    let zero = _mm_setzero_si128();
    let (parts, rest) = octets.as_chunks();
    let end = last_octets(octets, rest.len());
    match parts {
        [] => [end, zero, zero, zero],
        [first] => [load(first), end, zero, zero],
        [first, second] => [load(first), load(second), end, zero],
        [first, second, third] => [load(first), load(second), load(third), end],
        [first, second, third, fourth, ..] => [load(first), load(second), load(third), load(fourth)],
    }
}

/// A chaining value of a path.
///
/// # Safety
/// Zeros are valid for it.
pub(super) unsafe trait OfZeros {}

/// The two key blocks and their chaining values, which may be vectors in memory; wiped on drop.
pub(super) struct KeyBlocks<State: OfZeros> {
    pub(super) states: [State; 2],
    pub(super) blocks: [Block; 2],
}

impl<State: OfZeros> Drop for KeyBlocks<State> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: zeros are valid for vectors, and for the state by its trait.
        unsafe { core::ptr::from_mut(self).write_bytes(0, 1) };
        optimization_barrier(self);
    }
}

/// The key block XORed with a pad octet.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn padded(key: Block, octet: i8) -> Block {
    let pad = _mm_set1_epi8(octet);
    let [first, second, third, fourth] = key;
    [
        _mm_xor_si128(first, pad),
        _mm_xor_si128(second, pad),
        _mm_xor_si128(third, pad),
        _mm_xor_si128(fourth, pad),
    ]
}

/// The last part of a block that gives the message's length in bits (FIPS 180-4 §5.1.1).
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn bits(octets: u64) -> __m128i {
    _mm_set_epi64x((8 * octets).swap_bytes().cast_signed(), 0)
}

/// The only block after the outer key block: the inner hash of `OCTETS` octets with its padding.
#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
pub(super) fn outer_block<const OCTETS: usize>([low, high]: [__m128i; 2], order: &[u8; 16]) -> Block {
    let [end, bits] = reordered([padding_bit(OCTETS % 16), bits((BLOCK + OCTETS) as u64)], order);
    let mut block = [low, high, _mm_setzero_si128(), bits];
    block[OCTETS / 16] = _mm_or_si128(block[OCTETS / 16], end);
    block
}

/// The octets of a hash.
#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
pub(super) fn octets_of<const OCTETS: usize>(words: [__m128i; 2], order: &[u8; 16]) -> [u8; OCTETS] {
    let [low, high] = reordered(words, order).map(|words| store(words));
    let mut octets = [0; OCTETS];
    let (start, rest) = octets.split_at_mut(16);
    start.copy_from_slice(&low);
    rest.copy_from_slice(&high[..OCTETS - 16]);
    octets
}

/// A message with the chaining values after its inner and its outer key block.
pub(super) type KeyedJob<'a, const WORDS: usize> = Job<'a, [&'a [u32; WORDS]; 2]>;

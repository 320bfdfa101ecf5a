//! The key expansion, but for its substitution, which each path has instructions for.

use super::{RoundKeys, Rounds};

/// KEYEXPANSION (FIPS 197 §5.2) into `keys`, or `None` if `key` has neither 16 nor 32 octets. `substitute` is SUBWORD.
///
/// The octets of words and blocks lie first to last, so that ROTWORD rotates to the right.
#[inline(always)]
pub(super) fn expand(key: &[u8], keys: &mut RoundKeys, substitute: impl Fn(u32) -> u32) -> Option<Rounds> {
    let words = |key: &[u8]| {
        let (words, _) = key.as_chunks();
        [0, 1, 2, 3].map(|at| u32::from_le_bytes(words[at]))
    };
    // Each word is added to the one behind it.
    let next = |[a, b, c, d]: [u32; 4], added: u32| {
        let a = a ^ added;
        [a, a ^ b, a ^ b ^ c, a ^ b ^ c ^ d]
    };
    let mut constant = 1_u32;
    let mut rotated = |last: u32| {
        let added = substitute(last).rotate_right(8) ^ constant;
        constant = if constant == 0x80 { 0x1b } else { constant << 1 };
        added
    };
    match key.len() {
        16 => {
            let mut last = words(key);
            for key in &mut keys[..11] {
                *key = block(last);
                last = next(last, rotated(last[3]));
            }
            Some(Rounds::Ten)
        }
        32 => {
            let (mut first, mut second) = (words(&key[..16]), words(&key[16..]));
            let (pairs, last) = keys.as_chunks_mut();
            for pair in pairs {
                *pair = [block(first), block(second)];
                first = next(first, rotated(second[3]));
                second = next(second, substitute(first[3]));
            }
            last[0] = block(first);
            Some(Rounds::Fourteen)
        }
        _ => None,
    }
}

fn block(words: [u32; 4]) -> u128 {
    words.into_iter().rev().fold(0, |block, word| block << 32 | u128::from(word))
}

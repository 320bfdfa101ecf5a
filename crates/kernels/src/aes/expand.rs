//! Round keys, and key expansion except the substitution, which each path does with its own instructions.

/// The round keys of AES-256. AES-128 has four fewer.
pub(crate) const ROUND_KEYS: usize = 15;

/// Round keys, whose octets lie first to last. They are numbers only because those are wiped faster than octets.
pub(crate) type RoundKeys = [u128; ROUND_KEYS];

/// How many rounds AES has with a key.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Rounds {
    /// 10, with a key of 16 octets.
    Ten = 10,
    /// 14, with a key of 32 octets.
    Fourteen = 14,
}

/// KEYEXPANSION (FIPS 197 §5.2) into `keys`, or `None` if `key` has neither 16 nor 32 octets. `substitute` is SUBWORD.
///
/// Words and blocks have their octets first to last, so ROTWORD rotates to the right.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
#[inline]
pub(super) fn expand(key: &[u8], keys: &mut RoundKeys, substitute: impl Fn(u32) -> u32) -> Option<Rounds> {
    let words = |key: &[u8]| {
        let (words, _) = key.as_chunks();
        [0, 1, 2, 3].map(|at| u32::from_le_bytes(words[at]))
    };
    // Each word is added to the next.
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
            leak!("AES-128: key expansion", last);
            for key in &mut keys[..11] {
                *key = block(last);
                last = next(last, rotated(last[3]));
            }
            Some(Rounds::Ten)
        }
        32 => {
            let (mut first, mut second) = (words(&key[..16]), words(&key[16..]));
            leak!("AES-256: key expansion", second);
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

#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
fn block(words: [u32; 4]) -> u128 {
    words.into_iter().rev().fold(0, |block, word| block << 32 | u128::from(word))
}

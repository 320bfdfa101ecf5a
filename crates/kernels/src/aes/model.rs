//! AES, written as in FIPS 197, to compare the fast routines with: slow, and with indices that depend on secrets.

/// Multiplication by x modulo x^8 + x^4 + x^3 + x + 1 (FIPS 197 §4.2).
const fn xtime(b: u8) -> u8 {
    b << 1 ^ if b & 0x80 != 0 { 0x1b } else { 0 }
}

/// The product of two octets as polynomials (FIPS 197 §4.2).
const fn multiply(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        a = xtime(a);
        b >>= 1;
    }
    product
}

/// SBOX (FIPS 197 §5.1.1): the inverse, then the affine transformation.
const fn substitute(b: u8) -> u8 {
    let mut inverse = 1;
    let mut power = 0;
    // b^254 is the inverse, and 0 for 0.
    while power < 254 {
        inverse = multiply(inverse, b);
        power += 1;
    }
    inverse
        ^ inverse.rotate_left(1)
        ^ inverse.rotate_left(2)
        ^ inverse.rotate_left(3)
        ^ inverse.rotate_left(4)
        ^ 0x63
}

static SBOX: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        table[at] = substitute(at as u8);
        at += 1;
    }
    table
};

/// KEYEXPANSION (FIPS 197 §5.2) of a key of 16 or 32 octets: the round keys, and the number of rounds.
#[must_use]
pub fn expand(key: &[u8]) -> ([[u8; 16]; 15], usize) {
    let words_of_key = key.len() / 4;
    let rounds = words_of_key + 6;
    let mut words = [[0; 4]; 60];
    let mut constant = 1;
    for at in 0..4 * (rounds + 1) {
        if at < words_of_key {
            words[at].copy_from_slice(&key[4 * at..][..4]);
            continue;
        }
        let mut word = words[at - 1];
        if at % words_of_key == 0 {
            word = [word[1], word[2], word[3], word[0]].map(|b| SBOX[usize::from(b)]);
            word[0] ^= constant;
            constant = xtime(constant);
        } else if words_of_key > 6 && at % words_of_key == 4 {
            word = word.map(|b| SBOX[usize::from(b)]);
        }
        words[at] = core::array::from_fn(|i| words[at - words_of_key][i] ^ word[i]);
    }
    let mut keys = [[0; 16]; 15];
    for (at, word) in words.iter().enumerate() {
        keys[at / 4][at % 4 * 4..][..4].copy_from_slice(word);
    }
    (keys, rounds)
}

/// CIPHER (FIPS 197 §5.1) under a key of 16 or 32 octets.
#[must_use]
pub fn encrypt(key: &[u8], block: [u8; 16]) -> [u8; 16] {
    let (keys, rounds) = expand(key);
    let add = |state: [u8; 16], key: &[u8; 16]| core::array::from_fn(|i| state[i] ^ key[i]);
    let mut state = add(block, &keys[0]);
    for (round, key) in keys.iter().enumerate().take(rounds + 1).skip(1) {
        // SUBBYTES and SHIFTROWS: row i % 4 comes from i % 4 columns further on.
        state = core::array::from_fn(|i| SBOX[usize::from(state[(i + 4 * (i % 4)) % 16])]);
        if round < rounds {
            // MIXCOLUMNS.
            state = core::array::from_fn(|i| {
                let row = |down: usize| state[i / 4 * 4 + (i + down) % 4];
                multiply(row(0), 2) ^ multiply(row(1), 3) ^ row(2) ^ row(3)
            });
        }
        state = add(state, key);
    }
    state
}

#[cfg(test)]
mod tests {
    use hex_literal::hex;

    #[test]
    fn fips_197_appendix_b_and_c() {
        let key = hex!("2b7e151628aed2a6abf7158809cf4f3c");
        let cipher = super::encrypt(&key, hex!("3243f6a8885a308d313198a2e0370734"));
        assert_eq!(cipher, hex!("3925841d02dc09fbdc118597196a0b32"));

        let plain = hex!("00112233445566778899aabbccddeeff");
        let key = hex!("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
        assert_eq!(super::encrypt(&key[..16], plain), hex!("69c4e0d86a7b0430d8cdb78070b4c55a"));
        assert_eq!(super::encrypt(&key, plain), hex!("8ea2b7ca516745bfeafc49904b496089"));
    }
}

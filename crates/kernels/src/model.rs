//! Slow models of the routines, each written like its standard, to compare the fast ones with.

/// AES, written as in FIPS 197. Indices depend on secrets.
pub mod aes {
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
        // b^254 is the inverse of b, and 0 for 0.
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
    fn expand(key: &[u8]) -> ([[u8; 16]; 15], usize) {
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
}

/// AES-128-CMAC, written as in RFC 4493.
pub mod cmac {
    use super::aes::encrypt;

    /// AES-CMAC (RFC 4493 §2.4) of a message.
    #[must_use]
    pub fn mac(key: &[u8; 16], message: &[u8]) -> [u8; 16] {
        let (k1, k2) = subkeys(key);
        let blocks = message.len().div_ceil(16).max(1);
        let (whole, last) = message.split_at(16 * (blocks - 1));
        let last = match <[u8; 16]>::try_from(last) {
            Ok(last) => xor(last, k1),
            Err(_) => xor(pad(last), k2),
        };
        let x = whole.as_chunks().0.iter().fold([0; 16], |x, block| encrypt(key, xor(x, *block)));
        encrypt(key, xor(x, last))
    }

    /// Generate_Subkey (RFC 4493 §2.3).
    fn subkeys(key: &[u8; 16]) -> ([u8; 16], [u8; 16]) {
        let double = |block: [u8; 16]| {
            let number = u128::from_be_bytes(block);
            let doubled = if number >> 127 == 0 { number << 1 } else { number << 1 ^ 0x87 };
            doubled.to_be_bytes()
        };
        let k1 = double(encrypt(key, [0; 16]));
        (k1, double(k1))
    }

    /// padding(x): a last block that is not whole, followed by a one bit and zeros.
    fn pad(last: &[u8]) -> [u8; 16] {
        let mut padded = [0; 16];
        padded[..last.len()].copy_from_slice(last);
        padded[last.len()] = 0x80;
        padded
    }

    fn xor(a: [u8; 16], b: [u8; 16]) -> [u8; 16] {
        core::array::from_fn(|i| a[i] ^ b[i])
    }
}

/// GCM, written as in SP 800-38D. Branches depend on secrets.
pub mod gcm {
    use super::aes::encrypt;

    /// The product of two blocks (SP 800-38D §6.3): the first bit of a block is its highest.
    fn multiply(x: u128, y: u128) -> u128 {
        let mut z = 0;
        let mut v = y;
        for i in (0..128).rev() {
            if x >> i & 1 == 1 {
                z ^= v;
            }
            v = v >> 1 ^ if v & 1 == 1 { 0xe1 << 120 } else { 0 };
        }
        z
    }

    /// At most 16 octets, followed by zeros.
    fn block(octets: &[u8]) -> u128 {
        let mut block = [0; 16];
        block[..octets.len()].copy_from_slice(octets);
        u128::from_be_bytes(block)
    }

    /// GHASH (SP 800-38D §6.4) of the associated data and the ciphertext, each padded to whole blocks, and their lengths.
    fn ghash(h: u128, aad: &[u8], ciphertext: &[u8]) -> u128 {
        let lengths = ((aad.len() as u128 * 8) << 64) | (ciphertext.len() as u128 * 8);
        let blocks = aad.chunks(16).chain(ciphertext.chunks(16)).map(block);
        blocks.chain([lengths]).fold(0, |y, x| multiply(y ^ x, h))
    }

    /// GCTR (SP 800-38D §6.5) from the text's first counter, which is 2.
    fn encrypt_text(key: &[u8], nonce: &[u8; 12], text: &mut [u8]) {
        for (at, chunk) in text.chunks_mut(16).enumerate() {
            let keystream = encrypt(key, counter(nonce, at as u32 + 2));
            chunk.iter_mut().zip(keystream).for_each(|(octet, key)| *octet ^= key);
        }
    }

    fn counter(nonce: &[u8; 12], count: u32) -> [u8; 16] {
        let mut block = [0; 16];
        block[..12].copy_from_slice(nonce);
        block[12..].copy_from_slice(&count.to_be_bytes());
        block
    }

    fn tag(key: &[u8], nonce: &[u8; 12], aad: &[u8], ciphertext: &[u8]) -> [u8; 16] {
        let h = u128::from_be_bytes(encrypt(key, [0; 16]));
        let mask = u128::from_be_bytes(encrypt(key, counter(nonce, 1)));
        (ghash(h, aad, ciphertext) ^ mask).to_be_bytes()
    }

    /// GCM-AE (SP 800-38D §7.1) under a key of 16 or 32 octets: encrypts `text` and returns the tag.
    #[must_use]
    pub fn seal(key: &[u8], nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
        encrypt_text(key, nonce, text);
        tag(key, nonce, aad, text)
    }
}

/// ChaCha20, written as in RFC 8439.
pub mod chacha20 {
    /// The key stream block of `key`, `counter` and `nonce` (RFC 8439 §2.3).
    #[must_use]
    pub fn block(key: &[u8; 32], counter: u32, nonce: &[u8; 12]) -> [u8; 64] {
        let mut state = [0; 16];
        state[0] = 0x6170_7865;
        state[1] = 0x3320_646e;
        state[2] = 0x7962_2d32;
        state[3] = 0x6b20_6574;
        for (word, octets) in state[4..12].iter_mut().zip(key.as_chunks().0) {
            *word = u32::from_le_bytes(*octets);
        }
        state[12] = counter;
        for (word, octets) in state[13..].iter_mut().zip(nonce.as_chunks().0) {
            *word = u32::from_le_bytes(*octets);
        }
        let mut working = state;
        for _ in 0..10 {
            quarter_round(&mut working, 0, 4, 8, 12);
            quarter_round(&mut working, 1, 5, 9, 13);
            quarter_round(&mut working, 2, 6, 10, 14);
            quarter_round(&mut working, 3, 7, 11, 15);
            quarter_round(&mut working, 0, 5, 10, 15);
            quarter_round(&mut working, 1, 6, 11, 12);
            quarter_round(&mut working, 2, 7, 8, 13);
            quarter_round(&mut working, 3, 4, 9, 14);
        }
        let mut stream = [0; 64];
        for (octets, (word, start)) in stream.as_chunks_mut().0.iter_mut().zip(working.iter().zip(state)) {
            *octets = word.wrapping_add(start).to_le_bytes();
        }
        stream
    }

    /// RFC 8439 §2.1.
    fn quarter_round(state: &mut [u32; 16], a: usize, b: usize, c: usize, d: usize) {
        state[a] = state[a].wrapping_add(state[b]);
        state[d] = (state[d] ^ state[a]).rotate_left(16);
        state[c] = state[c].wrapping_add(state[d]);
        state[b] = (state[b] ^ state[c]).rotate_left(12);
        state[a] = state[a].wrapping_add(state[b]);
        state[d] = (state[d] ^ state[a]).rotate_left(8);
        state[c] = state[c].wrapping_add(state[d]);
        state[b] = (state[b] ^ state[c]).rotate_left(7);
    }

    /// The header mask (RFC 9001 §5.4.4): the sample's first four octets are the counter and the others the nonce.
    #[must_use]
    pub fn header_mask(key: &[u8; 32], sample: &[u8; 16]) -> [u8; 5] {
        let mut counter = [0; 4];
        counter.copy_from_slice(&sample[..4]);
        let mut nonce = [0; 12];
        nonce.copy_from_slice(&sample[4..]);
        let mut mask = [0; 5];
        mask.copy_from_slice(&block(key, u32::from_le_bytes(counter), &nonce)[..5]);
        mask
    }
}

/// Poly1305, written as in RFC 8439 §2.5.
pub mod poly1305 {
    /// A number below twice 2^130: its lower 128 bits, and the bits above.
    type Number = (u128, u64);

    /// 2^130 - 5.
    const P: Number = (u128::MAX - 4, 3);

    /// The tag of `message` under `key`.
    #[must_use]
    pub fn mac(key: &[u8; 32], message: &[u8]) -> [u8; 16] {
        let accumulator = message.chunks(16).fold((0, 0), |accumulator, block| take(accumulator, key, block));
        finish(accumulator, key)
    }

    /// The tag of `texts`, each padded with zeros to whole blocks.
    pub(super) fn mac_of_padded(key: &[u8; 32], texts: &[&[u8]]) -> [u8; 16] {
        let mut accumulator = (0, 0);
        for block in texts.iter().flat_map(|text| text.chunks(16)) {
            let mut padded = [0; 16];
            padded[..block.len()].copy_from_slice(block);
            accumulator = take(accumulator, key, &padded);
        }
        finish(accumulator, key)
    }

    /// Adds a block followed by the octet 1, and multiplies by the clamped r.
    fn take(accumulator: Number, key: &[u8; 32], block: &[u8]) -> Number {
        let mut octets = [0; 32];
        octets[..block.len()].copy_from_slice(block);
        octets[block.len()] = 1;
        let [low, high] = halves(&octets);
        let r = halves(key)[0] & 0x0fff_fffc_0fff_fffc_0fff_fffc_0fff_ffff;
        multiply(add(accumulator, (low, high as u64)), r)
    }

    /// Adds s, modulo 2^128.
    fn finish((low, _): Number, key: &[u8; 32]) -> [u8; 16] {
        low.wrapping_add(halves(key)[1]).to_le_bytes()
    }

    /// Two numbers, the least significant octet first.
    fn halves(octets: &[u8; 32]) -> [u128; 2] {
        let (halves, _) = octets.as_chunks();
        [0, 1].map(|half| u128::from_le_bytes(halves[half]))
    }

    /// a * b modulo 2^130 - 5, bit by bit of b.
    fn multiply(a: Number, b: u128) -> Number {
        (0..128).rev().fold((0, 0), |product, bit| {
            let double = add(product, product);
            if b >> bit & 1 == 1 { add(double, a) } else { double }
        })
    }

    /// a + b modulo 2^130 - 5.
    fn add(a: Number, b: Number) -> Number {
        let (mut low, carry) = a.0.overflowing_add(b.0);
        let mut high = a.1 + b.1 + u64::from(carry);
        while (high, low) >= (P.1, P.0) {
            let borrow;
            (low, borrow) = low.overflowing_sub(P.0);
            high -= P.1 + u64::from(borrow);
        }
        (low, high)
    }
}

/// ChaCha20-Poly1305, written as in RFC 8439.
pub mod chacha20_poly1305 {
    use super::{chacha20, poly1305};

    /// Encrypts `text` and returns the tag (RFC 8439 §2.8).
    #[must_use]
    pub fn seal(key: &[u8; 32], nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
        encrypt(key, nonce, text);
        tag(key, nonce, aad, text)
    }

    /// RFC 8439 §2.4.
    fn encrypt(key: &[u8; 32], nonce: &[u8; 12], text: &mut [u8]) {
        for (block, counter) in text.chunks_mut(64).zip(1..) {
            let stream = chacha20::block(key, counter, nonce);
            block.iter_mut().zip(stream).for_each(|(octet, stream)| *octet ^= stream);
        }
    }

    /// Poly1305 of both texts, padded, and their lengths, under the one-time key (RFC 8439 §2.6).
    fn tag(key: &[u8; 32], nonce: &[u8; 12], aad: &[u8], text: &[u8]) -> [u8; 16] {
        let mut one_time = [0; 32];
        one_time.copy_from_slice(&chacha20::block(key, 0, nonce)[..32]);
        let lengths = [aad.len() as u64, text.len() as u64].map(u64::to_le_bytes);
        poly1305::mac_of_padded(&one_time, &[aad, text, lengths.as_flattened()])
    }
}

/// HMAC, written as in RFC 2104, and the hashes as in FIPS 180-4.
pub mod hmac {
    use crate::hmac::message::K;

    /// SHA-1 or SHA-256: the chaining value before the first block, and the function that processes a block.
    #[derive(Clone, Copy, Debug)]
    pub struct Hash<const WORDS: usize> {
        /// The chaining value before the first block.
        pub initial: [u32; WORDS],
        compress: fn(&mut [u32; WORDS], &[u8; 64]),
    }

    /// SHA-1.
    pub const SHA1: Hash<5> = Hash { initial: SHA1_INITIAL, compress: sha1_compress };

    /// SHA-256.
    pub const SHA256: Hash<8> = Hash { initial: SHA256_INITIAL, compress: sha256_compress };

    impl<const WORDS: usize> Hash<WORDS> {
        /// The hash of `first` and `message`, taken as one message.
        #[must_use]
        pub fn hash(&self, first: &[[u8; 64]], message: &[u8]) -> [u32; WORDS] {
            let mut chaining_value = self.initial;
            first.iter().for_each(|block| (self.compress)(&mut chaining_value, block));
            let (blocks, rest) = message.as_chunks();
            blocks.iter().for_each(|block| (self.compress)(&mut chaining_value, block));
            // Padding (FIPS 180-4 §5.1.1).
            let mut padded = [0; 128];
            padded[..rest.len()].copy_from_slice(rest);
            padded[rest.len()] = 0x80;
            let end = if rest.len() < 56 { 64 } else { 128 };
            let bits = 8 * (64 * first.len() + message.len()) as u64;
            padded[end - 8..end].copy_from_slice(&bits.to_be_bytes());
            padded[..end].as_chunks().0.iter().for_each(|block| (self.compress)(&mut chaining_value, block));
            chaining_value
        }

        /// The chaining values after the inner and the outer key block, of a key of at most 64 octets.
        #[must_use]
        pub fn key(&self, key: &[u8]) -> [[u32; WORDS]; 2] {
            Self::pads(key).map(|pad| {
                let mut chaining_value = self.initial;
                (self.compress)(&mut chaining_value, &pad);
                chaining_value
            })
        }

        /// HMAC (RFC 2104 §2) of a message under a key of at most 64 octets.
        #[must_use]
        pub fn hmac(&self, key: &[u8], message: &[u8]) -> [u32; WORDS] {
            let [inner, outer] = Self::pads(key);
            let hash = self.hash(&[inner], message).map(u32::to_be_bytes);
            self.hash(&[outer], hash.as_flattened())
        }

        fn pads(key: &[u8]) -> [[u8; 64]; 2] {
            [0x36, 0x5c].map(|pad| core::array::from_fn(|at| key.get(at).copied().unwrap_or(0) ^ pad))
        }
    }

    /// The chaining value before the first block (FIPS 180-4 §5.3.1).
    const SHA1_INITIAL: [u32; 5] = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];

    /// Processes a block into a chaining value (FIPS 180-4 §6.1.2).
    fn sha1_compress(h: &mut [u32; 5], block: &[u8; 64]) {
        let mut w = [0_u32; 80];
        for (t, octets) in block.as_chunks().0.iter().enumerate() {
            w[t] = u32::from_be_bytes(*octets);
        }
        for t in 16..80 {
            w[t] = (w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = *h;
        for (t, w) in w.iter().enumerate() {
            let (f, k) = match t / 20 {
                0 => (b & c ^ !b & d, 0x5a827999),
                1 => (b ^ c ^ d, 0x6ed9eba1),
                2 => (b & c ^ b & d ^ c & d, 0x8f1bbcdc),
                _ => (b ^ c ^ d, 0xca62c1d6),
            };
            let sum = a.rotate_left(5).wrapping_add(f).wrapping_add(e).wrapping_add(k).wrapping_add(*w);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, sum);
        }
        for (h, word) in h.iter_mut().zip([a, b, c, d, e]) {
            *h = h.wrapping_add(word);
        }
    }

    /// The chaining value before the first block (FIPS 180-4 §5.3.3).
    const SHA256_INITIAL: [u32; 8] =
        [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];

    /// Processes a block into a chaining value (FIPS 180-4 §6.2.2).
    fn sha256_compress(h: &mut [u32; 8], block: &[u8; 64]) {
        let mut w = [0_u32; 64];
        for (t, octets) in block.as_chunks().0.iter().enumerate() {
            w[t] = u32::from_be_bytes(*octets);
        }
        for t in 16..64 {
            let sigma0 = w[t - 15].rotate_right(7) ^ w[t - 15].rotate_right(18) ^ w[t - 15] >> 3;
            let sigma1 = w[t - 2].rotate_right(17) ^ w[t - 2].rotate_right(19) ^ w[t - 2] >> 10;
            w[t] = sigma1.wrapping_add(w[t - 7]).wrapping_add(sigma0).wrapping_add(w[t - 16]);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut last] = *h;
        for t in 0..64 {
            let sum1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let ch = e & f ^ !e & g;
            let t1 = last.wrapping_add(sum1).wrapping_add(ch).wrapping_add(K[t]).wrapping_add(w[t]);
            let sum0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let maj = a & b ^ a & c ^ b & c;
            let t2 = sum0.wrapping_add(maj);
            (last, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(t1), c, b, a, t1.wrapping_add(t2));
        }
        for (h, word) in h.iter_mut().zip([a, b, c, d, e, f, g, last]) {
            *h = h.wrapping_add(word);
        }
    }
}

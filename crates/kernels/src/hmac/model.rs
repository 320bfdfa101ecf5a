//! HMAC as RFC 2104 writes it, with the padding of FIPS 180-4, on slow models of the hashes.

/// SHA-1 or SHA-256: the chaining value before the first block, and the function that takes a block in.
#[derive(Clone, Copy, Debug)]
pub struct Hash<const WORDS: usize> {
    initial: [u32; WORDS],
    compress: fn(&mut [u32; WORDS], &[u8; 64]),
}

/// SHA-1.
pub const SHA1: Hash<5> =
    Hash { initial: crate::sha1::model::INITIAL, compress: crate::sha1::model::compress };

/// SHA-256.
pub const SHA256: Hash<8> =
    Hash { initial: crate::sha256::model::INITIAL, compress: crate::sha256::model::compress };

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

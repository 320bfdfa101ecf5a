//! HMAC (RFC 2104) from its two chaining values.

use wireseal_kernels::hmac::ShaInstructions;
use wireseal_kernels::{sha1, sha256};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::blocks::whole_blocks;
use crate::wiped::Wiped;

/// The octets of a block of SHA-1 and of SHA-256 (FIPS 180-4, section 1).
const BLOCK: usize = 64;

/// The chaining values after the inner and the outer pad, so that a message costs no compression for its key.
#[derive(ZeroizeOnDrop)]
pub(crate) struct HmacKey<C: ChainingValue> {
    inner: Zeroizing<C>,
    outer: Zeroizing<C>,
    /// Decided when the key is made, so that a packet does not ask again.
    #[zeroize(skip)]
    sha: Option<ShaInstructions>,
}

impl<C: ChainingValue> HmacKey<C> {
    pub(crate) fn new(key: &[u8]) -> Self {
        let mut padded = Wiped([0; BLOCK]);
        if key.len() <= BLOCK {
            padded.0[..key.len()].copy_from_slice(key);
        } else {
            let mut hashed = Zeroizing::new(C::INITIAL);
            hashed.finish(0, &[key]);
            hashed.write(&mut padded.0);
        }
        let mut start_with = |pad: u8| {
            padded.0.iter_mut().for_each(|octet| *octet ^= pad);
            let mut chaining_value = Zeroizing::new(C::INITIAL);
            chaining_value.compress(core::slice::from_ref(&padded.0));
            chaining_value
        };
        let inner = start_with(0x36);
        // The inner pad is still on the key, and leaves it by the same XOR that brings the outer.
        let outer = start_with(0x36 ^ 0x5c);
        Self { inner, outer, sha: ShaInstructions::detect() }
    }

    /// The MAC of the slices of `message`.
    #[inline]
    pub(crate) fn mac(&self, message: &[&[u8]]) -> C::Output {
        match self.sha {
            Some(sha) => C::hmac(sha, self.chaining_values(), message),
            None => self.portable_mac(message),
        }
    }

    /// The same on RustCrypto's compression function.
    fn portable_mac(&self, message: &[&[u8]]) -> C::Output {
        let mut chaining_value = self.inner.clone();
        chaining_value.finish(BLOCK, message);
        let mut block = Wiped([0; BLOCK]);
        chaining_value.write(&mut block.0);
        block.0[C::OUTPUT_LENGTH] = 0x80;
        write_length(&mut block.0, BLOCK + C::OUTPUT_LENGTH);
        *chaining_value = *self.outer;
        chaining_value.compress(core::slice::from_ref(&block.0));
        let mut output = C::Output::default();
        chaining_value.write(output.as_mut());
        output
    }

    /// Those behind the inner and the outer pad.
    pub(crate) fn chaining_values(&self) -> [&C; 2] {
        [&self.inner, &self.outer]
    }
}

/// The state that a hash of the SHA-1 and SHA-2 kind carries from block to block.
pub(crate) trait ChainingValue: Copy + Zeroize + AsRef<[u32]> {
    /// The value before the first block.
    const INITIAL: Self;

    /// As many octets as a hash has.
    type Output: Default + AsMut<[u8]>;

    /// The octets of a hash.
    const OUTPUT_LENGTH: usize = size_of::<Self>();

    /// HMAC by the processor's own instructions, from the chaining values behind the inner and the outer pad.
    fn hmac(sha: ShaInstructions, keys: [&Self; 2], message: &[&[u8]]) -> Self::Output;

    /// Takes in whole blocks.
    fn compress(&mut self, blocks: &[[u8; BLOCK]]);

    /// Takes in the rest of a message, of which `before` octets are in already, with its padding (FIPS 180-4, 5.1.1).
    #[inline]
    fn finish(&mut self, before: usize, message: &[&[u8]]) {
        let mut last = whole_blocks(message, |blocks| self.compress(blocks));
        last.block.0[last.length] = 0x80;
        if last.length >= BLOCK - 8 {
            self.compress(core::slice::from_ref(&last.block.0));
            last.block.0 = [0; BLOCK];
        }
        write_length(&mut last.block.0, before + message.iter().map(|slice| slice.len()).sum::<usize>());
        self.compress(core::slice::from_ref(&last.block.0));
    }

    /// Writes the hash to the first octets of `output`.
    #[inline]
    fn write(&self, output: &mut [u8]) {
        for (octets, word) in output.chunks_exact_mut(4).zip(self.as_ref()) {
            octets.copy_from_slice(&word.to_be_bytes());
        }
    }
}

/// Ends the last block with the length of the whole message, in bits.
#[inline]
fn write_length(block: &mut [u8; BLOCK], octets: usize) {
    block[BLOCK - 8..].copy_from_slice(&(octets as u64 * 8).to_be_bytes());
}

/// SHA-1, its initial value from FIPS 180-4, section 5.3.1.
impl ChainingValue for [u32; 5] {
    const INITIAL: Self = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];

    type Output = [u8; 20];

    #[inline]
    fn hmac(sha: ShaInstructions, keys: [&Self; 2], message: &[&[u8]]) -> [u8; 20] {
        sha1::hmac(sha, keys, message)
    }

    #[inline]
    fn compress(&mut self, blocks: &[[u8; BLOCK]]) {
        ::sha1::block_api::compress(self, blocks);
    }
}

/// SHA-256, its initial value from FIPS 180-4, section 5.3.3.
impl ChainingValue for [u32; 8] {
    const INITIAL: Self =
        [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];

    type Output = [u8; 32];

    #[inline]
    fn hmac(sha: ShaInstructions, keys: [&Self; 2], message: &[&[u8]]) -> [u8; 32] {
        sha256::hmac(sha, keys, message)
    }

    #[inline]
    fn compress(&mut self, blocks: &[[u8; BLOCK]]) {
        sha2::block_api::compress256(self, blocks);
    }
}

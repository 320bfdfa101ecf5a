//! AES-128-CMAC (RFC 4493) on RustCrypto's AES, for processors without a path in `wireseal-kernels`.

use aes::cipher::{
    BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit, consts::U16,
};
use aes::{Aes128Enc, Block};
use zeroize::ZeroizeOnDrop;

use crate::output::{Wiped, wiped_on_drop};

/// The round keys, and the subkey K1; K2 is K1 doubled (RFC 4493 §2.3).
#[derive(Clone)]
pub(crate) struct PortableCmacKey {
    cipher: Aes128Enc,
    k1: Wiped<16>,
}

impl PortableCmacKey {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        let cipher = Aes128Enc::new(key.into());
        let mut l = Wiped([0; 16]);
        cipher.encrypt_block((&mut l.0).into());
        let k1 = Wiped(double(&l.0));
        Self { cipher, k1 }
    }

    /// Writes the MAC of the slices of `message` to the first 16 octets of `output`.
    // Not inlined, for the reason at `Kmac256Key::mac`.
    #[inline(never)]
    pub(crate) fn mac(&self, message: &[&[u8]], output: &mut [u8; 16]) {
        self.cipher.encrypt_with_backend(Chain { k1: &self.k1.0, value: 0, message, output });
    }

    /// Processes blocks of a message that comes in parts into its chaining value, which starts as zeros, but for the last block.
    #[cfg(feature = "digest")]
    pub(crate) fn absorb(&self, value: &mut [u8; 16], blocks: &[[u8; 16]]) {
        for block in blocks {
            *value = (u128::from_le_bytes(*value) ^ u128::from_le_bytes(*block)).to_le_bytes();
            self.cipher.encrypt_block(value.into());
        }
    }

    /// Writes the MAC of a message of which all but `rest` has been absorbed.
    #[cfg(feature = "digest")]
    pub(crate) fn finish(&self, value: &[u8; 16], rest: &[u8], output: &mut [u8; 16]) {
        let value = u128::from_le_bytes(*value);
        self.cipher.encrypt_with_backend(Chain { k1: &self.k1.0, value, message: &[rest], output });
    }
}

// Compiles only if the cipher is built to wipe itself; the fields then wipe the key.
const _: () = {
    wiped_on_drop::<Aes128Enc>();
    wiped_on_drop::<Wiped<16>>();
};

impl ZeroizeOnDrop for PortableCmacKey {}

/// A message, or the rest of one after this chaining value, processed inside the cipher so that it selects the AES implementation once.
struct Chain<'a> {
    k1: &'a [u8; 16],
    value: u128,
    message: &'a [&'a [u8]],
    output: &'a mut [u8; 16],
}

impl BlockSizeUser for Chain<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Chain<'_> {
    #[inline]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        // A single integer, so that the state stays in registers.
        let Self { k1, value: mut state, message, output } = self;
        let mut position = 0;
        for slice in message {
            let (head, rest) = slice.split_at(slice.len().min(16_usize.saturating_sub(position)));
            // At 16 the shift wraps, but then `head` is empty.
            state ^= little_endian(head) << (8 * position % 128);
            position += head.len();
            // A full block waits, because the last block is treated differently.
            let (blocks, tail) = rest.as_chunks();
            for block in blocks {
                state = encrypt(backend, state) ^ u128::from_le_bytes(*block);
            }
            if !tail.is_empty() {
                state = encrypt(backend, state) ^ little_endian(tail);
                position = tail.len();
            }
        }
        state ^= if position == 16 {
            u128::from_le_bytes(*k1)
        } else {
            0x80 << (8 * position) ^ u128::from_le_bytes(double(k1))
        };
        *output = encrypt(backend, state).to_le_bytes();
    }
}

#[inline]
fn encrypt<B: BlockCipherEncBackend<BlockSize = U16>>(backend: &B, state: u128) -> u128 {
    let mut block = Block::from(state.to_le_bytes());
    backend.encrypt_block((&mut block).into());
    u128::from_le_bytes(block.0)
}

/// At most 16 octets as an integer, the first octet lowest.
#[inline]
fn little_endian(octets: &[u8]) -> u128 {
    let mut block = Wiped([0; 16]);
    block.0[..octets.len()].copy_from_slice(octets);
    u128::from_le_bytes(block.0)
}

/// Doubles in GF(2^128) (RFC 4493 §2.3), without a branch on the secret top bit.
#[inline]
fn double(value: &[u8; 16]) -> [u8; 16] {
    let value = u128::from_be_bytes(*value);
    ((value << 1) ^ (0x87 & (value >> 127).wrapping_neg())).to_be_bytes()
}

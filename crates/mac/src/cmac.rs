//! AES-128-CMAC (RFC 4493).

use aes::cipher::{
    BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit, consts::U16,
};
use aes::{Aes128Enc, Block};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The round keys, and the subkey K1 from which K2 follows by one doubling.
pub(crate) struct Aes128CmacKey {
    cipher: Aes128Enc,
    k1: [u8; 16],
}

impl Aes128CmacKey {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        let cipher = Aes128Enc::new(key.into());
        let mut l = Block::default();
        cipher.encrypt_block(&mut l);
        let k1 = double(&l.0);
        l.zeroize();
        Self { cipher, k1 }
    }

    /// Writes the MAC of the slices of `message` to the first 16 octets of `output`.
    #[inline]
    pub(crate) fn mac(&self, message: &[&[u8]], output: &mut [u8; 16]) {
        self.cipher.encrypt_with_backend(Chain { k1: &self.k1, message, output });
    }
}

impl Drop for Aes128CmacKey {
    fn drop(&mut self) {
        self.k1.zeroize();
    }
}

impl ZeroizeOnDrop for Aes128CmacKey {}

/// The whole of one message, run inside the cipher so that the processor's AES instructions are chosen once for it.
struct Chain<'a> {
    k1: &'a [u8; 16],
    message: &'a [&'a [u8]],
    output: &'a mut [u8; 16],
}

impl BlockSizeUser for Chain<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Chain<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let Self { k1, message, output } = self;
        let mut state = Block::default();
        let mut position = 0;
        for slice in message.iter().copied() {
            let (head, rest) = slice.split_at(slice.len().min(16 - position));
            xor_at(&mut state, position, head);
            position += head.len();
            // A full block waits for the octets behind it, because the last one is treated apart.
            let (blocks, tail) = rest.as_chunks();
            for block in blocks {
                backend.encrypt_block((&mut state).into());
                xor(&mut state, block);
            }
            if !tail.is_empty() {
                backend.encrypt_block((&mut state).into());
                xor_at(&mut state, 0, tail);
                position = tail.len();
            }
        }
        if position == 16 {
            xor(&mut state, k1);
        } else {
            state[position] ^= 0x80;
            xor(&mut state, &double(k1));
        }
        backend.encrypt_block((&mut state).into());
        *output = state.0;
    }
}

/// XORs fewer octets than a block, from `position` on.
#[inline(always)]
fn xor_at(state: &mut Block, position: usize, input: &[u8]) {
    let mut block = [0; 16];
    block[position..position + input.len()].copy_from_slice(input);
    xor(state, &block);
}

#[inline(always)]
fn xor(state: &mut Block, input: &[u8; 16]) {
    for (octet, input) in state.iter_mut().zip(input) {
        *octet ^= input;
    }
}

/// Doubling in GF(2^128) (RFC 4493, section 2.3), without a branch on the secret top bit.
#[inline(always)]
fn double(value: &[u8; 16]) -> [u8; 16] {
    let value = u128::from_be_bytes(*value);
    ((value << 1) ^ (0x87 & (value >> 127).wrapping_neg())).to_be_bytes()
}

//! AVX-512: as much key stream as a packet needs in one go, then its Poly1305.

use core::arch::x86_64::*;

use zeroize::optimization_barrier;

use crate::chacha20::stream;
use crate::cpu::{Avx512, Avx512Ifma, InstructionSet};
use crate::poly1305;

/// Proof of the instructions for ChaCha20, and the path, which Poly1305 detects too.
#[derive(Clone, Copy)]
pub(super) struct Engine(Avx512);

impl Engine {
    pub(super) fn detect() -> Option<Self> {
        Avx512::detect().map(Self)
    }

    pub(super) fn path(self) -> InstructionSet {
        if Avx512Ifma::detect().is_some() { InstructionSet::Avx512Ifma } else { InstructionSet::Avx512 }
    }

    pub(super) fn seal(self, key: &[u32; 8], nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
        match text.len().div_ceil(64) {
            0..=3 => self.seal_with::<4>(key, nonce, aad, text),
            4..=5 => self.seal_with::<6>(key, nonce, aad, text),
            6..=7 => self.seal_with::<8>(key, nonce, aad, text),
            8..=15 => self.seal_with::<16>(key, nonce, aad, text),
            _ => self.seal_with::<20>(key, nonce, aad, text),
        }
    }

    pub(super) fn open(
        self,
        key: &[u32; 8],
        nonce: &[u8; 12],
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8; 16],
    ) -> bool {
        match text.len().div_ceil(64) {
            0..=3 => self.open_with::<4>(key, nonce, aad, text, tag),
            4..=5 => self.open_with::<6>(key, nonce, aad, text, tag),
            6..=7 => self.open_with::<8>(key, nonce, aad, text, tag),
            8..=15 => self.open_with::<16>(key, nonce, aad, text, tag),
            _ => self.open_with::<20>(key, nonce, aad, text, tag),
        }
    }

    /// Starts with `BLOCKS` blocks of key stream.
    fn seal_with<const BLOCKS: usize>(
        self,
        key: &[u32; 8],
        nonce: &[u8; 12],
        aad: &[u8],
        text: &mut [u8],
    ) -> [u8; 16] {
        let start = Stream::<BLOCKS>::new(self, key, nonce, 0);
        leak!("ChaCha20-Poly1305: seal", *key);
        self.encrypt(&start, key, nonce, text);
        start.tag(aad, text)
    }

    fn open_with<const BLOCKS: usize>(
        self,
        key: &[u32; 8],
        nonce: &[u8; 12],
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8; 16],
    ) -> bool {
        let start = Stream::<BLOCKS>::new(self, key, nonce, 0);
        // Compared without a branch for each octet.
        let difference = u128::from_ne_bytes(start.tag(aad, text)) ^ u128::from_ne_bytes(*tag);
        leak!("ChaCha20-Poly1305: tag to compare", difference);
        let is_authentic = difference == 0;
        if is_authentic {
            self.encrypt(&start, key, nonce, text);
        }
        is_authentic
    }

    /// Encrypts or decrypts with the blocks of `start` after block 0, and with more when they are used up.
    #[inline]
    fn encrypt<const BLOCKS: usize>(
        self,
        start: &Stream<BLOCKS>,
        key: &[u32; 8],
        nonce: &[u8; 12],
        text: &mut [u8],
    ) {
        let (first, mut rest) = text.split_at_mut(text.len().min((BLOCKS - 1) * 64));
        self.xor(first, &start.0[1..]);
        let mut counter = BLOCKS as u32;
        while !rest.is_empty() {
            let part;
            (part, rest) = rest.split_at_mut(rest.len().min(20 * 64));
            match part.len().div_ceil(64) {
                0..=4 => self.xor(part, &Stream::<4>::new(self, key, nonce, counter).0),
                5..=8 => self.xor(part, &Stream::<8>::new(self, key, nonce, counter).0),
                9..=16 => self.xor(part, &Stream::<16>::new(self, key, nonce, counter).0),
                _ => self.xor(part, &Stream::<20>::new(self, key, nonce, counter).0),
            }
            counter = counter.wrapping_add(20);
        }
    }

    #[inline]
    fn xor(self, text: &mut [u8], stream: &[[u8; 64]]) {
        // SAFETY: this engine proves the target features.
        unsafe { xor(text, stream) }
    }
}

/// Blocks of key stream, wiped on drop.
struct Stream<const BLOCKS: usize>([[u8; 64]; BLOCKS]);

impl<const BLOCKS: usize> Stream<BLOCKS> {
    #[inline]
    fn new(_: Engine, key: &[u32; 8], nonce: &[u8; 12], counter: u32) -> Self {
        let mut stream = Self([[0; 64]; BLOCKS]);
        // SAFETY: the engine proves the target features.
        unsafe { stream::blocks(&mut stream.0, key, nonce, counter) };
        stream
    }

    /// The tag, under the one-time key (RFC 8439 §2.6) at the start of block 0.
    #[inline]
    fn tag(&self, aad: &[u8], text: &[u8]) -> [u8; 16] {
        let mut lengths = [0; 16];
        lengths[..8].copy_from_slice(&(aad.len() as u64).to_le_bytes());
        lengths[8..].copy_from_slice(&(text.len() as u64).to_le_bytes());
        let mut key = [0; 32];
        key.copy_from_slice(&self.0[0][..32]);
        let tag = poly1305::mac_of_padded(&key, [aad, text], &lengths);
        key = [0; 32];
        optimization_barrier(&key);
        tag
    }
}

impl<const BLOCKS: usize> Drop for Stream<BLOCKS> {
    #[inline]
    fn drop(&mut self) {
        self.0 = [[0; 64]; BLOCKS];
        optimization_barrier(&self.0);
    }
}

/// Adds the key stream, which is at least as long, to the text.
#[target_feature(enable = "avx512f,avx512bw")]
fn xor(text: &mut [u8], stream: &[[u8; 64]]) {
    assert!(text.len() <= stream.len() * 64, "the key stream is shorter than the text");
    let (blocks, rest) = text.as_chunks_mut();
    for (block, stream) in blocks.iter_mut().zip(stream) {
        let block: &mut [u8; 64] = block;
        // SAFETY: both are 64 octets, at any alignment.
        unsafe {
            let sum = _mm512_xor_si512(
                _mm512_loadu_si512(block.as_ptr().cast()),
                _mm512_loadu_si512(stream.as_ptr().cast()),
            );
            _mm512_storeu_si512(block.as_mut_ptr().cast(), sum);
        }
    }
    if let Some(stream) = stream.get(blocks.len())
        && !rest.is_empty()
    {
        let octets = u64::MAX >> (64 - rest.len());
        // SAFETY: the rest has fewer than 64 octets, and the mask keeps to them.
        unsafe {
            let part = _mm512_maskz_loadu_epi8(octets, rest.as_ptr().cast());
            let sum = _mm512_xor_si512(part, _mm512_loadu_si512(stream.as_ptr().cast()));
            _mm512_mask_storeu_epi8(rest.as_mut_ptr().cast(), octets, sum);
        }
    }
}

//! AVX-512: computes as much key stream as a packet needs in one call, then its Poly1305.

use core::arch::x86_64::*;

use zeroize::optimization_barrier;

use crate::chacha20::x86_64::{BesideKey, blocks, blocks_beside_key};
use crate::cpu::{Avx512, Avx512Ifma, InstructionSet};
use crate::partial_block;
use crate::poly1305::{OneTimeKey, Vectors};

/// The path that a key uses, with the proof that the processor has it. ChaCha20 is the same on both, and needs only AVX-512.
#[derive(Clone, Copy)]
pub(super) enum Engine {
    Avx512(Avx512),
    Avx512Ifma(Avx512Ifma),
}

impl Engine {
    pub(super) fn detect() -> Option<Self> {
        Avx512Ifma::detect().map(Self::Avx512Ifma).or_else(|| Avx512::detect().map(Self::Avx512))
    }

    pub(super) fn path(self) -> InstructionSet {
        match self {
            Self::Avx512(_) => InstructionSet::Avx512,
            Self::Avx512Ifma(_) => InstructionSet::Avx512Ifma,
        }
    }

    /// What Poly1305 uses on this path.
    #[inline]
    fn vectors(self) -> Vectors {
        match self {
            Self::Avx512(token) => Vectors::Avx2(token.into()),
            Self::Avx512Ifma(token) => Vectors::Ifma(token),
        }
    }

    pub(super) fn seal(self, key: &[u32; 8], nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
        self.start(key, nonce, text.len(), |one_time_key, start| {
            leak!("ChaCha20-Poly1305: seal", *key);
            self.encrypt(start, key, nonce, text);
            self.tag(one_time_key, aad, text)
        })
    }

    pub(super) fn open(
        self,
        key: &[u32; 8],
        nonce: &[u8; 12],
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8; 16],
    ) -> bool {
        self.start(key, nonce, text.len(), |one_time_key, start| {
            // Compared without a branch for each octet.
            let computed = self.tag(one_time_key, aad, text);
            leak!("ChaCha20-Poly1305: tag to compare", computed);
            let is_authentic = u128::from_ne_bytes(computed) ^ u128::from_ne_bytes(*tag) == 0;
            if is_authentic {
                self.encrypt(start, key, nonce, text);
            }
            is_authentic
        })
    }

    /// Calls `go_on` with the one-time key and the key stream, from block 1 on, that one call computes for a text of this length.
    #[inline]
    fn start<T>(
        self,
        key: &[u32; 8],
        nonce: &[u8; 12],
        length: usize,
        go_on: impl FnOnce(&OneTimeKey, &[[u8; 64]]) -> T,
    ) -> T {
        match length.div_ceil(64) {
            0..=3 => Stream::<4>::after_key(self, key, nonce, go_on),
            4..=5 => Stream::<6>::after_key(self, key, nonce, go_on),
            6..=7 => Stream::<8>::after_key(self, key, nonce, go_on),
            8..=9 => Stream::<10>::after_key(self, key, nonce, go_on),
            10..=16 => Stream::<16>::beside_key(self, key, nonce, go_on),
            17..=20 => Stream::<20>::beside_key(self, key, nonce, go_on),
            _ => Stream::<24>::beside_key(self, key, nonce, go_on),
        }
    }

    /// The tag, under the one-time key (RFC 8439 §2.6).
    #[inline]
    fn tag(self, one_time_key: &OneTimeKey, aad: &[u8], text: &[u8]) -> [u8; 16] {
        let mut lengths = [0; 16];
        lengths[..8].copy_from_slice(&(aad.len() as u64).to_le_bytes());
        lengths[8..].copy_from_slice(&(text.len() as u64).to_le_bytes());
        // SAFETY: this engine proves the target features.
        let padded = |text: &[u8], length| unsafe { padded(text, length) };
        one_time_key.mac_of_padded(self.vectors(), [aad, text], &lengths, padded)
    }

    /// Encrypts or decrypts with the blocks of `start`, from block 1 on, then with further blocks.
    #[inline]
    fn encrypt(self, start: &[[u8; 64]], key: &[u32; 8], nonce: &[u8; 12], text: &mut [u8]) {
        let (first, mut rest) = text.split_at_mut(text.len().min(start.len() * 64));
        self.xor(first, start);
        if rest.is_empty() {
            return;
        }
        let mut counter = start.len() as u32 + 1;
        let mut stream = Stream([[0; 64]; 24]);
        while !rest.is_empty() {
            let part;
            (part, rest) = rest.split_at_mut(rest.len().min(24 * 64));
            match part.len().div_ceil(64) {
                0..=4 => self.fill::<4>(&mut stream.0, key, nonce, counter),
                5..=8 => self.fill::<8>(&mut stream.0, key, nonce, counter),
                9..=16 => self.fill::<16>(&mut stream.0, key, nonce, counter),
                _ => self.fill::<24>(&mut stream.0, key, nonce, counter),
            }
            self.xor(part, &stream.0);
            counter = counter.wrapping_add(24);
        }
    }

    /// Fills the first `BLOCKS` of the stream.
    #[inline]
    fn fill<const BLOCKS: usize>(
        self,
        stream: &mut [[u8; 64]],
        key: &[u32; 8],
        nonce: &[u8; 12],
        counter: u32,
    ) {
        let stream = stream.first_chunk_mut().expect("the stream is long enough");
        // SAFETY: this engine proves the target features.
        unsafe { blocks::<BLOCKS>(stream, key, nonce, counter) };
    }

    #[inline]
    fn xor(self, text: &mut [u8], stream: &[[u8; 64]]) {
        // SAFETY: this engine proves the target features.
        unsafe { xor(text, stream) }
    }
}

/// Blocks of key stream, wiped on drop. They are aligned, so that no block lies across two cache lines.
#[repr(align(64))]
struct Stream<const BLOCKS: usize>([[u8; 64]; BLOCKS]);

impl<const BLOCKS: usize> Stream<BLOCKS> {
    /// Calls `go_on` with the one-time key from the start of block 0, and the blocks that follow.
    #[inline]
    fn after_key<T>(
        engine: Engine,
        key: &[u32; 8],
        nonce: &[u8; 12],
        go_on: impl FnOnce(&OneTimeKey, &[[u8; 64]]) -> T,
    ) -> T {
        let mut stream = Self([[0; 64]; BLOCKS]);
        engine.fill::<BLOCKS>(&mut stream.0, key, nonce, 0);
        let (first, others) = stream.0.split_first().expect("there are blocks");
        let mut one_time_key = OneTimeKey::new(first.first_chunk().expect("a block is longer"));
        let result = go_on(&one_time_key, others);
        one_time_key.wipe();
        result
    }

    /// Calls `go_on` with the one-time key and the blocks that follow, computed at the same time.
    #[inline]
    fn beside_key<T>(
        engine: Engine,
        key: &[u32; 8],
        nonce: &[u8; 12],
        go_on: impl FnOnce(&OneTimeKey, &[[u8; 64]]) -> T,
    ) -> T {
        let mut stream = Self([[0; 64]; BLOCKS]);
        let beside = Powers { engine, key: OneTimeKey::new(&[0; 32]) };
        // SAFETY: the engine proves the target features.
        let mut beside = unsafe { blocks_beside_key(&mut stream.0, key, nonce, beside) };
        let result = go_on(&beside.key, &stream.0);
        beside.key.wipe();
        result
    }
}

impl<const BLOCKS: usize> Drop for Stream<BLOCKS> {
    #[inline]
    fn drop(&mut self) {
        self.0 = [[0; 64]; BLOCKS];
        optimization_barrier(&self.0);
    }
}

/// The one-time key, and the powers that its Poly1305 needs, computed beside the key stream.
struct Powers {
    engine: Engine,
    key: OneTimeKey,
}

impl BesideKey for Powers {
    #[inline(always)]
    fn key(&mut self, words: [u32; 8]) {
        let mut octets = [0; 32];
        for (octets, word) in octets.as_chunks_mut().0.iter_mut().zip(words) {
            *octets = word.to_le_bytes();
        }
        self.key = OneTimeKey::new(&octets);
        octets = [0; 32];
        optimization_barrier(&octets);
        if let Engine::Avx512Ifma(token) = self.engine {
            self.key.start(token);
        }
    }

    #[inline(always)]
    fn step(&mut self, number: usize) {
        self.key.step(number);
    }
}

/// The last `length` octets of a text, fewer than 16, followed by zeros.
#[inline]
#[target_feature(enable = "sse2,ssse3")]
fn padded(text: &[u8], length: usize) -> [u8; 16] {
    partial_block::store(partial_block::last_octets(text, length))
}

/// Adds the key stream, which is at least as long as the text, to the text.
#[target_feature(enable = "avx512f,avx512bw")]
fn xor(text: &mut [u8], stream: &[[u8; 64]]) {
    let stream = &stream.as_flattened()[..text.len()];
    if let (Some(last), Some(last_of_stream)) = (text.last_chunk(), stream.last_chunk()) {
        // The last 64 octets overlap the last whole block: they are read before that block is written, and written after it.
        let end = sum(last, last_of_stream);
        for (block, stream) in text.as_chunks_mut().0.iter_mut().zip(stream.as_chunks().0) {
            store(block, sum(block, stream));
        }
        if let Some(last) = text.last_chunk_mut() {
            store(last, end);
        }
    } else if !text.is_empty() {
        let octets = u64::MAX >> (64 - text.len());
        // SAFETY: both have at least this many octets, fewer than 64, and the mask covers only those.
        unsafe {
            let stream = _mm512_maskz_loadu_epi8(octets, stream.as_ptr().cast());
            let sum = _mm512_xor_si512(_mm512_maskz_loadu_epi8(octets, text.as_ptr().cast()), stream);
            _mm512_mask_storeu_epi8(text.as_mut_ptr().cast(), octets, sum);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn sum(a: &[u8; 64], b: &[u8; 64]) -> __m512i {
    // SAFETY: both have 64 octets; any alignment will do.
    unsafe { _mm512_xor_si512(_mm512_loadu_si512(a.as_ptr().cast()), _mm512_loadu_si512(b.as_ptr().cast())) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(block: &mut [u8; 64], octets: __m512i) {
    // SAFETY: the block has 64 octets; any alignment will do.
    unsafe { _mm512_storeu_si512(block.as_mut_ptr().cast(), octets) };
}

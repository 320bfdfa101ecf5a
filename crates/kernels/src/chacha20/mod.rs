//! ChaCha20 header masks (RFC 9001 §5.4.4): one at a time, or one in each lane of the processor's vectors.
//!
//! A mask needs only two words of a key stream block, so the last round computes only the words they depend on.

use core::fmt;

use zeroize::ZeroizeOnDrop;

use crate::cpu::InstructionSet;
#[cfg(target_arch = "x86_64")]
use crate::cpu::{Avx2, Avx512};

mod portable;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;

/// The instructions that compute many masks, with the proof that the processor has them.
#[derive(Clone, Copy)]
enum Engine {
    /// 16 at once.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    /// 8 at once.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// 4 at once. Every x86-64 has SSE2.
    #[cfg(target_arch = "x86_64")]
    Sse2,
    /// One at a time.
    #[cfg(not(target_arch = "x86_64"))]
    Portable,
}

/// A ChaCha20 key for header masks. It is wiped on drop, and `Debug` does not show it.
#[derive(Clone, ZeroizeOnDrop)]
pub struct ChaCha20MaskKey {
    words: [u32; 8],
    #[zeroize(skip)]
    engine: Engine,
}

impl ChaCha20MaskKey {
    /// A key of 32 octets. It keeps the widest path that is available now.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Self {
        let mut words = [0; 8];
        for (word, octets) in words.iter_mut().zip(key.as_chunks().0) {
            *word = u32::from_le_bytes(*octets);
        }
        Self { words, engine: Engine::detect() }
    }

    /// The path that computes many masks at once, or `None` if every processor of this architecture has it.
    #[must_use]
    pub fn path(&self) -> Option<InstructionSet> {
        match self.engine {
            #[cfg(target_arch = "x86_64")]
            Engine::Avx512(_) => Some(InstructionSet::Avx512),
            #[cfg(target_arch = "x86_64")]
            Engine::Avx2(_) => Some(InstructionSet::Avx2),
            #[cfg(target_arch = "x86_64")]
            Engine::Sse2 => None,
            #[cfg(not(target_arch = "x86_64"))]
            Engine::Portable => None,
        }
    }

    /// The mask of a sample.
    #[inline]
    #[must_use]
    pub fn mask(&self, sample: &[u8; 16]) -> [u8; 5] {
        let [a, b, c, d, e, ..] = self.stream(sample).to_le_bytes();
        [a, b, c, d, e]
    }

    /// Replaces each sample by the first eight octets of its key stream, of which the first five are the mask, and eight zeros.
    pub fn mask_batch(&self, samples: &mut [[u8; 16]]) {
        match self.engine {
            #[cfg(target_arch = "x86_64")]
            Engine::Avx512(_) => self.many(samples, |key, samples| {
                // SAFETY: the token proves the target features.
                unsafe { x86_64::avx512::masks(key, samples) }
            }),
            #[cfg(target_arch = "x86_64")]
            Engine::Avx2(_) => self.many(samples, |key, samples| {
                // SAFETY: the token proves the target features.
                unsafe { x86_64::avx2::masks(key, samples) }
            }),
            #[cfg(target_arch = "x86_64")]
            Engine::Sse2 => self.many(samples, |key, samples| {
                // SAFETY: this architecture has SSE2.
                unsafe { x86_64::sse2::masks(key, samples) }
            }),
            #[cfg(not(target_arch = "x86_64"))]
            Engine::Portable => self.one_by_one(samples),
        }
    }

    /// Computes masks in `LANES` lanes at a time, and the last few one by one, which is faster.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn many<const LANES: usize>(
        &self,
        samples: &mut [[u8; 16]],
        in_lanes: impl Fn(&[u32; 8], &mut [[u8; 16]; LANES]),
    ) {
        let (whole, rest) = samples.as_chunks_mut();
        for samples in whole {
            in_lanes(&self.words, samples);
        }
        if rest.len() <= FEW {
            self.one_by_one(rest);
        } else {
            leak!("ChaCha20: masks in lanes filled up", self.words);
            let mut filled = [[0; 16]; LANES];
            filled[..rest.len()].copy_from_slice(rest);
            in_lanes(&self.words, &mut filled);
            rest.copy_from_slice(&filled[..rest.len()]);
        }
    }

    fn one_by_one(&self, samples: &mut [[u8; 16]]) {
        for sample in samples {
            *sample = u128::from(self.stream(sample)).to_le_bytes();
        }
    }

    /// The first eight octets of key stream, in little-endian order.
    #[inline]
    fn stream(&self, sample: &[u8; 16]) -> u64 {
        portable::stream(&self.words, sample)
    }
}

impl fmt::Debug for ChaCha20MaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChaCha20MaskKey").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// Up to this many masks are faster one by one than in lanes that are mostly idle.
#[cfg(target_arch = "x86_64")]
const FEW: usize = 2;

impl Engine {
    fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(token) = Avx512::detect() {
                Self::Avx512(token)
            } else if let Some(token) = Avx2::detect() {
                Self::Avx2(token)
            } else {
                Self::Sse2
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        Self::Portable
    }
}

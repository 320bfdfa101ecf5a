//! Header masks by ChaCha20 (RFC 9001 §5.4.4): one, or as many at once as the processor's vectors have lanes.
//!
//! Each lane has the counter and the nonce of a sample of its own. Of a block of key stream two words are enough for a mask, so
//! that the last round leaves out what they do not depend on. Whole blocks, for [`chacha20_poly1305`](crate::chacha20_poly1305),
//! are another file's.

use core::fmt;

use zeroize::ZeroizeOnDrop;

use crate::cpu::Path;
#[cfg(target_arch = "x86_64")]
use crate::cpu::{Avx2, Avx512};

#[cfg(feature = "model")]
pub mod model;
mod portable;
#[cfg(target_arch = "x86_64")]
pub(crate) mod stream;
#[cfg(target_arch = "x86_64")]
mod x86;

/// "expand 32-byte k", the first row of the state (RFC 8439 §2.3).
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// What masks are computed with.
#[derive(Clone, Copy)]
enum Lanes {
    #[cfg(target_arch = "x86_64")]
    Sixteen(Avx512),
    #[cfg(target_arch = "x86_64")]
    Eight(Avx2),
    /// By SSE2, which every x86-64 has.
    #[cfg(target_arch = "x86_64")]
    Four,
    #[cfg(not(target_arch = "x86_64"))]
    One,
}

/// A ChaCha20 key for header masks. It is wiped on drop, and `Debug` shows no octets.
#[derive(Clone, ZeroizeOnDrop)]
pub struct ChaCha20MaskKey {
    words: [u32; 8],
    #[zeroize(skip)]
    lanes: Lanes,
}

impl ChaCha20MaskKey {
    /// Takes a key of 32 octets, and for good the widest path that there is now.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Self {
        let mut words = [0; 8];
        for (word, octets) in words.iter_mut().zip(key.as_chunks().0) {
            *word = u32::from_le_bytes(*octets);
        }
        Self { words, lanes: Lanes::widest() }
    }

    /// The path that computes many masks at once; `None` is what every processor of this architecture has.
    #[must_use]
    pub fn path(&self) -> Option<Path> {
        match self.lanes {
            #[cfg(target_arch = "x86_64")]
            Lanes::Sixteen(_) => Some(Path::Avx512),
            #[cfg(target_arch = "x86_64")]
            Lanes::Eight(_) => Some(Path::Avx2),
            #[cfg(target_arch = "x86_64")]
            Lanes::Four => None,
            #[cfg(not(target_arch = "x86_64"))]
            Lanes::One => None,
        }
    }

    /// The mask of one `sample`.
    #[inline]
    #[must_use]
    pub fn mask(&self, sample: &[u8; 16]) -> [u8; 5] {
        let [a, b, c, d, e, ..] = self.stream(sample).to_le_bytes();
        [a, b, c, d, e]
    }

    /// Puts in the place of each sample its key stream: eight octets, of which the first five are the mask, and eight zeros.
    pub fn mask_batch(&self, samples: &mut [[u8; 16]]) {
        match self.lanes {
            #[cfg(target_arch = "x86_64")]
            Lanes::Sixteen(_) => self.in_lanes(samples, |key, samples| {
                // SAFETY: the token proves the target features.
                unsafe { x86::sixteen::masks(key, samples) }
            }),
            #[cfg(target_arch = "x86_64")]
            Lanes::Eight(_) => self.in_lanes(samples, |key, samples| {
                // SAFETY: the token proves the target features.
                unsafe { x86::eight::masks(key, samples) }
            }),
            #[cfg(target_arch = "x86_64")]
            Lanes::Four => self.in_lanes(samples, |key, samples| {
                // SAFETY: this architecture has SSE2.
                unsafe { x86::four::masks(key, samples) }
            }),
            #[cfg(not(target_arch = "x86_64"))]
            Lanes::One => self.one_by_one(samples),
        }
    }

    /// Fills the lanes of `masks` as often as it takes. Few samples that are left are quicker one by one.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn in_lanes<const LANES: usize>(
        &self,
        samples: &mut [[u8; 16]],
        masks: impl Fn(&[u32; 8], &mut [[u8; 16]; LANES]),
    ) {
        let (whole, rest) = samples.as_chunks_mut();
        for samples in whole {
            masks(&self.words, samples);
        }
        if rest.len() <= FEW {
            self.one_by_one(rest);
        } else {
            let mut filled = [[0; 16]; LANES];
            filled[..rest.len()].copy_from_slice(rest);
            masks(&self.words, &mut filled);
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

/// So many masks take less time one by one than in lanes of which most are idle.
#[cfg(target_arch = "x86_64")]
const FEW: usize = 2;

impl Lanes {
    fn widest() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(token) = Avx512::detect() {
                Self::Sixteen(token)
            } else if let Some(token) = Avx2::detect() {
                Self::Eight(token)
            } else {
                Self::Four
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        Self::One
    }
}

//! One-time Poly1305 (RFC 8439 §2.5), without tables to set up.
//!
//! Blocks go one by one through 64-bit multiplication. Long runs go eight at once on processors with vectors of 52-bit limbs (IFMA) and on
//! AArch64, or four at once with AVX2.

mod accumulator;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod ifma;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;

use accumulator::{H, R, word};
#[cfg(target_arch = "x86_64")]
use zeroize::optimization_barrier;

#[cfg(target_arch = "x86_64")]
use crate::cpu::{Avx2, Avx512Ifma};

/// The vectors that long runs of blocks go through, with the proof that the processor has them.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) enum Vectors {
    /// Eight blocks at once.
    Ifma(Avx512Ifma),
    /// Four at once.
    Avx2(Avx2),
}

/// The tag, 16 octets, of the slices of `message`, taken as one message. The key is r, which is clamped here, and s.
///
/// Never use a key for two messages: that reveals it.
#[must_use]
pub fn mac(key: &[u8; 32], message: &[&[u8]]) -> [u8; 16] {
    let key = key.as_chunks().0;
    let r = R::clamped(word(key[0]), word(key[1]));
    let mut h = H([0; 3]);
    // The octets of a block that spans slices.
    let mut left = [0; 16];
    let mut length = 0;
    for mut slice in message.iter().copied() {
        if length != 0 {
            let more = slice.len().min(16 - length);
            left[length..length + more].copy_from_slice(&slice[..more]);
            length += more;
            slice = &slice[more..];
            if length < 16 {
                continue;
            }
            leak!("Poly1305: block in two slices", left);
            h = h.block(&left, 1, r);
        }
        let (blocks, rest) = slice.as_chunks();
        h = blocks_into(h, blocks, r);
        length = rest.len();
        left[..length].copy_from_slice(rest);
    }
    if length != 0 {
        leak!("Poly1305: end of a message", left);
        left[length] = 1;
        left[length + 1..].fill(0);
        h = h.block(&left, 0, r);
    }
    h.plus(word(key[2]), word(key[3])).to_le_bytes()
}

/// A one-time key.
#[cfg(target_arch = "x86_64")]
pub(crate) struct OneTimeKey {
    r: R,
    s: [u64; 2],
    /// Powers of r, if they were computed in advance. They also prove that the processor has AVX-512 IFMA.
    powers: Option<ifma::Powers>,
}

#[cfg(target_arch = "x86_64")]
impl OneTimeKey {
    #[inline]
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        let key = key.as_chunks().0;
        Self { r: R::clamped(word(key[0]), word(key[1])), s: [word(key[2]), word(key[3])], powers: None }
    }

    /// Starts the powers of r, for a long text; then call [`step`](Self::step) five times.
    #[inline(always)]
    pub(crate) fn start(&mut self, _: Avx512Ifma) {
        self.powers = Some(ifma::Powers::new(self.r));
    }

    /// Computes step `number`, counted from 0.
    #[inline(always)]
    pub(crate) fn step(&mut self, number: usize) {
        if let Some(powers) = &mut self.powers {
            powers.step(number);
        }
    }

    /// Overwrites the key with zeros. There is no `Drop`, because with it LLVM would keep the key in memory while it is computed.
    #[inline]
    pub(crate) fn wipe(&mut self) {
        self.r = R::clamped(0, 0);
        self.s = [0; 2];
        if let Some(powers) = &mut self.powers {
            *powers = ifma::Powers::new(self.r);
        }
        optimization_barrier(self);
    }

    /// The tag of `texts`, each padded with zeros to whole blocks, and a last block: the input that the AEAD authenticates (RFC 8439
    /// §2.8). `padded` returns a padded block of the last octets of a text, fewer than 16.
    #[inline]
    pub(crate) fn mac_of_padded(
        &self,
        vectors: Vectors,
        texts: [&[u8]; 2],
        end: &[u8; 16],
        padded: impl Fn(&[u8], usize) -> [u8; 16],
    ) -> [u8; 16] {
        let mut h = H([0; 3]);
        for text in texts {
            let (blocks, rest) = text.as_chunks();
            h = if blocks.len() < MANY {
                h.one_by_one(blocks, self.r)
            } else if let Some(powers) = &self.powers {
                let (first, eights) = blocks.as_rchunks();
                let h = h.one_by_one(first, self.r);
                // SAFETY: powers are only made with the token of the target features.
                unsafe { powers.blocks(h, eights) }
            } else {
                vectors.blocks_into(h, blocks, self.r)
            };
            if !rest.is_empty() {
                h = h.block(&padded(text, rest.len()), 1, self.r);
            }
        }
        h.block(end, 1, self.r).plus(self.s[0], self.s[1]).to_le_bytes()
    }
}

/// Processes whole blocks into the accumulator.
#[inline]
fn blocks_into(h: H, blocks: &[[u8; 16]], r: R) -> H {
    #[cfg(target_arch = "x86_64")]
    if blocks.len() >= MANY
        && let Some(vectors) = Vectors::detect()
    {
        return vectors.blocks_into(h, blocks, r);
    }
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    if cfg!(target_feature = "neon") && blocks.len() >= neon::MANY {
        let (eights, rest) = blocks.as_chunks();
        // SAFETY: this target has NEON.
        let h = unsafe { neon::blocks(h, eights, r) };
        return h.one_by_one(rest, r);
    }
    h.one_by_one(blocks, r)
}

#[cfg(target_arch = "x86_64")]
impl Vectors {
    #[inline]
    fn detect() -> Option<Self> {
        Avx512Ifma::detect().map(Self::Ifma).or_else(|| Avx2::detect().map(Self::Avx2))
    }

    /// Processes whole blocks, at least [`MANY`], into the accumulator.
    #[inline]
    fn blocks_into(self, h: H, blocks: &[[u8; 16]], r: R) -> H {
        match self {
            Self::Ifma(_) => {
                // Blocks that do not fill a vector come first: they are processed while the vectors wait for the powers of r.
                let (first, eights) = blocks.as_rchunks();
                let h = h.one_by_one(first, r);
                // SAFETY: the token proves the target features.
                unsafe { ifma::blocks(h, eights, r) }
            }
            Self::Avx2(_) => {
                let (fours, rest) = blocks.as_chunks();
                // SAFETY: the token proves the target features.
                unsafe { avx2::blocks(h, fours, r) }.one_by_one(rest, r)
            }
        }
    }
}

/// From this many blocks on, vectors are faster, although they need the powers of r.
#[cfg(target_arch = "x86_64")]
const MANY: usize = 16;

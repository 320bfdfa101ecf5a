//! HMAC (RFC 2104) with SHA-1 and SHA-256, of one message or of many side by side.

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
use core::convert::Infallible;

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
pub(crate) mod aarch64;
#[cfg(target_arch = "x86_64")]
pub(crate) mod many;
#[cfg(feature = "model")]
pub mod model;
#[cfg(target_arch = "x86_64")]
pub(crate) mod one;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
mod padding;
#[cfg(target_arch = "x86_64")]
pub(crate) mod pairs;
#[cfg(target_arch = "x86_64")]
pub(crate) mod schedule;
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
mod unavailable;
#[cfg(target_arch = "x86_64")]
mod vectors;

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
use crate::cpu::Aarch64Sha;
use crate::cpu::InstructionSet;
#[cfg(target_arch = "x86_64")]
use crate::cpu::{Bmi2, ShaNi};

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
pub(crate) use aarch64::hmac_many;
#[cfg(target_arch = "x86_64")]
pub(crate) use many::hmac_many;
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
pub(crate) use unavailable::hmac_many;

/// Proof that this processor has instructions that HMAC-SHA-1 and HMAC-SHA-256 of one message are written for.
#[derive(Clone, Copy, Debug)]
pub struct ShaInstructions(
    #[cfg(target_arch = "x86_64")] OneMessagePath,
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))] Aarch64Sha,
    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
    Infallible,
);

/// The best that there is.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
enum OneMessagePath {
    ShaNi(ShaNi),
    Bmi2(Bmi2),
}

impl ShaInstructions {
    /// The proof, or `None` if the processor has none of [`InstructionSet::ShaNi`], [`InstructionSet::Bmi2`] and
    /// [`InstructionSet::Aarch64Sha`].
    #[inline]
    #[must_use]
    pub fn detect() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        return ShaNi::detect()
            .map(OneMessagePath::ShaNi)
            .or_else(|| Bmi2::detect().map(OneMessagePath::Bmi2))
            .map(Self);
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        return Aarch64Sha::detect().map(Self);
        #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
        None
    }

    /// The instructions that it proves.
    #[must_use]
    pub fn path(self) -> InstructionSet {
        #[cfg(target_arch = "x86_64")]
        return match self.0 {
            OneMessagePath::ShaNi(_) => InstructionSet::ShaNi,
            OneMessagePath::Bmi2(_) => InstructionSet::Bmi2,
        };
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        return InstructionSet::Aarch64Sha;
        #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
        match self.0 {}
    }
}

/// A message of a batch: its number, the chaining values after the inner and the outer key block, and its slices.
pub type Job<'a, const WORDS: usize> = (usize, [&'a [u32; WORDS]; 2], &'a [&'a [u8]]);

/// The octets of a hash value.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
pub(crate) fn in_network_order<const WORDS: usize, const OCTETS: usize>(words: [u32; WORDS]) -> [u8; OCTETS] {
    const { assert!(OCTETS == 4 * WORDS) };
    let mut octets = [0; OCTETS];
    for (octets, word) in octets.as_chunks_mut().0.iter_mut().zip(words) {
        *octets = word.to_be_bytes();
    }
    octets
}

//! HMAC (RFC 2104) with SHA-1 and SHA-256, of one message or of many side by side.

#[cfg(not(target_arch = "x86_64"))]
use core::convert::Infallible;

#[cfg(target_arch = "x86_64")]
pub(crate) mod many;
#[cfg(feature = "model")]
pub mod model;
#[cfg(target_arch = "x86_64")]
pub(crate) mod one;
#[cfg(target_arch = "x86_64")]
mod padding;
#[cfg(target_arch = "x86_64")]
pub(crate) mod pairs;
#[cfg(target_arch = "x86_64")]
pub(crate) mod schedule;
#[cfg(not(target_arch = "x86_64"))]
mod unavailable;
#[cfg(target_arch = "x86_64")]
mod vectors;

#[cfg(target_arch = "x86_64")]
use crate::cpu::{Bmi2, ShaNi};

#[cfg(target_arch = "x86_64")]
pub(crate) use many::hmac_many;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use unavailable::hmac_many;

/// Proof that this processor has instructions that HMAC-SHA-1 and HMAC-SHA-256 of one message are written for.
#[derive(Clone, Copy, Debug)]
pub struct ShaInstructions(
    #[cfg(target_arch = "x86_64")] OneMessagePath,
    #[cfg(not(target_arch = "x86_64"))] Infallible,
);

/// The best that there is.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
enum OneMessagePath {
    ShaNi(ShaNi),
    Bmi2(Bmi2),
}

impl ShaInstructions {
    /// The proof, or `None` if the processor has neither [`InstructionSet::ShaNi`](crate::cpu::InstructionSet::ShaNi) nor
    /// [`InstructionSet::Bmi2`](crate::cpu::InstructionSet::Bmi2).
    #[inline]
    #[must_use]
    pub fn detect() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        return ShaNi::detect()
            .map(OneMessagePath::ShaNi)
            .or_else(|| Bmi2::detect().map(OneMessagePath::Bmi2))
            .map(Self);
        #[cfg(not(target_arch = "x86_64"))]
        None
    }
}

/// A message of a batch: its number, the chaining values after the inner and the outer key block, and its slices.
pub type Job<'a, const WORDS: usize> = (usize, [&'a [u32; WORDS]; 2], &'a [&'a [u8]]);

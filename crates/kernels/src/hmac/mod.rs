//! HMAC (RFC 2104) with SHA-1 and SHA-256: one message without leaving the registers, or many side by side.

#[cfg(not(target_arch = "x86_64"))]
use core::convert::Infallible;

#[cfg(target_arch = "x86_64")]
pub(crate) mod lanes;
#[cfg(target_arch = "x86_64")]
pub(crate) mod last;
#[cfg(feature = "model")]
pub mod model;
#[cfg(target_arch = "x86_64")]
pub(crate) mod one;
#[cfg(target_arch = "x86_64")]
pub(crate) mod same;

#[cfg(target_arch = "x86_64")]
use crate::cpu::ShaNi;

/// Proof that this processor has instructions for SHA-1 and SHA-256, of whatever kind it is.
#[derive(Clone, Copy, Debug)]
pub struct ShaInstructions(
    #[cfg(target_arch = "x86_64")] ShaNi,
    #[cfg(not(target_arch = "x86_64"))] Infallible,
);

impl ShaInstructions {
    /// The proof, where there is [`Path::ShaNi`](crate::cpu::Path::ShaNi).
    #[inline]
    #[must_use]
    pub fn detect() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        return ShaNi::detect().map(Self);
        #[cfg(not(target_arch = "x86_64"))]
        None
    }
}

/// A message to be authenticated together with others: its number, the chaining values behind the inner and the outer key,
/// and its slices.
pub type Job<'a, const WORDS: usize> = (usize, [&'a [u32; WORDS]; 2], &'a [&'a [u8]]);

/// Defines the public functions of a hash of so many words.
macro_rules! public {
    ($words:literal) => {
        /// The HMAC of the slices of `message` in order, as of their concatenation, from the chaining values behind the inner
        /// and the outer key.
        #[inline]
        #[must_use]
        pub fn hmac(
            sha: ShaInstructions,
            [inner, outer]: [&[u32; $words]; 2],
            message: &[&[u8]],
        ) -> [u8; 4 * $words] {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the token proves the path.
            unsafe {
                let _ = sha;
                x86::hmac(inner, outer, message)
            }
            #[cfg(not(target_arch = "x86_64"))]
            {
                let _ = (inner, outer, message);
                sha.absurd()
            }
        }

        /// Computes the HMACs of many messages, each under its own key, as many side by side as the processor can.
        ///
        /// `each` is told every job's number, in any order, with its HMAC; or without, where that is as soon computed alone.
        #[cfg(target_arch = "x86_64")]
        pub fn hmac_many<'a>(
            jobs: impl Iterator<Item = Job<'a, $words>> + Clone,
            each: impl FnMut(usize, Option<&[u8; 4 * $words]>),
        ) {
            x86::hmac_many(jobs, each);
        }

        /// Tells `each` every job's number, and that its HMAC is as soon computed alone.
        #[cfg(not(target_arch = "x86_64"))]
        pub fn hmac_many<'a>(
            jobs: impl Iterator<Item = Job<'a, $words>> + Clone,
            mut each: impl FnMut(usize, Option<&[u8; 4 * $words]>),
        ) {
            jobs.for_each(|(number, ..)| each(number, None));
        }
    };
}
pub(crate) use public;

#[cfg(not(target_arch = "x86_64"))]
impl ShaInstructions {
    /// Whatever is asked for, since there is no such value to ask it of.
    pub(crate) fn absurd<T>(self) -> T {
        match self.0 {}
    }
}

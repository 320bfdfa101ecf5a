//! HMAC with SHA-1 (FIPS 180-4 §6.1).

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod bmi2;
#[cfg(feature = "model")]
pub mod model;
#[cfg(target_arch = "x86_64")]
mod sha_ni;

use crate::hmac::{self, Job, ShaInstructions};

/// SHA-1.
pub(crate) struct Sha1;

/// The HMAC-SHA-1 of the slices of `message`, taken as one message.
///
/// `keys` are the chaining values after the inner and the outer key block (RFC 2104 §4). They are not wiped here.
#[must_use]
pub fn hmac(sha: ShaInstructions, keys: [&[u32; 5]; 2], message: &[&[u8]]) -> [u8; 20] {
    sha.hmac::<Sha1, 5, 20>(keys, message)
}

/// Computes HMAC-SHA-1s of messages side by side, each under its own key, if the processor has
/// [`InstructionSet::ShaNi`](crate::cpu::InstructionSet::ShaNi) or
/// [`InstructionSet::Aarch64Sha`](crate::cpu::InstructionSet::Aarch64Sha) (two at a time), or
/// [`InstructionSet::Avx512`](crate::cpu::InstructionSet::Avx512) (sixteen). Returns how many.
///
/// `done` gets the number of each job with its MAC, in any order. It is not called for messages that would gain nothing: compute
/// those one by one. They are small groups, messages of more than two slices, and those whose first of two slices is not whole
/// blocks of 64 octets.
pub fn hmac_many<'a>(jobs: impl Iterator<Item = Job<'a, 5>>, done: impl FnMut(usize, &[u8; 20])) -> usize {
    hmac::hmac_many::<Sha1, 5, 20>(jobs, done)
}

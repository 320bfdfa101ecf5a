//! HMAC (RFC 2104) with SHA-1 and SHA-256, of one message or of many side by side.

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod bmi2;
#[cfg(target_arch = "x86_64")]
mod frame;
#[cfg_attr(
    not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))),
    allow(dead_code, reason = "without a path there is only the model")
)]
pub(crate) mod message;
#[cfg(target_arch = "x86_64")]
mod sha_ni;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
use aarch64 as paths;
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
use unsupported as paths;
#[cfg(target_arch = "x86_64")]
use x86_64 as paths;

use crate::cpu::InstructionSet;
use message::BLOCK;

/// Proof that this processor has instructions for HMAC-SHA-1 and HMAC-SHA-256 of one message.
#[derive(Clone, Copy, Debug)]
pub struct ShaInstructions(paths::Path);

impl ShaInstructions {
    /// The proof, or `None` if the processor has none of [`InstructionSet::ShaNi`], with AVX or without, [`InstructionSet::Bmi2`] and
    /// [`InstructionSet::Aarch64Sha`].
    #[inline]
    #[must_use]
    pub fn detect() -> Option<Self> {
        paths::Path::detect().map(Self)
    }

    /// The instructions that it proves.
    #[must_use]
    pub fn path(self) -> InstructionSet {
        self.0.set()
    }
}

/// A message of a batch: its number, the chaining values after the inner and the outer key block, and its slices.
pub type Job<'a, const WORDS: usize> = (usize, [&'a [u32; WORDS]; 2], &'a [&'a [u8]]);

/// HMAC with SHA-1 (FIPS 180-4 §6.1).
pub mod sha1 {
    use super::{BLOCK, Job, ShaInstructions, paths};

    /// The HMAC-SHA-1 of the slices of `message`, taken as one message.
    ///
    /// `keys` are the chaining values after the inner and the outer key block (RFC 2104 §4). They are not wiped here.
    #[inline]
    #[must_use]
    pub fn hmac(sha: ShaInstructions, keys: [&[u32; 5]; 2], message: &[&[u8]]) -> [u8; 20] {
        sha.0.sha1(keys, BLOCK as u64, message)
    }

    /// Processes blocks of a message that comes in parts into a chaining value, which starts as the one after the inner key block.
    pub fn absorb(sha: ShaInstructions, value: &mut [u32; 5], blocks: &[[u8; BLOCK]]) {
        sha.0.sha1_blocks(value, blocks);
    }

    /// Processes the inner and the outer key block (RFC 2104 §2) of a key into two chaining values, side by side where that is faster. Start
    /// from the hash's initial value; the results are the `keys` for [`hmac`].
    ///
    /// # Panics
    /// If the key has more than 64 octets: hash it first.
    #[inline]
    pub fn absorb_key(sha: ShaInstructions, values: &mut [[u32; 5]; 2], key: &[u8]) {
        assert!(key.len() <= BLOCK, "a key of more than 64 octets is hashed first");
        sha.0.sha1_key(values, key);
    }

    /// The HMAC-SHA-1 of a message whose blocks have been [absorbed](absorb), all but `rest`. `keys` are the chaining value that
    /// this made and the one after the outer key block; `before` counts the octets in the first, the 64 of the key block included.
    #[must_use]
    pub fn finish(sha: ShaInstructions, keys: [&[u32; 5]; 2], before: u64, rest: &[u8]) -> [u8; 20] {
        sha.0.sha1(keys, before, &[rest])
    }

    /// Computes HMAC-SHA-1s of messages side by side, each under its own key, and returns the number computed. With
    /// [`InstructionSet::ShaNi`](crate::cpu::InstructionSet::ShaNi) or
    /// [`InstructionSet::Aarch64Sha`](crate::cpu::InstructionSet::Aarch64Sha) it computes two at a time, with
    /// [`InstructionSet::Avx512`](crate::cpu::InstructionSet::Avx512) sixteen, and without these none.
    ///
    /// `done` gets each job's number and MAC, in any order. It is not called for messages that would not be faster side by side: compute
    /// those one by one. These are small groups, messages of more than two slices, and messages of two slices whose first is not whole
    /// blocks of 64 octets.
    pub fn hmac_many<'a>(
        jobs: impl Iterator<Item = Job<'a, 5>>,
        done: impl FnMut(usize, &[u8; 20]),
    ) -> usize {
        paths::sha1_many(jobs, done)
    }
}

/// HMAC with SHA-256 (FIPS 180-4 §6.2).
pub mod sha256 {
    use super::{BLOCK, Job, ShaInstructions, paths};

    /// The HMAC-SHA-256 of the slices of `message`, taken as one message. Keys are as for [`sha1::hmac`](super::sha1::hmac).
    #[inline]
    #[must_use]
    pub fn hmac(sha: ShaInstructions, keys: [&[u32; 8]; 2], message: &[&[u8]]) -> [u8; 32] {
        sha.0.sha256(keys, BLOCK as u64, message)
    }

    /// Processes blocks of a message that comes in parts, as [`sha1::absorb`](super::sha1::absorb) does.
    pub fn absorb(sha: ShaInstructions, value: &mut [u32; 8], blocks: &[[u8; BLOCK]]) {
        sha.0.sha256_blocks(value, blocks);
    }

    /// Processes the inner and the outer key block, as [`sha1::absorb_key`](super::sha1::absorb_key) does.
    ///
    /// # Panics
    /// If the key has more than 64 octets: hash it first.
    #[inline]
    pub fn absorb_key(sha: ShaInstructions, values: &mut [[u32; 8]; 2], key: &[u8]) {
        assert!(key.len() <= BLOCK, "a key of more than 64 octets is hashed first");
        sha.0.sha256_key(values, key);
    }

    /// The HMAC-SHA-256 of a message that came in parts, as [`sha1::finish`](super::sha1::finish) computes it.
    #[must_use]
    pub fn finish(sha: ShaInstructions, keys: [&[u32; 8]; 2], before: u64, rest: &[u8]) -> [u8; 32] {
        sha.0.sha256(keys, before, &[rest])
    }

    /// Computes HMAC-SHA-256s of messages side by side, as [`sha1::hmac_many`](super::sha1::hmac_many) does for HMAC-SHA-1.
    pub fn hmac_many<'a>(
        jobs: impl Iterator<Item = Job<'a, 8>>,
        done: impl FnMut(usize, &[u8; 32]),
    ) -> usize {
        paths::sha256_many(jobs, done)
    }
}

/// Processors without a path: there is no proof, and batches are left to the caller.
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
mod unsupported {
    use super::{BLOCK, Job};
    use crate::cpu::InstructionSet;

    #[derive(Clone, Copy, Debug)]
    pub(super) enum Path {}

    impl Path {
        pub(super) fn detect() -> Option<Self> {
            None
        }

        pub(super) fn set(self) -> InstructionSet {
            match self {}
        }

        pub(super) fn sha1(self, _: [&[u32; 5]; 2], _: u64, _: &[&[u8]]) -> [u8; 20] {
            match self {}
        }

        pub(super) fn sha256(self, _: [&[u32; 8]; 2], _: u64, _: &[&[u8]]) -> [u8; 32] {
            match self {}
        }

        pub(super) fn sha1_blocks(self, _: &mut [u32; 5], _: &[[u8; BLOCK]]) {
            match self {}
        }

        pub(super) fn sha1_key(self, _: &mut [[u32; 5]; 2], _: &[u8]) {
            match self {}
        }

        pub(super) fn sha256_blocks(self, _: &mut [u32; 8], _: &[[u8; BLOCK]]) {
            match self {}
        }

        pub(super) fn sha256_key(self, _: &mut [[u32; 8]; 2], _: &[u8]) {
            match self {}
        }
    }

    pub(super) fn sha1_many<'a>(
        _: impl Iterator<Item = Job<'a, 5>>,
        _: impl FnMut(usize, &[u8; 20]),
    ) -> usize {
        0
    }

    pub(super) fn sha256_many<'a>(
        _: impl Iterator<Item = Job<'a, 8>>,
        _: impl FnMut(usize, &[u8; 32]),
    ) -> usize {
        0
    }
}

//! AES for QUIC header protection: a sample is encrypted to a mask (RFC 9001 §5.4.3).

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
pub(crate) mod aarch64;
pub(crate) mod vector;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;

use core::fmt;

use zeroize::{ZeroizeOnDrop, Zeroizing};

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
pub(crate) use aarch64::Engine;
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
pub(crate) use unsupported::Engine;
use vector::{ROUND_KEYS, RoundKeys, Rounds};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::Engine;

use crate::cpu::InstructionSet;

/// An AES key of 16 or 32 octets for header protection.
///
/// It takes 256 octets, needs no heap, and is wiped on drop.
#[derive(ZeroizeOnDrop)]
pub struct AesMaskKey {
    pub(crate) keys: RoundKeys,
    #[zeroize(skip)]
    pub(crate) rounds: Rounds,
    #[zeroize(skip)]
    engine: Engine,
}

impl AesMaskKey {
    /// A key, or `None` if `key` has neither 16 nor 32 octets or this processor has no instructions for AES.
    #[must_use]
    pub fn new(key: &[u8]) -> Option<Self> {
        let engine = Engine::detect()?;
        // Zeroizing, because it is copied into the key below.
        let mut keys = Zeroizing::new([0; ROUND_KEYS]);
        let rounds = engine.expand(key, &mut keys)?;
        Some(Self { keys: *keys, rounds, engine })
    }

    /// The instructions it uses: the best for AES that the processor had when the key was created.
    #[must_use]
    pub fn path(&self) -> InstructionSet {
        self.engine.path()
    }

    /// The encrypted sample, whose first five octets are the mask.
    #[inline]
    #[must_use]
    pub fn mask(&self, sample: &[u8; 16]) -> [u8; 16] {
        leak!("AES: mask", self.keys);
        self.engine.encrypt(&self.keys, self.rounds, sample)
    }
}

/// Omits the key.
impl fmt::Debug for AesMaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AesMaskKey").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// Processors without instructions for AES have no engine.
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
mod unsupported {
    use super::vector::{RoundKeys, Rounds};
    use crate::cpu::InstructionSet;

    #[derive(Clone, Copy)]
    pub(crate) enum Engine {}

    impl Engine {
        pub(crate) const fn detect() -> Option<Self> {
            None
        }

        pub(crate) fn path(self) -> InstructionSet {
            match self {}
        }

        pub(crate) fn expand(self, _: &[u8], _: &mut RoundKeys) -> Option<Rounds> {
            match self {}
        }

        pub(crate) fn encrypt(self, _: &RoundKeys, _: Rounds, _: &[u8; 16]) -> [u8; 16] {
            match self {}
        }
    }
}

//! AES as QUIC's header protection uses it: the block of a sample becomes a mask (RFC 9001 §5.4.3).

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod aarch64;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
mod expand;
#[cfg(feature = "model")]
pub mod model;
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
mod nowhere;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
pub(crate) mod vector;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;

use core::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
pub(crate) use aarch64::{Engine, V128 as Block};
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
pub(crate) use nowhere::Engine;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Engine, V128 as Block};

use crate::cpu::Path;

/// The round keys of AES-256; those of AES-128 are four less.
pub(crate) const ROUND_KEYS: usize = 15;

/// Round keys whose octets lie first to last: numbers only because those are wiped faster than octets.
pub(crate) type RoundKeys = [u128; ROUND_KEYS];

/// An AES key of header protection, of 16 or 32 octets.
///
/// It lies where it is put, in 256 octets, and is wiped on drop.
pub struct AesMaskKey {
    pub(crate) keys: RoundKeys,
    pub(crate) rounds: Rounds,
    engine: Engine,
}

/// How many rounds AES has with a key.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Rounds {
    /// 10, with a key of 16 octets.
    Ten = 10,
    /// 14, with a key of 32 octets.
    Fourteen = 14,
}

impl AesMaskKey {
    /// A key, or `None` if `key` has neither 16 nor 32 octets or this processor has no instructions for AES.
    #[must_use]
    pub fn new(key: &[u8]) -> Option<Self> {
        let engine = Engine::detect()?;
        // What is copied to its place below is wiped here.
        let mut keys = Zeroizing::new([0; ROUND_KEYS]);
        let rounds = engine.expand(key, &mut keys)?;
        Some(Self { keys: *keys, rounds, engine })
    }

    /// The instructions it uses: the best that the processor had for AES when the key was made.
    #[must_use]
    pub fn path(&self) -> Path {
        self.engine.path()
    }

    /// The encrypted sample, whose first five octets are the mask.
    #[inline]
    #[must_use]
    pub fn mask(&self, sample: &[u8; 16]) -> [u8; 16] {
        self.engine.encrypt(&self.keys, self.rounds, *sample)
    }
}

impl Drop for AesMaskKey {
    fn drop(&mut self) {
        self.keys.zeroize();
    }
}

impl ZeroizeOnDrop for AesMaskKey {}

/// Without the key.
impl fmt::Debug for AesMaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AesMaskKey").field("path", &self.path()).finish_non_exhaustive()
    }
}

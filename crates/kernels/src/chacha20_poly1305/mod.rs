//! ChaCha20-Poly1305 (RFC 8439 §2.8) in vectors of 64 octets.
//!
//! For a packet of up to 1536 octets, one call computes the whole key stream and the one-time key. From 577 octets on, the one-time key
//! and the powers of r that Poly1305 needs are computed beside the key stream.

use core::fmt;

use zeroize::ZeroizeOnDrop;

use crate::cpu::InstructionSet;

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(not(target_arch = "x86_64"))]
use unsupported::Engine;
#[cfg(target_arch = "x86_64")]
use x86_64::Engine;

/// The maximum length of a text in octets: block numbers have 32 bits, and block 0 of the key stream is for the one-time key.
const MAX_LENGTH: u64 = ((1 << 32) - 1) * 64;

/// A ChaCha20-Poly1305 key. It is wiped on drop, and `Debug` does not show it. Using a nonce twice breaks it.
#[derive(Clone, ZeroizeOnDrop)]
pub struct ChaCha20Poly1305Key {
    words: [u32; 8],
    #[zeroize(skip)]
    engine: Engine,
}

impl ChaCha20Poly1305Key {
    /// A key of 32 octets, or `None` if this processor has no path for it.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Option<Self> {
        let engine = Engine::detect()?;
        let mut words = [0; 8];
        for (word, octets) in words.iter_mut().zip(key.as_chunks().0) {
            *word = u32::from_le_bytes(*octets);
        }
        Some(Self { words, engine })
    }

    /// The instructions it uses.
    #[must_use]
    pub fn path(&self) -> InstructionSet {
        self.engine.path()
    }

    /// Encrypts a text in place, and returns its tag.
    ///
    /// # Panics
    ///
    /// If `text` is longer than 2^32 - 1 blocks of 64 octets.
    #[must_use]
    pub fn seal_detached(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
        assert!(text.len() as u64 <= MAX_LENGTH, "the text is too long for ChaCha20");
        self.engine.seal(&self.words, nonce, aad, text)
    }

    /// Decrypts a text in place, and returns whether it is authentic. If it is not, the text becomes zeros.
    #[must_use]
    pub fn open_detached(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; 16]) -> bool {
        let is_authentic =
            text.len() as u64 <= MAX_LENGTH && self.engine.open(&self.words, nonce, aad, text, tag);
        if !is_authentic {
            leak!("ChaCha20-Poly1305: refused text", self.words);
            text.fill(0);
        }
        is_authentic
    }
}

impl fmt::Debug for ChaCha20Poly1305Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChaCha20Poly1305Key").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// Processors without the instructions have no engine.
#[cfg(not(target_arch = "x86_64"))]
mod unsupported {
    use crate::cpu::InstructionSet;

    #[derive(Clone, Copy)]
    pub(super) enum Engine {}

    impl Engine {
        pub(super) fn detect() -> Option<Self> {
            None
        }

        pub(super) fn path(self) -> InstructionSet {
            match self {}
        }

        pub(super) fn seal(self, _: &[u32; 8], _: &[u8; 12], _: &[u8], _: &mut [u8]) -> [u8; 16] {
            match self {}
        }

        pub(super) fn open(self, _: &[u32; 8], _: &[u8; 12], _: &[u8], _: &mut [u8], _: &[u8; 16]) -> bool {
            match self {}
        }
    }
}

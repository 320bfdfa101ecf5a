//! AES-GCM for packets (SP 800-38D, RFC 5116), in place, with QUIC's header mask.

#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
mod crypt;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
mod hash;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
mod kernel;
#[cfg(feature = "model")]
pub mod model;
mod packet;
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
mod unsupported;

use core::fmt;

#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
use kernel::Kernel;
pub use packet::TAG_LENGTH;
use packet::{Mask, POWERS, Packet};
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
use unsupported::Kernel;
use zeroize::{ZeroizeOnDrop, Zeroizing};

use crate::aes::{AesMaskKey, Engine, ROUND_KEYS};
use crate::cpu::InstructionSet;

const BODY_LENGTH: &str = "a body is a text, not above GCM's limit, and room for 16 octets of tag";
const SAMPLE: &str = "the sample is not in the body";

/// An AES-GCM key of 16 or 32 octets, for nonces of 12 octets and tags of 16.
///
/// It takes 512 octets, needs no heap, and is wiped on drop. Using a nonce twice breaks it.
#[derive(ZeroizeOnDrop)]
pub struct GcmKey {
    /// The powers of H, from the highest down, as [`POWERS`] says, then the round keys.
    blocks: [u128; POWERS + ROUND_KEYS],
    #[zeroize(skip)]
    kernel: &'static Kernel,
    #[zeroize(skip)]
    engine: Engine,
}

impl GcmKey {
    /// A key, or `None` if `key` has neither 16 nor 32 octets or this processor has no instructions for AES-GCM.
    #[must_use]
    pub fn new(key: &[u8]) -> Option<Self> {
        let engine = Engine::detect()?;
        // Wiped here after it is copied below.
        let mut blocks = Zeroizing::new([0; POWERS + ROUND_KEYS]);
        let (powers, round_keys) = blocks.split_last_chunk_mut()?;
        let rounds = engine.expand(key, round_keys)?;
        let h = Zeroizing::new(engine.encrypt(round_keys, rounds, [0; 16]));
        let h = Zeroizing::new(u128::from_be_bytes(*h));
        engine.powers(*h, powers);
        Some(Self { blocks: *blocks, kernel: engine.gcm(rounds), engine })
    }

    /// The instructions it uses: the best for AES-GCM that the processor had when the key was made.
    #[must_use]
    pub fn path(&self) -> InstructionSet {
        self.engine.path()
    }

    /// Encrypts a text in place, and writes its tag behind it.
    ///
    /// `body` is the text with room for the 16 octets of the tag. With `mask`, returns QUIC's header mask (RFC 9001 §5.4.3): the 16
    /// octets of the finished `body` from that offset on, encrypted with the other key. Without it, returns zeros.
    ///
    /// # Panics
    ///
    /// If `body` has no room for the tag or more text than GCM's limit of 2^32 - 2 blocks, or if fewer than 16 octets follow the
    /// sample's offset. Nothing is sealed then.
    #[inline]
    pub fn seal(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        body: &mut [u8],
        mask: Option<(&AesMaskKey, usize)>,
    ) -> [u8; 16] {
        let packet = Packet::new(nonce, aad, body).expect(BODY_LENGTH);
        let mask = mask.map(|(key, sample)| {
            assert!(sample <= packet.length, "{SAMPLE}");
            Mask { key, sample }
        });
        // SAFETY: the engine proves the kernel's path; key and packet are valid.
        unsafe { (self.kernel.seal)(self.blocks.as_ptr().cast(), packet, mask) }
    }

    /// Encrypts a text in place, and returns its tag.
    ///
    /// # Panics
    ///
    /// If the text is longer than GCM's limit of 2^32 - 2 blocks.
    #[inline]
    #[must_use]
    pub fn seal_detached(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; TAG_LENGTH] {
        let mut tag = [0; TAG_LENGTH];
        let packet = Packet::detached(nonce, aad, text, &mut tag).expect(BODY_LENGTH);
        // SAFETY: the engine proves the kernel's path; key and packet are valid.
        unsafe { (self.kernel.seal)(self.blocks.as_ptr().cast(), packet, None) };
        tag
    }

    /// Decrypts a text in place, and returns whether it is authentic.
    ///
    /// `body` is the text and its tag of 16 octets, which stays as it is. If it is not authentic, or too short for a tag, the text
    /// becomes zeros.
    #[inline]
    #[must_use]
    pub fn open(&self, nonce: &[u8; 12], aad: &[u8], body: &mut [u8]) -> bool {
        let is_authentic = Packet::new(nonce, aad, body).is_some_and(|packet| {
            // SAFETY: the engine proves the kernel's path; key and packet are valid.
            unsafe { (self.kernel.open)(self.blocks.as_ptr().cast(), packet) }
        });
        if !is_authentic {
            wipe_text(body);
        }
        is_authentic
    }
}

#[cold]
fn wipe_text(body: &mut [u8]) {
    let length = body.len().checked_sub(TAG_LENGTH).unwrap_or(body.len());
    leak!("GCM: refused text", body[0]);
    body[..length].fill(0);
}

/// Without the key.
impl fmt::Debug for GcmKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GcmKey").field("path", &self.path()).finish_non_exhaustive()
    }
}

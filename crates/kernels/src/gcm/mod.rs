//! AES-GCM for packets (SP 800-38D, RFC 5116), where they lie, with QUIC's header mask.

#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
mod crypt;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
mod hash;
#[cfg(feature = "model")]
pub mod model;
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
mod nowhere;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
mod paths;

use core::fmt;
use core::marker::PhantomData;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::aes::{AesMaskKey, Engine, ROUND_KEYS, Rounds};
use crate::cpu::Path;

/// The octets of a tag.
pub const TAG_LENGTH: usize = 16;

/// The most octets of a text: 2^32 - 2 blocks.
const MAX_LENGTH: u64 = ((1 << 32) - 2) * 16;

/// How many powers of H a key has: enough for a group of 16 blocks, or fewer with the lengths behind them.
const POWERS: usize = 16;

/// The powers of H, from the highest down, then the round keys.
type Blocks = [u128; POWERS + ROUND_KEYS];

/// An AES-GCM key of 16 or 32 octets, for nonces of 12 octets and tags of 16.
///
/// It lies where it is put, in 512 octets, and is wiped on drop. A nonce given twice breaks it.
pub struct GcmKey {
    blocks: Blocks,
    rounds: Rounds,
    engine: Engine,
}

/// A text, to be worked on where it lies, and its tag.
#[derive(Clone, Copy)]
struct Packet<'a> {
    nonce: &'a [u8; 12],
    aad: &'a [u8],
    text: *mut u8,
    /// The octets of the text.
    length: usize,
    /// The 16 octets of the tag.
    tag: *mut u8,
    body: PhantomData<&'a mut [u8]>,
}

impl<'a> Packet<'a> {
    /// `None` if `body` has no room for a tag, or more text than GCM takes.
    #[inline]
    fn new(nonce: &'a [u8; 12], aad: &'a [u8], body: &'a mut [u8]) -> Option<Self> {
        let length = text_length(body)?;
        // One pointer for both, since a sample may lie in both.
        let text = body.as_mut_ptr();
        Some(Self { nonce, aad, text, length, tag: text.wrapping_add(length), body: PhantomData })
    }

    /// `None` if there is more text than GCM takes.
    #[inline]
    fn detached(
        nonce: &'a [u8; 12],
        aad: &'a [u8],
        text: &'a mut [u8],
        tag: &'a mut [u8; TAG_LENGTH],
    ) -> Option<Self> {
        let length = text.len();
        let (text, tag) = (text.as_mut_ptr(), tag.as_mut_ptr());
        (length as u64 <= MAX_LENGTH).then_some(Self { nonce, aad, text, length, tag, body: PhantomData })
    }
}

/// The octets of the text in a body, `None` if it has no room for a tag, or more text than GCM takes.
#[inline]
fn text_length(body: &[u8]) -> Option<usize> {
    body.len().checked_sub(TAG_LENGTH).filter(|length| *length as u64 <= MAX_LENGTH)
}

/// What a caller is told who gave another body.
const BODY_LENGTH: &str = "a body is a text, not above GCM's limit, and room for 16 octets of tag";

/// What a caller is told who gave an offset without 16 octets behind it.
const SAMPLE: &str = "the sample is not in the body";

/// A mask to be made of 16 octets of a sealed text and its tag.
#[derive(Clone, Copy)]
struct Mask<'a> {
    key: &'a AesMaskKey,
    /// Where the sample is in the body, which has 16 octets from there on.
    sample: usize,
}

impl GcmKey {
    /// A key, or `None` if `key` has neither 16 nor 32 octets or this processor has no instructions for AES-GCM.
    #[must_use]
    pub fn new(key: &[u8]) -> Option<Self> {
        let engine = Engine::detect()?;
        // What is copied to its place below is wiped here.
        let mut blocks = Zeroizing::new([0; POWERS + ROUND_KEYS]);
        let (powers, round_keys) = blocks.split_last_chunk_mut()?;
        let rounds = engine.expand(key, round_keys)?;
        let h = Zeroizing::new(engine.encrypt(round_keys, rounds, [0; 16]));
        let h = Zeroizing::new(u128::from_be_bytes(*h));
        engine.powers(*h, powers);
        Some(Self { blocks: *blocks, rounds, engine })
    }

    /// The instructions it uses: the best that the processor had for AES-GCM when the key was made.
    #[must_use]
    pub fn path(&self) -> Path {
        self.engine.path()
    }

    /// Encrypts a text where it lies, and puts its tag behind it.
    ///
    /// `body` is the text with room for the 16 octets of the tag. With `mask`, the 16 octets of the finished `body` from the
    /// offset on are encrypted under the other key and returned, which is QUIC's header mask (RFC 9001 §5.4.3); without
    /// it, zeros are.
    ///
    /// # Panics
    ///
    /// If `body` has no room for the tag, more text than GCM's limit of 2^32 - 2 blocks, or not 16 octets from the sample's offset
    /// on. Nothing has then been sealed.
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
        self.engine.seal(&self.blocks, self.rounds, packet, mask)
    }

    /// Decrypts a text where it lies, and says whether it is authentic.
    ///
    /// `body` is the text and the 16 octets of its tag, which stay as they are. If it is not authentic, or too short for a tag, the
    /// text is zeros.
    #[inline]
    #[must_use]
    pub fn open(&self, nonce: &[u8; 12], aad: &[u8], body: &mut [u8]) -> bool {
        let authentic = match Packet::new(nonce, aad, body) {
            Some(packet) => self.engine.open(&self.blocks, self.rounds, packet),
            None => false,
        };
        if !authentic {
            refuse(body);
        }
        authentic
    }

    /// Encrypts a text where it lies, and returns its tag.
    ///
    /// # Panics
    ///
    /// If the text is longer than GCM's limit of 2^32 - 2 blocks.
    #[inline]
    #[must_use]
    pub fn seal_detached(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; TAG_LENGTH] {
        let mut tag = [0; TAG_LENGTH];
        let packet = Packet::detached(nonce, aad, text, &mut tag).expect(BODY_LENGTH);
        self.engine.seal(&self.blocks, self.rounds, packet, None);
        tag
    }

    /// Decrypts a text where it lies, and says whether it is authentic. If it is not, the text is zeros.
    #[inline]
    #[must_use]
    pub fn open_detached(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8; TAG_LENGTH],
    ) -> bool {
        let mut tag = *tag;
        let authentic = match Packet::detached(nonce, aad, text, &mut tag) {
            Some(packet) => self.engine.open(&self.blocks, self.rounds, packet),
            None => false,
        };
        if !authentic {
            text.fill(0);
        }
        authentic
    }
}

/// Leaves no text before the tag.
#[cold]
fn refuse(body: &mut [u8]) {
    let length = body.len().checked_sub(TAG_LENGTH).unwrap_or(body.len());
    body[..length].fill(0);
}

impl Drop for GcmKey {
    fn drop(&mut self) {
        self.blocks.zeroize();
    }
}

impl ZeroizeOnDrop for GcmKey {}

/// Without the key.
impl fmt::Debug for GcmKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GcmKey").field("path", &self.path()).finish_non_exhaustive()
    }
}

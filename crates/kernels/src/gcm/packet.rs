//! What a kernel works on.

use core::marker::PhantomData;

use crate::aes::AesMaskKey;

/// The octets of a tag.
pub const TAG_LENGTH: usize = 16;

/// The most octets of a text: 2^32 - 2 blocks.
const MAX_LENGTH: u64 = ((1 << 32) - 2) * 16;

/// How many powers of H a key has: enough for a group of 16 blocks, or for fewer blocks and the lengths behind them. For
/// Karatsuba's method, H^8 to H^1, and before each of them, eight places, the sum of its halves, in both halves.
pub(super) const POWERS: usize = 16;

#[cfg_attr(
    not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))),
    expect(dead_code, reason = "without a kernel nothing is sealed or opened")
)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Seal,
    Open,
}

/// A text to be worked on in place, and its tag.
#[derive(Clone, Copy)]
pub(super) struct Packet<'a> {
    pub(super) nonce: &'a [u8; 12],
    pub(super) aad: &'a [u8],
    pub(super) text: *mut u8,
    /// The octets of the text.
    pub(super) length: usize,
    /// The 16 octets of the tag.
    pub(super) tag: *mut u8,
    body: PhantomData<&'a mut [u8]>,
}

impl<'a> Packet<'a> {
    /// `None` if `body` has no room for a tag, or more text than GCM allows.
    #[inline]
    pub(super) fn new(nonce: &'a [u8; 12], aad: &'a [u8], body: &'a mut [u8]) -> Option<Self> {
        let length = body.len().checked_sub(TAG_LENGTH).filter(|length| *length as u64 <= MAX_LENGTH)?;
        // One pointer for both, since a sample may overlap both.
        let text = body.as_mut_ptr();
        Some(Self { nonce, aad, text, length, tag: text.wrapping_add(length), body: PhantomData })
    }

    /// `None` if the text is longer than GCM allows.
    #[inline]
    pub(super) fn detached(
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

/// A header mask to be made.
#[derive(Clone, Copy)]
pub(super) struct Mask<'a> {
    pub(super) key: &'a AesMaskKey,
    /// Where the sample's 16 octets start in the sealed text and its tag.
    pub(super) sample: usize,
}

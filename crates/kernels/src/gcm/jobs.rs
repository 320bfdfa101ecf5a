//! Packets of a train.
//!
//! They are worked one after another, because the processor itself begins the next packet while it ends the hash of the one before:
//! what a train of 1200 octets each takes beyond as many octets of one long text is below a sixth.

use core::fmt;

use super::{BODY_LENGTH, Packet, SAMPLE, text_length};

/// A packet to be sealed in a train: what [`GcmKey::seal`](super::GcmKey::seal) takes, and the mask it returns.
pub struct SealJob<'a> {
    /// The nonce, another one for every packet.
    pub nonce: [u8; 12],
    /// The associated data.
    pub aad: &'a [u8],
    /// The text and room for the 16 octets of the tag.
    pub body: &'a mut [u8],
    /// The offset in `body` of the 16 octets that the mask is made of.
    pub sample: usize,
    /// What the sample becomes.
    pub mask: [u8; 16],
}

impl SealJob<'_> {
    /// Panics if the packet cannot be sealed or has no sample where it says.
    pub(super) fn check(&self) {
        let length = text_length(self.body).expect(BODY_LENGTH);
        assert!(self.sample <= length, "{SAMPLE}");
    }

    #[inline]
    pub(super) fn packet(&mut self) -> Packet<'_> {
        Packet::new(&self.nonce, self.aad, self.body).expect(BODY_LENGTH)
    }
}

/// A packet to be opened in a train: what [`GcmKey::open`](super::GcmKey::open) takes and returns.
pub struct OpenJob<'a> {
    /// The nonce.
    pub nonce: [u8; 12],
    /// The associated data.
    pub aad: &'a [u8],
    /// The text and the 16 octets of the tag.
    pub body: &'a mut [u8],
    /// Whether it was authentic; if not, the text is zeros.
    pub authentic: bool,
}

impl OpenJob<'_> {
    #[inline]
    pub(super) fn packet(&mut self) -> Option<Packet<'_>> {
        Packet::new(&self.nonce, self.aad, self.body)
    }
}

/// Without the octets.
impl fmt::Debug for SealJob<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealJob").field("length", &self.body.len()).finish_non_exhaustive()
    }
}

/// Without the octets.
impl fmt::Debug for OpenJob<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenJob").field("length", &self.body.len()).finish_non_exhaustive()
    }
}

//! One-time Poly1305 (RFC 8439, section 2.5).

use core::fmt;

use poly1305::universal_hash::{KeyInit, UniversalHash};
use poly1305::{Block, Poly1305};
use zeroize::ZeroizeOnDrop;

use crate::blocks::whole_blocks;
use crate::output::{Mac, MacMismatch, compare};

/// A Poly1305 key (RFC 8439, section 2.5), consumed by the one message that it may authenticate.
///
/// Two messages under one key give the key away, so this is neither `Clone` nor a [`MacKey`](crate::MacKey), and both
/// calls take it by value. It is wiped on drop, as is the state of the `poly1305` crate, and `Debug` shows no octets.
///
/// ```
/// use wireseal_mac::OneTimePoly1305Key;
///
/// let mac = OneTimePoly1305Key::new([7; 32]).mac(&[b"one ", b"message"]);
/// assert_eq!(OneTimePoly1305Key::new([7; 32]).verify(&[b"one message"], mac.as_bytes()), Ok(()));
/// ```
///
/// ```compile_fail,E0382
/// # use wireseal_mac::OneTimePoly1305Key;
/// let key = OneTimePoly1305Key::new([7; 32]);
/// let first = key.mac(&[b"one message"]);
/// let second = key.mac(&[b"another"]);
/// ```
#[derive(ZeroizeOnDrop)]
pub struct OneTimePoly1305Key([u8; 32]);

impl OneTimePoly1305Key {
    /// A key of 32 octets: r, which is clamped here, in the first half, and s in the second.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// The MAC of 16 octets over the slices of `message` in order.
    #[must_use]
    pub fn mac(self, message: &[&[u8]]) -> Mac {
        let mut poly1305 = Poly1305::new((&self.0).into());
        let last = whole_blocks(message, |blocks: &[[u8; 16]]| {
            poly1305.update(Block::cast_slice_from_core(blocks));
        });
        Mac::compute::<16>(|output| *output = poly1305.compute_unpadded(&last.block.0[..last.length]).0)
    }

    /// Verifies in constant time that `mac` is the MAC of the slices of `message` in order.
    ///
    /// # Errors
    ///
    /// [`MacMismatch`] when an octet differs, or when there are not 16.
    pub fn verify(self, message: &[&[u8]], mac: &[u8]) -> Result<(), MacMismatch> {
        let computed = self.mac(message);
        if mac.len() != computed.as_bytes().len() {
            return Err(MacMismatch);
        }
        compare(computed.as_bytes(), mac)
    }
}

impl fmt::Debug for OneTimePoly1305Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneTimePoly1305Key").finish_non_exhaustive()
    }
}

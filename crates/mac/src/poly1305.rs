//! One-time Poly1305 (RFC 8439 §2.5).

use core::fmt;

use wireseal_kernels::poly1305;
use zeroize::ZeroizeOnDrop;

use crate::output::{Mac, MacMismatch, Wiped, compare};

/// A Poly1305 key (RFC 8439 §2.5). It may authenticate only one message, so using it consumes it.
///
/// Two messages under one key reveal it, so this is neither `Clone` nor a [`MacKey`](crate::MacKey), and both calls take it by
/// value. It is wiped on drop, and `Debug` shows no octets.
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
pub struct OneTimePoly1305Key(Wiped<32>);

impl OneTimePoly1305Key {
    /// A key of 32 octets: r, which is clamped here, then s.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self(Wiped(key))
    }

    /// The MAC, 16 octets, of the slices of `message`, taken as one message.
    #[must_use]
    pub fn mac(self, message: &[&[u8]]) -> Mac {
        Mac::compute(|output| *output = poly1305::mac(&self.0.0, message))
    }

    /// Verifies in constant time that `mac` is the MAC of the slices of `message`.
    ///
    /// # Errors
    ///
    /// [`MacMismatch`] if an octet differs, or there are not 16.
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

impl ZeroizeOnDrop for OneTimePoly1305Key {}

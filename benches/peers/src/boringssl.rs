//! AES of BoringSSL, one block at a time, for QUIC's header protection.

use core::fmt;
use core::mem::MaybeUninit;

use boring_sys::{AES_KEY, AES_encrypt, AES_set_encrypt_key};

/// A key to encrypt with.
pub struct Aes(AES_KEY);

impl Aes {
    /// A key of 16, 24 or 32 octets; `None` for another length.
    #[must_use]
    pub fn new(key: &[u8]) -> Option<Self> {
        let bits = u32::try_from(key.len()).ok()?.checked_mul(8)?;
        let mut schedule = MaybeUninit::<AES_KEY>::zeroed();
        // SAFETY: the key is read for its length, and there is room for the schedule.
        let failed = unsafe { AES_set_encrypt_key(key.as_ptr(), bits, schedule.as_mut_ptr()) } != 0;
        // SAFETY: it holds only integers, for which zeros are valid too.
        (!failed).then(|| Self(unsafe { schedule.assume_init() }))
    }

    /// The block, encrypted.
    #[inline]
    #[must_use]
    pub fn encrypt(&self, block: &[u8; 16]) -> [u8; 16] {
        let mut encrypted = [0; 16];
        // SAFETY: 16 octets are read and as many written; the schedule is set up.
        unsafe { AES_encrypt(block.as_ptr(), encrypted.as_mut_ptr(), &raw const self.0) };
        encrypted
    }
}

impl fmt::Debug for Aes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aes").finish_non_exhaustive()
    }
}

//! AES-128-CTR and AES-128-GCM of OpenSSL.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

unsafe extern "C" {
    fn wireseal_openssl_cipher_new(is_gcm: c_int, key: *const u8) -> *mut c_void;
    fn wireseal_openssl_encrypt(
        context: *mut c_void,
        is_gcm: c_int,
        nonce: *const u8,
        octets: *mut u8,
        length: c_int,
        tag: *mut u8,
    );
    fn wireseal_openssl_cipher_free(context: *mut c_void);
}

/// A cipher of OpenSSL with its key.
#[derive(Debug)]
pub struct OpenSslCipher {
    context: NonNull<c_void>,
    is_gcm: bool,
}

impl OpenSslCipher {
    /// AES-128-GCM, or else AES-128-CTR; `None` without OpenSSL 3 on the machine.
    #[must_use]
    pub fn new(is_gcm: bool, key: &[u8; 16]) -> Option<Self> {
        // SAFETY: 16 octets are read and not kept.
        let context = unsafe { wireseal_openssl_cipher_new(c_int::from(is_gcm), key.as_ptr()) };
        NonNull::new(context).map(|context| Self { context, is_gcm })
    }

    /// Encrypts in place, and returns GCM's tag; zeros for CTR. `nonce` is CTR's first counter block; GCM takes its first 12 octets.
    ///
    /// # Panics
    /// If there are 2^31 octets or more.
    pub fn encrypt(&mut self, nonce: &[u8; 16], octets: &mut [u8]) -> [u8; 16] {
        let length = c_int::try_from(octets.len()).expect("less than 2^31 octets");
        let mut tag = [0; 16];
        // SAFETY: the context is alive and used only by this thread; of the nonce, 12 or 16 octets are read; the octets are replaced
        // by as many, since neither cipher pads; and there is room for the tag.
        unsafe {
            wireseal_openssl_encrypt(
                self.context.as_ptr(),
                c_int::from(self.is_gcm),
                nonce.as_ptr(),
                octets.as_mut_ptr(),
                length,
                tag.as_mut_ptr(),
            );
        }
        tag
    }
}

impl Drop for OpenSslCipher {
    fn drop(&mut self) {
        // SAFETY: the context is alive, and not used again.
        unsafe { wireseal_openssl_cipher_free(self.context.as_ptr()) };
    }
}

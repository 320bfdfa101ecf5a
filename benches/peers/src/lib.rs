//! For Wireseal's benches: MACs from nettle and OpenSSL, and AES from BoringSSL.
//!
//! nettle is linked. OpenSSL is loaded at run time, because its symbols have the same names as BoringSSL's. The C files beside this one are
//! compiled against the libraries' headers.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::NonNull;

/// The algorithm of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Algorithm {
    /// HMAC-SHA-1 under a key of any length.
    HmacSha1,
    /// HMAC-SHA-256 under a key of any length.
    HmacSha256,
    /// AES-128-CMAC under a key of 16 octets.
    Aes128Cmac,
    /// Poly1305, only in OpenSSL: a key of 32 octets for the first message; [`OpenSsl::one_time`] for each further one.
    Poly1305,
}

unsafe extern "C" {
    fn wireseal_nettle_new(algorithm: c_int, key: *const u8, key_length: usize) -> *mut c_void;
    fn wireseal_nettle_update(context: *mut c_void, octets: *const u8, length: usize);
    fn wireseal_nettle_digest(context: *mut c_void, mac: *mut u8);
    fn wireseal_nettle_free(context: *mut c_void);
    fn wireseal_nettle_version(is_major: c_int) -> c_int;
    fn wireseal_openssl_new(algorithm: c_int, key: *const u8, key_length: usize) -> *mut c_void;
    fn wireseal_openssl_key(context: *mut c_void, key: *const u8);
    fn wireseal_openssl_update(context: *mut c_void, octets: *const u8, length: usize);
    fn wireseal_openssl_digest(context: *mut c_void, mac: *mut u8);
    fn wireseal_openssl_free(context: *mut c_void);
    fn wireseal_openssl_version() -> *const c_char;
}

/// A context of nettle.
#[derive(Debug)]
pub struct Nettle(NonNull<c_void>);

impl Nettle {
    /// A context with its key; `None` if nettle lacks the algorithm or the key has the wrong length.
    #[must_use]
    pub fn new(algorithm: Algorithm, key: &[u8]) -> Option<Self> {
        // SAFETY: the key is valid for its length, and is not kept.
        NonNull::new(unsafe { wireseal_nettle_new(algorithm as c_int, key.as_ptr(), key.len()) }).map(Self)
    }

    /// The first 12 octets of the MAC over the slices of `message` in order.
    pub fn mac(&mut self, message: &[&[u8]]) -> [u8; 12] {
        let mut mac = [0; 12];
        let context = self.0.as_ptr();
        for part in message {
            // SAFETY: the context is alive and used only by this thread; the octets are valid for their length.
            unsafe { wireseal_nettle_update(context, part.as_ptr(), part.len()) };
        }
        // SAFETY: as above, and `mac` has room for the 12 octets that are written.
        unsafe { wireseal_nettle_digest(context, mac.as_mut_ptr()) };
        mac
    }

    /// The version on this machine, as "major.minor".
    #[must_use]
    pub fn version() -> String {
        // SAFETY: no pointers are passed.
        let [minor, major] = [0, 1].map(|is_major| unsafe { wireseal_nettle_version(is_major) });
        format!("{major}.{minor}")
    }
}

impl Drop for Nettle {
    fn drop(&mut self) {
        // SAFETY: the context is alive, and not used again.
        unsafe { wireseal_nettle_free(self.0.as_ptr()) };
    }
}

/// A context of OpenSSL.
#[derive(Debug)]
pub struct OpenSsl(NonNull<c_void>);

impl OpenSsl {
    /// A context with its key; `None` if OpenSSL lacks the algorithm, the key has the wrong length, or the machine has no OpenSSL 3.
    #[must_use]
    pub fn new(algorithm: Algorithm, key: &[u8]) -> Option<Self> {
        // SAFETY: the key is valid for its length, and is not kept.
        NonNull::new(unsafe { wireseal_openssl_new(algorithm as c_int, key.as_ptr(), key.len()) }).map(Self)
    }

    /// The first 12 octets of the MAC over the slices of `message` in order.
    pub fn mac(&mut self, message: &[&[u8]]) -> [u8; 12] {
        let mut mac = [0; 12];
        let context = self.0.as_ptr();
        for part in message {
            // SAFETY: the context is alive and used only by this thread; the octets are valid for their length.
            unsafe { wireseal_openssl_update(context, part.as_ptr(), part.len()) };
        }
        // SAFETY: as above, and `mac` has room for the 12 octets that are written.
        unsafe { wireseal_openssl_digest(context, mac.as_mut_ptr()) };
        mac
    }

    /// Like [`mac`](Self::mac), with Poly1305 and a key for this message only; other algorithms ignore the key.
    pub fn one_time(&mut self, key: &[u8; 32], message: &[&[u8]]) -> [u8; 12] {
        // SAFETY: the context is alive and used only by this thread; the key has the 32 octets that are read.
        unsafe { wireseal_openssl_key(self.0.as_ptr(), key.as_ptr()) };
        self.mac(message)
    }

    /// The version on this machine.
    #[must_use]
    pub fn version() -> Option<&'static str> {
        // SAFETY: the result is null or a static string of a library that is never unloaded.
        let version = unsafe { wireseal_openssl_version().as_ref().map(|text| CStr::from_ptr(text)) };
        version?.to_str().ok()
    }
}

impl Drop for OpenSsl {
    fn drop(&mut self) {
        // SAFETY: the context is alive, and not used again.
        unsafe { wireseal_openssl_free(self.0.as_ptr()) };
    }
}

#[cfg(feature = "boringssl")]
pub use boringssl::Aes;

/// AES from BoringSSL, for QUIC's header protection.
#[cfg(feature = "boringssl")]
mod boringssl {
    use core::fmt;
    use core::mem::MaybeUninit;

    use boring_sys::{AES_KEY, AES_encrypt, AES_set_encrypt_key};

    /// A BoringSSL AES key for encryption, one block at a time.
    pub struct Aes(AES_KEY);

    impl Aes {
        /// A key of 16, 24 or 32 octets; `None` for another length.
        #[must_use]
        pub fn new(key: &[u8]) -> Option<Self> {
            let bits = u32::try_from(key.len()).ok()?.checked_mul(8)?;
            let mut schedule = MaybeUninit::<AES_KEY>::zeroed();
            // SAFETY: the key is valid for its length, and there is room for the schedule.
            let failed = unsafe { AES_set_encrypt_key(key.as_ptr(), bits, schedule.as_mut_ptr()) } != 0;
            // SAFETY: the schedule holds only integers, for which zeros are valid too.
            (!failed).then(|| Self(unsafe { schedule.assume_init() }))
        }

        /// Encrypts the block.
        #[inline]
        #[must_use]
        pub fn encrypt(&self, block: &[u8; 16]) -> [u8; 16] {
            let mut encrypted = [0; 16];
            // SAFETY: 16 octets are read and 16 written, as both arrays have; the schedule is set up.
            unsafe { AES_encrypt(block.as_ptr(), encrypted.as_mut_ptr(), &raw const self.0) };
            encrypted
        }
    }

    impl fmt::Debug for Aes {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Aes").finish_non_exhaustive()
        }
    }
}

//! For Wireseal's benches: MACs of nettle, MACs and ciphers of OpenSSL, AES of BoringSSL, and CPUID with less in it.
//!
//! nettle is linked. OpenSSL is loaded at run time, because its symbols have the same names as BoringSSL's. The C files beside this
//! one are compiled against the libraries' headers.

#[cfg(feature = "boringssl")]
mod boringssl;
mod cipher;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::NonNull;

#[cfg(feature = "boringssl")]
pub use boringssl::Aes;
pub use cipher::OpenSslCipher;

/// What a context computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Algorithm {
    /// HMAC-SHA-1 under a key of any length.
    HmacSha1,
    /// HMAC-SHA-256 under a key of any length.
    HmacSha256,
    /// AES-128-CMAC under a key of 16 octets.
    Aes128Cmac,
    /// UMAC with tags of 96 bits (RFC 4418), only in nettle: 16 octets of key, and 8 of the first message's nonce, which nettle
    /// increments.
    Umac96,
    /// Poly1305, only in OpenSSL: a key of 32 octets for the first message; [`OpenSsl::one_time`] for each further one.
    Poly1305,
}

unsafe extern "C" {
    fn wireseal_nettle_new(algorithm: c_int, key: *const u8, key_length: usize) -> *mut c_void;
    fn wireseal_nettle_update(context: *mut c_void, octets: *const u8, length: usize);
    fn wireseal_nettle_digest(context: *mut c_void, mac: *mut u8);
    fn wireseal_nettle_octets(context: *const c_void) -> usize;
    fn wireseal_nettle_free(context: *mut c_void);
    fn wireseal_nettle_version(is_major: c_int) -> c_int;
    fn wireseal_openssl_new(algorithm: c_int, key: *const u8, key_length: usize) -> *mut c_void;
    fn wireseal_openssl_key(context: *mut c_void, key: *const u8);
    fn wireseal_openssl_update(context: *mut c_void, octets: *const u8, length: usize);
    fn wireseal_openssl_digest(context: *mut c_void, mac: *mut u8);
    fn wireseal_openssl_free(context: *mut c_void);
    fn wireseal_openssl_version() -> *const c_char;
    fn wireseal_mask_cpuid(with_vaes: c_int) -> c_int;
}

/// A context of nettle.
#[derive(Debug)]
pub struct Nettle(NonNull<c_void>);

impl Nettle {
    /// A context with its key; `None` if nettle lacks the algorithm or the key has the wrong length.
    #[must_use]
    pub fn new(algorithm: Algorithm, key: &[u8]) -> Option<Self> {
        // SAFETY: the key is read for its length and not kept.
        NonNull::new(unsafe { wireseal_nettle_new(algorithm as c_int, key.as_ptr(), key.len()) }).map(Self)
    }

    /// The first 12 octets of the MAC over the slices of `message` in order.
    pub fn mac(&mut self, message: &[&[u8]]) -> [u8; 12] {
        let mut mac = [0; 12];
        let context = self.0.as_ptr();
        for part in message {
            // SAFETY: the context is alive and used only by this thread; the octets are read for their length.
            unsafe { wireseal_nettle_update(context, part.as_ptr(), part.len()) };
        }
        // SAFETY: as above, and there is room for the 12 octets that are written.
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

    /// The size of the library's context in octets.
    #[must_use]
    pub fn octets(&self) -> usize {
        // SAFETY: the context is alive.
        unsafe { wireseal_nettle_octets(self.0.as_ptr()) }
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
        // SAFETY: the key is read for its length and not kept.
        NonNull::new(unsafe { wireseal_openssl_new(algorithm as c_int, key.as_ptr(), key.len()) }).map(Self)
    }

    /// The first 12 octets of the MAC over the slices of `message` in order.
    pub fn mac(&mut self, message: &[&[u8]]) -> [u8; 12] {
        let mut mac = [0; 12];
        let context = self.0.as_ptr();
        for part in message {
            // SAFETY: the context is alive and used only by this thread; the octets are read for their length.
            unsafe { wireseal_openssl_update(context, part.as_ptr(), part.len()) };
        }
        // SAFETY: as above, and there is room for the 12 octets that are written.
        unsafe { wireseal_openssl_digest(context, mac.as_mut_ptr()) };
        mac
    }

    /// [`mac`](Self::mac) with Poly1305 under a key for this message only; other algorithms ignore the key.
    pub fn one_time(&mut self, key: &[u8; 32], message: &[&[u8]]) -> [u8; 12] {
        // SAFETY: the context is alive and used only by this thread; 32 octets are read.
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

/// Hides AVX-512 and, unless `with_vaes`, VAES from CPUID in this thread and those it starts. Earlier results of CPUID are not
/// changed. Returns `false` if the processor or operating system cannot do it.
#[must_use]
pub fn mask_cpuid(with_vaes: bool) -> bool {
    // SAFETY: no pointers are passed; the SIGSEGV handler that it installs only answers CPUID.
    unsafe { wireseal_mask_cpuid(c_int::from(with_vaes)) != 0 }
}

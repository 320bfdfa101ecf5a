//! The MACs, whatever protocol uses them.

use core::fmt;

/// A message authentication code that can be keyed once and used for many messages.
///
/// Poly1305 is not here, because a key of it may authenticate one message only (RFC 8439, section 2.5): it cannot
/// be swapped for one of these, so `wireseal-mac` gives it a type of its own that is consumed by its one use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MacAlgorithm {
    /// HMAC (RFC 2104) with SHA-1 (FIPS 180-4).
    HmacSha1,
    /// HMAC (RFC 2104) with SHA-256 (FIPS 180-4).
    HmacSha256,
    /// CMAC (RFC 4493, NIST SP 800-38B) with AES-128.
    Aes128Cmac,
    /// KMAC256 (NIST SP 800-185, section 4).
    Kmac256,
}

impl MacAlgorithm {
    /// Every MAC algorithm.
    pub const ALL: [Self; 4] = [Self::HmacSha1, Self::HmacSha256, Self::Aes128Cmac, Self::Kmac256];

    /// The name its standard uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HmacSha1 => "HMAC-SHA-1",
            Self::HmacSha256 => "HMAC-SHA-256",
            Self::Aes128Cmac => "AES-128-CMAC",
            Self::Kmac256 => "KMAC256",
        }
    }

    /// The octets of a MAC before any truncation; for KMAC256, which gives any length asked for, the longest that
    /// Wireseal asks for.
    #[must_use]
    pub const fn output_length(self) -> usize {
        match self {
            Self::HmacSha1 => 20,
            Self::HmacSha256 | Self::Kmac256 => 32,
            Self::Aes128Cmac => 16,
        }
    }

    /// The octets that a key must have, or `None` where any length will do.
    ///
    /// HMAC and KMAC256 take any key, though one shorter than the output weakens them (RFC 2104, section 3; SP
    /// 800-185, section 8.4.1).
    #[must_use]
    pub const fn key_length(self) -> Option<usize> {
        match self {
            Self::HmacSha1 | Self::HmacSha256 | Self::Kmac256 => None,
            Self::Aes128Cmac => Some(16),
        }
    }
}

impl fmt::Display for MacAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

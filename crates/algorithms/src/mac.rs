//! The MACs of all protocols.

use core::fmt;

/// A message authentication code whose key may authenticate many messages.
///
/// Poly1305 is not included: its key may authenticate only one message (RFC 8439 §2.5), so `wireseal-mac` has a separate type for it that
/// is consumed by use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum MacAlgorithm {
    /// HMAC (RFC 2104) with SHA-1 (FIPS 180-4).
    HmacSha1,
    /// HMAC (RFC 2104) with SHA-256 (FIPS 180-4).
    HmacSha256,
    /// CMAC (RFC 4493, NIST SP 800-38B) with AES-128.
    Aes128Cmac,
    /// KMAC256 (SP 800-185 §4).
    Kmac256,
}

impl MacAlgorithm {
    /// Every MAC algorithm.
    pub const ALL: [Self; 4] = [Self::HmacSha1, Self::HmacSha256, Self::Aes128Cmac, Self::Kmac256];

    /// The name that its standard uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HmacSha1 => "HMAC-SHA-1",
            Self::HmacSha256 => "HMAC-SHA-256",
            Self::Aes128Cmac => "AES-128-CMAC",
            Self::Kmac256 => "KMAC256",
        }
    }

    /// The length of a MAC in octets before truncation. KMAC256 has no fixed length; this is the longest that Wireseal uses.
    #[must_use]
    pub const fn output_length(self) -> usize {
        match self {
            Self::HmacSha1 => 20,
            Self::HmacSha256 | Self::Kmac256 => 32,
            Self::Aes128Cmac => 16,
        }
    }

    /// The required length of a key in octets, or `None` if any length is allowed.
    ///
    /// HMAC and KMAC256 take any key, but one shorter than the output weakens them (RFC 2104 §3, SP 800-185 §8.4.1).
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

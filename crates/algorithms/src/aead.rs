//! AEADs for QUIC packets and for messages of any length.

use core::fmt;

/// An AEAD with nonces of 12 octets and tags of 16: those for QUIC packets (RFC 9001 §5.3), each with the hash of its TLS 1.3 cipher suite
/// (RFC 8446 appendix B.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum AeadAlgorithm {
    /// AEAD_AES_128_GCM with SHA-256; Initial packets use it.
    Aes128Gcm,
    /// AEAD_AES_256_GCM with SHA-384.
    Aes256Gcm,
    /// AEAD_CHACHA20_POLY1305 with SHA-256.
    ChaCha20Poly1305,
    /// AEAD_AES_128_CCM with SHA-256.
    Aes128Ccm,
}

impl AeadAlgorithm {
    /// Every AEAD.
    pub const ALL: [Self; 4] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305, Self::Aes128Ccm];

    /// The length of a nonce in octets, the same for all (RFC 9001 §5.3).
    pub const NONCE_LENGTH: usize = 12;

    /// The length of an authentication tag in octets, the same for all (RFC 9001 §5.3).
    pub const TAG_LENGTH: usize = 16;

    /// The name of the TLS 1.3 cipher suite (RFC 8446 appendix B.4).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "TLS_AES_128_GCM_SHA256",
            Self::Aes256Gcm => "TLS_AES_256_GCM_SHA384",
            Self::ChaCha20Poly1305 => "TLS_CHACHA20_POLY1305_SHA256",
            Self::Aes128Ccm => "TLS_AES_128_CCM_SHA256",
        }
    }

    /// The code point of the TLS 1.3 cipher suite (RFC 8446 appendix B.4).
    #[must_use]
    pub const fn tls_cipher_suite(self) -> u16 {
        match self {
            Self::Aes128Gcm => 0x1301,
            Self::Aes256Gcm => 0x1302,
            Self::ChaCha20Poly1305 => 0x1303,
            Self::Aes128Ccm => 0x1304,
        }
    }

    /// The AEAD of a TLS 1.3 cipher suite, or `None` if QUIC has no header protection for it.
    ///
    /// RFC 9001 §5.3 forbids TLS_AES_128_CCM_8_SHA256 (0x1305), whose tag is too short.
    #[must_use]
    pub fn from_tls_cipher_suite(code_point: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.tls_cipher_suite() == code_point)
    }

    /// The length of a packet protection key in octets.
    #[must_use]
    pub const fn key_length(self) -> usize {
        match self {
            Self::Aes128Gcm | Self::Aes128Ccm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    /// The maximum length of a text in octets, which its counter of blocks gives: 2^36 - 32 for AES-GCM (SP 800-38D §5.2.1.1), 2^38 - 64 for
    /// ChaCha20-Poly1305 (RFC 8439 §2.8), and 2^24 - 1 for AES-128-CCM, whose nonces leave three octets for the length (RFC 3610 §2).
    #[must_use]
    pub const fn max_text_length(self) -> u64 {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => (1 << 36) - 32,
            Self::ChaCha20Poly1305 => (1 << 38) - 64,
            Self::Aes128Ccm => (1 << 24) - 1,
        }
    }

    /// The length of a header protection key in octets, the same as that of a packet protection key (RFC 9001 §5.4.1).
    #[must_use]
    pub const fn header_protection_key_length(self) -> usize {
        self.key_length()
    }

    /// The length of a traffic secret in octets, that of the suite's hash: 32 for SHA-256, 48 for SHA-384.
    #[must_use]
    pub const fn secret_length(self) -> usize {
        match self {
            Self::Aes256Gcm => 48,
            Self::Aes128Gcm | Self::ChaCha20Poly1305 | Self::Aes128Ccm => 32,
        }
    }

    /// How many packets one key may protect (RFC 9001 §6.6, appendix B). `None` for ChaCha20-Poly1305, whose limit is above the 2^62 packet
    /// numbers of a connection.
    #[must_use]
    pub const fn confidentiality_limit(self) -> Option<u64> {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => Some(1 << 23),
            Self::ChaCha20Poly1305 => None,
            Self::Aes128Ccm => Some(CCM_LIMIT),
        }
    }

    /// How many packets may fail authentication in a connection, counted over all its keys, before it must be closed
    /// (RFC 9001 §6.6, appendix B).
    #[must_use]
    pub const fn integrity_limit(self) -> u64 {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => 1 << 52,
            Self::ChaCha20Poly1305 => 1 << 36,
            Self::Aes128Ccm => CCM_LIMIT,
        }
    }
}

/// 2^21.5 packets, rounded down (RFC 9001 appendix B.2).
const CCM_LIMIT: u64 = 2_965_820;

impl fmt::Display for AeadAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

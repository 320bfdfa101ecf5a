//! The key derivation function and MAC of a TCP-AO MKT (RFC 5925 §3.1).

use core::fmt;

use crate::MacAlgorithm;

/// The key derivation function and MAC of an MKT, which are specified in pairs (RFC 5926 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum TcpAoAlgorithm {
    /// HMAC-SHA-1-96 with KDF_HMAC_SHA1 (RFC 5926 §3.1.1.1, §3.2.1); every implementation has it.
    HmacSha1,
    /// AES-128-CMAC-96 with KDF_AES_128_CMAC (RFC 5926 §3.1.1.2, §3.2.2).
    Aes128Cmac,
    /// Linux's `hmac(sha256)`: HMAC-SHA-256 as the MAC, and instead of HMAC-SHA-1 in the KDF of RFC 5926. No RFC defines it.
    LinuxHmacSha256,
    /// HMAC-SHA256-128 with HKDF (draft-ietf-tcpm-tcp-ao-algs-07); does not interoperate with [`Self::LinuxHmacSha256`].
    HmacSha256_128,
    /// KMAC256-128 with KMAC256 as the KDF (draft-ietf-tcpm-tcp-ao-algs-07).
    Kmac256_128,
}

/// How a traffic key is derived from a master key and a connection's context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum TcpAoKdf {
    /// KDF_HMAC_SHA1 (RFC 5926 §3.1.1.1).
    HmacSha1,
    /// KDF_AES_128_CMAC (RFC 5926 §3.1.1.2), which first compresses a master key that does not have 16 octets.
    Aes128Cmac,
    /// KDF_HMAC_SHA1 with SHA-256 instead of SHA-1, as in Linux.
    HmacSha256,
    /// HKDF-SHA256 (RFC 5869; draft-ietf-tcpm-tcp-ao-algs-07).
    HkdfSha256,
    /// KMAC256 (SP 800-185; draft-ietf-tcpm-tcp-ao-algs-07).
    Kmac256,
}

impl TcpAoAlgorithm {
    /// Every TCP-AO algorithm.
    pub const ALL: [Self; 5] =
        [Self::HmacSha1, Self::Aes128Cmac, Self::LinuxHmacSha256, Self::HmacSha256_128, Self::Kmac256_128];

    /// The shortest MAC in octets that Wireseal sends or accepts; shorter ones could be guessed.
    pub const MIN_MAC_LENGTH: usize = 4;

    /// The longest MAC in octets that Wireseal sends or accepts; Linux refuses longer ones.
    pub const MAX_MAC_LENGTH: usize = 16;

    /// The name in RFC 5926 or the draft, or Linux's for the algorithm that only Linux has.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.spellings().name
    }

    /// The name for `alg_name` in Linux's `TCP_AO_ADD_KEY`, or `None` if Linux lacks the algorithm.
    #[must_use]
    pub const fn linux_name(self) -> Option<&'static str> {
        self.spellings().linux
    }

    /// The name in BIRD's configuration, or `None` if BIRD lacks the algorithm.
    #[must_use]
    pub const fn bird_name(self) -> Option<&'static str> {
        self.spellings().bird
    }

    /// The name in Junos's configuration, or `None` if Junos lacks the algorithm.
    #[must_use]
    pub const fn junos_name(self) -> Option<&'static str> {
        self.spellings().junos
    }

    /// The name in IOS XR's configuration, or `None` if IOS XR lacks the algorithm.
    #[must_use]
    pub const fn ios_xr_name(self) -> Option<&'static str> {
        self.spellings().ios_xr
    }

    /// The MAC that authenticates segments.
    #[must_use]
    pub const fn mac(self) -> MacAlgorithm {
        match self {
            Self::HmacSha1 => MacAlgorithm::HmacSha1,
            Self::Aes128Cmac => MacAlgorithm::Aes128Cmac,
            Self::LinuxHmacSha256 | Self::HmacSha256_128 => MacAlgorithm::HmacSha256,
            Self::Kmac256_128 => MacAlgorithm::Kmac256,
        }
    }

    /// The function that derives traffic keys.
    #[must_use]
    pub const fn kdf(self) -> TcpAoKdf {
        match self {
            Self::HmacSha1 => TcpAoKdf::HmacSha1,
            Self::Aes128Cmac => TcpAoKdf::Aes128Cmac,
            Self::LinuxHmacSha256 => TcpAoKdf::HmacSha256,
            Self::HmacSha256_128 => TcpAoKdf::HkdfSha256,
            Self::Kmac256_128 => TcpAoKdf::Kmac256,
        }
    }

    /// The length of a traffic key in octets.
    #[must_use]
    pub const fn traffic_key_length(self) -> usize {
        match self {
            Self::HmacSha1 => 20,
            Self::Aes128Cmac => 16,
            Self::LinuxHmacSha256 | Self::HmacSha256_128 | Self::Kmac256_128 => 32,
        }
    }

    /// The length of the MAC in octets in the option, unless configured otherwise.
    #[must_use]
    pub const fn default_mac_length(self) -> usize {
        match self {
            Self::HmacSha1 | Self::Aes128Cmac | Self::LinuxHmacSha256 => 12,
            Self::HmacSha256_128 | Self::Kmac256_128 => 16,
        }
    }

    /// The minimum length of a master key in octets: 32 for the algorithms of draft-ietf-tcpm-tcp-ao-algs-07, which requires it, otherwise
    /// 1.
    #[must_use]
    pub const fn min_master_key_length(self) -> usize {
        match self {
            Self::HmacSha1 | Self::Aes128Cmac | Self::LinuxHmacSha256 => 1,
            Self::HmacSha256_128 | Self::Kmac256_128 => 32,
        }
    }
}

impl fmt::Display for TcpAoAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

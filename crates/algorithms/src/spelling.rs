//! Every vendor's name for each TCP-AO algorithm: one table for naming and parsing.

use core::fmt;
use core::str::FromStr;

use crate::TcpAoAlgorithm;

/// The spellings of one algorithm, each exactly as in its source.
pub(crate) struct Spellings {
    /// From RFC 5926 or draft-ietf-tcpm-tcp-ao-algs-07, or Linux's if only Linux has the algorithm.
    pub(crate) name: &'static str,
    /// The label for user interfaces (RFC 5926 §3.2).
    label: Option<&'static str>,
    /// `alg_name` of `struct tcp_ao_add` in `linux/tcp.h`.
    pub(crate) linux: Option<&'static str>,
    /// Another name by which Linux finds the same algorithm.
    linux_alias: Option<&'static str>,
    /// `algorithm` of a key in BIRD's BGP configuration.
    pub(crate) bird: Option<&'static str>,
    /// `ao-attribute cryptographic-algorithm` of a Junos authentication key chain.
    pub(crate) junos: Option<&'static str>,
    /// `cryptographic-algorithm` of an IOS XR key chain.
    pub(crate) ios_xr: Option<&'static str>,
    /// YANG identities (RFC 8177, RFC 9648), also accepted without their module.
    yang: &'static [&'static str],
}

impl TcpAoAlgorithm {
    pub(crate) const fn spellings(self) -> Spellings {
        match self {
            Self::HmacSha1 => Spellings {
                name: "HMAC-SHA-1-96",
                label: Some("SHA1"),
                linux: Some("hmac(sha1)"),
                linux_alias: None,
                bird: Some("hmac sha1"),
                junos: Some("hmac-sha-1-96"),
                ios_xr: Some("HMAC-SHA1-96"),
                yang: &["ietf-key-chain:hmac-sha-1", "ietf-key-chain:hmac-sha-1-12"],
            },
            Self::Aes128Cmac => Spellings {
                name: "AES-128-CMAC-96",
                label: Some("AES128"),
                linux: Some("cmac(aes128)"),
                linux_alias: Some("cmac(aes)"),
                bird: Some("cmac aes128"),
                junos: Some("aes-128-cmac-96"),
                ios_xr: Some("AES-128-CMAC-96"),
                yang: &["ietf-key-chain:aes-cmac-prf-128", "ietf-tcp:aes-128"],
            },
            Self::LinuxHmacSha256 => Spellings {
                name: "hmac(sha256)",
                label: None,
                linux: Some("hmac(sha256)"),
                linux_alias: None,
                bird: Some("hmac sha256"),
                junos: None,
                ios_xr: None,
                yang: &[],
            },
            Self::HmacSha256_128 => Spellings::only("HMAC-SHA256-128"),
            Self::Kmac256_128 => Spellings::only("KMAC256-128"),
        }
    }
}

impl Spellings {
    /// An algorithm that no vendor supports.
    const fn only(name: &'static str) -> Self {
        Self {
            name,
            label: None,
            linux: None,
            linux_alias: None,
            bird: None,
            junos: None,
            ios_xr: None,
            yang: &[],
        }
    }

    fn include(&self, text: &str) -> bool {
        let Self { name, label, linux, linux_alias, bird, junos, ios_xr, yang } = self;
        [Some(*name), *label, *linux, *linux_alias, *bird, *junos, *ios_xr]
            .into_iter()
            .flatten()
            .chain(yang.iter().copied())
            .chain(yang.iter().filter_map(|identity| identity.split_once(':')).map(|(_module, bare)| bare))
            .any(|spelling| spelling.eq_ignore_ascii_case(text))
    }
}

/// What people type and other routers print, compared without case, blanks, hyphens and underscores. Only names that mean the same
/// everywhere.
const TYPED: [(&str, TcpAoAlgorithm); 5] = [
    ("hmac-sha-1", TcpAoAlgorithm::HmacSha1),
    ("hmac-sha-1-96", TcpAoAlgorithm::HmacSha1),
    ("aes-128-cmac", TcpAoAlgorithm::Aes128Cmac),
    ("aes-128-cmac-96", TcpAoAlgorithm::Aes128Cmac),
    ("cmac-aes-128", TcpAoAlgorithm::Aes128Cmac),
];

/// Whether two names have the same letters and digits.
fn is_alike(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(|text| {
        let signs = text.bytes().filter(|c| !matches!(c, b' ' | b'-' | b'_'));
        signs.map(|c| c.to_ascii_lowercase())
    });
    one.eq(other)
}

/// Parses an algorithm as spelled by RFC 5926, the draft, Linux, BIRD, Junos, IOS XR or a YANG identity, in upper or lower case, or as people
/// type these names (`aes_128_cmac`, `HMAC-SHA1`).
///
/// # Errors
///
/// [`ParseAlgorithmError`], which gives the reason if the algorithm is known but not offered.
impl FromStr for TcpAoAlgorithm {
    type Err = ParseAlgorithmError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.spellings().include(text))
            .or_else(|| {
                TYPED.iter().find(|(typed, _)| is_alike(typed, text)).map(|(_, algorithm)| *algorithm)
            })
            .ok_or_else(|| ParseAlgorithmError::refusing(text))
    }
}

#[cfg(feature = "serde")]
mod with_serde {
    use core::fmt;

    use serde::de::{Deserialize, Deserializer, Error, Visitor};
    use serde::ser::{Serialize, Serializer};

    use crate::TcpAoAlgorithm;

    /// Parses a text without storing it, so that no heap is needed.
    struct Name;

    impl Visitor<'_> for Name {
        type Value = TcpAoAlgorithm;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the name of an algorithm")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<TcpAoAlgorithm, E> {
            text.parse().map_err(E::custom)
        }
    }

    /// Writes the name (feature `serde`).
    impl Serialize for TcpAoAlgorithm {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_str(self.name())
        }
    }

    /// Accepts the same spellings as `FromStr` (feature `serde`).
    impl<'de> Deserialize<'de> for TcpAoAlgorithm {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_str(Name)
        }
    }
}

/// Why a name was refused. Change the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ParseAlgorithmError {
    /// SHA-256 without more, or with a length: it could be Linux's `hmac(sha256)` or the draft's `HMAC-SHA256-128`, which derive different
    /// traffic keys from the same master key.
    Ambiguous,
    /// MD5 in any form; RFC 5925 exists to replace it.
    Md5,
    /// A cyclic redundancy check: it has no key, so anyone can compute it.
    Crc,
    /// SHA-224, SHA-384, SHA-512 or SHA-3: no RFC or working group draft defines a TCP-AO key derivation for them.
    OtherHash,
    /// AES-CMAC with 192-bit or 256-bit keys; RFC 5926 has only 128-bit keys.
    OtherAesKeyLength,
    /// Poly1305: its key must not authenticate two messages, but a traffic key authenticates every segment.
    OneTime,
    /// A hash without HMAC, or no authentication at all.
    NotAMac,
    /// `HMAC-SHA1-12`, which is another protocol's algorithm in IOS XR and HMAC-SHA-1-96 in Huawei's VRP, or `HMAC-SHA1-20`.
    OtherProtocol,
    /// None of the known names.
    Unknown,
}

/// Names refused when they match in full, without the module of a YANG identity.
const REFUSED_NAMES: [(&str, ParseAlgorithmError); 6] = [
    ("sha-1", ParseAlgorithmError::NotAMac),
    ("cleartext", ParseAlgorithmError::NotAMac),
    ("replay-protection-only", ParseAlgorithmError::NotAMac),
    ("none", ParseAlgorithmError::NotAMac),
    ("hmac-sha1-12", ParseAlgorithmError::OtherProtocol),
    ("hmac-sha1-20", ParseAlgorithmError::OtherProtocol),
];

/// Parts of names that identify a refused algorithm in any vendor's spelling.
const REFUSED_PARTS: [(&str, ParseAlgorithmError); 16] = [
    ("md5", ParseAlgorithmError::Md5),
    ("crc", ParseAlgorithmError::Crc),
    ("sha224", ParseAlgorithmError::OtherHash),
    ("sha-224", ParseAlgorithmError::OtherHash),
    ("sha384", ParseAlgorithmError::OtherHash),
    ("sha-384", ParseAlgorithmError::OtherHash),
    ("sha512", ParseAlgorithmError::OtherHash),
    ("sha-512", ParseAlgorithmError::OtherHash),
    ("sha3", ParseAlgorithmError::OtherHash),
    ("aes192", ParseAlgorithmError::OtherAesKeyLength),
    ("aes-192", ParseAlgorithmError::OtherAesKeyLength),
    ("aes256", ParseAlgorithmError::OtherAesKeyLength),
    ("aes-256", ParseAlgorithmError::OtherAesKeyLength),
    ("poly1305", ParseAlgorithmError::OneTime),
    ("sha256", ParseAlgorithmError::Ambiguous),
    ("sha-256", ParseAlgorithmError::Ambiguous),
];

impl ParseAlgorithmError {
    fn refusing(text: &str) -> Self {
        let bare = text.split_once(':').map_or(text, |(_module, identity)| identity);
        let named = REFUSED_NAMES.iter().find(|(name, _)| is_alike(name, bare));
        let is_part = |window: &[u8], part: &str| {
            let part = part.bytes();
            window
                .iter()
                .zip(part)
                .all(|(has, part)| has.eq_ignore_ascii_case(&part) || (*has == b'_' && part == b'-'))
        };
        let has = |part: &str| bare.as_bytes().windows(part.len()).any(|window| is_part(window, part));
        named
            .or_else(|| REFUSED_PARTS.iter().find(|(part, _)| has(part)))
            .map_or(Self::Unknown, |(_, error)| *error)
    }

    const fn reason(self) -> &'static str {
        match self {
            Self::Ambiguous => {
                "SHA-256 alone is ambiguous: write hmac(sha256) for Linux's algorithm or HMAC-SHA256-128 for that of \
                 draft-ietf-tcpm-tcp-ao-algs, which derive different keys"
            }
            Self::Md5 => "MD5 is broken, and TCP-AO replaces it (RFC 5925)",
            Self::Crc => "a CRC has no key, so anyone can compute it",
            Self::OtherHash => "no RFC or working group draft defines TCP-AO with this hash",
            Self::OtherAesKeyLength => "TCP-AO has AES-CMAC with 128-bit keys only (RFC 5926)",
            Self::OneTime => "Poly1305 needs a new key for every message, which TCP-AO does not have",
            Self::NotAMac => "this is not a message authentication code",
            Self::OtherProtocol => {
                "this name belongs to other protocols in IOS XR, and HMAC-SHA1-12 to TCP-AO's HMAC-SHA-1-96 in Huawei's VRP: write \
                 HMAC-SHA-1-96 (IOS XR: HMAC-SHA1-96)"
            }
            Self::Unknown => "unknown TCP-AO algorithm",
        }
    }
}

impl fmt::Display for ParseAlgorithmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())?;
        f.write_str(" (supported: ")?;
        for (i, algorithm) in TcpAoAlgorithm::ALL.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            f.write_str(algorithm.name())?;
        }
        f.write_str(")")
    }
}

impl core::error::Error for ParseAlgorithmError {}

//! The algorithms that are built in, each by a feature of this crate.

#![cfg_attr(not(feature = "default"), allow(unused_variables, reason = "some are for what is left out"))]

use wireseal_algorithms::MacAlgorithm;
use wireseal_mac::{Mac, MacKey, OutputLength};

/// The feature that an algorithm is built in with, and whether it is on.
pub(crate) const fn feature(algorithm: MacAlgorithm) -> (&'static str, bool) {
    match algorithm {
        MacAlgorithm::HmacSha1 => ("hmac-sha1", cfg!(feature = "hmac-sha1")),
        MacAlgorithm::HmacSha256 => ("hmac-sha256", cfg!(feature = "hmac-sha256")),
        MacAlgorithm::Aes128Cmac => ("aes-128-cmac", cfg!(feature = "aes-128-cmac")),
        MacAlgorithm::Kmac256 => ("kmac256", cfg!(feature = "kmac256")),
    }
}

/// A MAC with a key of any length. `customization` and `output_length` apply to KMAC256 only.
///
/// `None` if the algorithm is not built in. That cannot happen: an MKT with such an algorithm is refused when it is made.
pub(crate) fn mac_key(
    algorithm: MacAlgorithm,
    key: &[u8],
    customization: &[u8],
    output_length: OutputLength,
) -> Option<MacKey> {
    match algorithm {
        #[cfg(feature = "hmac-sha1")]
        MacAlgorithm::HmacSha1 => Some(MacKey::hmac_sha1(key)),
        #[cfg(feature = "hmac-sha256")]
        MacAlgorithm::HmacSha256 => Some(MacKey::hmac_sha256(key)),
        #[cfg(feature = "aes-128-cmac")]
        MacAlgorithm::Aes128Cmac => Some(aes_128_cmac(key)),
        #[cfg(feature = "kmac256")]
        MacAlgorithm::Kmac256 => Some(MacKey::kmac256(key, customization, output_length)),
        #[cfg(not(all(
            feature = "hmac-sha1",
            feature = "hmac-sha256",
            feature = "aes-128-cmac",
            feature = "kmac256"
        )))]
        _ => None,
    }
}

/// The MAC of one message under a key that is not used again. Arguments and result are as for [`mac_key`].
pub(crate) fn mac_once(
    algorithm: MacAlgorithm,
    key: &[u8],
    customization: &[u8],
    output_length: OutputLength,
    message: &[&[u8]],
) -> Option<Mac> {
    match algorithm {
        #[cfg(feature = "hmac-sha1")]
        MacAlgorithm::HmacSha1 => Some(Mac::hmac_sha1(key, message)),
        #[cfg(feature = "hmac-sha256")]
        MacAlgorithm::HmacSha256 => Some(Mac::hmac_sha256(key, message)),
        #[cfg(feature = "aes-128-cmac")]
        MacAlgorithm::Aes128Cmac => Some(Mac::aes_cmac_prf_128(key, message)),
        _ => mac_key(algorithm, key, customization, output_length).map(|key| key.mac(message)),
    }
}

/// A traffic key, or a master key of any length (RFC 5926 §3.1.1.2). A separate function, so that the other algorithms need less stack.
#[cfg(feature = "aes-128-cmac")]
#[cold]
#[inline(never)]
fn aes_128_cmac(key: &[u8]) -> MacKey {
    MacKey::aes_cmac_prf_128(key)
}

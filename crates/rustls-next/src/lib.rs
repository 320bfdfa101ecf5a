//! A rustls 0.24 [`CryptoProvider`] with Wireseal's QUIC keys.
//!
//! It does for the next release of rustls what `wireseal-rustls` does for 0.23, and its calls have the same names. [`provider`]
//! takes any provider and replaces the QUIC packet protection (RFC 9001 §5); the handshake, TLS over TCP and certificates stay the
//! provider's own. A provider without QUIC gets it.
//!
//! | task | call |
//! |---|---|
//! | a QUIC stack on rustls with Wireseal's packet protection | [`provider`] |
//! | QUIC with a provider whose TLS 1.3 suites have `quic: None` | [`provider`] |
//! | find out whether the negotiated suite uses Wireseal | [`is_wireseal`] |
//! | the same for a suite of a provider's list | [`is_wireseal`], with `&suite.into()` |
//! | fill the field `quic` of your own [`Tls13CipherSuite`] | [`quic_algorithm`] |
//! | test a peer with TLS_AES_128_CCM_SHA256, which no rustls provider has | [`tls13_aes_128_ccm_sha256`] |
//! | name the library behind the ciphers, for a measurement or a bug report | [`Backend::active`] |
//! | see in a log that Wireseal seals | feature `log`: a line at debug level for each packet key |
//!
//! # Example
//!
//! The configuration of a client, on rustls' ring provider:
//!
//! ```
//! use std::sync::Arc;
//!
//! use rustls::{ClientConfig, RootCertStore};
//!
//! let roots = RootCertStore::empty(); // Add the certificates that you trust.
//! let provider = wireseal_rustls::provider(rustls_ring::DEFAULT_TLS13_PROVIDER);
//! let tls = ClientConfig::builder(Arc::new(provider)).with_root_certificates(roots).with_no_client_auth()?;
//! # let _ = tls;
//! # Ok::<(), rustls::Error>(())
//! ```
//!
//! # Several paths
//!
//! `encrypt_in_place` and `decrypt_in_place` of the packet keys take a path identifier. It goes into the nonce as
//! draft-ietf-quic-multipath says; `None` and path 0 have the same nonces, those of RFC 9001.
#![warn(clippy::unwrap_used)]

// These files are written once, for every version of rustls.
#[path = "../../rustls/src/algorithm.rs"]
mod algorithm;
#[path = "../../rustls/src/ccm.rs"]
mod ccm;
#[path = "../../rustls/src/suites.rs"]
mod suites;

mod packet;
mod records;
mod version;

use rustls::Tls13CipherSuite;
use rustls::crypto::CryptoProvider;

pub use algorithm::quic_algorithm;
pub use suites::{is_wireseal, provider};
pub use wireseal_quic::{AeadAlgorithm, Backend};

/// TLS_AES_128_CCM_SHA256 (RFC 8446 §B.4) on the SHA-256 and HKDF of `base`, for QUIC and for TLS over TCP;
/// `None` when no TLS 1.3 suite of `base` is on SHA-256.
///
/// [`provider`] leaves it out, because nobody prefers CCM to AES-GCM; append it to a provider's `tls13_cipher_suites` to reach a
/// peer that has nothing else. The first call for a `base` leaks about 100 octets, later calls nothing. The secrets of its
/// connections cannot be extracted, because rustls has no type for them.
///
/// ```
/// let mut provider = wireseal_rustls::provider(rustls_ring::DEFAULT_PROVIDER);
/// let ccm = wireseal_rustls::tls13_aes_128_ccm_sha256(&provider).ok_or("no SHA-256")?;
/// provider.tls13_cipher_suites.to_mut().push(ccm);
/// # Ok::<(), &str>(())
/// ```
#[must_use]
pub fn tls13_aes_128_ccm_sha256(base: &CryptoProvider) -> Option<&'static Tls13CipherSuite> {
    ccm::suite(base)
}

/// The README's code compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

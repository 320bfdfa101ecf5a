//! A rustls [`CryptoProvider`] whose QUIC keys are Wireseal's.
//!
//! rustls leaves QUIC packet protection (RFC 9001 §5) to its crypto provider. [`provider`] takes any provider
//! and gives it back with Wireseal in that place; the handshake, the record layer of TLS over TCP and the
//! certificates stay the provider's own. quinn, and every other QUIC stack that takes its keys from rustls, runs on
//! the result unchanged. A provider that has no QUIC at all gets it here.
//!
//! # Which call do I need?
//!
//! | I have | and want | call |
//! |---|---|---|
//! | a QUIC stack on rustls 0.23, such as quinn 0.11 | its packets protected by Wireseal | [`provider`] |
//! | a provider whose TLS 1.3 suites have `quic: None` | QUIC | [`provider`] |
//! | a suite, perhaps the negotiated one | to know whose QUIC keys it makes | [`is_wireseal`] |
//! | a [`Tls13CipherSuite`] of my own making | what belongs into its field `quic` | [`quic_algorithm`] |
//! | a peer to be tried with TLS_AES_128_CCM_SHA256 | that suite, which no provider of rustls has | [`tls13_aes_128_ccm_sha256`] |
//! | a measurement or a bug report | to say which library the ciphers came from | [`Backend::active`] |
//! | QUIC, but no rustls | packet protection alone | the crate `wireseal-quic` |
//!
//! # Example
//!
//! A configuration for quinn, on the ring provider of rustls:
//!
//! ```
//! use std::sync::Arc;
//!
//! use quinn::crypto::rustls::QuicClientConfig;
//! use rustls::{ClientConfig, RootCertStore, SupportedCipherSuite};
//!
//! let provider = wireseal_rustls::provider(rustls::crypto::ring::default_provider());
//! let on_wireseal = provider.cipher_suites.iter().filter_map(SupportedCipherSuite::tls13);
//! assert_eq!(on_wireseal.filter(|suite| wireseal_rustls::is_wireseal(suite)).count(), 3);
//!
//! let tls = ClientConfig::builder_with_provider(Arc::new(provider))
//!     .with_protocol_versions(&[&rustls::version::TLS13])?
//!     .with_root_certificates(RootCertStore::empty())
//!     .with_no_client_auth();
//! let quic = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
//! # let _ = quic;
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! `examples/quinn-server.rs` and `examples/quinn-client.rs` are a whole pair; the README shows how to run them.
//!
//! # What is not Wireseal's
//! The key schedule: rustls derives each packet key, IV and header protection key by the HKDF of the provider, and
//! hands them over. The integrity tag of Retry packets, stateless reset and address validation tokens: quinn computes
//! them on its own, by the library that its features name. The limits on packets (RFC 9001 §6.6) are stated
//! here and kept by the stack.
//!
//! # Features
//! * `ring` (default), `rustcrypto`: the library behind the ciphers, as in `wireseal-quic`; with both it is ring.
//!   Neither is tied to the provider: Wireseal on RustCrypto goes with the ring provider, and the other way round.
#![warn(clippy::unwrap_used)]

mod algorithm;
mod ccm;
mod suites;

pub use algorithm::quic_algorithm;
pub use ccm::tls13_aes_128_ccm_sha256;
pub use suites::{is_wireseal, provider};
pub use wireseal_quic::{AeadAlgorithm, Backend};

// For the links in the text above.
#[cfg(doc)]
use rustls::{Tls13CipherSuite, crypto::CryptoProvider};

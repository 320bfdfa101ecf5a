//! A rustls [`CryptoProvider`] with Wireseal's QUIC keys.
//!
//! rustls leaves QUIC packet protection (RFC 9001 §5) to its crypto provider. [`provider`] takes any provider and replaces that part; the
//! handshake, TLS over TCP and certificates stay the provider's own. quinn, or any other QUIC stack that takes its keys from rustls 0.23,
//! runs on the result unchanged. It also adds QUIC to a provider that has none.
//!
//! | task | call |
//! |---|---|
//! | a QUIC stack on rustls, such as quinn 0.11, with Wireseal's packet protection | [`provider`] |
//! | QUIC with a provider whose TLS 1.3 suites have `quic: None` | [`provider`] |
//! | find out whether a suite, perhaps the negotiated one, uses Wireseal | [`is_wireseal`], as in `provider.cipher_suites.iter().any(is_wireseal)` |
//! | fill the field `quic` of your own [`Tls13CipherSuite`] | [`quic_algorithm`] |
//! | test a peer with TLS_AES_128_CCM_SHA256, which no rustls provider has | [`tls13_aes_128_ccm_sha256`] |
//! | name the library behind the ciphers, for a measurement or a bug report | [`Backend::active`] |
//! | see in a log that Wireseal seals | feature `log`: a line at debug level for each packet key |
//! | count packets by key, and see key updates | `counted`, feature `counted` |
//! | quinn or noq with all of their packet cryptography by Wireseal, and faster | the crate `wireseal-quinn` |
//! | s2n-quic | [`provider`], as in [its section](#s2n-quic) |
//! | QUIC without rustls | the crate `wireseal-quic` |
//!
//! # Example
//!
//! A client for quinn, on rustls' ring provider:
//!
//! ```
//! use std::sync::Arc;
//!
//! use quinn::crypto::rustls::QuicClientConfig;
//! use rustls::{ClientConfig, RootCertStore};
//!
//! fn client(roots: RootCertStore) -> Result<quinn::ClientConfig, Box<dyn core::error::Error>> {
//!     let provider = wireseal_rustls::provider(rustls::crypto::ring::default_provider());
//!     let tls = ClientConfig::builder_with_provider(Arc::new(provider))
//!         .with_protocol_versions(&[&rustls::version::TLS13])?
//!         .with_root_certificates(roots)
//!         .with_no_client_auth();
//!     Ok(quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?)))
//! }
//! # client(RootCertStore::empty())?;
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! A server does the same with `rustls::ServerConfig::builder_with_provider`, `QuicServerConfig::try_from` and
//! `quinn::ServerConfig::with_crypto`. Installing the provider as the process default is not enough: quinn's own shortcuts, such as
//! `quinn::ServerConfig::with_single_cert`, ignore it. `examples/quinn-server.rs` and `examples/quinn-client.rs` are complete programs; the
//! README shows how to run them.
//!
//! # s2n-quic
//!
//! s2n-quic 1 takes the same configurations, with its feature `provider-tls-rustls`:
//!
//! ```text
//! let tls = s2n_quic::provider::tls::rustls::Client::from(tls);
//! let client = s2n_quic::Client::builder().with_tls(tls)?;
//! ```
//!
//! A server does the same with `rustls::Server::from` and a `ServerConfig`. Wireseal then seals and opens Handshake and 1-RTT packets.
//! Initial packets and Retry stay with AWS-LC, which s2n-quic needs in any case. `interop/quic/wireseal/src/s2n.rs` is a complete client
//! and server.
//!
//! # What Wireseal does not do
//!
//! rustls derives each packet key, IV and header protection key with the HKDF of the provider. quinn computes the integrity tag of
//! Retry packets, stateless reset tokens and address validation tokens with the library its features name. The limits on packets
//! (RFC 9001 §6.6) are reported to the stack, which must keep them.
//!
//! # Features
//!
//! * `kernels` (default): AES-GCM, ChaCha20-Poly1305 and header masks by Wireseal's own routines, where the processor has the
//!   instructions.
//! * `ring` (default), `aws-lc-rs`, `rustcrypto`: the library for everything else, as in `wireseal-quic`; if several are
//!   on, it is the first of them. It is independent of the provider: Wireseal on RustCrypto works with the ring provider, and the other
//!   way round.
//! * `log`: a log line for each packet key that is created.
//! * `counted`: counters around the keys, for tests and measurements.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::unwrap_used)]

mod algorithm;
mod ccm;
#[cfg(feature = "counted")]
mod counted;
mod suites;

pub use algorithm::quic_algorithm;
pub use ccm::tls13_aes_128_ccm_sha256;
#[cfg(feature = "counted")]
pub use counted::{CountedKeys, KeyUse, counted};
pub use suites::{is_wireseal, provider};
pub use wireseal_quic::{AeadAlgorithm, Backend};

// For the links in the text above.
#[cfg(doc)]
use rustls::{Tls13CipherSuite, crypto::CryptoProvider};

/// Compiles the code in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

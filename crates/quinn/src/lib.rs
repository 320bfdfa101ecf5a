//! quinn and noq on Wireseal: packet protection, Retry, tokens and stateless resets without ring and without aws-lc-rs.
//!
//! quinn-proto and noq-proto leave cryptography to traits. These are Wireseal's implementations of all of them, with TLS by rustls and any
//! of its providers. The packet keys seal a packet and mask its header in one pass, which keys from a rustls provider cannot.
//!
//! | you have | call |
//! |---|---|
//! | quinn 0.11 | feature `quinn` (default): [`QuicClientConfig`], [`QuicServerConfig`], [`TokenKey`], [`ResetKey`] |
//! | noq 1 (quinn with multipath) | feature `noq`: the same four |
//! | quinn as it is, with ring or aws-lc-rs anyway | the crate `wireseal-rustls`: nothing but the provider changes |
//! | another stack on rustls, such as s2n-quic | the crate `wireseal-rustls` |
//! | a stack of your own | the crate `wireseal-quic`; with your own packet numbers its module `hazmat` |
//!
//! # Example
//!
//! A server on quinn. `provider` is any of rustls' whose suites have QUIC keys, such as ring's or aws-lc-rs's. graviola's are for TLS
//! alone, and rustls refuses QUIC with them: take `wireseal_rustls::provider(rustls_graviola::default_provider())`.
//!
//! ```
//! use std::net::UdpSocket;
//! use std::sync::Arc;
//!
//! use rustls::crypto::CryptoProvider;
//! use rustls::pki_types::{CertificateDer, PrivateKeyDer};
//! use wireseal_quinn::{QuicServerConfig, ResetKey, TokenKey};
//!
//! fn server(
//!     provider: Arc<CryptoProvider>,
//!     certificates: Vec<CertificateDer<'static>>,
//!     key: PrivateKeyDer<'static>,
//!     socket: UdpSocket,
//! ) -> Result<quinn::Endpoint, Box<dyn core::error::Error>> {
//!     let random = provider.secure_random;
//!     let (token_key, reset_key) = (TokenKey::random(random)?, ResetKey::random(random)?);
//!     let tls = rustls::ServerConfig::builder_with_provider(provider)
//!         .with_protocol_versions(&[&rustls::version::TLS13])?
//!         .with_no_client_auth()
//!         .with_single_cert(certificates, key)?;
//!     let server = quinn::ServerConfig::new(Arc::new(QuicServerConfig::try_from(tls)?), Arc::new(token_key));
//!     let config = quinn::EndpointConfig::new(Arc::new(reset_key));
//!     Ok(quinn::Endpoint::new(config, Some(server), socket, Arc::new(quinn::TokioRuntime))?)
//! }
//! ```
//!
//! A client gives `quinn::ClientConfig::new` a [`QuicClientConfig`], made of a `rustls::ClientConfig` in the same way. Both have the
//! calls that quinn's and noq's have: `try_from`, `with_initial` and `set_alpn_protocols`.
//!
//! Take quinn with `default-features = false` and the features that you want but `rustls-ring` and `ring`, noq without `rustls` and `ring`,
//! and nothing of C is left: the example `quinn-without-c` of the repository is such a program. Among those to take is `bloom`: without it
//! servers send no tokens for later connections. Calls that need those features, `Endpoint::server`, `Endpoint::client`,
//! `ServerConfig::with_single_cert` and `EndpointConfig::default`, are gone then; with them they go around Wireseal.
//!
//! # How to see that it is Wireseal
//!
//! `connection.handshake_data()` is a [`HandshakeData`] of this crate, and no other protection has one:
//!
//! ```
//! # fn shown(data: Option<Box<dyn std::any::Any>>) {
//! // let data = connection.handshake_data();
//! let data = data.and_then(|data| data.downcast::<wireseal_quinn::HandshakeData>().ok());
//! println!("sealed by {}", data.map_or("another library", |data| data.sealed_by()));
//! # }
//! # shown(None);
//! ```
//!
//! # Where the keys come from
//!
//! rustls hands a session's traffic secrets to its key log, and this crate takes them from there, behind the key log that you have
//! configured, which still gets them all. Keys that rustls makes of them itself are dropped: header and packet key of a direction would be
//! two objects that know nothing of one another, and masking a header would be a second call: with AES-GCM 1.10 to 1.13 times the time
//! for both ends of a packet (Zen 4). Secrets are wiped once keys are made of them.
//!
//! # What it is not for
//!
//! Version 2: quinn and noq do not have it. Their default lists, version 1 and drafts 29 to 34, have keys here, as they have with rustls'
//! own (for the drafts this crate turns on `draft-29` of `wireseal-quic`); to a client of another version the stacks offer the list. The
//! limits on packets under one key (RFC 9001 §6.6) are the stack's to keep; both do.
//!
//! # Features
//!
//! * `quinn` (default), `noq`: the stacks.
//! * `counted`: counters and clocks around the keys of any of quinn's connections, for tests and measurements.
//! * `kernels` (default): Wireseal's own routines, where the processor has the instructions.
//! * `rustcrypto` (default), `ring`, `aws-lc-rs`: the library for everything else; if several are on, it is
//!   ring, else aws-lc-rs.
#![warn(clippy::unwrap_used)]

#[cfg(not(any(feature = "quinn", feature = "noq")))]
compile_error!("wireseal-quinn needs its feature `quinn` or `noq`");

mod config;
#[cfg(feature = "counted")]
mod counted;
mod keys;
mod session;
mod stack;

pub use config::{QuicClientConfig, QuicServerConfig};
#[cfg(feature = "counted")]
pub use counted::{CountedKeys, KeyUse, counted_client, counted_server};
pub use keys::{ResetKey, TokenKey};
pub use session::HandshakeData;

/// The README's code compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

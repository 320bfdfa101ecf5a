//! Wireseal for quinn and noq: packet protection, Retry, tokens and stateless resets without ring and without aws-lc-rs.
//!
//! quinn-proto and noq-proto leave cryptography to traits. These are Wireseal's implementations of all of them, with TLS by rustls and any
//! of its providers. The packet keys seal a packet and mask its header in one pass, which keys from a rustls provider cannot.
//!
//! | you have | call |
//! |---|---|
//! | quinn 0.11 | feature `quinn` (default): [`QuicClientConfig`], [`QuicServerConfig`], [`TokenKey`], [`ResetKey`] |
//! | noq 1 (quinn with multipath) | feature `noq`: the same four |
//! | quinn as it is, with ring or aws-lc-rs anyway | the crate `wireseal-rustls`: only the provider changes |
//! | another stack on rustls, such as s2n-quic | the crate `wireseal-rustls` |
//! | a stack of your own | the crate `wireseal-quic`; with your own packet numbers its module `hazmat` |
//!
//! # Example
//!
//! A server on quinn. `provider` is any rustls provider whose suites have QUIC keys, such as ring's or aws-lc-rs's. graviola's suites are
//! for TLS only, and rustls refuses QUIC with them: use `wireseal_rustls::provider(rustls_graviola::default_provider())`.
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
//! A client passes `quinn::ClientConfig::new` a [`QuicClientConfig`], created from a `rustls::ClientConfig` in the same way. Both types
//! have the functions of quinn's and noq's own: `try_from`, `with_initial` and `set_alpn_protocols`.
//!
//! To build without C, disable quinn's default features and enable all you need except `rustls-ring` and `ring`; for noq, except `rustls`
//! and `ring`. The example `quinn-without-c` in the repository does this. Keep `bloom`: without it servers send no tokens for later
//! connections. The calls that need the disabled features are then missing: `Endpoint::server`, `Endpoint::client`,
//! `ServerConfig::with_single_cert` and `EndpointConfig::default`. Where they exist, they bypass Wireseal.
//!
//! # How to check that Wireseal is used
//!
//! `connection.handshake_data()` then returns the [`HandshakeData`] of this crate, which no other library does:
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
//! rustls passes a session's traffic secrets to its key log, and this crate takes them from there; the key log that you configured still
//! gets them all. The keys that rustls derives itself are dropped: its header and packet keys are separate objects, so masking a header
//! would be a second call, and with AES-GCM both ends of a packet would take 1.10 to 1.13 times as long (Zen 4). Secrets are wiped once
//! keys are derived from them.
//!
//! # What it does not do
//!
//! Version 2: quinn and noq do not have it. The versions in their default lists, 1 and drafts 29 to 34, have keys here, as with rustls' own
//! (for the drafts this crate turns on `draft-29` of `wireseal-quic`). The stacks offer that list to a client of another version. Enforcing
//! the limits on packets under one key (RFC 9001 §6.6) is the stack's job; both do.
//!
//! # Features
//!
//! * `quinn` (default), `noq`: the stacks.
//! * `counted`: counters and clocks around the keys of any of quinn's connections, for tests and measurements.
//! * `kernels` (default): Wireseal's own routines, where the processor has the instructions.
//! * `rustcrypto` (default), `ring`, `aws-lc-rs`: the library for everything else; if several are on, it is
//!   ring, else aws-lc-rs.
#![cfg_attr(docsrs, feature(doc_cfg))]
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

/// Compiles the code in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

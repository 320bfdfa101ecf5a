//! The algorithms of TCP-AO and QUIC as closed enums: names, sizes and limits, and the spellings of Linux, BIRD, Junos, IOS XR and YANG.
//!
//! The enums are complete and not `non_exhaustive`: a `match` needs no catch-all arm, and when an algorithm is added the compiler reports
//! every `match` that lacks it. Parse text into an algorithm once, when you read the configuration; after that no lookup can fail.
//!
//! | task | call |
//! |---|---|
//! | an algorithm from configuration text, in any vendor's spelling | `text.parse::<TcpAoAlgorithm>()` |
//! | its name for an operator, a Linux socket, or a router's configuration | [`TcpAoAlgorithm::name`], [`linux_name`](TcpAoAlgorithm::linux_name), [`bird_name`](TcpAoAlgorithm::bird_name), [`junos_name`](TcpAoAlgorithm::junos_name), [`ios_xr_name`](TcpAoAlgorithm::ios_xr_name) |
//! | its MAC and KDF | [`TcpAoAlgorithm::mac`], [`TcpAoAlgorithm::kdf`] |
//! | a QUIC cipher from a TLS handshake, and its limits | [`AeadAlgorithm::from_tls_cipher_suite`] |
//!
//! ```
//! use wireseal_algorithms::{ParseAlgorithmError, TcpAoAlgorithm};
//!
//! let algorithm: TcpAoAlgorithm = "cmac(aes128)".parse()?;
//! assert_eq!(algorithm, TcpAoAlgorithm::Aes128Cmac);
//! assert_eq!(algorithm.name(), "AES-128-CMAC-96");
//! assert_eq!(algorithm.bird_name(), Some("cmac aes128"));
//! assert_eq!(algorithm.default_mac_length(), 12);
//!
//! // Two algorithms use HMAC-SHA-256 and derive different traffic keys: the operator must name one.
//! assert_eq!("hmac-sha-256".parse::<TcpAoAlgorithm>(), Err(ParseAlgorithmError::Ambiguous));
//! # Ok::<(), ParseAlgorithmError>(())
//! ```
//! # Features
//! Neither is on by default. With or without them, the crate needs neither std nor a heap.
//! * `serde`: writes [`TcpAoAlgorithm`] as its name, and reads any spelling that `FromStr` accepts.
//! * `defmt`: `defmt::Format`, for firmware that logs with defmt.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]

mod aead;
mod mac;
mod spelling;
mod tcp_ao;

pub use aead::AeadAlgorithm;
pub use mac::MacAlgorithm;
pub use spelling::ParseAlgorithmError;
pub use tcp_ao::{TcpAoAlgorithm, TcpAoKdf};

/// Compiles the code in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

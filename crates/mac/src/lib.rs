//! Keyed MACs for packets: HMAC-SHA-1, HMAC-SHA-256, AES-128-CMAC, KMAC256 and one-time Poly1305.
//!
//! Once a [`MacKey`] is created nothing can fail: computing a MAC allocates nothing and reads the message from your slices without copying
//! it together. No std, no heap.
//!
//! | to | call |
//! |---|---|
//! | make a key from its octets | [`MacKey::hmac_sha1`], [`MacKey::hmac_sha256`], [`MacKey::aes_128_cmac`], [`MacKey::aes_cmac_prf_128`], [`MacKey::kmac256`] |
//! | compute a single MAC with a key that is used once | `Mac::hmac_sha1`, `Mac::hmac_sha256`, `Mac::aes_cmac_prf_128` |
//! | compute the MAC to send | [`MacKey::mac`], then [`Mac::truncated`] |
//! | check a received MAC | [`MacKey::verify`], never a comparison of your own |
//! | compute many MACs in less time | [`mac_batch`], then [`Mac::truncated`] or [`Mac::verify`] of each |
//! | authenticate one message with Poly1305 | [`OneTimePoly1305Key`] |
//! | authenticate a message that comes in parts, or use RustCrypto's traits | `HmacSha1`, `HmacSha256`, `Aes128Cmac`, `Kmac256` (feature `digest`) |
//!
//! ```
//! use wireseal_mac::{MacKey, MacMismatch};
//!
//! let key = MacKey::aes_128_cmac(b"sixteen octets !");
//! let (header, payload) = (b"header".as_slice(), b"payload".as_slice());
//!
//! let mac = key.mac(&[header, payload]);
//! let sent = mac.truncated(12);
//!
//! assert_eq!(key.verify(&[header, payload], sent), Ok(()));
//! assert_eq!(key.verify(&[header, b"another"], sent), Err(MacMismatch));
//! ```
//!
//! # RustCrypto's traits
//!
//! With the feature `digest`, `HmacSha1`, `HmacSha256`, `Aes128Cmac` and `Kmac256` implement the traits of [`digest`](https://docs.rs/digest)
//! 0.11: `Mac`, `KeyInit`, `Update`, `FixedOutput`, `FixedOutputReset`, `Reset` and `Clone`. They take a message in parts of any size, and
//! keep at most one block of it. A program that uses `hmac` or `cmac` changes an import:
//!
#![cfg_attr(feature = "digest", doc = "```")]
#![cfg_attr(not(feature = "digest"), doc = "```ignore")]
//! // use hmac::{KeyInit, Mac};
//! // type HmacSha256 = hmac::Hmac<sha2::Sha256>;
//! use wireseal_mac::{HmacSha256, digest::{KeyInit, Mac}};
//!
//! let mut mac = HmacSha256::new_from_slice(b"a key of any length")?;
//! mac.update(b"one part");
//! mac.update(b"another");
//! let tag = mac.finalize().into_bytes();
//!
//! let mac = HmacSha256::new_from_slice(b"a key of any length")?.chain_update(b"one partanother");
//! assert!(mac.verify_slice(&tag).is_ok());
//! # Ok::<(), wireseal_mac::digest::InvalidLength>(())
//! ```
//!
//! What differs from RustCrypto's crates:
//!
//! - The types have no type parameter: there is one for each algorithm, and the features choose the algorithms.
//! - `HmacSha1` and `HmacSha256` can be reset; there, `HmacReset` is another type.
//! - All are wiped on drop; there, that is the feature `zeroize`.
//! - Rust 1.89 instead of 1.85, for AVX-512's instructions. Both are `no_std` and without a heap, and run in WebAssembly.
//! - `AlgorithmName` is not implemented, and `Aes128Cmac` has no `InnerInit`, because there is no cipher to give it.
//! - `Kmac256` has 64 octets, as in NIST's samples, and `new_customized` for a customization string.
//! - One-time Poly1305 does not implement `universal-hash`: it takes a whole message at once.
//!
//! For many messages under one key, [`MacKey`] is faster: it takes all slices of a message in one call.
//!
//! # What runs where
//!
//! A key detects the processor's instructions when it is created. CMAC and HMAC run on `wireseal-kernels`: on x86-64, AES-NI and SHA-NI
//! for one message, AES-NI, VAES and AVX-512 for many side by side; on AArch64, its AES and SHA instructions for one and for many.
//! Elsewhere RustCrypto's block functions run, one message after the other.
//!
//! # What is wiped
//!
//! Wiped on drop: keys, MACs, KMAC's state, chaining values between parts of a message, octets copied from a message (which is a secret when
//! a key is derived), and the memory that a batch uses for keys and chaining values.
//!
//! Not wiped: MACs that RustCrypto's traits compute, in `into_bytes`, where they are compared, and on the way out of a `finalize`; the
//! chaining value of a single CMAC or HMAC, which is meant to stay in registers; values that the compiler or a cipher spills to the stack;
//! and copies that moving a value leaves behind. Create a key where it will stay.
//!
//! # Features
//! One for each algorithm, all on by default: `hmac-sha1`, `hmac-sha256`, `aes-128-cmac` and `kmac256`. With `default-features = false`,
//! [`MacKey`] has only the constructors whose features you turn on; the code and the dependencies of the others are not built. Poly1305 is
//! always included. `digest`, off by default, adds RustCrypto's traits.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![cfg_attr(not(feature = "default"), allow(unused, reason = "some of it is for what is left out"))]

#[cfg(feature = "aes-128-cmac")]
mod cmac;
mod hmac;
mod key;
#[cfg(feature = "kmac256")]
mod kmac;
mod output;
mod poly1305;
#[cfg(feature = "digest")]
mod streaming;

pub use key::{MacKey, OutputLength, mac_batch};
pub use output::{Mac, MacMismatch};
pub use poly1305::OneTimePoly1305Key;
pub use wireseal_algorithms::MacAlgorithm;
pub use wireseal_kernels::{MessageHead, prefetch};

#[cfg(feature = "digest")]
pub use digest;
#[cfg(all(feature = "digest", feature = "aes-128-cmac"))]
pub use streaming::Aes128Cmac;
#[cfg(all(feature = "digest", feature = "hmac-sha1"))]
pub use streaming::HmacSha1;
#[cfg(all(feature = "digest", feature = "hmac-sha256"))]
pub use streaming::HmacSha256;
#[cfg(all(feature = "digest", feature = "kmac256"))]
pub use streaming::Kmac256;

/// Compiles the code in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! AES-128-GCM, AES-256-GCM, ChaCha20-Poly1305 and AES-128-CCM for messages of any length, in place, without std or a heap. They use
//! the AES and AVX instructions of the processor, where it has them.
//!
//! # Which call do I need?
//!
//! | to | call |
//! |---|---|
//! | make a key from its octets | [`AeadKey::new`] |
//! | seal a message into its buffer, tag at the end; open it | [`AeadKey::seal`]; [`AeadKey::open`] |
//! | the same with the tag elsewhere | [`AeadKey::seal_detached`]; [`AeadKey::open_detached`] |
//! | replace `aes-gcm` or `chacha20poly1305` in a program | features `alloc` and `getrandom`: [below](#instead-of-aes-gcm) |
//! | encrypt packet numbers, as QUIC and DTLS 1.3 do | [`MaskKey`], [`AeadKey::seal_with_mask`]; `wireseal-quic` has all of QUIC |
//! | see a key's algorithm, and which instructions or library it uses | [`AeadKey::algorithm`], [`AeadKey::served_by`] |
//! | compare or test backends | `with_backend` of [`AeadKey`] and [`MaskKey`], [`Backend::ALL`] |
//!
//! ```
//! use wireseal_aead::{AeadAlgorithm, AeadError, AeadKey};
//!
//! # fn main() -> Result<(), AeadError> {
//! let key = AeadKey::new(AeadAlgorithm::Aes256Gcm, &[7; 32])?; // 32 octets from a key exchange, or random ones
//! let nonce = 1_u128.to_be_bytes()[4..].try_into().expect("12 octets"); // a counter: never twice under one key
//! let header = b"authenticated, not encrypted";
//!
//! let mut message = *b"a text, and room for the tag: 16 octets";
//! let length = message.len() - AeadAlgorithm::TAG_LENGTH;
//! key.seal(&nonce, header, &mut message)?;
//!
//! let mut received = message;
//! assert_eq!(key.open(&nonce, header, &mut received)?, b"a text, and room for th");
//!
//! message[0] ^= 1;
//! assert_eq!(key.open(&nonce, header, &mut message), Err(AeadError::NotAuthentic));
//! assert_eq!(message[..length], [0; 23]);
//! # Ok(())
//! # }
//! ```
//!
//! Nonces have 12 octets; the compiler refuses others:
//!
//! ```compile_fail,E0308
//! use wireseal_aead::{AeadAlgorithm, AeadKey};
//!
//! let key = AeadKey::new(AeadAlgorithm::Aes128Gcm, &[7; 16]).unwrap();
//! let _ = key.seal(&[0; 8], b"", &mut [0; 32]);
//! ```
//!
//! # Limits of a key
//!
//! Yours to keep; the crate does not count. Within them an attacker's advantage stays below 2^-57, the bound of RFC 9001 §6.6. Random
//! nonces add 2^-33. A message's octets are those of its associated data and its text.
//!
//! | | AES-GCM | ChaCha20-Poly1305 | AES-128-CCM |
//! |---|---|---|---|
//! | the longest text, in octets ([checked](AeadError::TooLong)) | 2^36 - 32 | 2^38 - 64 | 2^24 - 1 |
//! | messages sealed, up to 2^11 octets each | 2^28 | any number of nonces | 2^26.5 |
//! | messages sealed, up to 2^16 octets each | 2^23 | any number of nonces | 2^21.5 |
//! | messages sealed with random nonces | as above, up to 2^32 | 2^32 | as above |
//! | messages that may fail to open, up to 2^11 octets each | 2^57 | 2^39 | 2^26.5 |
//! | messages that may fail to open, up to 2^16 octets each | 2^52 | 2^34 | 2^21.5 |
//! | octets sealed in all | 2^39 | any number | 2^37.5 |
//! | octets that may fail to open in all | 2^68 | 2^50 | 2^37.5 |
//!
//! The first row is SP 800-38D §5.2.1.1, RFC 8439 §2.8 and RFC 3610 §2; associated data may have any length. The last two give the rows
//! above them, and those of longer messages: AES-GCM seals 2^19 messages of 1 MiB. They are RFC 9001's (appendix B) for AES, and for
//! ChaCha20-Poly1305 the bound of Poly1305, 8 * 2^-106 for each block and attempt; the 2^36 of RFC 9001 §6.6 is that for messages of 2^14
//! octets. The 2^32 of random nonces is SP 800-38D §8.3: among so many of 96 bits, two are equal with a probability of 2^-33.
//!
//! A nonce used twice reveals the difference of two texts. With AES-GCM it also lets anyone forge any message, and with ChaCha20-Poly1305
//! those under that nonce.
//!
//! # Instead of aes-gcm
//!
//! With the feature `aead`, the types `Aes128Gcm`, `Aes256Gcm`, `ChaCha20Poly1305` and `Aes128Ccm` implement the traits of RustCrypto's
//! `aead` 0.6, and the crate exports what `aes-gcm` 0.11 and `chacha20poly1305` 0.11 do, under the same names. Replace the dependency:
//!
//! ```toml
//! wireseal-aead = { version = "0.1", features = ["alloc", "getrandom"] } # was aes-gcm = "0.11"
//! ```
//!
//! Then change the imports. A program on `aes-gcm` has no other line to change; one that used `Key` of `chacha20poly1305` imports
//! `Key<ChaCha20Poly1305>` under that name. In place, a message that is not authentic becomes zeros, so whoever tries several keys needs a
//! copy. There are no other lengths of nonces, tags and keys, so no AES-192 and no XChaCha20.
//!
//! ```
//! # #[cfg(all(feature = "alloc", feature = "getrandom"))]
//! # fn main() -> Result<(), wireseal_aead::Error> {
//! use wireseal_aead::aead::{Aead, Generate}; // was aes_gcm::aead
//! use wireseal_aead::{Aes256Gcm, Key, KeyInit, Nonce}; // was aes_gcm
//!
//! let cipher = Aes256Gcm::new(&Key::<Aes256Gcm>::generate());
//! let nonce = Nonce::generate();
//! let sealed = cipher.encrypt(&nonce, b"a text".as_ref())?;
//! assert_eq!(cipher.decrypt(&nonce, sealed.as_ref())?, b"a text");
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "alloc", feature = "getrandom")))]
//! # fn main() {}
//! ```
//!
//! What is sealed by one opens with the other. These differ:
//!
//! - `aes-gcm` and `chacha20poly1305` 0.10 have the traits of `aead` 0.5: update to 0.11 first.
//! - `Key` of `chacha20poly1305` has no parameter; here it is `Key<ChaCha20Poly1305>`.
//! - There is no AES-192, no XChaCha20, no ChaCha8 or ChaCha12, and no nonce or tag of another length.
//! - After a failed `decrypt_in_place` or `decrypt_inout_detached` the buffer is zeros; RustCrypto may leave the ciphertext.
//! - `aes-gcm` turns on `alloc` and `getrandom` by default; here, name them. For `rand_core`, `arrayvec` and `bytes`, turn them on in `aead`.
//! - Keys are always wiped; there, that is the feature `zeroize`.
//! - Rust 1.89 or later, instead of 1.85.
//!
//! # Examples
//!
//! The folder `examples` has three, each of one screen: a VPN's data message, framed as WireGuard's (`vpn-packet.rs`); SSH's packets under
//! aes256-gcm@openssh.com (`ssh-record.rs`); and a file in chunks, which is refused if it is truncated (`file-in-chunks.rs`).
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `kernels` (default) | Wireseal's own routines where the processor has the instructions |
//! | `ring` (default) | ring for everything else, except AES-128-CCM. If you turn it off, turn on one of the next two |
//! | `aws-lc-rs` | aws-lc-rs instead, for programs that link it anyway; needs std and a C compiler. If `ring` is on too, ring is used |
//! | `rustcrypto` | RustCrypto instead: no C, any target |
//! | `aead` | the traits of RustCrypto's `aead` |
//! | `alloc` | `aead`, and its trait `Aead`, which returns vectors |
//! | `getrandom` | `aead`, and random keys and nonces from the operating system, by its trait `Generate` |
//!
//! `aes-gcm` has `alloc` and `getrandom` on by default; its `rand_core`, `arrayvec` and `bytes` are turned on at `aead` itself, and it needs
//! Rust 1.85 where this crate needs 1.89. Its `zeroize` is always on here. `aead` 0.6 is part of this crate's interface: another version of
//! it will be a breaking change.
//!
//! # Examples
//!
//! In `examples`: `vpn-packet`, WireGuard's data message; `ssh-record`, aes256-gcm@openssh.com; `file-in-chunks`, a file of any length.
//!
//! # What runs where
//!
//! | | x86-64 | AArch64 | elsewhere |
//! |---|---|---|---|
//! | AES-GCM | kernels: VAES with AVX-512, VAES with AVX2, AES-NI | kernels: AES and PMULL | the library |
//! | ChaCha20-Poly1305 | kernels with AVX-512, else the library | the library | the library |
//! | AES-128-CCM | RustCrypto with AES-NI | RustCrypto with AES | RustCrypto |
//!
//! The choice is made when a key is created, and does not change. The library is the first of ring, aws-lc-rs and RustCrypto whose feature is on.
//!
//! # Secrets
//!
//! The memory of a key is zeros after it is dropped, and `Debug` shows none. aws-lc-rs has its keys on the heap, and wipes them; nothing else
//! needs one. Not wiped: copies that moving a key leaves on the stack. Tags are compared in constant time, and a text that is not authentic is zeros before the call returns.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![warn(clippy::unwrap_used)]

#[cfg(feature = "aws-lc-rs")]
extern crate std;

mod backend;
mod error;
mod key;
#[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
mod like_ring;
mod mask;
mod rustcrypto;
#[cfg(feature = "aead")]
mod traits;
mod wiped;

#[cfg(feature = "aead")]
pub use aead::{self, AeadCore, AeadInOut, Error, Key, KeyInit, KeySizeUser};
pub use backend::Backend;
pub use error::AeadError;
pub use key::AeadKey;
pub use mask::MaskKey;
#[cfg(feature = "aead")]
pub use traits::{Aes128Ccm, Aes128Gcm, Aes256Gcm, ChaCha20Poly1305, Nonce, Tag};
pub use wireseal_algorithms::AeadAlgorithm;

/// Compiles the code in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

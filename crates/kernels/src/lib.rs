//! Packet cryptography with the processor's own instructions: AES-GCM with QUIC's header mask, ChaCha20-Poly1305, and MACs of one message
//! or of many side by side.
//!
//! This crate is for authors of protocol libraries that have another implementation to fall back on. Applications use
//! `wireseal-aead`, `wireseal-mac` or `wireseal-quic`, which choose between the two.
//!
//! | to | call |
//! |---|---|
//! | seal a packet with AES-GCM and make its header mask | [`GcmKey::seal`](gcm::GcmKey::seal) |
//! | open a received packet | [`AesMaskKey::mask`](aes::AesMaskKey::mask), then [`GcmKey::open`](gcm::GcmKey::open) |
//! | keep the AES-GCM tag elsewhere | [`GcmKey::seal_detached`](gcm::GcmKey::seal_detached), [`GcmKey::open_detached`](gcm::GcmKey::open_detached) |
//! | seal and open with ChaCha20-Poly1305 | [`ChaCha20Poly1305Key`](chacha20_poly1305::ChaCha20Poly1305Key); [`ChaCha20MaskKey`](chacha20::ChaCha20MaskKey) for masks |
//! | compute a one-time MAC | [`poly1305::mac`] |
//! | compute an AES-128-CMAC, or many | [`cmac::Key::mac`], [`cmac::mac_many`] |
//! | prepare a key of HMAC | [`sha1::absorb_key`], [`sha256::absorb_key`] |
//! | compute an HMAC, or many | [`sha1::hmac`] and [`sha256::hmac`], [`sha1::hmac_many`] and [`sha256::hmac_many`] |
//! | compute a MAC of a message that comes in parts | `absorb`, then `finish`, of [`cmac::Key`], [`sha1`] and [`sha256`] |
//! | prefetch data that is needed soon | [`prefetch`](prefetch()) |
//! | find out what the processor has | [`cpu::InstructionSet::is_available`], and `path` of a key |
//!
//! ```
//! use wireseal_kernels::aes::AesMaskKey;
//! use wireseal_kernels::gcm::{GcmKey, TAG_LENGTH};
//!
//! let (Some(key), Some(mask_key)) = (GcmKey::new(&[0x1f; 16]), AesMaskKey::new(&[0x9f; 16])) else {
//!     return; // This processor lacks the instructions: use another library.
//! };
//! let (nonce, header) = ([0x6b; 12], [0x41, 0x00, 0x07]); // with a packet number of two octets
//! let mut body = *b"frames and padding, and room for a tag: 16 octets";
//! let length = body.len() - TAG_LENGTH;
//!
//! // The sample starts four octets after the start of the packet number.
//! let mask = key.seal(&nonce, &header, &mut body, Some((&mask_key, 2)));
//!
//! let mut received = body;
//! assert_eq!(received[2..].first_chunk().map(|sample| mask_key.mask(sample)), Some(mask));
//! assert!(key.open(&nonce, &header, &mut received));
//! assert_eq!(&received[..length], b"frames and padding, and room for ");
//!
//! body[0] ^= 1;
//! assert!(!key.open(&nonce, &header, &mut body));
//! assert_eq!(body[..length], [0; 33]);
//! ```
//!
//! # What runs where
//!
//! The processor's instructions are detected once, at run time; [tokens](cpu) prove the result. A key chooses the best path when it is
//! created and keeps it; a batch chooses one for each call.
//!
//! | routine | x86-64 | AArch64, little-endian | elsewhere |
//! |---|---|---|---|
//! | AES-GCM and AES masks | `Vaes512`, `Vaes256`, `AesNiAvx`, `AesNi` | `Aarch64Aes` | no key |
//! | AES-128-CMAC | `AesNi`; sixteen at once `Vaes512` | `Aarch64Aes` | no key |
//! | one HMAC | `ShaNiAvx`, `ShaNi`, `Bmi2` | `Aarch64Sha` | no token |
//! | many HMACs | two at once `ShaNiAvx`, `ShaNi`, sixteen `Avx512` | `Aarch64Sha`, two at once | left to the caller |
//! | ChaCha20-Poly1305 | `Avx512Ifma`, `Avx512` | no key | no key |
//! | many ChaCha20 masks | `Avx512`, `Avx2`, SSE2 | one by one | one by one |
//! | Poly1305 | `Avx512Ifma` and `Avx2` for long messages, 64-bit multiplication | NEON for long messages, 64-bit multiplication | 64-bit multiplication |
//!
//! Paths are named as in [`cpu::InstructionSet`]. Where a routine has no path, its `new` or
//! [`ShaInstructions::detect`](hmac::ShaInstructions::detect) returns `None`: fall back on your other library.
//!
//! # Secrets
//!
//! Keys live where you put them, never on a heap. They are wiped on drop, and `Debug` shows no octets. HMAC's chaining values are
//! yours to wipe. A text that is not authentic is zeroed before the call returns.
//!
//! Not wiped: values that the compiler spills from registers to the stack (ChaCha20's key, chaining values, key stream, Poly1305's r and its
//! powers, MACs), and copies that moving a key leaves on the stack.
//!
//! No branch and no address depends on a key or a text; only whether a packet is authentic becomes public. `examples/constant_time` checks
//! this with valgrind's memcheck, or by timing where valgrind does not know the instructions; `examples/constant_time_leaks` shows that the
//! check finds a branch on a secret in every routine.
//!
//! # Features, for tests only
//!
//! `model` adds a slow model of each routine that reads like its standard. `switch` turns paths off, so that tests compare every path with
//! its model, with other libraries and with Wycheproof's vectors, in buffers at the edge of an unmapped page.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]

#[cfg(test)]
extern crate std;

/// Marks a place that handles a secret. Here it expands to nothing; `examples/constant_time_leaks` compiles these files again with a branch
/// on the secret there, which the constant-time check must report.
macro_rules! leak {
    ($name:literal, $secret:expr) => {};
}

#[cfg_attr(
    not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))),
    allow(dead_code, unused_imports, unused_macros, reason = "without a path there is no key")
)]
pub mod aes;
pub mod chacha20;
pub mod chacha20_poly1305;
pub mod cmac;
pub mod cpu;
#[cfg_attr(
    not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))),
    allow(dead_code, unused_imports, unused_macros, reason = "without a path there is no key")
)]
pub mod gcm;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
mod groups;
mod head;
pub mod hmac;
#[cfg(feature = "model")]
pub mod model;
#[cfg(target_arch = "x86_64")]
mod partial_block;
pub mod poly1305;

pub use cpu::prefetch;
pub use head::MessageHead;
pub use hmac::{sha1, sha256};

/// Compiles the code in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

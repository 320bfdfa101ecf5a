//! Routines for packets that need the processor's own instructions: AES-GCM together with QUIC's header mask, MACs of many
//! messages at once, and what else a library in portable Rust leaves on the table.
//!
//! It is for authors of protocol libraries, who have another implementation to fall back on. Applications take `wireseal-quic`
//! or `wireseal-mac`, which choose between the two by themselves.
//!
//! | which call do I need? | |
//! |---|---|
//! | seal a packet of AES-GCM, and make its header mask | [`GcmKey::seal`](gcm::GcmKey::seal); of many pieces: [`seal_scattered`](gcm::GcmKey::seal_scattered) |
//! | seal a train of them | [`GcmKey::seal_batch`](gcm::GcmKey::seal_batch) |
//! | open one that was received | [`AesMaskKey::mask`](aes::AesMaskKey::mask), then [`GcmKey::open`](gcm::GcmKey::open) |
//! | open many | [`AesMaskKey::mask_batch`](aes::AesMaskKey::mask_batch), then [`GcmKey::open_batch`](gcm::GcmKey::open_batch) |
//! | AES-GCM whose tag is elsewhere | [`GcmKey::seal_detached`](gcm::GcmKey::seal_detached), [`open_detached`](gcm::GcmKey::open_detached) |
//! | ChaCha20-Poly1305 | [`ChaCha20Poly1305Key`](chacha20_poly1305::ChaCha20Poly1305Key), and [`ChaCha20MaskKey`](chacha20::ChaCha20MaskKey) for masks |
//! | a one-time MAC | [`poly1305::mac`] |
//! | an AES-128-CMAC, or many under as many keys | [`cmac::Key::mac`], [`cmac::mac_many`] |
//! | an HMAC, or many under as many keys | [`sha1::hmac`] and [`sha256::hmac`], [`sha1::hmac_many`] and [`sha256::hmac_many`] |
//! | what has this processor? | [`cpu::Path::is_available`]; what a key uses: its `path` |
//!
//! # Example
//!
//! A packet with a short header; on a processor without the instructions another library serves.
//!
//! ```
//! use aes_gcm::aead::{AeadInOut, KeyInit};
//! use wireseal_kernels::aes::AesMaskKey;
//! use wireseal_kernels::gcm::{GcmKey, TAG_LENGTH};
//!
//! let (secret, mask_secret, nonce) = ([0x1f; 16], [0x9f; 16], [0x6b; 12]);
//! let header = [0x41, 0x00, 0x07]; // with a packet number of two octets
//! let mut body = *b"frames and padding, and room for a tag: 16 octets";
//! let length = body.len() - TAG_LENGTH;
//!
//! match (GcmKey::new(&secret), AesMaskKey::new(&mask_secret)) {
//!     (Some(key), Some(mask_key)) => {
//!         // Text, tag and mask in one pass. The sample begins four octets behind the start of the packet number.
//!         let mask = key.seal(&nonce, &header, &mut body, Some((&mask_key, 2)));
//!
//!         let mut received = body;
//!         assert_eq!(received[2..].first_chunk().map(|sample| mask_key.mask(sample)), Some(mask));
//!         assert!(key.open(&nonce, &header, &mut received));
//!         assert_eq!(&received[..length], b"frames and padding, and room for ");
//!
//!         // Of what is not authentic nothing is left.
//!         body[0] ^= 1;
//!         assert!(!key.open(&nonce, &header, &mut body));
//!         assert_eq!(body[..length], [0; 33]);
//!     }
//!     _ => {
//!         let (text, tag) = body.split_at_mut(length);
//!         let key = aes_gcm::Aes128Gcm::new(&secret.into());
//!         tag.copy_from_slice(&key.encrypt_inout_detached(&nonce.into(), &header, text.into()).expect("a short text"));
//!     }
//! }
//! ```
//!
//! # Where it runs
//!
//! Which instructions there are is found out once, at run time, and proven by a token ([`cpu`]); a key takes the best path
//! there is as it is made and keeps it. Names of paths are those of [`cpu::Path`].
//!
//! | routine | x86-64 | AArch64, little-endian | elsewhere |
//! |---|---|---|---|
//! | AES-GCM and AES masks | `Vaes512`, `Vaes256`, `AesNi` | `Aarch64Aes` | no key |
//! | AES-128-CMAC | `AesNi` | no key | no key |
//! | many AES-128-CMACs | `Vaes512`, `AesNi` | | |
//! | an HMAC | `ShaNi` | no token | no token |
//! | many HMACs | `Avx512` | each is left to the caller | each is left to the caller |
//! | ChaCha20-Poly1305 | `Avx512Ifma` | no key | no key |
//! | many ChaCha20 masks | `Avx512`, `Avx2`, SSE2 | one by one | one by one |
//! | Poly1305 | `Avx512Ifma` for long messages, or 64-bit multiplication | 64-bit multiplication | 64-bit multiplication |
//!
//! On a processor without any of a routine's paths it is as elsewhere: `new` and
//! [`ShaInstructions::detect`](hmac::ShaInstructions::detect) give `None`, and that is when the caller's other library serves. In
//! `wireseal-quic` it is ring or RustCrypto, in `wireseal-mac` RustCrypto, whose SHA and AES use AArch64's instructions where this
//! crate has no path for them.
//!
//! # Secrets
//!
//! Keys lie where the caller puts them, with no heap behind them, and are wiped on drop; `Debug` shows none of their octets. An HMAC
//! is computed from chaining values, which are the caller's and the caller's to wipe. A text that is not authentic becomes zeros
//! before the call returns.
//!
//! Not wiped is what is derived from keys and lives in registers, and what the compiler puts of that on the stack where it has too
//! few of them: chaining values in vectors, Poly1305's r and its powers, key stream, and MACs before they are handed out. Nor are
//! the copies that moving a key leaves behind.
//!
//! No branch and no address depends on a key or a text; only the verdict of opening is public. `examples/constant_time` shows
//! it: memcheck follows every bit of the secrets through the paths whose instructions valgrind knows (AES-NI, AVX2 and all
//! without a path), and the others, AVX-512, VAES and SHA-NI, are timed with secrets that stay the same against random ones.
//! Both have to find routines that were made to depend on a secret.
//!
//! # Evidence
//!
//! Beside each routine there is a model that reads like its standard (feature `model`), and each path, with those above it
//! turned off (feature `switch`), is compared with its model, with other libraries and with Wycheproof's vectors, in buffers that
//! end where memory does. The fuzz targets `kernel_*` do the same with what a fuzzer makes up. Neither feature is for products.
#![no_std]

#[cfg(test)]
extern crate std;

#[cfg_attr(
    not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))),
    expect(dead_code, reason = "without a path there is no key")
)]
pub mod aes;
pub mod chacha20;
pub mod chacha20_poly1305;
pub mod cmac;
pub mod cpu;
#[cfg(target_arch = "x86_64")]
mod cut;
#[cfg_attr(
    not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))),
    expect(dead_code, reason = "without a path there is nothing to hand packets to")
)]
pub mod gcm;
mod head;
pub mod hmac;
pub mod poly1305;
pub mod sha1;
pub mod sha256;
#[cfg(target_arch = "x86_64")]
mod shape;
#[cfg(target_arch = "x86_64")]
mod worth;

pub use head::MessageHead;

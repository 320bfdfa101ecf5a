//! Keyed MACs for packets: HMAC-SHA-1, HMAC-SHA-256, AES-128-CMAC, KMAC256, and one-time Poly1305.
//!
//! A [`MacKey`] is prepared once, where the key is known; from then on computing a MAC cannot fail, allocates nothing,
//! and takes the message as the slices it already lies in. A key is 208 octets at most, so that a connection keeps
//! several at hand.
//!
//! | which call do I need? | |
//! |---|---|
//! | a key from its octets | [`MacKey::hmac_sha1`], [`MacKey::hmac_sha256`], [`MacKey::aes_128_cmac`], [`MacKey::kmac256`] |
//! | the MAC to send | [`MacKey::mac`], then [`Mac::truncated`] |
//! | whether a received MAC is right | [`MacKey::verify`], never a comparison of your own |
//! | many MACs under many keys, in less time | [`mac_batch`], then [`Mac::truncated`] or [`Mac::verify`] of each |
//! | Poly1305, whose key authenticates one message only | [`OneTimePoly1305Key`] |
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
//! # What runs
//!
//! A key finds out what the processor has when it is made. On x86-64, CMAC and HMAC run on `wireseal-kernels`: AES-NI and SHA-NI
//! for one message, VAES and AVX-512 for many side by side. Elsewhere the block functions of RustCrypto serve, and a batch is its
//! messages one after the other.
//!
//! # What is wiped
//!
//! Keys, computed MACs, the chaining state of KMAC, and the octets copied from a message are overwritten when they are dropped,
//! because where a key is derived the message is a secret too; so is what a batch keeps in memory of its keys and chaining
//! states. The chaining state of one CMAC or HMAC, meant for registers, is not; nor is what the compiler or a cipher spills to
//! the stack, or the octets that a Rust move leaves behind, which are beyond the reach of safe code. So build a key where it will
//! stay.
#![no_std]

mod batch;
mod blocks;
mod cmac;
mod hmac;
mod key;
mod kmac;
mod output;
mod poly1305;
mod wiped;

pub use batch::mac_batch;
pub use key::{MacKey, OutputLength};
pub use output::{Mac, MacMismatch};
pub use poly1305::OneTimePoly1305Key;
pub use wireseal_algorithms::MacAlgorithm;
pub use wireseal_kernels::MessageHead;

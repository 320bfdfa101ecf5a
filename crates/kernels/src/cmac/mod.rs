//! AES-128-CMAC (RFC 4493), of one message or of many side by side.
//!
//! A CMAC is a chain: no block can start before the one in front of it is through AES. The processor can work on several blocks at
//! once only if they belong to different messages.

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod aes_ni;
#[cfg(target_arch = "x86_64")]
mod key;
#[cfg(target_arch = "x86_64")]
mod many;
#[cfg(feature = "model")]
pub mod model;
#[cfg(target_arch = "x86_64")]
mod one;
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
mod unavailable;
#[cfg(target_arch = "x86_64")]
mod vaes512;

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
pub use aarch64::{Key, mac_many};
#[cfg(target_arch = "x86_64")]
pub use key::Key;
#[cfg(target_arch = "x86_64")]
pub use many::mac_many;
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
pub use unavailable::{Key, mac_many};

//! AES-128-CMAC (RFC 4493): one message without waste, or many under as many keys side by side.
//!
//! A CMAC is one chain of cipher blocks, so that a single message takes as long as AES takes from start to end, block after
//! block. The processor can work on many at once, if they are of different messages.

#[cfg(target_arch = "x86_64")]
mod chain;
#[cfg(target_arch = "x86_64")]
mod lanes;
#[cfg(feature = "model")]
pub mod model;
#[cfg(target_arch = "x86_64")]
mod same;
#[cfg(not(target_arch = "x86_64"))]
mod without;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(not(target_arch = "x86_64"))]
pub use without::{Key, mac_many};
#[cfg(target_arch = "x86_64")]
pub use x86::{Key, mac_many};

//! Wireseal.
#![no_std]

mod blocks;
mod cmac;
mod hmac;
mod key;
mod kmac;
mod output;
mod poly1305;

pub use key::{MacKey, OutputLength};
pub use output::{Mac, MacMismatch};
pub use poly1305::OneTimePoly1305Key;
pub use wireseal_algorithms::MacAlgorithm;

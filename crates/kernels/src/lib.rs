//! Routines for packets that need the processor's own instructions.
#![no_std]

#[cfg(test)]
extern crate std;

pub mod aes;
pub mod chacha20;
pub mod chacha20_poly1305;
pub mod cmac;
pub mod cpu;
#[cfg(target_arch = "x86_64")]
mod cut;
pub mod gcm;
pub mod hmac;
pub mod poly1305;
pub mod sha1;
pub mod sha256;
#[cfg(target_arch = "x86_64")]
mod worth;

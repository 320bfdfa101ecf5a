//! Routines for packets that need the processor's own instructions.
#![no_std]

#[cfg(test)]
extern crate std;

pub mod chacha20;
pub mod chacha20_poly1305;
pub mod cmac;
pub mod cpu;
pub mod poly1305;
pub mod aes;
pub mod gcm;
#[cfg(target_arch = "x86_64")]
mod cut;
pub mod hmac;
pub mod sha1;
pub mod sha256;
#[cfg(target_arch = "x86_64")]
mod worth;

//! Every routine on every path: against its model, other libraries, published vectors, and where memory ends.
//!
//! A program of its own, since the switch that turns paths off is for the whole process: tests that make keys take turns by
//! [`paths`].

mod aeads;
mod aes;
mod chacha20;
mod chacha20_poly1305;
mod cmac;
mod gcm;
mod guarded;
mod hmac;
mod macs;
mod paths;
mod poly1305;

/// Octets without a pattern that could hide a mistake, the same in each run.
fn octets(length: usize, mut seed: u64) -> Vec<u8> {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

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
mod prefetch;

/// Makes a test of each named check of a module for a type.
macro_rules! tests_of {
    ($module:ident, $type:ty: $($check:ident)*) => {
        $(#[test]
        fn $check() {
            crate::$module::$check::<$type>();
        })*
    };
}

pub(crate) use tests_of;

/// Octets without a pattern that could hide a mistake, the same in each run.
fn octets(length: usize, seed: u64) -> Vec<u8> {
    let mut octets = vec![0; length];
    fastrand::Rng::with_seed(seed).fill(&mut octets);
    octets
}

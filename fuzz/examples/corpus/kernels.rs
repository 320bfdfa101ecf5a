//! Seeds for the kernels: octets without a pattern, as many as reach every size of group that a path takes at once.

use crate::write;

const TARGETS: [&str; 4] = ["kernel_chacha20_poly1305", "kernel_cmac", "kernel_gcm", "kernel_hashes"];

/// Writes them.
pub fn write_all() {
    for (seed, target) in TARGETS.into_iter().enumerate() {
        for length in [52, 70, 130, 200, 320, 580, 1090, 1560] {
            let mut state = (seed * 10_000 + length) as u64;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            };
            let octets: Vec<u8> = (0..length).map(|_| next()).collect();
            write(target, &format!("octets-{length}"), &octets);
        }
    }
}

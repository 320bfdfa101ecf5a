//! Seeds for the kernels: octets without a pattern, as many as reach every size of group that a path takes at once.

use crate::write;

const TARGETS: [&str; 4] = ["kernel_chacha20_poly1305", "kernel_cmac", "kernel_gcm", "kernel_hashes"];

/// Writes them.
pub fn write_all() {
    for (seed, target) in TARGETS.into_iter().enumerate() {
        for length in [52, 70, 130, 200, 320, 580, 1090, 1560] {
            let mut octets = vec![0; length];
            fastrand::Rng::with_seed((seed * 10_000 + length) as u64).fill(&mut octets);
            write(target, &format!("octets-{length}"), &octets);
        }
    }
}

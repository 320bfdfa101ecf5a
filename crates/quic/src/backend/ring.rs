//! ring's keys, and how they are wiped.

use ring as library;
use ring::aead::{LessSafeKey, UnboundKey, quic};
use zeroize::optimization_barrier;

#[path = "like_ring.rs"]
mod keys;

pub(crate) use keys::{AeadKey, MaskKey};

/// Whether ring's ChaCha20 is always assembly here. Its other one adds to the counter after every block, so that a packet whose sample
/// starts with 0xffffffff would end a program that checks for overflow.
pub(super) const CHACHA20_HAS_ASSEMBLY: bool = cfg!(all(
    target_endian = "little",
    any(target_arch = "aarch64", target_arch = "arm", target_arch = "x86_64")
));

/// As long as the longest key.
const ZERO_KEY: [u8; 32] = [0; 32];

/// ring does not wipe keys, so a key of zeros is written over the old one.
impl Drop for AeadKey {
    fn drop(&mut self) {
        let algorithm = self.0.algorithm();
        if let Ok(zero) = UnboundKey::new(algorithm, &ZERO_KEY[..algorithm.key_len()]) {
            self.0 = LessSafeKey::new(zero);
            optimization_barrier(&self.0);
        }
    }
}

impl Drop for MaskKey {
    fn drop(&mut self) {
        let algorithm = self.0.algorithm();
        if let Ok(zero) = quic::HeaderProtectionKey::new(algorithm, &ZERO_KEY[..algorithm.key_len()]) {
            self.0 = zero;
            optimization_barrier(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::mem::needs_drop;

    use super::*;

    #[test]
    fn q_47_keys_of_ring_are_wiped_by_us() {
        assert!(!needs_drop::<LessSafeKey>() && !needs_drop::<quic::HeaderProtectionKey>());
        assert!(needs_drop::<AeadKey>() && needs_drop::<MaskKey>());
    }
}

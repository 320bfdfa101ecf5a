//! Keys from ring, and from aws-lc-rs, which has the same interface.

/// The keys of a library with ring's interface.
macro_rules! keys_of {
    ($library:ident) => {
        use ::$library::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey, quic};
        use wireseal_algorithms::AeadAlgorithm;

        impl AeadKey {
            pub(crate) fn new(algorithm: AeadAlgorithm, key: &[u8]) -> Option<Self> {
                let algorithm = match algorithm {
                    AeadAlgorithm::Aes128Gcm => &aead::AES_128_GCM,
                    AeadAlgorithm::Aes256Gcm => &aead::AES_256_GCM,
                    AeadAlgorithm::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
                    AeadAlgorithm::Aes128Ccm => return None,
                };
                UnboundKey::new(algorithm, key).ok().map(|key| Self(LessSafeKey::new(key).into()))
            }

            /// `None` if the text is too long.
            #[inline]
            pub(crate) fn seal(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> Option<[u8; 16]> {
                let nonce = Nonce::assume_unique_for_key(*nonce);
                let tag = self.0.seal_in_place_separate_tag(nonce, Aad::from(aad), text).ok();
                tag.and_then(|tag| tag.as_ref().first_chunk().copied())
            }
        }

        pub(crate) struct MaskKey(quic::HeaderProtectionKey);

        impl MaskKey {
            pub(crate) fn new(algorithm: AeadAlgorithm, key: &[u8]) -> Option<Self> {
                let algorithm = match algorithm {
                    AeadAlgorithm::Aes128Gcm => &quic::AES_128,
                    AeadAlgorithm::Aes256Gcm => &quic::AES_256,
                    AeadAlgorithm::ChaCha20Poly1305 => &quic::CHACHA20,
                    AeadAlgorithm::Aes128Ccm => return None,
                };
                quic::HeaderProtectionKey::new(algorithm, key).ok().map(Self)
            }

            #[inline]
            pub(crate) fn mask(&self, sample: &[u8; 16]) -> [u8; 5] {
                self.0.new_mask(sample).expect("a sample has 16 octets")
            }
        }
    };
}

/// AEAD keys are in memory of AWS-LC, which overwrites whatever it frees; aws-lc-rs wipes the keys of masks itself.
#[cfg(feature = "aws-lc-rs")]
pub(crate) mod aws_lc {
    use std::sync::Arc;

    keys_of!(aws_lc_rs);

    /// Shared, because a key of aws-lc-rs cannot be copied.
    #[derive(Clone)]
    pub(crate) struct AeadKey(Arc<LessSafeKey>);

    impl AeadKey {
        #[inline]
        pub(crate) fn open(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; 16]) -> bool {
            let nonce = Nonce::assume_unique_for_key(*nonce);
            self.0.open_in_place_separate_tag(nonce, Aad::from(aad), tag, text).is_ok()
        }
    }

    #[cfg(test)]
    mod tests {
        use core::mem::needs_drop;

        use super::*;

        #[test]
        fn keys_are_dropped_by_aws_lc_rs_which_wipes_them() {
            assert!(needs_drop::<LessSafeKey>() && needs_drop::<quic::HeaderProtectionKey>());
        }
    }
}

/// Keys that ring does not wipe: their place is overwritten when they are dropped.
#[cfg(feature = "ring")]
pub(crate) mod ring {
    keys_of!(ring);

    #[derive(Clone)]
    pub(crate) struct AeadKey(LessSafeKey);

    impl AeadKey {
        #[inline]
        pub(crate) fn open(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; 16]) -> bool {
            let nonce = Nonce::assume_unique_for_key(*nonce);
            self.0.open_in_place_separate_tag(nonce, Aad::from(aad), (*tag).into(), text, 0..).is_ok()
        }
    }

    /// Whether ring's ChaCha20 is always assembly on this target. Its portable code increments the counter after every block, so with
    /// overflow checks it panics on a sample that starts with 0xffffffff.
    pub(crate) const CHACHA20_HAS_ASSEMBLY: bool = cfg!(all(
        target_endian = "little",
        any(target_arch = "aarch64", target_arch = "arm", target_arch = "x86_64")
    ));

    #[cfg(test)]
    mod tests {
        use core::mem::needs_drop;

        use super::*;

        #[test]
        fn q_47_keys_of_ring_are_wiped_by_us() {
            assert!(!needs_drop::<AeadKey>() && !needs_drop::<MaskKey>());
            assert!(needs_drop::<crate::AeadKey>() && needs_drop::<crate::MaskKey>());
        }
    }
}

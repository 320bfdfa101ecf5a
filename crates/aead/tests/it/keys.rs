//! Keys: what serves them, what they show, what they leave in memory, and that their copies are the same.

use wireseal_aead::{AeadAlgorithm, AeadKey, Backend, MaskKey};
use wireseal_kernels::cpu::InstructionSet;

use crate::{each_backend, each_key, octets};

#[test]
fn a_key_says_what_serves_it() {
    use InstructionSet::{Aarch64Aes, AesNi, AesNiAvx, Avx512, Avx512Ifma, Vaes256, Vaes512};

    each_backend(|backend| {
        let is_kernels = backend.name() == "Wireseal";
        // The library that a key uses where the kernels have no path.
        let behind = Backend::ALL.iter().map(|backend| backend.name()).find(|name| *name != "Wireseal");
        let first = |paths: &[InstructionSet]| {
            let path = paths.iter().find(|path| is_kernels && path.is_available());
            path.map(|path| path.name()).or(if is_kernels { behind } else { Some(backend.name()) })
        };
        let served_by = |algorithm: AeadAlgorithm| {
            let key = octets(algorithm.key_length(), 1);
            let key = AeadKey::with_backend(backend, algorithm, &key).unwrap();
            assert_eq!(key.algorithm(), algorithm);
            Some(key.served_by())
        };
        let gcm = first(&[Vaes512, Vaes256, AesNiAvx, AesNi, Aarch64Aes]);
        assert_eq!(served_by(AeadAlgorithm::Aes128Gcm), gcm);
        assert_eq!(served_by(AeadAlgorithm::Aes256Gcm), gcm);
        assert_eq!(served_by(AeadAlgorithm::ChaCha20Poly1305), first(&[Avx512Ifma, Avx512]));
        assert_eq!(served_by(AeadAlgorithm::Aes128Ccm), Some("RustCrypto"));
    });
}

#[test]
fn no_debug_shows_a_key() {
    each_key(|key, key_octets| {
        assert_eq!(format!("{key:?}"), format!("AeadKey {{ algorithm: {:?}, .. }}", key.algorithm()));
        let mask = MaskKey::new(key.algorithm(), key_octets).unwrap();
        assert_eq!(format!("{mask:?}"), "MaskKey { .. }");
    });
}

#[test]
fn keys_are_wiped_and_shared_between_threads() {
    fn wiped_and_shared<T: zeroize::ZeroizeOnDrop + Send + Sync>() {
        assert!(std::mem::needs_drop::<T>());
    }
    wiped_and_shared::<AeadKey>();
    wiped_and_shared::<MaskKey>();
    wiped_and_shared::<wireseal_aead::Aes256Gcm>();
}

/// Also between and behind a key's fields, where moves put what was on the stack. All but the octet that says that the key is gone.
#[cfg(target_os = "linux")]
#[test]
fn memory_of_a_dropped_key_is_zeros() {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    fn check<T>(key: T) {
        let mut keys = vec![key];
        let octets_at = keys.as_ptr().addr() as u64;
        let count = || {
            let mut octets = vec![0; size_of::<T>()];
            File::open("/proc/self/mem").unwrap().read_exact_at(&mut octets, octets_at).unwrap();
            octets.iter().filter(|octet| **octet != 0).count()
        };
        assert!(count() > 8);
        // Drops the key where it is.
        keys.clear();
        assert!(count() <= 1);
    }
    each_key(|key, key_octets| {
        check(key.clone());
        check(AeadKey::new(key.algorithm(), key_octets).unwrap());
    });
    each_backend(|backend| {
        for algorithm in AeadAlgorithm::ALL {
            check(MaskKey::with_backend(backend, algorithm, &octets(algorithm.key_length(), 1)).unwrap());
        }
    });
}

#[test]
fn a_copy_of_a_key_outlives_it() {
    each_key(|key, _| {
        let (mut by_key, mut by_copy) = (octets(100, 2), octets(100, 2));
        key.seal(&[3; 12], b"aad", &mut by_key).unwrap();
        let first = key.clone();
        let second = first.clone();
        drop(first);
        second.seal(&[3; 12], b"aad", &mut by_copy).unwrap();
        assert_eq!(by_key, by_copy);
    });
}

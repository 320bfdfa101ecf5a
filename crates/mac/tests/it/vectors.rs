//! Vectors of the standards, in both directions, from `tests/data/vectors`.

use serde_json::Value;
use wireseal_mac::{MacKey, MacMismatch, OneTimePoly1305Key};

/// Key, message and MAC of each of `count` cases.
fn cases(text: &str, count: usize) -> Vec<[Vec<u8>; 3]> {
    let file: Value = serde_json::from_str(text).expect("JSON");
    let octets =
        |hex: &Value| base16ct::mixed::decode_vec(hex.as_str().expect("a text")).expect("hexadecimal");
    let cases = file["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), count);
    cases.iter().map(|case| ["key", "message", "mac"].map(|field| octets(&case[field]))).collect()
}

/// Checks that the key of each case computes the MAC, verifies it, and refuses it with the last bit flipped.
fn check(cases: Vec<[Vec<u8>; 3]>, make_key: impl Fn(&[u8]) -> MacKey) {
    for [key, message, mac] in cases {
        let key = make_key(&key);
        assert_eq!(key.mac(&[&message]).truncated(mac.len()), mac);
        assert_eq!(key.verify(&[&message], &mac), Ok(()));
        let mut wrong = mac;
        *wrong.last_mut().expect("a MAC") ^= 1;
        assert_eq!(key.verify(&[&message], &wrong), Err(MacMismatch));
    }
}

#[test]
fn rfc_2202() {
    check(cases(include_str!("../data/vectors/rfc2202.json"), 8), MacKey::hmac_sha1);
}

#[test]
fn rfc_4231() {
    check(cases(include_str!("../data/vectors/rfc4231.json"), 7), MacKey::hmac_sha256);
}

#[test]
fn rfc_4493() {
    let key = |octets: &[u8]| MacKey::aes_128_cmac(octets.try_into().expect("16 octets"));
    check(cases(include_str!("../data/vectors/rfc4493.json"), 4), key);
}

#[test]
fn rfc_8439() {
    for [key, message, mac] in cases(include_str!("../data/vectors/rfc8439.json"), 12) {
        let key = || OneTimePoly1305Key::new(key[..].try_into().expect("32 octets"));
        assert_eq!(key().mac(&[&message]).as_bytes(), mac);
        for cut in 0..=message.len() {
            assert_eq!(key().verify(&[&message[..cut], &message[cut..]], &mac), Ok(()));
        }
        let mut wrong = mac;
        wrong[0] ^= 1;
        assert_eq!(key().verify(&[&message], &wrong), Err(MacMismatch));
    }
}

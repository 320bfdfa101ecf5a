//! Every spelling is parsed, and every refusal gives its reason.

use wireseal_algorithms::ParseAlgorithmError::{self, *};
use wireseal_algorithms::TcpAoAlgorithm::{self, *};

/// Each accepted spelling, exactly as in its source.
const ACCEPTED: [(&str, TcpAoAlgorithm); 35] = [
    // RFC 5926 and draft-ietf-tcpm-tcp-ao-algs-07
    ("HMAC-SHA-1-96", HmacSha1),
    ("AES-128-CMAC-96", Aes128Cmac),
    ("SHA1", HmacSha1),
    ("AES128", Aes128Cmac),
    ("HMAC-SHA256-128", HmacSha256_128),
    ("KMAC256-128", Kmac256_128),
    // Linux
    ("hmac(sha1)", HmacSha1),
    ("cmac(aes128)", Aes128Cmac),
    ("cmac(aes)", Aes128Cmac),
    ("hmac(sha256)", LinuxHmacSha256),
    // BIRD
    ("hmac sha1", HmacSha1),
    ("cmac aes128", Aes128Cmac),
    ("hmac sha256", LinuxHmacSha256),
    // Junos and IOS XR
    ("hmac-sha-1-96", HmacSha1),
    ("aes-128-cmac-96", Aes128Cmac),
    ("HMAC-SHA1-96", HmacSha1),
    // RFC 8177 and RFC 9648
    ("ietf-key-chain:hmac-sha-1", HmacSha1),
    ("ietf-key-chain:hmac-sha-1-12", HmacSha1),
    ("ietf-key-chain:aes-cmac-prf-128", Aes128Cmac),
    ("ietf-tcp:aes-128", Aes128Cmac),
    ("hmac-sha-1", HmacSha1),
    ("aes-cmac-prf-128", Aes128Cmac),
    // Arista EOS, IOS XE and GoBGP
    ("hmac-sha1-96", HmacSha1),
    ("aes-128-cmac", Aes128Cmac),
    ("hmac_sha_1_96", HmacSha1),
    ("aes_128_cmac_96", Aes128Cmac),
    // As IOS XR shows them ("show tcp authentication keychain")
    ("HMAC_SHA1_96", HmacSha1),
    ("AES_128_CMAC_96", Aes128Cmac),
    ("HMAC_SHA_1_96", HmacSha1),
    // As people type them
    ("hmac-sha1", HmacSha1),
    ("hmac_sha1", HmacSha1),
    ("hmacsha1", HmacSha1),
    ("HMAC SHA1 96", HmacSha1),
    ("cmac-aes-128", Aes128Cmac),
    ("aes128cmac96", Aes128Cmac),
];

const REFUSED: [(&str, ParseAlgorithmError); 44] = [
    ("hmac-sha-256", Ambiguous),
    ("HMAC-SHA256", Ambiguous),
    ("HMAC-SHA-256-128", Ambiguous),
    ("HMAC-SHA-256-96", Ambiguous),
    ("sha256", Ambiguous),
    ("hmac_sha_256_96", Ambiguous),
    ("hmac_sha_256_128", Ambiguous),
    ("ietf-key-chain:hmac-sha-256", Ambiguous),
    ("md5", Md5),
    ("ietf-key-chain:md5", Md5),
    ("HMAC-MD5", Md5),
    ("hmac(md5)", Md5),
    ("hmac md5", Md5),
    ("CRC-32", Crc),
    ("crc32c", Crc),
    ("hmac(sha224)", OtherHash),
    ("hmac-sha-224", OtherHash),
    ("hmac sha384", OtherHash),
    ("ietf-key-chain:hmac-sha-384", OtherHash),
    ("hmac(sha512)", OtherHash),
    ("HMAC-SHA-512", OtherHash),
    ("hmac(sha3-256)", OtherHash),
    ("AES-192-CMAC-96", OtherAesKeyLength),
    ("cmac aes192", OtherAesKeyLength),
    ("aes-256-cmac", OtherAesKeyLength),
    ("cmac(aes256)", OtherAesKeyLength),
    ("Poly1305", OneTime),
    ("chacha20-poly1305", OneTime),
    ("sha-1", NotAMac),
    ("ietf-key-chain:sha-1", NotAMac),
    ("cleartext", NotAMac),
    ("ietf-key-chain:replay-protection-only", NotAMac),
    ("none", NotAMac),
    ("HMAC-SHA1-12", OtherProtocol),
    ("hmac-sha1-20", OtherProtocol),
    ("hmac_sha1_12", OtherProtocol),
    ("sha_1", NotAMac),
    ("", Unknown),
    (":", Unknown),
    ("hmac", Unknown),
    ("HMAC-SHA-1-96 .", Unknown),
    ("ietf-key-chain:hmac(sha1)", Unknown),
    ("ietf-tcp:hmac-sha-1", Unknown),
    ("ßha1", Unknown),
];

#[test]
fn every_spelling_is_read_in_either_case() {
    for (text, algorithm) in ACCEPTED {
        for text in [text.to_owned(), text.to_uppercase(), text.to_lowercase()] {
            assert_eq!(text.parse(), Ok(algorithm), "{text}");
        }
    }
}

#[test]
fn every_vendors_name_is_the_one_in_its_documents() {
    let names = TcpAoAlgorithm::ALL.map(|algorithm| {
        [algorithm.linux_name(), algorithm.bird_name(), algorithm.junos_name(), algorithm.ios_xr_name()]
    });
    let expected = [
        [Some("hmac(sha1)"), Some("hmac sha1"), Some("hmac-sha-1-96"), Some("HMAC-SHA1-96")],
        [Some("cmac(aes128)"), Some("cmac aes128"), Some("aes-128-cmac-96"), Some("AES-128-CMAC-96")],
        [Some("hmac(sha256)"), Some("hmac sha256"), None, None],
        // No vendor has the draft's algorithms.
        [None; 4],
        [None; 4],
    ];
    assert_eq!(names, expected);
}

#[test]
fn every_name_of_an_algorithm_is_read_as_that_algorithm() {
    for algorithm in TcpAoAlgorithm::ALL {
        assert_eq!(algorithm.to_string(), algorithm.name());
        let names = [
            Some(algorithm.name()),
            algorithm.linux_name(),
            algorithm.bird_name(),
            algorithm.junos_name(),
            algorithm.ios_xr_name(),
        ];
        for name in names.into_iter().flatten() {
            assert_eq!(name.parse(), Ok(algorithm), "{name}");
            assert!(ACCEPTED.contains(&(name, algorithm)), "{name} is not among the sourced spellings");
        }
    }
}

#[test]
fn refused_names_give_their_reason() {
    for (text, error) in REFUSED {
        assert_eq!(text.parse::<TcpAoAlgorithm>(), Err(error), "{text}");
        assert_eq!(text.to_uppercase().parse::<TcpAoAlgorithm>(), Err(error), "{text}");
    }
}

#[test]
fn every_refusal_lists_the_supported_algorithms() {
    let mut messages: Vec<String> = REFUSED.iter().map(|(_, error)| error.to_string()).collect();
    messages.sort();
    messages.dedup();
    assert_eq!(messages.len(), 9, "each reason reads differently");
    for message in &messages {
        for algorithm in TcpAoAlgorithm::ALL {
            assert!(message.contains(algorithm.name()), "{message}");
        }
        assert!(!message.contains('\n'));
    }
    assert!(messages[0].ends_with(
        " (supported: HMAC-SHA-1-96, AES-128-CMAC-96, hmac(sha256), HMAC-SHA256-128, KMAC256-128)"
    ));
    let ambiguous = Ambiguous.to_string();
    assert!(
        ambiguous.starts_with("SHA-256 alone is ambiguous: write hmac(sha256) for Linux's"),
        "{ambiguous}"
    );
}

#[test]
fn serde_reads_every_spelling_and_writes_the_name() {
    for algorithm in TcpAoAlgorithm::ALL {
        let text = serde_json::to_string(&algorithm).unwrap();
        assert_eq!(text, format!("{:?}", algorithm.name()));
        assert_eq!(serde_json::from_str::<TcpAoAlgorithm>(&text).unwrap(), algorithm);
    }
    let error = serde_json::from_str::<TcpAoAlgorithm>(r#""hmac-sha-256""#).unwrap_err().to_string();
    assert!(error.starts_with(&ParseAlgorithmError::Ambiguous.to_string()), "{error}");
    let error = serde_json::from_str::<TcpAoAlgorithm>("1").unwrap_err().to_string();
    assert!(error.starts_with("invalid type: integer `1`, expected the name of an algorithm"), "{error}");
}

/// A writer that takes this many octets.
struct Room(usize);

impl core::fmt::Write for Room {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0 = self.0.checked_sub(text.len()).ok_or(core::fmt::Error)?;
        Ok(())
    }
}

#[test]
fn a_write_error_is_returned_when_the_buffer_is_too_short() {
    use core::fmt::Write;

    let length = Md5.to_string().len();
    for room in 0..length {
        assert!(write!(Room(room), "{Md5}").is_err(), "{room} of {length} octets");
    }
    assert!(write!(Room(length), "{Md5}").is_ok());
}

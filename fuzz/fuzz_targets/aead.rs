//! The AEADs of `wireseal-aead` on every backend and path, compared with RustCrypto: sealed messages are the same octets and open, from
//! buffer to buffer too; altered and short ones are refused and leave no plaintext.
//!
//! Input: five octets of choices, a key of 32 octets, a nonce, and octets that are cut into associated data and a text, which is repeated.
#![no_main]

use aes_gcm::aead::{Aead, KeyInit, Payload};
use libfuzzer_sys::fuzz_target;
use wireseal_aead::aead::AeadInOut;
use wireseal_aead::aead::inout::InOutBuf;
use wireseal_aead::{AeadAlgorithm, AeadError, AeadKey, Backend, MaskKey};
use wireseal_fuzz::kernels;

/// AES-128-CCM with the lengths of nonces and tags that all have here.
type Aes128Ccm = ccm::Ccm<aes_gcm::aes::Aes128, ccm::consts::U16, ccm::consts::U12>;

/// Ciphertext and tag by RustCrypto.
fn by_rustcrypto<A: KeyInit + Aead<NonceSize = ccm::consts::U12>>(
    key: &[u8],
    nonce: &[u8; 12],
    message: Payload<'_, '_>,
) -> Vec<u8> {
    A::new_from_slice(key).expect("the key's length").encrypt(nonce.into(), message).expect("not too long")
}

/// Seals from one buffer to another, through the traits.
fn by_traits<A: KeyInit + AeadInOut<NonceSize = ccm::consts::U12>>(
    key: &[u8],
    nonce: &[u8; 12],
    message: Payload<'_, '_>,
) -> Vec<u8> {
    let mut sealed = vec![0xa5; message.msg.len()];
    let buffer = InOutBuf::new(message.msg, &mut sealed).expect("buffers of one length");
    let key = A::new_from_slice(key).expect("the key's length");
    let tag = key.encrypt_inout_detached(nonce.into(), message.aad, buffer).expect("not too long");
    sealed.extend_from_slice(&tag);
    sealed
}

fuzz_target!(|input: &[u8]| {
    let Some((choice, input)) = input.split_first_chunk::<5>() else { return };
    let Some((key, input)) = input.split_first_chunk::<32>() else { return };
    let Some((nonce, octets)) = input.split_first_chunk::<12>() else { return };
    let algorithm = AeadAlgorithm::ALL[usize::from(choice[0] & 3)];
    let key = &key[..algorithm.key_length()];
    let (aad, text) = octets.split_at(octets.len().min(usize::from(choice[1])));
    // Longer than any packet for some.
    let text = text.repeat(1 + usize::from(choice[2] % 32) * usize::from(choice[2] & 1));

    let message = || Payload { msg: &text, aad };
    let (sealed, through_traits) = match algorithm {
        AeadAlgorithm::Aes128Gcm => (
            by_rustcrypto::<aes_gcm::Aes128Gcm>(key, nonce, message()),
            by_traits::<wireseal_aead::Aes128Gcm>(key, nonce, message()),
        ),
        AeadAlgorithm::Aes256Gcm => (
            by_rustcrypto::<aes_gcm::Aes256Gcm>(key, nonce, message()),
            by_traits::<wireseal_aead::Aes256Gcm>(key, nonce, message()),
        ),
        AeadAlgorithm::ChaCha20Poly1305 => (
            by_rustcrypto::<chacha20poly1305::ChaCha20Poly1305>(key, nonce, message()),
            by_traits::<wireseal_aead::ChaCha20Poly1305>(key, nonce, message()),
        ),
        AeadAlgorithm::Aes128Ccm => (
            by_rustcrypto::<Aes128Ccm>(key, nonce, message()),
            by_traits::<wireseal_aead::Aes128Ccm>(key, nonce, message()),
        ),
    };
    assert!(sealed == through_traits);

    kernels::each_alone(|path| {
        for &backend in Backend::ALL {
            // Only the kernels ask for paths.
            if path.is_some() && backend != Backend::active() {
                continue;
            }
            let seals = AeadKey::with_backend(backend, algorithm, key).expect("the key's length");
            let masks = MaskKey::with_backend(backend, algorithm, key).expect("the key's length");
            let mut body = [&text, &[0xa5; 16][..]].concat();
            seals.seal(nonce, aad, &mut body).expect("room for a tag");
            assert!(body == sealed, "{backend:?} {path:?}");
            assert!(
                seals.open(nonce, aad, &mut body).is_ok_and(|opened| *opened == text),
                "{backend:?} {path:?}"
            );
            let sample = usize::from(choice[3]) % (text.len() + 1);
            let mask = seals.seal_with_mask(&masks, nonce, aad, &mut body, sample).expect("a sample inside");
            assert!(
                body == sealed && body[sample..].first_chunk().map(|sample| masks.mask(sample)) == Some(mask)
            );

            let at = usize::from(choice[3]) * 11 % body.len();
            body[at] ^= 1 << (choice[0] >> 5);
            assert_eq!(seals.open(nonce, aad, &mut body).err(), Some(AeadError::NotAuthentic));
            assert!(body[..text.len()].iter().all(|octet| *octet == 0), "{backend:?} {path:?}");

            // Of any length below a tag.
            let short = &mut sealed.clone()[..usize::from(choice[4] & 15)];
            let (needed, got) = (16, short.len());
            assert_eq!(seals.open(nonce, aad, short).err(), Some(AeadError::Truncated { needed, got }));
            assert_eq!(seals.seal(nonce, aad, short), Err(AeadError::NoRoomForTag { needed, got }));
            assert!(*short == sealed[..got]);
        }
    });
});

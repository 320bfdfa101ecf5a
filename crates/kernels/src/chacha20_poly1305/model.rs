//! ChaCha20-Poly1305, written as in RFC 8439, over the models of its parts.

use crate::{chacha20, poly1305};

/// Encrypts `text` and returns the tag (RFC 8439 §2.8).
#[must_use]
pub fn seal(key: &[u8; 32], nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
    encrypt(key, nonce, text);
    tag(key, nonce, aad, text)
}

/// Decrypts `text` if the tag is right, and leaves it alone otherwise.
#[must_use]
pub fn open(key: &[u8; 32], nonce: &[u8; 12], aad: &[u8], text: &mut [u8], expected: &[u8; 16]) -> bool {
    let is_authentic = tag(key, nonce, aad, text) == *expected;
    if is_authentic {
        encrypt(key, nonce, text);
    }
    is_authentic
}

/// RFC 8439 §2.4.
fn encrypt(key: &[u8; 32], nonce: &[u8; 12], text: &mut [u8]) {
    for (block, counter) in text.chunks_mut(64).zip(1..) {
        let stream = chacha20::model::block(key, counter, nonce);
        block.iter_mut().zip(stream).for_each(|(octet, stream)| *octet ^= stream);
    }
}

/// Poly1305 of both texts, padded, and their lengths, under the one-time key (RFC 8439 §2.6).
fn tag(key: &[u8; 32], nonce: &[u8; 12], aad: &[u8], text: &[u8]) -> [u8; 16] {
    let mut one_time = [0; 32];
    one_time.copy_from_slice(&chacha20::model::block(key, 0, nonce)[..32]);
    let lengths = [aad.len() as u64, text.len() as u64].map(u64::to_le_bytes);
    poly1305::model::mac_of_padded(&one_time, &[aad, text, lengths.as_flattened()])
}

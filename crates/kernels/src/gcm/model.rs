//! GCM, written as in SP 800-38D, over the model of AES: slow, and with branches that depend on secrets.

use crate::aes::model::encrypt;

/// The product of two blocks (SP 800-38D §6.3): the first bit of a block is its highest.
#[must_use]
pub fn multiply(x: u128, y: u128) -> u128 {
    let mut z = 0;
    let mut v = y;
    for i in (0..128).rev() {
        if x >> i & 1 == 1 {
            z ^= v;
        }
        v = v >> 1 ^ if v & 1 == 1 { 0xe1 << 120 } else { 0 };
    }
    z
}

/// At most 16 octets, followed by zeros.
fn block(octets: &[u8]) -> u128 {
    let mut block = [0; 16];
    block[..octets.len()].copy_from_slice(octets);
    u128::from_be_bytes(block)
}

/// GHASH (SP 800-38D §6.4) of the associated data and the ciphertext, each padded to whole blocks, and their lengths.
#[must_use]
pub fn ghash(h: u128, aad: &[u8], ciphertext: &[u8]) -> u128 {
    let lengths = ((aad.len() as u128 * 8) << 64) | (ciphertext.len() as u128 * 8);
    let blocks = aad.chunks(16).chain(ciphertext.chunks(16)).map(block);
    blocks.chain([lengths]).fold(0, |y, x| multiply(y ^ x, h))
}

/// GCTR (SP 800-38D §6.5) from the text's first counter, which is 2.
fn encrypt_text(key: &[u8], nonce: &[u8; 12], text: &mut [u8]) {
    for (at, chunk) in text.chunks_mut(16).enumerate() {
        let keystream = encrypt(key, counter(nonce, at as u32 + 2));
        chunk.iter_mut().zip(keystream).for_each(|(octet, key)| *octet ^= key);
    }
}

fn counter(nonce: &[u8; 12], count: u32) -> [u8; 16] {
    let mut block = [0; 16];
    block[..12].copy_from_slice(nonce);
    block[12..].copy_from_slice(&count.to_be_bytes());
    block
}

fn tag(key: &[u8], nonce: &[u8; 12], aad: &[u8], ciphertext: &[u8]) -> [u8; 16] {
    let h = u128::from_be_bytes(encrypt(key, [0; 16]));
    let mask = u128::from_be_bytes(encrypt(key, counter(nonce, 1)));
    (ghash(h, aad, ciphertext) ^ mask).to_be_bytes()
}

/// GCM-AE (SP 800-38D §7.1) under a key of 16 or 32 octets: encrypts `text` and returns the tag.
#[must_use]
pub fn seal(key: &[u8], nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
    encrypt_text(key, nonce, text);
    tag(key, nonce, aad, text)
}

/// GCM-AD (SP 800-38D §7.2): decrypts `text` if the tag is right, and leaves it alone otherwise.
#[must_use]
pub fn open(key: &[u8], nonce: &[u8; 12], aad: &[u8], text: &mut [u8], expected: &[u8; 16]) -> bool {
    let is_authentic = tag(key, nonce, aad, text) == *expected;
    if is_authentic {
        encrypt_text(key, nonce, text);
    }
    is_authentic
}

#[cfg(test)]
mod tests {
    use hex_literal::hex;

    /// Test case 4 of "The Galois/Counter Mode of Operation" (McGrew and Viega), appendix B.
    #[test]
    fn the_authors_test_case_4() {
        let key = hex!("feffe9928665731c6d6a8f9467308308");
        let nonce = hex!("cafebabefacedbaddecaf888");
        let aad = hex!("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        let plain = hex!(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525"
            "b16aedf5aa0de657ba637b39"
        );
        let mut text = plain;
        let tag = super::seal(&key, &nonce, &aad, &mut text);
        assert_eq!(
            text,
            hex!(
                "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa05"
                "1ba30b396a0aac973d58e091"
            )
        );
        assert_eq!(tag, hex!("5bc94fbc3221a5db94fae95ae7121a47"));
        assert!(super::open(&key, &nonce, &aad, &mut text, &tag));
        assert_eq!(text, plain);
    }
}

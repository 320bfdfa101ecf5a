//! AES-128-CMAC as RFC 4493 writes it, on the slow model of AES.

use crate::aes::model::encrypt;

/// AES-CMAC (RFC 4493 §2.4) of a message.
#[must_use]
pub fn mac(key: &[u8; 16], message: &[u8]) -> [u8; 16] {
    let (k1, k2) = subkeys(key);
    let blocks = message.len().div_ceil(16).max(1);
    let (whole, last) = message.split_at(16 * (blocks - 1));
    let last = match <[u8; 16]>::try_from(last) {
        Ok(last) => xor(last, k1),
        Err(_) => xor(pad(last), k2),
    };
    let x = whole.as_chunks().0.iter().fold([0; 16], |x, block| encrypt(key, xor(x, *block)));
    encrypt(key, xor(x, last))
}

/// Generate_Subkey (RFC 4493 §2.3).
fn subkeys(key: &[u8; 16]) -> ([u8; 16], [u8; 16]) {
    let double = |block: [u8; 16]| {
        let number = u128::from_be_bytes(block);
        let doubled = if number >> 127 == 0 { number << 1 } else { number << 1 ^ 0x87 };
        doubled.to_be_bytes()
    };
    let k1 = double(encrypt(key, [0; 16]));
    (k1, double(k1))
}

/// padding(x): a last block that is not whole, with a one bit and zeros behind it.
fn pad(last: &[u8]) -> [u8; 16] {
    let mut padded = [0; 16];
    padded[..last.len()].copy_from_slice(last);
    padded[last.len()] = 0x80;
    padded
}

fn xor(a: [u8; 16], b: [u8; 16]) -> [u8; 16] {
    core::array::from_fn(|i| a[i] ^ b[i])
}

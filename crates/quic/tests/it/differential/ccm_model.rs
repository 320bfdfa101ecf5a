//! AES-128-CCM block by block, as in SP 800-38C.

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};

/// Encrypts `payload` in place and returns the tag of 16 octets.
pub(crate) fn seal(key: [u8; 16], nonce: [u8; 12], aad: &[u8], payload: &mut [u8]) -> [u8; 16] {
    Model { cipher: Aes128::new(&key.into()), nonce }.seal(aad, payload)
}

/// Parameters of RFC 5116 §5.3: t = 16 octets of tag, q = 3 octets of length, n = 12 octets of nonce.
struct Model {
    cipher: Aes128,
    nonce: [u8; 12],
}

impl Model {
    fn seal(&self, aad: &[u8], payload: &mut [u8]) -> [u8; 16] {
        // §6.1: the MAC of the plaintext, counter mode from counter 1 on, and counter 0 for the MAC.
        let mac = self.cbc_mac(aad, payload);
        for (counter, block) in (1..).zip(payload.chunks_mut(16)) {
            let keystream = self.encrypt(self.with_nonce(2, counter));
            block.iter_mut().zip(keystream).for_each(|(octet, key)| *octet ^= key);
        }
        xor(mac, self.encrypt(self.with_nonce(2, 0)))
    }

    /// §A.2, and §6.1, steps 2 and 3.
    fn cbc_mac(&self, aad: &[u8], payload: &[u8]) -> [u8; 16] {
        assert!(aad.len() < 0xff00, "a longer length is encoded otherwise");
        let has_aad = u8::from(!aad.is_empty());
        let flags = (has_aad << 6) | (((16 - 2) / 2) << 3) | (3 - 1);
        let mut mac = self.encrypt(self.with_nonce(flags, payload.len().try_into().unwrap()));
        if !aad.is_empty() {
            let length = u16::try_from(aad.len()).unwrap().to_be_bytes();
            mac = self.chain(mac, &[&length, aad].concat());
        }
        self.chain(mac, payload)
    }

    /// Goes on with the blocks of `octets`, the last filled up with zeros.
    fn chain(&self, mac: [u8; 16], octets: &[u8]) -> [u8; 16] {
        octets.chunks(16).fold(mac, |mac, chunk| {
            let mut block = [0; 16];
            block[..chunk.len()].copy_from_slice(chunk);
            self.encrypt(xor(mac, block))
        })
    }

    /// Flags, nonce, and three octets of a length or a counter.
    fn with_nonce(&self, flags: u8, last: u32) -> [u8; 16] {
        let mut block = [0; 16];
        block[12..].copy_from_slice(&last.to_be_bytes());
        block[0] = flags;
        block[1..13].copy_from_slice(&self.nonce);
        block
    }

    fn encrypt(&self, block: [u8; 16]) -> [u8; 16] {
        let mut block = block.into();
        self.cipher.encrypt_block(&mut block);
        block.into()
    }
}

fn xor(left: [u8; 16], right: [u8; 16]) -> [u8; 16] {
    (u128::from_ne_bytes(left) ^ u128::from_ne_bytes(right)).to_ne_bytes()
}

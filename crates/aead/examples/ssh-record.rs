//! SSH's packets under aes256-gcm@openssh.com (RFC 5647): the length is in clear, but authenticated. The nonce is a counter that is not
//! sent, so a packet that is missing, repeated or out of turn is refused, too.

use wireseal_aead::{AeadAlgorithm, AeadKey};

const TAG: usize = AeadAlgorithm::TAG_LENGTH;
/// The longest packet that OpenSSH waits for, in octets.
const MAX: usize = 256 << 10;

/// The key of one direction, and its nonce: 4 fixed octets, and a counter of 8 (RFC 5647 §7.1). A new key comes before 64 GiB have been
/// sealed (RFC 4344 §3.2).
struct Direction(AeadKey, [u8; 12]);

/// The first packet's payload, and what was received after it.
type FirstAndRest<'a> = (&'a [u8], &'a mut [u8]);

impl Direction {
    fn next_nonce(&mut self) -> [u8; 12] {
        let nonce = self.1;
        let counter: &mut [u8; 8] = self.1.last_chunk_mut().expect("12 octets");
        *counter = u64::from_be_bytes(*counter).wrapping_add(1).to_be_bytes();
        nonce
    }

    /// Length, padding's length, payload, padding, tag. All but the length and the tag is encrypted, in whole blocks.
    fn seal(&mut self, payload: &[u8]) -> Vec<u8> {
        let length = (1 + payload.len() + 4).next_multiple_of(16);
        let padding = (length - 1 - payload.len()) as u8;
        // Padding of zeros: where it is encrypted and authenticated, random octets add nothing.
        let mut packet = [&(length as u32).to_be_bytes(), &[padding][..], payload].concat();
        packet.resize(4 + length + TAG, 0);
        let (head, body) = packet.split_at_mut(4);
        let nonce = self.next_nonce();
        self.0.seal(&nonce, head, body).expect("shorter than 64 GiB");
        packet
    }

    /// `None` if the packet is not complete yet. On an error, disconnect: it is not known where the next packet starts.
    fn open<'a>(&mut self, received: &'a mut [u8]) -> Result<Option<FirstAndRest<'a>>, &'static str> {
        let Some((head, rest)) = received.split_first_chunk_mut() else { return Ok(None) };
        let length = u32::from_be_bytes(*head) as usize;
        // Check the length first: it is not authenticated until the whole packet has arrived.
        if !(16..=MAX).contains(&length) || !length.is_multiple_of(16) {
            return Err("bad packet length");
        }
        let Some((body, rest)) = rest.split_at_mut_checked(length + TAG) else { return Ok(None) };
        let nonce = self.next_nonce();
        let text = self.0.open(&nonce, head, body).map_err(|_| "message authentication code incorrect")?;
        // At least 4 octets (RFC 4253 §6).
        let padding = usize::from(text[0]);
        if !(4..length).contains(&padding) {
            return Err("bad padding");
        }
        Ok(Some((&text[1..length - padding], rest)))
    }
}

fn main() {
    // The key and the first nonce come from the key exchange (RFC 4253 §7.2).
    let end = || Direction(AeadKey::new(AeadAlgorithm::Aes256Gcm, &[7; 32]).expect("32 octets"), [3; 12]);
    let (mut client, mut server) = (end(), end());
    let mut stream = [client.seal(b"ls"), client.seal(b"exit")].concat();
    assert_eq!(server.open(&mut stream[..20]), Ok(None), "the rest is still to come");
    let (first, rest) = server.open(&mut stream).expect("authentic").expect("whole");
    assert_eq!(first, b"ls");
    assert_eq!(server.open(rest), Ok(Some((&b"exit"[..], &mut [][..]))));
    let mut damaged = [client.seal(&[1; 20]), client.seal(b"ls")].concat();
    damaged[3] ^= 48; // from 32 to 16
    assert_eq!(server.open(&mut damaged), Err("message authentication code incorrect"));
    let nonce = client.next_nonce();
    let mut unpadded = [&[0, 0, 0, 16, 3][..], &[0; 15 + TAG]].concat();
    let (head, body) = unpadded.split_at_mut(4);
    client.0.seal(&nonce, head, body).expect("room for the tag");
    server.1 = nonce;
    assert_eq!(server.open(&mut unpadded), Err("bad padding"));
    println!("two packets received; one whose length was changed and one without enough padding refused");
}

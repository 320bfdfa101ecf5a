//! A VPN's data message, framed as WireGuard frames it: the counter in its header is the nonce, and no counter is accepted twice.

use wireseal_aead::{AeadAlgorithm, AeadError, AeadKey};

/// The octets of the header: type 4, the receiver's index and the counter.
const HEADER: usize = 16;

fn nonce(counter: u64) -> [u8; 12] {
    (u128::from(counter) << 32).to_le_bytes()[..12].try_into().expect("12 octets")
}

/// The counter starts at 0 with each new key, and never goes back: two messages under one counter reveal their texts.
fn seal(key: &AeadKey, receiver: u32, counter: u64, packet: &[u8]) -> Result<Vec<u8>, AeadError> {
    let header = [&[4, 0, 0, 0][..], &receiver.to_le_bytes(), &counter.to_le_bytes()].concat();
    let mut message = [&header, packet].concat();
    // Padding hides the exact length; the header of the packet inside says where that ends.
    message.resize(HEADER + packet.len().next_multiple_of(16) + AeadAlgorithm::TAG_LENGTH, 0);
    key.seal(&nonce(counter), b"", &mut message[HEADER..])?;
    Ok(message)
}

struct Receiver {
    key: AeadKey,
    /// The newest counter received, and a bit for each of the 64 up to it, the newest in the lowest bit.
    newest: u64,
    received: u64,
}

impl Receiver {
    /// `None`: drop the message. It is damaged or forged, was received before, or is too old to tell.
    fn open<'a>(&mut self, message: &'a mut [u8]) -> Option<&'a [u8]> {
        let (header, body) = message.split_at_mut_checked(HEADER)?;
        let counter = u64::from_le_bytes(*header.last_chunk()?);
        let age = self.newest.checked_sub(counter);
        if age.is_some_and(|age| age >= 64 || self.received >> age & 1 == 1) {
            return None;
        }
        let packet = self.key.open(&nonce(counter), b"", body).ok()?;
        // Only after it is authentic: anyone can send a large counter.
        let newer = counter.saturating_sub(self.newest);
        self.received = if newer < 64 { self.received << newer } else { 0 } | 1 << age.unwrap_or(0);
        self.newest += newer;
        Some(packet)
    }
}

fn main() -> Result<(), AeadError> {
    let key = AeadKey::new(AeadAlgorithm::ChaCha20Poly1305, &[7; 32])?; // from the handshake
    let mut receiver = Receiver { key: key.clone(), newest: 0, received: 0 };
    for counter in [1, 0, 100, 63] {
        let message = seal(&key, 5, counter, b"an IP packet")?;
        assert!(
            receiver.open(&mut message.clone()).is_some_and(|packet| packet.starts_with(b"an IP packet"))
        );
        assert_eq!(receiver.open(&mut message.clone()), None, "it was received before");
    }
    assert_eq!(receiver.open(&mut seal(&key, 5, 36, b"")?), None, "too old to tell");
    let mut damaged = seal(&key, 5, 101, b"an IP packet")?;
    damaged[8] ^= 2;
    assert_eq!(receiver.open(&mut damaged), None, "not authentic");
    println!("four packets received, each once; one that is too old and one that is damaged refused");
    Ok(())
}

//! A VPN's data message, framed as WireGuard frames it: the counter in its header is the nonce, and no counter is accepted twice.

use wireseal_aead::{AeadAlgorithm, AeadKey};

/// A message starts with its type, the receiver's index and the counter. They are no associated data: the counter is the nonce, and the
/// index chose the key.
const DATA: [u8; 4] = [4, 0, 0, 0];
const HEADER: usize = 16;
/// Where a key's counters end: WireGuard's REJECT_AFTER_MESSAGES.
const END: u64 = u64::MAX - (1 << 13);

fn nonce(counter: u64) -> [u8; 12] {
    (u128::from(counter) << 32).to_le_bytes()[..12].try_into().expect("12 octets")
}

/// Not `Clone`: two copies would use each counter twice, and so give texts away.
struct Sender {
    key: AeadKey,
    receiver: u32,
    counter: u64,
}

impl Sender {
    /// `None`: the key is used up, and a new handshake is due.
    fn seal(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let counter = self.counter;
        self.counter = (counter < END).then_some(counter + 1)?;
        let mut message = [&DATA, &self.receiver.to_le_bytes()[..], &counter.to_le_bytes(), packet].concat();
        // Padded, so that the length says less; the packet's own header knows where it ends.
        message.resize(HEADER + packet.len().next_multiple_of(16) + AeadAlgorithm::TAG_LENGTH, 0);
        self.key.seal(&nonce(counter), b"", &mut message[HEADER..]).expect("shorter than 256 GiB");
        Some(message)
    }
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
        let is_known = age.is_some_and(|age| age >= 64 || self.received >> age & 1 == 1);
        if header[..4] != DATA || counter >= END || is_known {
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

fn main() {
    let key = AeadKey::new(AeadAlgorithm::ChaCha20Poly1305, &[7; 32]).expect("32 octets"); // from the handshake
    let mut sender = Sender { key: key.clone(), receiver: 5, counter: 0 };
    let mut receiver = Receiver { key, newest: 0, received: 0 };
    let messages: Vec<_> = (0..102).map(|_| sender.seal(b"an IP packet").expect("a new key")).collect();
    let mut receive = |message: &[u8]| receiver.open(&mut message.to_vec()).map(<[u8]>::to_vec);
    for at in [1, 0, 100, 37] {
        assert!(receive(&messages[at]).is_some_and(|packet| packet.starts_with(b"an IP packet")));
        assert_eq!(receive(&messages[at]), None, "it was received before");
    }
    assert_eq!(receive(&messages[36]), None, "too old to tell");
    let mut damaged = messages[101].clone();
    damaged[14] = 1; // a counter far ahead
    assert_eq!(receive(&damaged), None, "not authentic");
    assert!(receive(&messages[101]).is_some(), "the forgery moved nothing");
    sender.counter = END;
    assert_eq!(sender.seal(b""), None, "used up");
    println!("five packets received, each once; one that is too old and one that is damaged refused");
}

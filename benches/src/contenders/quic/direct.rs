//! Libraries used directly: their AEAD and header mask, and as little code as possible to make a packet of them.

use super::contender::PacketContender;
use super::packet::{FIRST, NUMBER, PAYLOAD};

/// An AEAD key and a header protection key.
pub(super) trait Library: 'static {
    fn seal(&mut self, nonce: [u8; 12], header: &[u8], payload: &mut [u8]) -> [u8; 16];
    fn open(&mut self, nonce: [u8; 12], header: &[u8], payload_and_tag: &mut [u8]) -> bool;
    fn mask(&mut self, sample: &[u8; 16]) -> [u8; 5];
}

/// The keys of one direction, with their IV.
pub(super) struct Direct<L> {
    library: L,
    iv: [u8; 12],
}

impl<L: Library> Direct<L> {
    pub(super) fn new(library: L, iv: [u8; 12]) -> Self {
        Self { library, iv }
    }

    /// Keeps only the header protection key.
    pub(super) fn into_mask(mut self) -> impl FnMut(&[u8; 16]) -> [u8; 5] {
        move |sample| self.library.mask(sample)
    }

    fn nonce(&self, number: u64) -> [u8; 12] {
        let [a, b, c, d, e, f, g, h, low @ ..] = self.iv;
        let high = u64::from_be_bytes([a, b, c, d, e, f, g, h]) ^ number >> 32;
        let low = u32::from_be_bytes(low) ^ number as u32;
        // In two words, as libraries load them: loading octets that were stored one by one would stall.
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&high.to_be_bytes());
        nonce[8..].copy_from_slice(&low.to_be_bytes());
        nonce
    }

    /// The mask for a packet whose number is at `number_offset`; the sample starts four octets after that.
    fn mask(&mut self, packet: &[u8], number_offset: usize) -> [u8; 5] {
        self.library.mask(packet[number_offset + 4..].first_chunk().expect("long enough"))
    }

    /// Seals a packet with `first` for its first octet, and a number of four octets at the offset `AT`.
    #[inline]
    pub(super) fn seal<const AT: usize>(&mut self, first: u8, number: u64, packet: &mut [u8]) {
        packet[0] = first;
        packet[AT..AT + 4].copy_from_slice(&(number as u32).to_be_bytes());
        let nonce = self.nonce(number);
        let (header, body) = packet.split_at_mut(AT + 4);
        let (payload, tag) = body.split_last_chunk_mut().expect("long enough");
        *tag = self.library.seal(nonce, header, payload);
        let mask = self.mask(packet, AT);
        packet[0] ^= mask[0] & if first & 0x80 == 0 { 0x1f } else { 0x0f };
        toggle::<AT>(packet, mask);
    }

    /// Only for numbers that fit four octets, which need no decoding.
    fn open(&mut self, packet: &mut [u8]) -> bool {
        let mask = self.mask(packet, NUMBER);
        packet[0] ^= mask[0] & 0x1f;
        let number = toggle::<NUMBER>(packet, mask);
        let nonce = self.nonce(u64::from(number));
        let (header, body) = packet.split_at_mut(PAYLOAD);
        self.library.open(nonce, header, body)
    }

    pub(super) fn packets(name: &'static str, sender: Self, receiver: Self) -> PacketContender {
        let (mut sender, mut receiver, mut number) = (sender, receiver, 0);
        PacketContender {
            name,
            seal: Box::new(move |packet| {
                sender.seal::<NUMBER>(FIRST, number, packet);
                number += 1;
            }),
            open: Box::new(move |packet| receiver.open(packet)),
        }
    }
}

/// Masks or unmasks the number at the offset `AT`, and returns the result.
#[inline]
fn toggle<const AT: usize>(packet: &mut [u8], [_, mask @ ..]: [u8; 5]) -> u32 {
    let place: &mut [u8; 4] = packet[AT..].first_chunk_mut().expect("long enough");
    let number = u32::from_be_bytes(*place) ^ u32::from_be_bytes(mask);
    *place = number.to_be_bytes();
    number
}

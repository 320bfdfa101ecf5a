//! The header bits that protection writes, and the mask over them. Only this file changes bits of a header.

use crate::packet_number::NumberLength;

/// The octets of a sample (RFC 9001 §5.4.2).
pub const SAMPLE_LENGTH: usize = 16;

/// The octets of a mask (RFC 9001 §5.4.1).
pub const MASK_LENGTH: usize = 5;

/// The octets from the start of the packet number to the sample, whatever the length of the number (RFC 9001 §5.4.2).
pub(crate) const SAMPLE_OFFSET: usize = 4;

/// The header form bit, set in long headers (RFC 9000 §17.2 and §17.3).
pub(crate) const LONG_FORM: u8 = 0x80;
/// The reserved bits of a long header (RFC 9000 §17.2).
const LONG_RESERVED: u8 = 0x0c;
/// The reserved bits of a short header (RFC 9000 §17.3.1).
const SHORT_RESERVED: u8 = 0x18;
/// The key phase bit of a short header (RFC 9000 §17.3.1).
const KEY_PHASE: u8 = 0x04;
const NUMBER_LENGTH: u8 = 0x03;

/// The sample for the mask, or `None` if the packet is too short for one. `number_offset` is at most the packet's length.
#[inline]
pub(crate) fn sample(packet: &[u8], number_offset: usize) -> Option<&[u8; SAMPLE_LENGTH]> {
    packet.get(number_offset + SAMPLE_OFFSET..)?.first_chunk()
}

/// The bits of the first octet that the mask covers (RFC 9001 §5.4.1).
#[inline]
const fn masked_bits(first: u8) -> u8 {
    if first & LONG_FORM != 0 { 0x0f } else { 0x1f }
}

/// Masks the first octet and the packet number (RFC 9001 §5.4.1). The first octet gives the length of the number; octets of `number` beyond
/// it are unchanged.
#[inline]
pub(crate) fn protect(mask: [u8; MASK_LENGTH], first: &mut u8, number: &mut [u8]) {
    let length = NumberLength::from_bits(*first);
    *first ^= mask[0] & masked_bits(*first);
    mask_number(mask, number, length);
}

/// Undoes [`protect`].
#[cfg(feature = "hazmat")]
#[inline]
pub(crate) fn unprotect(mask: [u8; MASK_LENGTH], first: &mut u8, number: &mut [u8]) {
    *first ^= mask[0] & masked_bits(*first);
    mask_number(mask, number, NumberLength::from_bits(*first));
}

#[inline]
fn mask_number(mask: [u8; MASK_LENGTH], number: &mut [u8], length: NumberLength) {
    let mask = number_mask(mask, length);
    match number.first_chunk_mut() {
        // One load and one store: a packet always has four octets before its sample.
        Some(octets) => *octets = (u32::from_be_bytes(*octets) ^ mask).to_be_bytes(),
        None => {
            for (octet, mask) in number.iter_mut().take(length.octets()).zip(mask.to_be_bytes()) {
                *octet ^= mask;
            }
        }
    }
}

/// The mask of the packet number, the first octet in the highest bits, with zeros beyond its length.
#[inline]
const fn number_mask(mask: [u8; MASK_LENGTH], length: NumberLength) -> u32 {
    let [_, a, b, c, d] = mask;
    u32::from_be_bytes([a, b, c, d]) & u32::MAX << (32 - 8 * length.octets())
}

/// Writes the packet number, its length, zero reserved bits and, in a short header, the key phase. `number` has exactly
/// `length` octets.
#[inline]
pub(crate) fn write(first: &mut u8, number: &mut [u8], value: u64, length: NumberLength, key_phase: bool) {
    let (cleared, key_phase) = if *first & LONG_FORM != 0 {
        (LONG_RESERVED | NUMBER_LENGTH, 0)
    } else {
        (SHORT_RESERVED | KEY_PHASE | NUMBER_LENGTH, if key_phase { KEY_PHASE } else { 0 })
    };
    *first = *first & !cleared | key_phase | length.bits();
    let [.., a, b, c, d] = value.to_be_bytes();
    // Copies of constant length are inlined. A copy of variable length would be a call, which costs more than this whole function.
    match length {
        NumberLength::One => fill(number, [d]),
        NumberLength::Two => fill(number, [c, d]),
        NumberLength::Three => fill(number, [b, c, d]),
        NumberLength::Four => fill(number, [a, b, c, d]),
    }
}

/// Copies `octets` to `place`, which has the same length.
#[inline]
fn fill<const N: usize>(place: &mut [u8], octets: [u8; N]) {
    debug_assert_eq!(place.len(), N);
    if let Some(place) = place.first_chunk_mut() {
        *place = octets;
    }
}

/// A copy of the octets that the mask can cover: the first one, and four from the packet number on.
#[derive(Clone, Copy)]
pub(crate) struct Covered {
    first: u8,
    /// The first octet is in the highest bits.
    number: u32,
}

impl Covered {
    /// `None` if the packet has fewer than four octets from `number_offset` on.
    #[inline]
    pub(crate) fn read(packet: &[u8], number_offset: usize) -> Option<Self> {
        let number = u32::from_be_bytes(*packet.get(number_offset..)?.first_chunk()?);
        Some(Self { first: *packet.first()?, number })
    }

    /// Removes the mask.
    #[inline]
    pub(crate) fn unmasked(mut self, mask: [u8; MASK_LENGTH]) -> Self {
        self.first ^= mask[0] & masked_bits(self.first);
        self.number ^= number_mask(mask, self.number_length());
        self
    }

    /// Writes the octets back to where they were read.
    #[inline]
    pub(crate) fn write(&self, packet: &mut [u8], number_offset: usize) {
        packet[0] = self.first;
        packet[number_offset..][..4].copy_from_slice(&self.number.to_be_bytes());
    }

    #[inline]
    pub(crate) fn number_length(&self) -> NumberLength {
        NumberLength::from_bits(self.first)
    }

    /// The truncated packet number, as it was sent.
    #[inline]
    pub(crate) fn truncated_number(&self) -> u32 {
        self.number >> (32 - 8 * self.number_length().octets())
    }

    /// The key phase bit; `false` in a long header, which has none.
    #[inline]
    pub(crate) fn key_phase(&self) -> bool {
        self.first & (LONG_FORM | KEY_PHASE) == KEY_PHASE
    }

    /// Whether a reserved bit is set; none may be (RFC 9000 §17.2 and §17.3.1).
    #[inline]
    pub(crate) fn reserved_bits(&self) -> bool {
        self.first & if self.first & LONG_FORM != 0 { LONG_RESERVED } else { SHORT_RESERVED } != 0
    }
}

//! Sealing a packet: number, nonce, AEAD and header mask in one call.

use core::fmt;

use wireseal_algorithms::AeadAlgorithm;

use crate::codec::{LongPacket, PacketType};
use crate::error::SealError;
use crate::header::{self, LONG_FORM, SAMPLE_OFFSET};
use crate::keys::Keys;
use crate::packet_key::{MAX_PAYLOAD_LENGTH, PathId};
use crate::packet_number::{NumberLength, PacketNumberCounter};

/// A packet to seal in place.
///
/// `packet` holds the header up to the packet number, room for the number, the payload, and 16 octets of room for the tag.
/// [`LongHeader::encode`](crate::LongHeader::encode) and [`ShortHeader::encode`](crate::ShortHeader::encode) write the header.
/// Sealing writes the number and its length, zero reserved bits, the key phase, and the tag.
///
/// The payload is frames, so it has at least one octet (RFC 9000 §12.4). `number_length` must be the length that was left free before the
/// payload. A long header that disagrees with the end of `packet` is refused. A short header does not say where the packet ends, so
/// `packet` must end there.
pub struct Outgoing<'a> {
    /// The whole packet, with room for its tag.
    pub packet: &'a mut [u8],
    /// Where the packet number starts, in octets from the start of the packet: at least 1.
    pub number_offset: usize,
    /// How many octets of the packet number to send: [`OneRtt::number_length`](crate::OneRtt::number_length), or
    /// [`NumberLength::advised`] for other packets.
    pub number_length: NumberLength,
}

impl Outgoing<'_> {
    /// Where the payload starts.
    #[inline]
    pub(crate) fn payload_offset(&self) -> Result<usize, SealError> {
        const TAG: usize = AeadAlgorithm::TAG_LENGTH;
        if self.number_offset == 0 {
            return Err(SealError::NoHeader);
        }
        let start = self.number_offset.saturating_add(self.number_length.octets());
        let (needed, got) = (start.saturating_add(TAG), self.packet.len());
        if got < needed {
            return Err(SealError::BufferTooSmall { needed, got });
        }
        let payload = got - needed;
        if payload == 0 {
            return Err(SealError::NoFrames);
        }
        let got = self.number_length.octets() + payload;
        if got < SAMPLE_OFFSET {
            return Err(SealError::TooShortForSample { needed: SAMPLE_OFFSET, got });
        }
        if payload > MAX_PAYLOAD_LENGTH {
            return Err(SealError::TooLong { maximum: MAX_PAYLOAD_LENGTH, got: payload });
        }
        Ok(start)
    }
}

/// Omits the octets, because the payload is still plaintext.
impl fmt::Debug for Outgoing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing")
            .field("length", &self.packet.len())
            .field("number_offset", &self.number_offset)
            .field("number_length", &self.number_length)
            .finish_non_exhaustive()
    }
}

/// Seals the packets of a level without key updates: Initial, 0-RTT or Handshake (RFC 9001 §5). Also 1-RTT, if the keys are never
/// updated.
///
/// It owns the keys and the counter, so no packet number is used twice under one key, as long as each secret makes one sealer:
/// keys and secrets are moved, never copied. At the AEAD's confidentiality limit it stops for good, and the connection must be
/// closed (RFC 9001 §6.6).
pub struct Sealer {
    pub(crate) keys: Keys,
    pub(crate) counter: PacketNumberCounter,
    /// Packets sealed with the current payload key.
    pub(crate) sealed: u64,
}

impl Sealer {
    /// Seals with `keys`, starting at the next number of `counter`.
    #[must_use]
    pub fn new(keys: Keys, counter: PacketNumberCounter) -> Self {
        Self { keys, counter, sealed: 0 }
    }

    /// The number of the next packet, or `None` when all are used. Pass it to [`NumberLength::advised`].
    #[must_use]
    pub const fn next_number(&self) -> Option<u64> {
        self.counter.peek()
    }

    /// Skips the next `count` numbers, like [`PacketNumberCounter::skip`].
    pub fn skip_numbers(&mut self, count: u64) {
        self.counter.skip(count);
    }

    /// How many packets may still be sealed before the confidentiality limit (RFC 9001 §6.6); `None` if there is no limit.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        let limit = self.keys.algorithm().confidentiality_limit()?;
        Some(limit.saturating_sub(self.sealed))
    }

    /// Wipes the keys and returns the counter, for the next keys of the same packet number space: after a Retry, a change of
    /// version, or from 0-RTT to 1-RTT (RFC 9000 §12.3 and §17.2.5.3).
    #[must_use]
    pub fn into_counter(self) -> PacketNumberCounter {
        self.counter
    }

    /// Seals a packet in place and returns its number (RFC 9001 §5.3 and §5.4).
    ///
    /// # Errors
    ///
    /// [`SealError`], with nothing written and no number used.
    #[inline]
    pub fn seal(&mut self, outgoing: Outgoing<'_>) -> Result<u64, SealError> {
        self.seal_in_phase(outgoing, false)
    }

    #[inline]
    pub(crate) fn seal_in_phase(
        &mut self,
        outgoing: Outgoing<'_>,
        key_phase: bool,
    ) -> Result<u64, SealError> {
        let payload_offset = outgoing.payload_offset()?;
        let Outgoing { packet, number_offset, number_length } = outgoing;
        if !self.is_for(packet, number_offset) {
            return Err(SealError::OtherHeader);
        }
        // RFC 9001 §6.6: "If the total number of encrypted packets with the same key exceeds the confidentiality limit for the selected
        // AEAD, the endpoint MUST stop using those keys."
        if self.remaining() == Some(0) {
            return Err(SealError::ConfidentialityLimit);
        }
        let number = self.counter.take().ok_or(SealError::NumbersExhausted)?;
        self.sealed += 1;

        let (before, octets) = packet[..payload_offset].split_at_mut(number_offset);
        header::write(&mut before[0], octets, number, number_length, key_phase);
        let Keys { packet_key, header_key, .. } = &self.keys;
        packet_key.seal_packet_checked(header_key, PathId(0), number, packet, number_offset..payload_offset);
        Ok(number)
    }

    /// Whether the header is for these keys and, if long, agrees on where the packet number starts and where the packet ends.
    #[inline]
    fn is_for(&self, packet: &[u8], number_offset: usize) -> bool {
        match self.keys.packet_type {
            PacketType::OneRtt => packet[0] & LONG_FORM == 0,
            packet_type => LongPacket::read(packet).is_ok_and(|long| {
                PacketType::from(long.packet_type) == packet_type
                    && long.version == self.keys.version
                    && long.body == (number_offset..packet.len())
            }),
        }
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer")
            .field("algorithm", &self.keys.algorithm())
            .field("counter", &self.counter)
            .field("sealed", &self.sealed)
            .finish_non_exhaustive()
    }
}

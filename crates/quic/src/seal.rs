//! Sealing: number, nonce, AEAD and header mask in one call.

use core::fmt;
use core::ops::Range;

use wireseal_algorithms::AeadAlgorithm;

use crate::header::{self, LONG_FORM, SAMPLE_OFFSET};
use crate::keys::Keys;
use crate::packet_key::MAX_PAYLOAD_LENGTH;
use crate::packet_number::{NumberLength, PacketNumberCounter};
use crate::protected::{LongHead, PacketType};

/// The octets of a tag at the end of every sealed packet.
pub(crate) const TAG: usize = AeadAlgorithm::TAG_LENGTH;

/// A packet to be sealed where it lies.
///
/// `packet` holds the header up to the packet number, room for the number, the payload, and 16 octets of room for the tag;
/// [`LongHeader::encode`](crate::LongHeader::encode) and [`ShortHeader::encode`](crate::ShortHeader::encode) write the first
/// of these. Sealing writes the number and its length, zero reserved bits, the key phase, and the tag.
///
/// `number_length` has to be the one that the payload was put behind. A long header that says another end of the packet is
/// refused; a short header says nothing that could be compared, so that `packet` has to end where the packet does.
pub struct Outgoing<'a> {
    /// The whole packet, with room for its tag.
    pub packet: &'a mut [u8],
    /// Where the packet number starts, in octets from the start of the packet: at least 1.
    pub number_offset: usize,
    /// How many octets of the packet number travel: [`NumberLength::needed`] says.
    pub number_length: NumberLength,
}

impl Outgoing<'_> {
    /// Where the payload is, if there is room for everything.
    #[inline]
    fn payload(&self) -> Result<Range<usize>, SealError> {
        let number_length = self.number_length.octets();
        let got = self.packet.len();
        let start = self.number_offset.saturating_add(number_length);
        let expected = start.saturating_add(TAG);
        if self.number_offset == 0 {
            return Err(SealError::NoHeader);
        }
        if got < expected {
            return Err(SealError::BufferTooSmall { expected, got });
        }
        let payload = start..got - TAG;
        if payload.len() + number_length < SAMPLE_OFFSET {
            return Err(SealError::TooShortForSample {
                expected: SAMPLE_OFFSET,
                got: payload.len() + number_length,
            });
        }
        if payload.len() > MAX_PAYLOAD_LENGTH {
            return Err(SealError::TooLong { expected: MAX_PAYLOAD_LENGTH, got: payload.len() });
        }
        Ok(payload)
    }

    /// Writes the number with its length, and the key phase.
    #[inline]
    fn write_number(&mut self, number: u64, key_phase: bool) {
        let (before, rest) = self.packet.split_at_mut(self.number_offset);
        let octets = &mut rest[..self.number_length.octets()];
        header::write(&mut before[0], octets, number, self.number_length, key_phase);
    }
}

/// Without the octets, among which the payload is in the clear.
impl fmt::Debug for Outgoing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing")
            .field("length", &self.packet.len())
            .field("number_offset", &self.number_offset)
            .field("number_length", &self.number_length)
            .finish_non_exhaustive()
    }
}

/// The keys, the numbers, and how often the payload key was used: what every sealing goes through.
pub(crate) struct Sealing {
    pub(crate) keys: Keys,
    pub(crate) counter: PacketNumberCounter,
    /// Packets sealed under the payload key.
    pub(crate) sealed: u64,
}

impl Sealing {
    pub(crate) fn new(keys: Keys, counter: PacketNumberCounter) -> Self {
        Self { keys, counter, sealed: 0 }
    }

    /// How many packets the payload key may still seal.
    pub(crate) fn remaining(&self) -> Option<u64> {
        let limit = self.keys.algorithm().confidentiality_limit()?;
        Some(limit.saturating_sub(self.sealed))
    }

    /// Where the payload is, once everything that could be wrong with the packet has been looked at.
    #[inline]
    fn payload(&self, outgoing: &Outgoing<'_>) -> Result<Range<usize>, SealError> {
        let payload = outgoing.payload()?;
        let is_ours = match self.keys.packet_type {
            PacketType::OneRtt => outgoing.packet[0] & LONG_FORM == 0,
            packet_type => LongHead::read_packet(outgoing.packet).is_ok_and(|(head, body)| {
                (PacketType::from(head.packet_type), head.version) == (packet_type, self.keys.version)
                    && body == (outgoing.number_offset..outgoing.packet.len())
            }),
        };
        if is_ours { Ok(payload) } else { Err(SealError::OtherHeader) }
    }

    #[inline]
    pub(crate) fn seal(&mut self, mut outgoing: Outgoing<'_>, key_phase: bool) -> Result<u64, SealError> {
        let payload = self.payload(&outgoing)?;
        if self.remaining() == Some(0) {
            return Err(SealError::ConfidentialityLimit);
        }
        let number = self.counter.take().ok_or(SealError::NumbersExhausted)?;
        self.sealed += 1;
        outgoing.write_number(number, key_phase);
        let (header, body) = outgoing.packet.split_at_mut(payload.start);
        let sample = outgoing.number_offset + SAMPLE_OFFSET - payload.start;
        let Keys { packet_key, header_key, .. } = &self.keys;
        let mask = packet_key.seal_packet(header_key, number, header, body, sample)?;
        protect(outgoing.packet, outgoing.number_offset, mask);
        Ok(number)
    }
}

/// Masks the header of a sealed packet, which is long enough.
#[inline]
fn protect(packet: &mut [u8], number_offset: usize, mask: [u8; header::MASK_LENGTH]) {
    let (before, number) = packet.split_at_mut(number_offset);
    header::protect(mask, &mut before[0], number);
}

/// Seals the packets of one level without key updates: Initial, 0-RTT or Handshake (RFC 9001, section 5); also 1-RTT, if the
/// keys are never to be updated.
///
/// It owns both the keys and the counter, so that a packet number used before under the same key cannot be expressed, as long as
/// one sealer is made of each secret: the keys, like the secret they come from, are handed over and never copied. At the
/// AEAD's confidentiality limit it stops for good, and the connection has to be closed (RFC 9001, section 6.6).
pub struct Sealer {
    sealing: Sealing,
}

impl Sealer {
    /// Seals with `keys`, beginning with the next number of `counter`.
    #[must_use]
    pub fn new(keys: Keys, counter: PacketNumberCounter) -> Self {
        Self { sealing: Sealing::new(keys, counter) }
    }

    /// The number of the next packet, or `None` when all are used: what [`NumberLength::needed`] asks for.
    #[must_use]
    pub const fn next_number(&self) -> Option<u64> {
        self.sealing.counter.peek()
    }

    /// Leaves out the next `count` numbers (RFC 9000, section 21.4).
    pub fn skip_numbers(&mut self, count: u64) {
        self.sealing.counter.skip(count);
    }

    /// How many packets may still be sealed before the confidentiality limit (RFC 9001, section 6.6); `None` without limit.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.sealing.remaining()
    }

    /// Wipes the keys and gives the counter back, for the next keys of the same packet number space: after a Retry, a change
    /// of version, or from 0-RTT to 1-RTT (RFC 9000, section 12.3 and 17.2.5.3).
    #[must_use]
    pub fn into_counter(self) -> PacketNumberCounter {
        self.sealing.counter
    }

    /// Seals a packet where it lies and returns its number: nonce, AEAD, tag and header mask (RFC 9001, section 5.3 and 5.4).
    ///
    /// # Errors
    ///
    /// [`SealError`], with nothing written and no number used.
    #[inline]
    pub fn seal(&mut self, outgoing: Outgoing<'_>) -> Result<u64, SealError> {
        self.sealing.seal(outgoing, false)
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer")
            .field("algorithm", &self.sealing.keys.algorithm())
            .field("counter", &self.sealing.counter)
            .finish_non_exhaustive()
    }
}

/// Why a packet was not sealed. The caller is to blame, except that limits are reached by time; nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SealError {
    /// The buffer does not hold header, packet number and tag.
    BufferTooSmall {
        /// The least octets it needs, with an empty payload.
        expected: usize,
        /// The octets it has.
        got: usize,
    },
    /// The packet number was said to start at offset 0, where the first octet of the header is.
    NoHeader,
    /// Packet number and payload are too short for a header protection sample (RFC 9001, section 5.4.2): pad with PADDING
    /// frames, or send a longer packet number.
    TooShortForSample {
        /// The least octets of packet number and payload together: 4.
        expected: usize,
        /// The octets they have.
        got: usize,
    },
    /// The payload is longer than any datagram's: 65,535 octets.
    TooLong {
        /// The most octets of a payload.
        expected: usize,
        /// The octets it has.
        got: usize,
    },
    /// The header is of another type or version of packets than the keys are for, or its Length field and `number_offset` do not
    /// say where the packet number and the end of the packet are.
    OtherHeader,
    /// All packet numbers are used; the connection has to be closed (RFC 9000, section 12.3).
    NumbersExhausted,
    /// The keys have sealed as many packets as their AEAD allows (RFC 9001, section 6.6): update them, or close.
    ConfidentialityLimit,
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BufferTooSmall { expected, got } => {
                write!(f, "the buffer has {got} octets, and header, packet number and tag need {expected}")
            }
            Self::NoHeader => {
                f.write_str("the packet number starts at offset 0, where the first octet of the header is")
            }
            Self::TooShortForSample { expected, got } => write!(
                f,
                "packet number and payload have {got} octets together, and header protection needs {expected}"
            ),
            Self::TooLong { expected, got } => {
                write!(f, "the payload has {got} octets, and {expected} is the most")
            }
            Self::OtherHeader => {
                f.write_str("the header is not that of a packet of this length for these keys")
            }
            Self::NumbersExhausted => f.write_str("no packet number is left: they end with 2^62-1"),
            Self::ConfidentialityLimit => {
                f.write_str("the keys have sealed as many packets as their AEAD allows")
            }
        }
    }
}

impl core::error::Error for SealError {}

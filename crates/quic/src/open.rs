//! Opening: mask, number, AEAD, and only then everything that has to be judged.

use core::fmt;

use crate::header::{self, SAMPLE_OFFSET};
use crate::packet_key::{HeaderKey, PacketKey, PathId};
use crate::packet_number::{NumberLength, decode_packet_number};
use crate::protected::{LongHead, PacketType, Protected, Reader};
use crate::seal::TAG;
use crate::version::Version;
use crate::window::DuplicateWindow;

#[cfg(test)]
mod tests;

/// What the receiving end remembers of a packet number space: the largest number that was authentic, and which of the latest
/// have been seen.
#[derive(Debug)]
pub struct ReceiveSpace {
    largest: Option<u64>,
    window: Option<DuplicateWindow>,
}

impl ReceiveSpace {
    /// A space that nothing was received in, which finds duplicates among the latest [`DuplicateWindow::SPAN`] numbers.
    #[must_use]
    pub const fn new() -> Self {
        Self { largest: None, window: Some(DuplicateWindow::new()) }
    }

    /// A space for stacks that find duplicates themselves, as with the ranges they acknowledge.
    #[must_use]
    pub const fn without_window() -> Self {
        Self { largest: None, window: None }
    }

    /// The largest number of an authentic packet so far.
    #[must_use]
    pub const fn largest(&self) -> Option<u64> {
        self.largest
    }
}

impl Default for ReceiveSpace {
    fn default() -> Self {
        Self::new()
    }
}

/// How many packets of a connection failed authentication, under all keys it ever had (RFC 9001, section 6.6).
#[derive(Debug, Default)]
pub struct AuthenticationFailures {
    count: u64,
}

impl AuthenticationFailures {
    /// None so far.
    #[must_use]
    pub const fn new() -> Self {
        Self { count: 0 }
    }

    /// A count that goes on from `count`, as when a connection has moved from elsewhere.
    #[must_use]
    pub const fn from_count(count: u64) -> Self {
        Self { count }
    }

    /// The packets; the count stays at the largest number once it is there.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The limit is behind: nothing is opened any more.
    fn exceeded(&self, key: &PacketKey) -> bool {
        self.count > key.algorithm().integrity_limit()
    }
}

/// A packet that was authentic. Only opening makes one:
///
/// ```compile_fail,E0639
/// use wireseal_quic::{Opened, PacketType};
///
/// let made_up = Opened {
///     number: 0,
///     packet_type: PacketType::OneRtt,
///     key_phase: false,
///     generation: 0,
///     header: &[],
///     payload: &mut [],
/// };
/// ```
#[non_exhaustive]
pub struct Opened<'a> {
    /// The packet number, decoded.
    pub number: u64,
    /// What protected the packet: the level of the keys that opened it.
    pub packet_type: PacketType,
    /// The key phase bit of a short header; `false` for a long one.
    pub key_phase: bool,
    /// How many key updates lie before the key that opened it, for [`OneRtt::acknowledged`](crate::OneRtt::acknowledged).
    pub generation: u64,
    /// The header without its mask, packet number included.
    pub header: &'a [u8],
    /// The payload, decrypted where it lay: frames (RFC 9000, section 12.4).
    pub payload: &'a mut [u8],
}

/// What the header said, which is authentic now: the ids that an endpoint takes over from its peer, for one (RFC 9000, section
/// 7.2).
impl Opened<'_> {
    /// The version that a long header names; `None` for a short header.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        Some(self.long()?.version)
    }

    /// The destination connection ID.
    #[must_use]
    pub fn destination(&self) -> &[u8] {
        let range = match (self.long(), self.header.first()) {
            (Some(parts), _) => parts.destination,
            (None, Some(first)) => {
                1..self.header.len().saturating_sub(NumberLength::from_bits(*first).octets())
            }
            (None, None) => 0..0,
        };
        self.header.get(range).unwrap_or_default()
    }

    /// The source connection ID of a long header; empty for a short one.
    #[must_use]
    pub fn source(&self) -> &[u8] {
        self.long().and_then(|parts| self.header.get(parts.source)).unwrap_or_default()
    }

    /// The token of an Initial packet; empty for others.
    #[must_use]
    pub fn token(&self) -> &[u8] {
        self.long().and_then(|parts| self.header.get(parts.token)).unwrap_or_default()
    }

    /// The parts of a long header; its end is not in `header`.
    fn long(&self) -> Option<LongHead> {
        let mut reader = Reader { octets: self.header, at: 0 };
        if self.packet_type == PacketType::OneRtt { None } else { LongHead::read(&mut reader).ok() }
    }
}

/// Without the payload.
impl fmt::Debug for Opened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("number", &self.number)
            .field("packet_type", &self.packet_type)
            .field("key_phase", &self.key_phase)
            .field("generation", &self.generation)
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

/// A packet whose number and phase are known, but not whether they are the sender's: it goes no further than to the AEAD.
///
/// Its steps and those of [`Authentic`] are always inlined: handed from one to the next in memory, they would cost a tenth of
/// a packet of 1200 octets.
pub(crate) struct Unmasked<'a> {
    packet: Protected<'a>,
    masked: header::Octets,
    unmasked: header::Octets,
    pub(crate) number: u64,
}

impl<'a> Unmasked<'a> {
    #[inline(always)]
    pub(crate) fn new(
        packet: Protected<'a>,
        expected: (PacketType, Version),
        key: &HeaderKey,
        space: &ReceiveSpace,
    ) -> Result<Self, OpenError> {
        let (packet_type, version) = expected;
        if !packet.is_for(packet_type, version) {
            return Err(OpenError::Undecryptable);
        }
        let sample = header::sample(packet.octets, packet.number_offset).ok_or(OpenError::Undecryptable)?;
        let masked =
            header::Octets::of(packet.octets, packet.number_offset).ok_or(OpenError::Undecryptable)?;
        let unmasked = masked.unmasked(key.mask(sample));
        let number =
            decode_packet_number(space.largest, unmasked.truncated_number(), unmasked.number_length());
        Ok(Self { packet, masked, unmasked, number })
    }

    #[inline]
    pub(crate) fn key_phase(&self) -> bool {
        self.unmasked.key_phase()
    }

    /// One attempt with one key. On failure the header is as it was, and the payload zeros.
    #[inline(always)]
    pub(crate) fn open(
        self,
        key: &PacketKey,
        generation: u64,
        failures: &mut AuthenticationFailures,
    ) -> Result<Authentic<'a>, OpenError> {
        let Self { packet, masked, unmasked, number } = self;
        if failures.exceeded(key) {
            return Err(OpenError::IntegrityLimit);
        }
        let Protected { octets, number_offset, packet_type, .. } = packet;
        unmasked.put(octets, number_offset);
        let payload_offset = number_offset + unmasked.number_length().octets();
        let (header, body) = octets.split_at_mut(payload_offset);
        if key.open(PathId(0), number, header, body).is_some() {
            return Ok(Authentic { octets, payload_offset, unmasked, number, packet_type, generation });
        }
        masked.put(octets, number_offset);
        // Where the number is short, these lay within the header's octets that were put back.
        octets[payload_offset..number_offset + SAMPLE_OFFSET].fill(0);
        failures.count = failures.count.saturating_add(1);
        Err(if failures.exceeded(key) { OpenError::IntegrityLimit } else { OpenError::AuthenticationFailed })
    }
}

/// A packet that the AEAD accepted, before what it says is judged.
pub(crate) struct Authentic<'a> {
    octets: &'a mut [u8],
    payload_offset: usize,
    unmasked: header::Octets,
    pub(crate) number: u64,
    packet_type: PacketType,
    generation: u64,
}

impl<'a> Authentic<'a> {
    /// Reserved bits, then duplicates (RFC 9001, section 9.5: no earlier).
    #[inline(always)]
    pub(crate) fn judge(self, space: &mut ReceiveSpace) -> Result<Opened<'a>, OpenError> {
        if self.unmasked.reserved_bits() {
            return Err(self.refuse(OpenError::ReservedBits));
        }
        if space.window.as_mut().is_some_and(|window| !window.insert(self.number)) {
            return Err(self.refuse(OpenError::Duplicate));
        }
        space.largest = space.largest.max(Some(self.number));
        let (header, body) = self.octets.split_at_mut(self.payload_offset);
        let payload_length = body.len() - TAG;
        Ok(Opened {
            number: self.number,
            packet_type: self.packet_type,
            key_phase: self.unmasked.key_phase(),
            generation: self.generation,
            header,
            payload: &mut body[..payload_length],
        })
    }

    /// Leaves no plaintext of a packet that is not handed on.
    pub(crate) fn refuse(self, error: OpenError) -> OpenError {
        self.octets[self.payload_offset..].fill(0);
        error
    }
}

/// Why a packet was not opened. No plaintext is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenError {
    /// Too short for a header protection sample, or not for these keys: dropped as it is, and no forgery (RFC 9001, section
    /// 5.4.2 and 5.5). Nothing was changed.
    Undecryptable,
    /// Not authentic: forged, damaged, or protected by other keys. Which of them it was, and what the header would have said,
    /// nobody can tell.
    AuthenticationFailed,
    /// The peer set a reserved bit: PROTOCOL_VIOLATION (RFC 9000, section 17.2 and 17.3.1).
    ReservedBits,
    /// A packet that was opened before, or too old to say; drop it (RFC 9000, section 12.3).
    Duplicate,
    /// The peer used old keys after new ones: KEY_UPDATE_ERROR (RFC 9001, section 6.4).
    KeyUpdate,
    /// Too many packets failed authentication: AEAD_LIMIT_REACHED (RFC 9001, section 6.6). Nothing is opened any more.
    IntegrityLimit,
}

impl OpenError {
    /// The transport error code to close the connection with (RFC 9000, section 20.1), or `None` where the packet is
    /// dropped and the connection goes on.
    #[must_use]
    pub const fn transport_error(self) -> Option<u64> {
        match self {
            Self::Undecryptable | Self::AuthenticationFailed | Self::Duplicate => None,
            Self::ReservedBits => Some(0x0a),
            Self::KeyUpdate => Some(0x0e),
            Self::IntegrityLimit => Some(0x0f),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Undecryptable => "the packet is too short for its protection, or there are no keys for it",
            Self::AuthenticationFailed => "the packet is not authentic",
            Self::ReservedBits => "the peer set a reserved bit (PROTOCOL_VIOLATION)",
            Self::Duplicate => "the packet was received before",
            Self::KeyUpdate => "the peer used old keys after new ones (KEY_UPDATE_ERROR)",
            Self::IntegrityLimit => "too many packets were not authentic (AEAD_LIMIT_REACHED)",
        })
    }
}

impl core::error::Error for OpenError {}

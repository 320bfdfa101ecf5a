//! Opening a packet: remove the mask, decode the number, decrypt, and only then check the contents.

use core::fmt;

use wireseal_algorithms::AeadAlgorithm;

use crate::codec::{Fields, PacketType, header_accessors};
use crate::error::OpenError;
use crate::header::{self, Covered, SAMPLE_OFFSET};
use crate::packet_key::{HeaderKey, PacketKey, PathId};
use crate::packet_number::{NumberLength, decode_packet_number};
use crate::protected::Protected;
use crate::receive_space::{AuthenticationFailures, ReceiveSpace};
use crate::version::Version;

/// An authentic packet. Only opening creates one, so its header has been parsed:
///
/// ```compile_fail,E0451
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
    /// The key phase bit of a short header; `false` in a long one.
    pub key_phase: bool,
    /// How many key updates came before the key that opened it, for [`OneRtt::acknowledged`](crate::OneRtt::acknowledged).
    pub generation: u64,
    /// The payload, decrypted in place: frames, at least one octet (RFC 9000 §12.4).
    pub payload: &'a mut [u8],
    header: &'a [u8],
    packet_type: PacketType,
    version: Option<Version>,
}

/// The header's fields. All of them are authentic, so an endpoint may adopt the peer's connection IDs from here (RFC 9000 §7.2).
impl<'a> Opened<'a> {
    /// The header without its mask, packet number included.
    #[must_use]
    pub const fn header(&self) -> &'a [u8] {
        self.header
    }

    /// The type of the packet, and of the keys that opened it.
    #[must_use]
    pub const fn packet_type(&self) -> PacketType {
        self.packet_type
    }

    fn fields(&self) -> Fields<'_> {
        let number_length = self.header.first().map_or(0, |first| NumberLength::from_bits(*first).octets());
        let number_offset = self.header.len() - number_length;
        Fields { packet: self.header, packet_type: self.packet_type, number_offset }
    }

    header_accessors!();
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

/// A packet whose number and key phase are decoded but not authentic. Use them only to choose the key and the nonce.
///
/// With the feature `hazmat`, [`HeaderKey::unmask`] returns it to stacks that choose the key themselves.
pub struct Unmasked<'a> {
    packet: Protected<'a>,
    masked: Covered,
    unmasked: Covered,
    pub(crate) number: u64,
}

// `inline(always)` here and on `Authentic`: if these structs pass through memory, opening 1200 octets takes a tenth longer.
impl<'a> Unmasked<'a> {
    #[inline(always)]
    pub(crate) fn new(
        packet: Protected<'a>,
        (packet_type, version): (PacketType, Version),
        key: &HeaderKey,
        space: &ReceiveSpace,
    ) -> Result<Self, OpenError> {
        if !packet.is_for(packet_type, version) {
            return Err(OpenError::Undecryptable);
        }
        Self::of(packet, key, space.largest)
    }

    #[inline(always)]
    pub(crate) fn of(
        packet: Protected<'a>,
        key: &HeaderKey,
        largest: Option<u64>,
    ) -> Result<Self, OpenError> {
        // RFC 9001 §5.4.2: "An endpoint MUST discard packets that are not long enough to contain a complete sample."
        let sample = header::sample(packet.octets, packet.number_offset).ok_or(OpenError::Undecryptable)?;
        let mask = key.mask(sample);
        let masked = Covered::read(packet.octets, packet.number_offset).ok_or(OpenError::Undecryptable)?;
        let unmasked = masked.unmasked(mask);
        // No branch on the length: that would be faster, as the hash of the text could start before the mask is known, but its timing would
        // reveal the length (RFC 9001 §9.5).
        let number = decode_packet_number(largest, unmasked.truncated_number(), unmasked.number_length());
        Ok(Self { packet, masked, unmasked, number })
    }

    /// The key phase bit of a short header; `false` in a long one.
    #[inline]
    #[must_use]
    pub fn key_phase(&self) -> bool {
        self.unmasked.key_phase()
    }

    /// Tries one key. On failure the header is restored and the payload zeros.
    #[inline(always)]
    pub(crate) fn open(
        self,
        key: &PacketKey,
        generation: u64,
        failures: &mut AuthenticationFailures,
    ) -> Result<Authentic<'a>, OpenError> {
        // RFC 9001 §6.6: "If the total number of received packets that fail authentication within the connection, across all keys, exceeds
        // the integrity limit for the selected AEAD, the endpoint MUST immediately close the connection with a connection error of type
        // AEAD_LIMIT_REACHED and not process any more packets."
        let limit = key.algorithm().integrity_limit();
        if failures.count() > limit {
            return Err(OpenError::IntegrityLimit);
        }
        self.open_with(key, PathId(0), generation).ok_or_else(|| {
            failures.add();
            let is_beyond = failures.count() > limit;
            if is_beyond { OpenError::IntegrityLimit } else { OpenError::AuthenticationFailed }
        })
    }

    /// [`open`](Self::open) without the count of failures.
    #[inline(always)]
    pub(crate) fn open_with(self, key: &PacketKey, path: PathId, generation: u64) -> Option<Authentic<'a>> {
        let Self { packet, masked, unmasked, number } = self;
        let Protected { octets, number_offset, packet_type, version } = packet;
        unmasked.write(octets, number_offset);
        let payload_offset = number_offset + unmasked.number_length().octets();
        // Cannot fail: the packet number was read from these octets.
        let (header, body) = octets.split_at_mut_checked(payload_offset)?;
        if key.open(path, number, header, body).is_some() {
            return Some(Authentic {
                octets,
                payload_offset,
                unmasked,
                number,
                packet_type,
                generation,
                version,
            });
        }
        masked.write(octets, number_offset);
        // After a short number, these octets are payload, which the line above has restored with the header.
        octets.get_mut(payload_offset..number_offset + SAMPLE_OFFSET).unwrap_or_default().fill(0);
        None
    }
}

impl fmt::Debug for Unmasked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unmasked")
            .field("number", &self.number)
            .field("packet", &self.packet)
            .finish_non_exhaustive()
    }
}

/// A packet that the AEAD accepted, but whose contents are not checked yet.
pub(crate) struct Authentic<'a> {
    octets: &'a mut [u8],
    payload_offset: usize,
    unmasked: Covered,
    pub(crate) number: u64,
    packet_type: PacketType,
    generation: u64,
    version: Option<Version>,
}

impl<'a> Authentic<'a> {
    /// Checks the reserved bits, then that there are frames, then for a duplicate; earlier checks would leak through timing (RFC 9001
    /// §9.5).
    #[inline(always)]
    pub(crate) fn judge(self, space: &mut ReceiveSpace) -> Result<Opened<'a>, OpenError> {
        if let Some(violation) = self.violation() {
            return Err(self.refuse(violation));
        }
        if !space.insert(self.number) {
            return Err(self.refuse(OpenError::Duplicate));
        }
        Ok(self.accept())
    }

    /// [`judge`](Self::judge) for callers that detect duplicates themselves.
    #[cfg(feature = "hazmat")]
    #[inline(always)]
    pub(crate) fn judge_alone(self) -> Result<Opened<'a>, OpenError> {
        match self.violation() {
            Some(violation) => Err(self.refuse(violation)),
            None => Ok(self.accept()),
        }
    }

    /// A protocol violation in the packet itself: a reserved bit set, or no frames.
    #[inline(always)]
    fn violation(&self) -> Option<OpenError> {
        if self.unmasked.reserved_bits() {
            return Some(OpenError::ReservedBits);
        }
        (self.octets.len() == self.payload_offset + AeadAlgorithm::TAG_LENGTH).then_some(OpenError::NoFrames)
    }

    #[inline(always)]
    fn accept(self) -> Opened<'a> {
        let (header, body) = self.octets.split_at_mut(self.payload_offset);
        let payload_length = body.len() - AeadAlgorithm::TAG_LENGTH;
        Opened {
            number: self.number,
            packet_type: self.packet_type,
            key_phase: self.unmasked.key_phase(),
            generation: self.generation,
            header,
            payload: &mut body[..payload_length],
            version: self.version,
        }
    }

    /// Wipes the payload of a refused packet.
    pub(crate) fn refuse(self, error: OpenError) -> OpenError {
        self.octets[self.payload_offset..].fill(0);
        error
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

    use super::*;
    use crate::{
        Backend, ConnectionId, Keys, MAX_PACKET_NUMBER, NumberLength, Outgoing, PacketNumberCounter, Sealer,
        ShortHeader, TrafficSecret,
    };

    fn keys(backend: Backend, algorithm: AeadAlgorithm) -> Keys {
        let secret = TrafficSecret::new(algorithm, &[7; 48][..algorithm.secret_length()]).unwrap();
        Keys::with_backend(backend, Version::V1, PacketType::OneRtt, secret)
    }

    /// No test can count this far, so the receive space starts near the limit.
    #[test]
    fn q_17_the_last_packet_number_is_opened_and_none_after_it() {
        for (&backend, algorithm) in
            Backend::ALL.iter().flat_map(|backend| AeadAlgorithm::ALL.map(|algorithm| (backend, algorithm)))
        {
            let mut space = ReceiveSpace::new();
            space.largest = Some(MAX_PACKET_NUMBER - 2);
            let mut failures = AuthenticationFailures::new();
            for number_length in
                [NumberLength::One, NumberLength::Two, NumberLength::Three, NumberLength::Four]
            {
                let mut open = |number| {
                    let mut packet = [0x11; 32];
                    let header = ShortHeader { destination: ConnectionId::new(&[]).unwrap(), spin: false };
                    let number_offset = header.encode(&mut packet).unwrap();
                    let counter = PacketNumberCounter::starting_at(number).unwrap();
                    let outgoing = Outgoing { packet: &mut packet, number_offset, number_length };
                    Sealer::new(keys(backend, algorithm), counter).seal(outgoing).unwrap();
                    let (protected, _) = Protected::split_first(&mut packet, 0).unwrap();
                    let opened = keys(backend, algorithm).open(protected, &mut space, &mut failures);
                    (opened.map(|opened| opened.number), space.largest(), packet)
                };
                let octets = number_length.octets();
                let earlier = MAX_PACKET_NUMBER - 10 - octets as u64;
                assert_eq!(open(earlier).0, Ok(earlier));
                let last = open(MAX_PACKET_NUMBER);
                let expected = if octets == 1 { Ok(MAX_PACKET_NUMBER) } else { Err(OpenError::Duplicate) };
                assert_eq!((last.0, last.1), (expected, Some(MAX_PACKET_NUMBER)));
                // The octets of 0 would now mean 2^62. The payload is wiped like that of any forgery.
                let (error, largest, left) = open(0);
                assert_eq!((error, largest), (Err(OpenError::AuthenticationFailed), Some(MAX_PACKET_NUMBER)));
                assert!(left[1 + octets..16].iter().all(|&octet| octet == 0));
            }
            assert_eq!(failures.count(), 4);
        }
    }
}

//! The 1-RTT keys of one sender, through all of its key updates (RFC 9001 §6).

use wireseal_quic::hazmat::{HeaderKey, PacketKey, PathId};
use wireseal_quic::{
    AeadAlgorithm, Keys, NumberLength, PacketType, TrafficSecret, Version, WrongKeyLength,
    decode_packet_number,
};

use super::packet::OpenedPacket;
use super::report::Reason;

/// The keys of the current phase, the one before and the one after.
pub(super) struct OneRttKeys {
    version: Version,
    /// The same in all phases (RFC 9001 §6.1).
    header_key: HeaderKey,
    previous: Option<PacketKey>,
    current: PacketKey,
    next: PacketKey,
    /// How many key updates precede `current`.
    generation: u64,
    /// The secret of `current`.
    secret: TrafficSecret,
    /// The highest number opened, or acknowledged by the peer, which may have seen more than the capture.
    largest: Option<u64>,
    /// The highest number opened with `current`.
    largest_of_current: Option<u64>,
}

/// How many updates in a row a gap of the capture may hide.
const MOST_UPDATES_MISSED: u64 = 4;

const SAMPLE_OFFSET: usize = 4;
const KEY_PHASE: u8 = 0x04;
const RESERVED: u8 = 0x18;

impl OneRttKeys {
    /// Keys from the secret of the first phase.
    ///
    /// # Errors
    /// [`WrongSecretLength`].
    pub(super) fn new(
        version: Version,
        algorithm: AeadAlgorithm,
        secret: &[u8],
    ) -> Result<Self, WrongKeyLength> {
        let [first, secret] =
            [TrafficSecret::new(algorithm, secret)?, TrafficSecret::new(algorithm, secret)?];
        let (current, header_key) = Keys::new(version, PacketType::OneRtt, first).into_parts();
        let next = packet_key(version, secret.peek_next(version));
        Ok(Self {
            version,
            header_key,
            previous: None,
            current,
            next,
            generation: 0,
            secret,
            largest: None,
            largest_of_current: None,
        })
    }

    /// Notes that numbers up to this one were sent.
    pub(super) fn note_sent(&mut self, number: u64) {
        self.largest = self.largest.max(Some(number));
    }

    /// Opens a packet of any phase in `scratch`. If the capture lacks so many packets that its number is not the nearest one, those
    /// a window further off are tried as well.
    pub(super) fn open(
        &mut self,
        packet: &[u8],
        number_offset: usize,
        scratch: &mut Vec<u8>,
    ) -> Result<OpenedPacket, Reason> {
        let sample = packet.get(number_offset + SAMPLE_OFFSET..).and_then(|rest| rest.first_chunk());
        let Some(sample) = sample else { return Err(Reason::TooShort) };
        scratch.clear();
        scratch.extend_from_slice(packet);
        let (first, rest) = scratch.split_at_mut(1);
        self.header_key.unprotect(sample, &mut first[0], &mut rest[number_offset - 1..]);
        let first = first[0];
        let (length, octets) = match first & 0x03 {
            0 => (NumberLength::One, 1),
            1 => (NumberLength::Two, 2),
            2 => (NumberLength::Three, 3),
            _ => (NumberLength::Four, 4),
        };
        let header_length = number_offset + octets;
        let truncated = scratch[number_offset..header_length]
            .iter()
            .fold(0, |number, octet| number << 8 | u32::from(*octet));
        let nearest = decode_packet_number(self.largest, truncated, length);
        let window = 1_u64 << (8 * octets);
        let numbers = [Some(nearest), nearest.checked_add(window), nearest.checked_sub(window)];
        let key_phase = first & KEY_PHASE != 0;
        let mut attempt = Attempt { packet, header_length, scratch };
        let found = numbers.into_iter().flatten().find_map(|number| {
            let found = self.of_phase(key_phase, number, &mut attempt)?;
            Some((number, found))
        });
        let found = found.or_else(|| Some((nearest, self.after_gap(key_phase, nearest, &mut attempt)?)));
        let Some((number, generation)) = found else {
            let opens = self.of_phase(!key_phase, nearest, &mut attempt).is_some();
            return Err(if opens { Reason::WrongPhase } else { Reason::Forged });
        };
        self.note_sent(number);
        if generation == self.generation {
            self.largest_of_current = self.largest_of_current.max(Some(number));
        }
        if first & RESERVED != 0 {
            return Err(Reason::ReservedBits);
        }
        let end = scratch.len() - AeadAlgorithm::TAG_LENGTH;
        if end == header_length {
            return Err(Reason::NoFrames);
        }
        Ok(OpenedPacket { number, generation, payload: header_length..end })
    }

    /// Tries the keys with this phase bit, the likeliest first. Returns the generation of the one that opens the packet.
    fn of_phase(&mut self, key_phase: bool, number: u64, attempt: &mut Attempt<'_, '_>) -> Option<u64> {
        if key_phase == (self.generation & 1 == 1) {
            return attempt.opens(&self.current, number).then_some(self.generation);
        }
        let is_before = self.largest_of_current.is_some_and(|largest| number < largest);
        for is_previous in [is_before, !is_before] {
            if is_previous {
                if self.previous.as_ref().is_some_and(|key| attempt.opens(key, number)) {
                    return Some(self.generation - 1);
                }
            } else if attempt.opens(&self.next, number) {
                self.update();
                return Some(self.generation);
            }
        }
        None
    }

    /// Tries the keys of later phases, in case the capture lacks updates.
    fn after_gap(&mut self, key_phase: bool, number: u64, attempt: &mut Attempt<'_, '_>) -> Option<u64> {
        let mut secret = self.secret.peek_next(self.version);
        for generation in self.generation + 2..=self.generation + MOST_UPDATES_MISSED {
            if key_phase == (generation & 1 == 1)
                && attempt.opens(&packet_key(self.version, secret.peek_next(self.version)), number)
            {
                while self.generation < generation {
                    self.update();
                }
                return Some(generation);
            }
            secret = secret.peek_next(self.version);
        }
        None
    }

    fn update(&mut self) {
        self.generation += 1;
        self.secret = self.secret.peek_next(self.version);
        let next = packet_key(self.version, self.secret.peek_next(self.version));
        self.previous = Some(std::mem::replace(&mut self.current, std::mem::replace(&mut self.next, next)));
        self.largest_of_current = None;
    }
}

fn packet_key(version: Version, secret: TrafficSecret) -> PacketKey {
    Keys::new(version, PacketType::OneRtt, secret).into_parts().0
}

/// A packet with its header unprotected in `scratch`, to be tried with several keys.
struct Attempt<'p, 's> {
    packet: &'p [u8],
    header_length: usize,
    scratch: &'s mut [u8],
}

impl Attempt<'_, '_> {
    fn opens(&mut self, key: &PacketKey, number: u64) -> bool {
        let (header, body) = self.scratch.split_at_mut(self.header_length);
        body.copy_from_slice(&self.packet[self.header_length..]);
        key.open(PathId(0), number, header, body).is_some()
    }
}

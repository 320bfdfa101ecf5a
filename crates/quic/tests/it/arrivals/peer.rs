//! A peer that sends good packets, and what networks, attackers and peers that break the rules make of them.

use proptest::prelude::*;
use wireseal_quic::{LongType, NumberLength};

use crate::support::schedule::{PHASE, Schedule, seal_as_given};
use crate::support::{Draft, NUMBER_LENGTHS, Side, Suite};

/// What happened to a packet on its way, or what its sender did wrong.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Good,
    /// One bit is flipped, among the masked ones or behind them.
    Flipped(usize),
    /// Cut this many octets behind the start of the number.
    Cut(usize),
    /// Under other keys.
    Foreign,
    /// The one so many before, again.
    Again(usize),
    /// The peer set a reserved bit.
    Reserved,
    /// Under the keys of the phase before.
    Previous,
    /// Under the keys of the phase to come.
    Next,
    /// With the other header form, so not for these keys.
    OtherLevel,
    /// Not a packet.
    Noise(u8),
}

/// A packet as it arrives.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) kind: Kind,
    pub(crate) length: usize,
    pub(crate) number_length: NumberLength,
    /// By how much its number is below the latest, if it is late.
    pub(crate) late: Option<u64>,
}

pub(crate) fn number_lengths() -> impl Strategy<Value = NumberLength> {
    prop::sample::select(NUMBER_LENGTHS.to_vec())
}

/// Payload lengths, at least 3 octets, so that every packet has a sample.
pub(crate) fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 3..40_usize, 2 => 3..300_usize, 1 => 1100..1300_usize]
}

pub(crate) fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let kind = prop_oneof![
        12 => Just(Kind::Good),
        3 => any::<usize>().prop_map(Kind::Flipped),
        1 => any::<usize>().prop_map(Kind::Cut),
        1 => Just(Kind::Foreign),
        2 => (0..20_usize).prop_map(Kind::Again),
        1 => Just(Kind::Reserved),
        2 => Just(Kind::Previous),
        1 => Just(Kind::Next),
        1 => Just(Kind::OtherLevel),
        1 => any::<u8>().prop_map(Kind::Noise),
    ];
    let late = prop_oneof![6 => Just(None), 1 => (0..20_u64).prop_map(Some)];
    let arrival = (kind, lengths(), number_lengths(), late)
        .prop_map(|(kind, length, number_length, late)| Arrival { kind, length, number_length, late });
    prop::collection::vec(arrival, 0..40)
}

/// A payload without zeros.
pub(crate) fn payload(length: usize, seed: u64) -> Vec<u8> {
    (0..length).map(|at| (at as u64 * 7 + seed * 13) as u8 | 1).collect()
}

/// A packet, where its number is, and the payload that was sealed in it.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) octets: Vec<u8>,
    pub(crate) number_offset: usize,
    pub(crate) payload: Vec<u8>,
}

/// A peer that makes packets of any kind.
#[derive(Debug)]
pub(crate) struct Peer {
    suite: Suite,
    schedule: Schedule,
    foreign: Schedule,
    /// Whether its packets are of the Handshake level, which has no phases.
    pub(crate) is_long: bool,
    next: u64,
    sent: Vec<Packet>,
}

impl Peer {
    pub(crate) fn new(suite: Suite, is_long: bool) -> Self {
        let [schedule, foreign] = Side::BOTH.map(|side| Schedule::new(suite, side));
        Self { suite, schedule, foreign, is_long, next: 0, sent: Vec::new() }
    }

    fn draft(&self, is_long: bool, length: NumberLength, payload: &[u8]) -> Draft {
        if is_long {
            Draft::long(self.suite.version, LongType::Handshake, length, payload)
        } else {
            Draft::short(length, payload)
        }
    }

    /// The packet that arrives while the receiving end is in the phase `generation`.
    pub(crate) fn packet(&mut self, arrival: &Arrival, generation: u64) -> Packet {
        let Arrival { kind, length, number_length, late } = arrival;
        let number = match late {
            Some(late) => self.next.saturating_sub(*late),
            None => self.next,
        };
        self.next = self.next.max(number + 1);
        let generation = match kind {
            _ if self.is_long => 0,
            Kind::Previous => generation.saturating_sub(1),
            Kind::Next => generation + 1,
            _ => generation,
        };
        let is_long = self.is_long != matches!(kind, Kind::OtherLevel);
        let payload = payload(*length, number);
        let draft = self.draft(is_long, *number_length, &payload);
        let number_offset = draft.number_offset;
        let phase = if generation % 2 == 1 && !is_long { PHASE } else { 0 };
        let reserved = match kind {
            Kind::Reserved if is_long => 0x08,
            Kind::Reserved => 0x10,
            _ => 0,
        };
        let keys = if matches!(kind, Kind::Foreign) { &mut self.foreign } else { &mut self.schedule };
        let (key, header_key) = (keys.packet_key(generation), self.schedule.header_key());
        let mut octets = seal_as_given(&key, &header_key, draft, phase | reserved, number);
        match kind {
            // Any other bit may turn it into another kind of packet.
            Kind::Flipped(bit) => match bit % (4 + 8 * (octets.len() - number_offset)) {
                bit @ 0..4 => octets[0] ^= 1 << bit,
                bit => octets[number_offset + (bit - 4) / 8] ^= 1 << (bit % 8),
            },
            // A truncated packet with a long header cannot be parsed.
            Kind::Cut(length) if !is_long => {
                octets.truncate(number_offset + length % (octets.len() - number_offset));
            }
            Kind::Noise(octet) => octets[number_offset..].fill(*octet),
            _ => {}
        }
        let packet = match kind {
            Kind::Again(before) if *before < self.sent.len() => {
                self.sent[self.sent.len() - 1 - before].clone()
            }
            _ => Packet { octets, number_offset, payload },
        };
        self.sent.push(packet.clone());
        packet
    }

    pub(crate) fn integrity_limit(&self) -> u64 {
        self.suite.algorithm.integrity_limit()
    }

    /// Where the header of a packet for these keys ends, by the mask of its own sample.
    pub(crate) fn header_end(&self, Packet { octets, number_offset, .. }: &Packet) -> usize {
        let sample = octets[number_offset + 4..].first_chunk().unwrap();
        number_offset + usize::from((octets[0] ^ self.schedule.header_key().mask(sample)[0]) & 0x03) + 1
    }
}

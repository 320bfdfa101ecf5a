//! One end: the real `OneRtt`, and acknowledgments in every packet.

use std::time::Duration;

use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, KeyError, Now, OneRtt, OneRttSealer, OpenError,
    PacketNumberCounter, Protected, ReceiveSpace, TrafficSecret, Version,
};

use crate::ends::{End, PacketId, Side};
use crate::quic::packet::{Sealed, destination_length, seal};

const PROBE_TIMEOUT: Duration = Duration::from_millis(100);

/// A fault that the product does not have, put around the real code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Keys are updated again before a packet of the present phase is acknowledged, and at once.
    UpdatesUnacknowledged,
    /// The keys of the previous phase are dropped as soon as those of the present one open a packet.
    DropsOldKeys,
}

/// What becomes of the keys of the previous phase.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Previous {
    Gone,
    /// No packet of the present phase was opened yet.
    Kept,
    /// For three probe timeouts after the first.
    Expiring,
}

/// What the model knows of an end, counted without the code under test.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Facts {
    pub(super) side: Side,
    /// Key updates so far.
    pub(super) generation: u8,
    pub(super) previous: Previous,
    /// Whether three probe timeouts have yet to pass since the present phase was acknowledged.
    pub(super) is_too_soon: bool,
    /// How many packets were sealed, and the first of the present phase.
    pub(super) sealed: u8,
    pub(super) first: Option<u8>,
    /// The peer's packets that were opened, and this end's that were acknowledged: a bit for each.
    pub(super) opened: u16,
    pub(super) acknowledged: u16,
}

impl Facts {
    /// Whether a packet of the present phase was acknowledged.
    pub(super) fn has_acknowledgment(self) -> bool {
        self.first.is_some_and(|first| self.acknowledged >> first != 0)
    }

    fn update(&mut self, previous: Previous) {
        self.generation += 1;
        self.first = None;
        self.previous = previous;
    }
}

/// What can happen at an end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// It seals a packet that acknowledges everything it has opened.
    Seal,
    /// A packet arrives, for the first time or again.
    Arrive(PacketId),
    /// A packet comes back to the end that sealed it.
    Reflect(PacketId),
    /// It wants to update its keys.
    Update,
    /// Three probe timeouts pass.
    Wait,
}

pub struct QuicEnd {
    one_rtt: OneRtt,
    space: ReceiveSpace,
    failures: AuthenticationFailures,
    time: Duration,
    facts: Facts,
    fault: Option<Fault>,
}

impl QuicEnd {
    fn now(&self) -> Now {
        Now { time: self.time, probe_timeout: PROBE_TIMEOUT }
    }

    /// Opens a packet: its number, generation and payload.
    fn open(&mut self, octets: &[u8]) -> Result<(u64, u64, Vec<u8>), OpenError> {
        let (now, mut octets) = (self.now(), octets.to_vec());
        let packet = Protected::split_first(&mut octets, destination_length());
        let (packet, _) = packet.map_err(|_| OpenError::Undecryptable)?;
        let opened = self.one_rtt.open(packet, now, &mut self.space, &mut self.failures)?;
        Ok((opened.number, opened.generation, opened.payload.to_vec()))
    }

    fn arrive(&mut self, sealed: &Sealed) -> Result<(), String> {
        let Facts { generation, previous, opened, .. } = self.facts;
        let has_key = match i16::from(sealed.generation) - i16::from(generation) {
            0 | 1 => true,
            -1 => previous != Previous::Gone,
            ..-1 => false,
            2.. => {
                return Err(format!("a packet of generation {} arrives in {generation}", sealed.generation));
            }
        };
        let is_known = opened & 1 << sealed.number != 0;
        let expected = (u64::from(sealed.number), u64::from(sealed.generation), sealed.payload().to_vec());
        match self.open(&sealed.octets) {
            Ok(found) if has_key && !is_known && found == expected => {}
            Ok(found) => return Err(format!("opened {found:?} instead of {expected:?}, known: {is_known}")),
            Err(OpenError::Duplicate) if has_key && is_known => return Ok(()),
            Err(OpenError::AuthenticationFailed) if !has_key => return Ok(()),
            Err(error) => return Err(format!("not opened, although it is new and its key is held: {error}")),
        }
        let facts = &mut self.facts;
        facts.opened |= 1 << sealed.number;
        if sealed.generation > generation {
            facts.update(Previous::Expiring);
        } else if sealed.generation == generation && previous == Previous::Kept {
            facts.previous = Previous::Expiring;
        }
        if self.fault == Some(Fault::DropsOldKeys) {
            self.one_rtt.expire(Duration::MAX);
        }
        self.acknowledged(sealed)
    }

    fn acknowledged(&mut self, sealed: &Sealed) -> Result<(), String> {
        let was_acknowledged = self.facts.has_acknowledgment();
        self.facts.acknowledged |= sealed.acknowledges;
        if !was_acknowledged && self.facts.has_acknowledgment() && self.facts.generation > 0 {
            self.facts.is_too_soon = true;
        }
        let now = self.now();
        match sealed.acknowledges.checked_ilog2() {
            Some(largest) => self
                .one_rtt
                .acknowledged(largest.into(), sealed.generation.into(), now)
                .map_err(|error| format!("an honest peer's acknowledgment is refused: {error}")),
            None => Ok(()),
        }
    }

    fn update(&mut self) -> Result<(), String> {
        let facts = &mut self.facts;
        if self.fault == Some(Fault::UpdatesUnacknowledged) {
            let Some(last) = facts.sealed.checked_sub(1) else { return Ok(()) };
            let now = Now { time: self.time, probe_timeout: Duration::ZERO };
            // As if the peer had acknowledged all that was sealed.
            if self.one_rtt.acknowledged(last.into(), facts.generation.into(), now).is_ok()
                && self.one_rtt.initiate_update(Duration::MAX).is_ok()
            {
                facts.update(Previous::Kept);
            }
            return Ok(());
        }
        let may_update = facts.generation == 0 || facts.has_acknowledgment();
        match self.one_rtt.initiate_update(self.time) {
            Ok(()) if may_update && !facts.is_too_soon => facts.update(Previous::Kept),
            Err(KeyError::NotAcknowledged) if !may_update => {}
            Err(KeyError::TooSoon { .. }) if may_update && facts.is_too_soon => {}
            answer => return Err(format!("the answer to an update is {answer:?}: {facts:?}")),
        }
        Ok(())
    }

    /// What `OneRtt` says of itself is as the model has it.
    fn check(&self) -> Result<(), String> {
        let (one_rtt, facts) = (&self.one_rtt, self.facts);
        let is_expiring = facts.previous == Previous::Expiring && self.fault != Some(Fault::DropsOldKeys);
        if one_rtt.generation() != u64::from(facts.generation)
            || one_rtt.next_number() != Some(u64::from(facts.sealed))
            || self.space.largest() != facts.opened.checked_ilog2().map(u64::from)
            || one_rtt.expires().is_some() != is_expiring
        {
            return Err(format!("{one_rtt:?} is not as the model has it: {facts:?}"));
        }
        Ok(())
    }
}

impl End for QuicEnd {
    type Facts = Facts;
    type Event = Event;
    type Packet = Sealed;
    type Setup = Option<Fault>;

    /// After the handshake is confirmed.
    fn new(side: Side, fault: Option<Fault>) -> Self {
        let secret = |of: Side| {
            TrafficSecret::new(AeadAlgorithm::Aes128Gcm, &[of as u8 + 1; 32]).expect("of the right length")
        };
        let (local, remote) = (secret(side), secret(side.other()));
        let early = OneRttSealer::new(Version::V1, local, remote, PacketNumberCounter::new());
        let mut one_rtt = early.complete_handshake();
        one_rtt.confirm_handshake();
        let facts = Facts {
            side,
            generation: 0,
            previous: Previous::Gone,
            is_too_soon: false,
            sealed: 0,
            first: None,
            opened: 0,
            acknowledged: 0,
        };
        let (space, failures) = (ReceiveSpace::new(), AuthenticationFailures::new());
        Self { one_rtt, space, failures, time: Duration::ZERO, facts, fault }
    }

    fn handle(&mut self, event: Event, packets: &[Sealed]) -> Result<Option<Sealed>, String> {
        let packet = |id: PacketId| &packets[id as usize - 1];
        let mut sent = None;
        match event {
            Event::Seal => {
                let Facts { side, generation, sealed: number, opened, .. } = self.facts;
                sent = Some(seal(&mut self.one_rtt, side, number, generation, opened)?);
                self.facts.first.get_or_insert(number);
                self.facts.sealed += 1;
            }
            Event::Arrive(id) => self.arrive(packet(id))?,
            Event::Reflect(id) => {
                if self.open(&packet(id).octets).is_ok() {
                    return Err("opened its own packet".into());
                }
            }
            Event::Update => self.update()?,
            Event::Wait => {
                self.time += 3 * PROBE_TIMEOUT;
                self.one_rtt.expire(self.time);
                self.facts.is_too_soon = false;
                if self.facts.previous == Previous::Expiring {
                    self.facts.previous = Previous::Gone;
                }
            }
        }
        self.check().map(|()| sent)
    }

    fn attack(&mut self, event: Event, packets: &[Sealed]) -> Result<(), String> {
        let Event::Arrive(id) = event else { return Ok(()) };
        let octets = &packets[id as usize - 1].octets;
        // First octet, connection ID, number, payload, tag.
        let number = 1 + destination_length();
        let changes = (0..7).map(|bit| (0, 1 << bit)).chain([
            (1, 1),
            (number, 1),
            (number + 1, 1),
            (octets.len() - 1, 1),
        ]);
        for (place, change) in changes {
            let mut octets = octets.clone();
            octets[place] ^= change;
            if self.open(&octets).is_ok() {
                return Err(format!("opened a packet whose octet {place} was changed"));
            }
        }
        Ok(())
    }

    fn facts(&self) -> Facts {
        self.facts
    }

    fn identity(mut self) -> Vec<u8> {
        // Its text says everything that decides how `OneRtt` goes on, but for secrets, which the side decides, and times, which count from
        // now. Refused packets are counted up to a limit of 2^52, which nobody reaches here.
        let Facts { side, acknowledged, .. } = self.facts;
        let state = format!("{side} {:?} {:?} {acknowledged}", self.one_rtt, self.space);
        let expires = self.one_rtt.expires().map(|expires| expires.saturating_sub(self.time));
        let update = match self.one_rtt.initiate_update(self.time) {
            Err(KeyError::TooSoon { from }) => format!("in {:?}", from - self.time),
            answer => format!("{answer:?}"),
        };
        format!("{state} {expires:?} {update}").into_bytes()
    }
}

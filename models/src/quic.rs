//! Two QUIC ends, both of which update their keys, over a network that loses, repeats, reorders and reflects packets.

use std::time::Duration;

use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, ConnectionId, KeyError, Now, OneRtt, OneRttSealer, OpenError,
    Outgoing, PacketNumberCounter, Protected, ReceiveSpace, ShortHeader, TrafficSecret, Version,
};

use crate::explore::{End, EndId, Ends, PacketId, Side};
use crate::explore::{Model, Next};

/// The maximum number of packets in a state.
const MOST_SEALED: usize = 8;

/// The size of the search.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// How many packets each end seals, together at most 8. The network keeps them all: each arrives any number of times, at any time, or
    /// never.
    pub packets: [u8; 2],
    /// The fault to find, if any.
    pub fault: Option<Fault>,
}

/// Both ends, by their numbers, and the packets sealed, sorted; 0 means none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct State {
    ends: [EndId; 2],
    sealed: [PacketId; MOST_SEALED],
}

/// The model's two ends.
#[derive(Debug)]
pub struct Pair {
    scope: Scope,
    ends: Ends<QuicEnd>,
}

impl Pair {
    /// A model of this scope.
    pub fn new(scope: Scope) -> Self {
        Self { scope, ends: Ends::new(scope.fault) }
    }

    /// How many end states there are, how many packets, and how often the code under test has run.
    pub fn counts(&self) -> (usize, usize, usize) {
        self.ends.counts()
    }

    /// From here on nothing is lost: every packet must open at once, both ends must reach the same keys, and either must be able to update
    /// them.
    fn mend(&mut self, mut ends: [EndId; 2]) -> Result<(), String> {
        self.exchange(&mut ends)?;
        for side in Side::BOTH {
            for side in Side::BOTH {
                (ends[side as usize], _) = self.ends.step(ends[side as usize], Event::Wait)?;
            }
            let before = self.ends.facts(ends[side as usize]).generation;
            (ends[side as usize], _) = self.ends.step(ends[side as usize], Event::Update)?;
            if self.ends.facts(ends[side as usize]).generation == before {
                return Err(format!("nothing is lost any more, but {side} can never update its keys"));
            }
            self.exchange(&mut ends)?;
        }
        Ok(())
    }

    /// Both ends send, and send again to acknowledge.
    fn exchange(&mut self, ends: &mut [EndId; 2]) -> Result<(), String> {
        for from in [Side::Left, Side::Right, Side::Left, Side::Right] {
            let number = self.ends.facts(ends[from as usize]).sealed;
            let (after, sealed) = self.ends.step(ends[from as usize], Event::Seal)?;
            ends[from as usize] = after;
            let to = from.other() as usize;
            (ends[to], _) = self.ends.step(ends[to], Event::Arrive(sealed))?;
            if self.ends.facts(ends[to]).opened & 1 << number == 0 {
                return Err(format!("nothing is lost any more, but {from}'s packets are not opened"));
            }
        }
        let [left, right] = ends.map(|end| self.ends.facts(end));
        if left.generation != right.generation || !left.has_acknowledgment() || !right.has_acknowledgment() {
            return Err(format!("the ends do not come together: {left:?}, {right:?}"));
        }
        Ok(())
    }

    fn show(&self, id: PacketId) -> String {
        let Sealed { from, number, generation, acknowledges, .. } = self.ends.packet(id);
        format!("{from}'s packet {number} of generation {generation}, acknowledging {acknowledges:#b}")
    }
}

impl Model for Pair {
    type State = State;
    type Action = (Side, Event);

    fn start(&mut self) -> State {
        State { ends: [0, 1], sealed: [0; MOST_SEALED] }
    }

    fn actions(&mut self, state: &State, found: &mut Vec<Next<Self>>) {
        for side in Side::BOTH {
            let end = state.ends[side as usize];
            let mut events = vec![Event::Update, Event::Wait];
            if self.ends.facts(end).sealed < self.scope.packets[side as usize] {
                events.push(Event::Seal);
            }
            let sealed = state.sealed.into_iter().filter(|id| *id != 0);
            let arriving = sealed.filter(|id| self.ends.packet(*id).from != side);
            events.extend(arriving.map(Event::Arrive));
            for event in events {
                let to = self.ends.step(end, event).map(|(to, sealed)| {
                    let mut next = *state;
                    next.ends[side as usize] = to;
                    if sealed != 0 {
                        // Sorted, so a free place is first.
                        next.sealed[0] = sealed;
                        next.sealed.sort_unstable();
                    }
                    next
                });
                found.push(((side, event), to));
            }
        }
    }

    fn check(&mut self, state: &State) -> Result<(), String> {
        for id in state.sealed.into_iter().filter(|id| *id != 0) {
            let end = state.ends[self.ends.packet(id).from as usize];
            let (after, _) = self.ends.step(end, Event::Reflect(id))?;
            if after != end {
                return Err("its own packet changed an end".into());
            }
        }
        self.mend(state.ends)
    }

    fn describe(&self, (side, event): Self::Action) -> String {
        match event {
            Event::Arrive(id) => format!("{side} receives {}", self.show(id)),
            event => format!("{side}: {event:?}"),
        }
    }
}

const PROBE_TIMEOUT: Duration = Duration::from_millis(100);

/// A fault that the real code does not have, put around it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Updates the keys again at once, before a packet of the current phase is acknowledged.
    UpdatesUnacknowledged,
    /// Drops the keys of the previous phase as soon as those of the current one open a packet.
    DropsOldKeys,
}

/// The state of the previous phase's keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Previous {
    Gone,
    /// Kept: no packet of the current phase has been opened yet.
    Kept,
    /// Kept for three probe timeouts after the first such packet.
    Expiring,
}

/// The model's knowledge of an end, counted without the code under test.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Facts {
    side: Side,
    /// Key updates so far.
    generation: u8,
    previous: Previous,
    /// Whether three probe timeouts have yet to pass since the current phase was acknowledged.
    is_too_soon: bool,
    /// The number of packets sealed, and the first packet of the current phase.
    sealed: u8,
    first: Option<u8>,
    /// The peer's packets that were opened, and this end's that were acknowledged: a bit for each.
    opened: u16,
    acknowledged: u16,
}

impl Facts {
    /// Whether a packet of the current phase was acknowledged.
    fn has_acknowledgment(self) -> bool {
        self.first.is_some_and(|first| self.acknowledged >> first != 0)
    }

    fn update(&mut self, previous: Previous) {
        self.generation += 1;
        self.first = None;
        self.previous = previous;
    }
}

/// An event at an end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// It seals a packet that acknowledges everything it has opened.
    Seal,
    /// A packet arrives, for the first time or again.
    Arrive(PacketId),
    /// A packet is reflected to the end that sealed it.
    Reflect(PacketId),
    /// It tries to update its keys.
    Update,
    /// Three probe timeouts pass.
    Wait,
}

struct QuicEnd {
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
            // As if the peer had acknowledged every packet sealed.
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

    /// Checks that `OneRtt` reports the same state as the model.
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

    /// A new end, after the handshake is confirmed.
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
        // Side and generation decide the keys. The text of `OneRtt` says everything else that decides how it goes on, but for times, which
        // count from now. Refused packets are counted up to a limit of 2^52, which nobody reaches here.
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

/// The destination connection ID of every packet.
const DESTINATION: [u8; 4] = [0xd0, 0xd1, 0xd2, 0xd3];

const TAG: usize = 16;

/// A sealed packet, in flight.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sealed {
    from: Side,
    number: u8,
    /// How many key updates its sender had seen.
    generation: u8,
    /// The peer's packets that its sender had opened: a bit for each.
    acknowledges: u16,
    octets: Vec<u8>,
}

impl Sealed {
    fn payload(&self) -> [u8; 5] {
        let [high, low] = self.acknowledges.to_be_bytes();
        [self.from as u8, self.number, self.generation, high, low]
    }
}

/// Seals the next packet of an end.
fn seal(
    one_rtt: &mut OneRtt,
    from: Side,
    number: u8,
    generation: u8,
    acknowledges: u16,
) -> Result<Sealed, String> {
    let mut sealed =
        Sealed { from, number, generation, acknowledges, octets: vec![0; 1 + DESTINATION.len()] };
    let destination = ConnectionId::new(&DESTINATION).map_err(|error| error.to_string())?;
    let header = ShortHeader { destination, spin: false };
    let number_offset = header.encode(&mut sealed.octets).map_err(|error| error.to_string())?;
    let number_length = one_rtt.number_length();
    sealed.octets.resize(number_offset + number_length.octets(), 0);
    sealed.octets.extend(sealed.payload());
    sealed.octets.resize(sealed.octets.len() + TAG, 0);
    let outgoing = Outgoing { packet: &mut sealed.octets, number_offset, number_length };
    match one_rtt.seal(outgoing) {
        Ok(used) if used == u64::from(number) => Ok(sealed),
        Ok(used) => Err(format!("sealed with number {used} instead of {number}")),
        Err(error) => Err(format!("cannot seal: {error}")),
    }
}

const fn destination_length() -> usize {
    DESTINATION.len()
}

//! One end: the real `Connection` with a TCP of cumulative acknowledgments and retransmissions on top; and its segments on the wire.

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{
    Connection, ConnectionState, Counters, Endpoint, Isn, KeyId, MasterKey, Mkt, MktSet, Segment, SeqNum,
    SneTracker, SocketPair, Verified, VerifyError,
};

use crate::explore::{End, PacketId, Side};

/// A fault that the real code once had or could have, put around it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Accepts RNextKeyID only from segments that are not older than the newest by sequence number, so not from a retransmission.
    DeafToRetransmissions,
    /// Accepts RNextKeyID from every verified segment, as in RFC 5925 §7.5, so also from replays.
    ObeysReplays,
    /// A moved connection forgets the newest acknowledgment.
    ForgetsAcknowledgment,
    /// A sequence number exactly 2^31 octets behind the highest becomes the highest.
    GoesBackHalfATurn,
}

/// The parameters of an end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup {
    /// The fault to be found, if any.
    pub fault: Option<Fault>,
    /// Whether the operator sees which key signed the peer's last segment.
    pub sees_key: bool,
    /// The distance between segments of data.
    pub spacing: Spacing,
}

/// The model's knowledge of an end, counted without the code under test.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Facts {
    pub(super) side: Side,
    /// Keys held, and keys that were removed: a bit for each.
    pub(super) held: u8,
    pub(super) removed: u8,
    /// The current and the rnext key.
    pub(super) current: u8,
    pub(super) rnext: u8,
    /// The key of the last segment verified.
    pub(super) seen: Option<u8>,
    /// Segments of data acknowledged, sent once, and received (a bit for each).
    pub(super) acknowledged: u8,
    pub(super) sent: u8,
    pub(super) received: u8,
    /// The highest sequence number received, counted in 64 bits.
    highest: u64,
}

impl Facts {
    pub(super) const fn holds(self, key: u8) -> bool {
        self.held & 1 << key != 0
    }

    pub(super) const fn in_order(self) -> u8 {
        self.received.trailing_ones() as u8
    }
}

/// An event at an end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// The next segment of data is sent.
    Send,
    /// The first segment of data that is not acknowledged is sent again.
    Retransmit,
    /// A segment without data is sent.
    Acknowledge,
    /// A segment arrives.
    Arrive(PacketId),
    /// A segment is reflected to the end that sent it.
    Reflect(PacketId),
    /// A key is added.
    Add(u8),
    /// The peer is asked to sign with a key.
    Ask(u8),
    /// This end changes its signing key without being asked.
    SignWith(u8),
    /// A key is removed, with a replacement if it is in use.
    Remove(u8, Option<u8>),
}

pub struct TcpEnd {
    connection: Connection<ROOM>,
    facts: Facts,
    setup: Setup,
}

impl TcpEnd {
    fn side(&self) -> Side {
        self.facts.side
    }

    /// Verifies with the real code, then spoils its new state if a fault is to be found.
    fn verify<'a>(&mut self, segment: &Segment<'a>) -> Result<Verified<'a>, VerifyError> {
        let current = self.connection.current_key().send_id;
        let (sne, highest) = self.connection.highest_received();
        let verified = self.connection.verify(segment)?;
        let asked_for = segment.ao_option()?.map(|ao| ao.rnext_key_id);
        let spoiled = match self.setup.fault {
            Some(Fault::DeafToRetransmissions) if segment.sequence().before(highest) => Some(current),
            Some(Fault::ObeysReplays) => asked_for,
            _ => None,
        };
        // Has no effect for a key that is not held.
        spoiled.map(|key| self.connection.set_current_key(key));
        let is_half_a_turn_back = segment.sequence().offset_from(highest) == i32::MIN;
        if self.setup.fault == Some(Fault::GoesBackHalfATurn) && is_half_a_turn_back {
            let sne = SneTracker::resume(sne, highest).sne_of(segment.sequence());
            self.go_on_with(|state| (state.receive_sne, state.receive_sequence) = (sne, segment.sequence()));
        }
        Ok(verified)
    }

    /// Continues with a changed state.
    fn go_on_with(&mut self, change: impl FnOnce(&mut ConnectionState)) {
        let mkts = mkts(self.side(), self.facts.held);
        let other = Connection::active(pair(self.side()), isn(self.side()), &mkts).expect("there is a key");
        let mut state = std::mem::replace(&mut self.connection, other).export().expect("established");
        change(&mut state);
        self.connection = Connection::import(&state, &mkts).expect("the same keys");
    }

    fn send(&mut self, before: u8, has_data: bool) -> Result<Sent, String> {
        let (side, acknowledges, spacing) = (self.side(), self.facts.in_order(), self.setup.spacing);
        let payload = data(side, before);
        let octets = signed(
            &mut self.connection,
            ACK,
            spacing.start(side, before, has_data) as u32,
            spacing.sequence(side.other(), acknowledges),
            if has_data { &payload } else { &[] },
        )?;
        let Facts { current, rnext, .. } = self.facts;
        let ao = view(pair(side), &octets).ao_option().ok().flatten().ok_or("signed without an option")?;
        if !self.facts.holds(current)
            || (ao.key_id, ao.rnext_key_id) != (send_id(side, current), recv_id(side, rnext))
        {
            return Err(format!("signed with {} and asked for {}", ao.key_id, ao.rnext_key_id));
        }
        Ok(Sent { from: side, key: current, rnext, before, acknowledges, has_data, octets })
    }

    fn arrive(&mut self, sent: &Sent) -> Result<(), String> {
        let segment = view(pair(sent.from), &sent.octets);
        let is_held = self.facts.holds(sent.key);
        let start = self.setup.spacing.start(sent.from, sent.before, sent.has_data);
        // If it is further back, its number is taken as ahead, in the next cycle of 2^32.
        let is_near = self.facts.highest.saturating_sub(start) <= 1 << 31;
        let verified = match self.verify(&segment) {
            Ok(verified) if is_held && is_near => verified,
            Ok(_) => {
                return Err("accepted under a key that this end does not hold, or from another turn".into());
            }
            Err(VerifyError::UnknownKeyId(_)) if !is_held => return Ok(()),
            Err(VerifyError::BadMac { .. }) if is_held && !is_near => return Ok(()),
            Err(error) => return Err(format!("refused what the peer signed with a common key: {error}")),
        };
        let segment = verified.segment();
        let payload = data(sent.from, sent.before);
        if verified.key_id() != recv_id(self.side(), sent.key)
            || segment.sequence().0 != start as u32
            || segment.payload() != if sent.has_data { &payload[..] } else { &[] }
        {
            return Err("accepted something else than was sent".into());
        }
        self.facts.acknowledged = self.facts.acknowledged.max(sent.acknowledges);
        self.facts.received |= u8::from(sent.has_data) << sent.before;
        self.facts.highest = self.facts.highest.max(start);
        self.facts.seen = self.setup.sees_key.then_some(sent.key);
        Ok(())
    }

    fn is_refused(&mut self, segment: &Segment<'_>) -> bool {
        self.connection.verify(segment).is_err()
    }

    /// Changes keys through the API, and in the facts.
    fn change_keys(&mut self, event: Event) -> Result<(), String> {
        let side = self.side();
        let facts = &mut self.facts;
        match event {
            Event::Add(key) => {
                facts.held |= 1 << key;
                self.connection.add_key(&mkt(side, key)).map_err(|error| error.to_string())?;
            }
            Event::Ask(key) => {
                facts.rnext = key;
                self.connection.set_rnext_key(recv_id(side, key)).map_err(|error| error.to_string())?;
            }
            Event::SignWith(key) => {
                facts.current = key;
                self.connection.set_current_key(send_id(side, key)).map_err(|error| error.to_string())?;
            }
            Event::Remove(key, replacement) => {
                for used in [&mut facts.current, &mut facts.rnext] {
                    if *used == key {
                        *used = replacement.ok_or("removed a key in use")?;
                    }
                }
                facts.held &= !(1 << key);
                facts.removed |= 1 << key;
                let replacement = replacement.map(|key| send_id(side, key));
                self.connection
                    .remove_key(send_id(side, key), replacement)
                    .map_err(|error| error.to_string())?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks that the connection's keys are those of the model; the peer may have changed its current key.
    fn check_keys(&mut self, was_asked: Option<u8>) -> Result<(), String> {
        let side = self.side();
        let current = self.connection.current_key().send_id;
        if was_asked.is_some_and(|key| self.facts.holds(key) && current == send_id(side, key)) {
            self.facts.current = was_asked.unwrap_or_default();
        }
        let held = self.connection.keys().fold(0, |held, key| held | 1 << key_of(side, key.send_id));
        let rnext = self.connection.rnext_key().recv_id;
        if (held, current, rnext)
            != (self.facts.held, send_id(side, self.facts.current), recv_id(side, self.facts.rnext))
        {
            return Err(format!("holds {held:#b}, signs with {current}, asks for {rnext}: {:?}", self.facts));
        }
        Ok(())
    }

    fn state(self) -> Result<ConnectionState, String> {
        let state = self.connection.export().map_err(|error| error.to_string())?;
        Ok(ConnectionState { counters: Counters::default(), ..state })
    }
}

/// The key with this SendID.
fn key_of(side: Side, id: KeyId) -> u8 {
    (0..ROOM as u8).find(|key| send_id(side, *key) == id).unwrap_or(u8::MAX)
}

impl End for TcpEnd {
    type Facts = Facts;
    type Event = Event;
    type Packet = Sent;
    type Setup = Setup;

    /// A new end, after a handshake with the first key, the only one that both hold.
    fn new(side: Side, setup: Setup) -> Self {
        let [left, right] = Side::BOTH.map(|side| mkts(side, 1));
        let next = Side::BOTH.map(|side| setup.spacing.sequence(side, 0));
        let shake = || {
            let mut active = Connection::active(pair(Side::Left), isn(Side::Left), &left).ok()?;
            let syn = signed(&mut active, SYN, isn(Side::Left).0, 0, &[]).ok()?;
            let mut passive = Connection::passive(&right.verify_syn(view(pair(Side::Left), &syn)).ok()?);
            let syn_ack = signed(&mut passive, SYN | ACK, isn(Side::Right).0, next[0], &[]).ok()?;
            active.verify(&view(pair(Side::Right), &syn_ack)).ok()?;
            let ack = signed(&mut active, ACK, next[0], next[1], &[]).ok()?;
            passive.verify(&view(pair(Side::Left), &ack)).ok()?;
            Some(if side == Side::Left { active } else { passive })
        };
        let facts = Facts {
            side,
            held: 1,
            removed: 0,
            current: 0,
            rnext: 0,
            seen: None,
            acknowledged: 0,
            sent: 0,
            received: 0,
            highest: if side == Side::Left {
                isn(Side::Right).0.into()
            } else {
                setup.spacing.extended(Side::Left, 0)
            },
        };
        Self { connection: shake().expect("both hold the key"), facts, setup }
    }

    fn handle(&mut self, event: Event, packets: &[Sent]) -> Result<Option<Sent>, String> {
        let Facts { acknowledged, sent, .. } = self.facts;
        let packet = |id: PacketId| &packets[id as usize - 1];
        match event {
            Event::Send => {
                self.facts.sent += 1;
                self.send(sent, true).map(Some)
            }
            Event::Retransmit => self.send(acknowledged, true).map(Some),
            Event::Acknowledge => self.send(sent, false).map(Some),
            Event::Arrive(id) => {
                self.arrive(packet(id))?;
                self.check_keys(Some(packet(id).rnext)).map(|()| None)
            }
            Event::Reflect(id) => {
                let packet = packet(id);
                // As it was sent, and as if sent by the peer.
                let mut turned = packet.octets.clone();
                turned[..4].rotate_left(2);
                let is_refused = self.is_refused(&view(pair(self.side()), &packet.octets))
                    && self.is_refused(&view(pair(self.side().other()), &turned));
                if is_refused { Ok(None) } else { Err("accepted its own segment".into()) }
            }
            _ => {
                self.change_keys(event)?;
                self.check_keys(None).map(|()| None)
            }
        }
    }

    fn attack(&mut self, event: Event, packets: &[Sent]) -> Result<(), String> {
        let Event::Arrive(id) = event else { return Ok(()) };
        let packet = &packets[id as usize - 1];
        let ao = view(pair(packet.from), &packet.octets).ao_option().ok().flatten().ok_or("no option")?;
        let ids = [ao.key_id, ao.rnext_key_id].map(|KeyId(id)| id);
        let other_ids = (0..ROOM as u8).map(|key| send_id(packet.from, key).0 ^ ids[0]);
        let other_rnext_ids = (0..ROOM as u8).map(|key| recv_id(packet.from, key).0 ^ ids[1]);
        let length = packet.octets.len();
        // Changes sequence, acknowledgment and flags; both ids; a whole segment forward or back; the MAC; the data.
        let changes =
            [(7, 1), (7, DATA as u8), (11, 1), (11, DATA as u8), (13, 1), (13, 4), (24, 1), (length - 1, 1)];
        let changes =
            changes.into_iter().chain(other_ids.map(|id| (22, id))).chain(other_rnext_ids.map(|id| (23, id)));
        for (place, change) in changes.filter(|(_, change)| *change != 0) {
            let mut octets = packet.octets.clone();
            octets[place] ^= change;
            if !self.is_refused(&view(pair(packet.from), &octets)) {
                return Err(format!("accepted a segment whose octet {place} was changed"));
            }
        }
        Ok(())
    }

    fn moved(self) -> Result<Self, String> {
        let side = self.side();
        let octets = self.connection.export().map_err(|error| error.to_string())?.to_octets();
        let mut state = ConnectionState::from_octets(&octets).map_err(|error| error.to_string())?;
        if self.setup.fault == Some(Fault::ForgetsAcknowledgment) {
            state.acknowledged = SeqNum(self.setup.spacing.sequence(side, 0));
        }
        let connection = Connection::import(&state, &mkts(side, self.facts.held));
        Ok(Self { connection: connection.map_err(|error| error.to_string())?, ..self })
    }

    fn facts(&self) -> Facts {
        self.facts
    }

    fn identity(self) -> Vec<u8> {
        // The other facts are in the connection's state.
        let Facts { held, removed, seen, acknowledged, sent, received, .. } = self.facts;
        let seen = seen.map_or(u8::MAX, |key| key);
        let mut octets = vec![held, removed, seen, acknowledged, sent, received];
        octets.extend(self.state().expect("established").to_octets());
        octets
    }
}

/// The number of MKTs in the model, and the room in a connection.
pub(super) const ROOM: usize = 3;

/// The length of a segment's data in octets.
pub(super) const DATA: u32 = 4;

/// About the largest window (RFC 7323 §2.3).
const LARGEST_WINDOW: u32 = 1 << 30;

/// The distance from one segment of data to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spacing {
    /// It follows immediately.
    #[default]
    Near,
    /// It ends 2^30 octets after the end of the previous segment, and is sent once that is acknowledged, as the largest window requires.
    /// The octets in between count as sent. This brings numbers to exactly 2^31 octets apart, and further.
    Far,
}

impl Spacing {
    const fn octets(self) -> u32 {
        match self {
            Self::Near => DATA,
            Self::Far => LARGEST_WINDOW,
        }
    }

    /// The sequence number after this many segments of data, counted in 64 bits.
    pub(super) fn extended(self, side: Side, segments: u8) -> u64 {
        u64::from(isn(side).0) + 1 + u64::from(segments) * u64::from(self.octets())
    }

    /// Its lower 32 bits, as on the wire.
    pub(super) fn sequence(self, side: Side, segments: u8) -> u32 {
        self.extended(side, segments) as u32
    }

    /// The sequence number of a segment with `before` segments of data before it. A segment with data ends where the next begins.
    pub(super) fn start(self, side: Side, before: u8, has_data: bool) -> u64 {
        let data = if has_data { DATA } else { 0 };
        self.extended(side, before + u8::from(has_data)) - u64::from(data)
    }
}

pub(super) const SYN: u8 = 0x02;
pub(super) const ACK: u8 = 0x10;

const HEADER: usize = 20;

/// A segment sent, in flight.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sent {
    pub(super) from: Side,
    /// The key that signed it, and the key it asks for.
    pub(super) key: u8,
    pub(super) rnext: u8,
    /// How many segments of data come before it, and how many of the peer's it acknowledges.
    pub(super) before: u8,
    pub(super) acknowledges: u8,
    pub(super) has_data: bool,
    pub(super) octets: Vec<u8>,
}

/// The left end's numbers wrap past 2^32 with its second segment of data.
pub(super) const fn isn(side: Side) -> Isn {
    match side {
        Side::Left => Isn(u32::MAX - DATA),
        Side::Right => Isn(0x7000_0000),
    }
}

pub(super) fn data(side: Side, before: u8) -> [u8; DATA as usize] {
    [b'd', side as u8, before, before ^ 0x5a]
}

pub(super) fn pair(side: Side) -> SocketPair {
    let pair = SocketPair {
        local: Endpoint::new([192, 0, 2, 1], 49152),
        remote: Endpoint::new([192, 0, 2, 2], 179),
    };
    if side == Side::Left { pair } else { pair.reversed() }
}

pub(super) fn send_id(side: Side, key: u8) -> KeyId {
    KeyId(key + if side == Side::Left { 1 } else { 11 })
}

pub(super) fn recv_id(side: Side, key: u8) -> KeyId {
    send_id(side.other(), key)
}

pub(super) fn mkt(side: Side, key: u8) -> Mkt {
    let master_key = MasterKey::new(&[key + 1; 16]).expect("of a length that is allowed");
    Mkt::new(send_id(side, key), recv_id(side, key), TcpAoAlgorithm::Aes128Cmac, master_key)
        .expect("built in")
}

/// The MKTs of the keys in a mask.
pub(super) fn mkts(side: Side, held: u8) -> MktSet<ROOM> {
    let held = (0..ROOM as u8).filter(|key| held & 1 << key != 0);
    MktSet::from_mkts(held.map(|key| mkt(side, key))).expect("different ids, and room for all")
}

/// A segment that `connection` has signed. No MAC covers the checksum, and nothing here reads it.
pub(super) fn signed(
    connection: &mut Connection<ROOM>,
    flags: u8,
    sequence: u32,
    acknowledgment: u32,
    payload: &[u8],
) -> Result<Vec<u8>, String> {
    let pair = connection.pair();
    let mut options = [0; 40];
    let length = connection.append_ao(&mut options, 0).map_err(|e| e.to_string())?;
    let mut tcp = Vec::with_capacity(HEADER + length + payload.len());
    tcp.extend(pair.local.port().to_be_bytes());
    tcp.extend(pair.remote.port().to_be_bytes());
    tcp.extend(sequence.to_be_bytes());
    tcp.extend(acknowledgment.to_be_bytes());
    tcp.extend([((HEADER + length) as u8 / 4) << 4, flags, 0xfa, 0xf0, 0, 0, 0, 0]);
    tcp.extend(&options[..length]);
    tcp.extend(payload);
    connection.sign(&mut tcp).map_err(|error| format!("cannot sign: {error}"))?;
    Ok(tcp)
}

/// The segment as it travels from the local to the remote end of `pair`.
pub(super) fn view(pair: SocketPair, tcp: &[u8]) -> Segment<'_> {
    Segment::from_tcp(pair.local.address(), pair.remote.address(), tcp).expect("a whole segment")
}

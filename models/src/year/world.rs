//! The world: virtual time, the network between the routers, and what must hold at every event.

use std::collections::{BTreeMap, VecDeque};

use fastrand::Rng;
use foldhash::HashMap;
use wireseal_tcp_ao::shim::Refusal;
use wireseal_tcp_ao::{Segment, SocketPair};

use super::agenda::{Attack, Event, plan};
use super::attacker::{Attacker, forged};
use super::chains::{Agreement, YEAR};
use super::end::{Effects, End, Half, address};
use super::receive::{Received, Turn};
use super::report::{Failure, Fault, Kind, Moment, Summary};
use super::tcp::{Change, Millis, State};

/// The end of the year.
pub(super) const END: Millis = YEAR as Millis * 1_000;
/// How long everything is simulated after an event.
const BUSY: Millis = 150_000;
/// How many packets, and how many other events, a failure shows.
const RECENT: usize = 20;

/// A session between two routers; the first one opens it.
pub(super) struct Session {
    pub(super) ends: [usize; 2],
    /// The number of the session at each of its ends.
    pub(super) halves: [usize; 2],
    /// The keys that the ends sign with.
    pub(super) current: [Option<u8>; 2],
    pub(super) is_healthy: bool,
    /// The ends that have gone back to an earlier key, and sign with it still. What the peer asks for then is not always heard before
    /// something new is acknowledged (docs/dev/design.md).
    pub(super) has_gone_back: [bool; 2],
    /// Until when a loss is excused, and since when the session could be open.
    pub(super) excused_until: Millis,
    pub(super) openable_since: Option<Millis>,
    pub(super) disturbed_until: Millis,
    /// Until when packets do not get through, by the side of their sender.
    pub(super) outage_until: [Millis; 2],
    pub(super) noise: (Millis, u8),
}

/// A segment that an end has sent.
#[derive(Clone, Copy)]
struct Record {
    from: u8,
    session: u8,
    key: u8,
    opens: bool,
    isns: (u32, Option<u32>),
}

/// What is kept to be shown after a failure.
enum Note {
    Text(String),
    Packet { to: usize, is_accepted: bool, why: Option<Refusal>, packet: Vec<u8> },
}

pub(super) struct World {
    seed: u64,
    pub(super) now: Millis,
    random: Rng,
    pub(super) ends: Vec<End>,
    pub(super) sessions: Vec<Session>,
    /// What will happen, by time and in the order of scheduling.
    pub(super) agenda: BTreeMap<(Millis, u64), Event>,
    scheduled: u64,
    pub(super) in_flight: usize,
    pub(super) busy_until: Millis,
    sent: HashMap<u64, Record>,
    attacker: Attacker,
    /// The last events: packets, and others.
    recent: [VecDeque<(Millis, Note)>; 2],
    summary: Summary,
}

impl World {
    pub(super) fn new(seed: u64, fault: Option<Fault>) -> Self {
        let mut random = Rng::with_seed(seed);
        let count = random.usize(2..=5);
        let kind = |random: &mut Rng| if random.bool() { Kind::Kernel } else { Kind::Gateway };
        let mut ends: Vec<_> =
            (0..count).map(|end| End::new(end, kind(&mut random), random.i64(-15..=15), fault)).collect();
        // All have a session with the first one, and the last two with each other.
        let mut pairs: Vec<[usize; 2]> = (1..count).map(|end| [end, 0]).collect();
        if count > 2 {
            pairs.push([count - 2, count - 1]);
        }
        let mut chosen = Vec::new();
        let mut sessions = Vec::new();
        let mut keys = 0;
        for (session, mut pair) in pairs.into_iter().enumerate() {
            if random.bool() {
                pair.reverse();
            }
            let agreement = Agreement::new(&mut random);
            keys += agreement.len();
            let known = [0, 1].map(|_| random.usize(1..=4).min(agreement.len()));
            let halves = pair.map(|end| ends[end].halves.len());
            for side in 0..2 {
                let end = &mut ends[pair[side]];
                end.add_session(session, side == 0, pair[1 - side], &agreement, known[side])
                    .expect("a file of the simulator's can be read");
            }
            chosen.push((pair, agreement, known));
            sessions.push(Session {
                ends: pair,
                halves,
                current: [None; 2],
                is_healthy: false,
                has_gone_back: [false; 2],
                excused_until: 0,
                openable_since: None,
                disturbed_until: 0,
                outage_until: [0; 2],
                noise: (0, 0),
            });
        }
        let summary = Summary { ends: count, sessions: sessions.len(), keys, ..Summary::default() };
        let mut world = Self {
            seed,
            now: 0,
            ends,
            sessions,
            agenda: BTreeMap::new(),
            scheduled: 0,
            in_flight: 0,
            busy_until: BUSY,
            sent: HashMap::default(),
            attacker: Attacker::default(),
            recent: [VecDeque::new(), VecDeque::new()],
            summary,
            random: random.fork(),
        };
        for (at, event) in plan(&mut random, count, &chosen) {
            world.schedule(at, event);
        }
        world
    }

    /// The failure, with the last events.
    pub(super) fn failure(&self, what: String) -> Failure {
        let mut recent: Vec<_> = self.recent.iter().flatten().collect();
        recent.sort_by_key(|(at, _)| *at);
        let recent = recent.iter().map(|(at, note)| format!("{}  {}", Moment(*at), show(note)));
        Failure { seed: self.seed, at: self.now, what, recent: recent.collect() }
    }

    /// Runs until the end of the year.
    pub(super) fn run(&mut self) -> Result<Summary, String> {
        loop {
            let agenda = self.agenda.first_key_value().map_or(Millis::MAX, |((at, _), _)| *at);
            let next = self.ends.iter().map(End::next_event).fold(agenda, Millis::min);
            if next >= END {
                return Ok(self.summary);
            }
            self.now = self.now.max(next);
            self.summary.events += 1;
            if agenda <= self.now
                && let Some((_, event)) = self.agenda.pop_first()
            {
                self.happen(event)?;
            }
            for end in 0..self.ends.len() {
                let mut effects = Effects::default();
                self.ends[end].poll(self.now, &mut self.random, &mut effects)?;
                self.take(end, effects)?;
            }
            self.check_sessions()?;
            self.skip();
        }
    }

    fn schedule(&mut self, at: Millis, event: Event) {
        self.in_flight += usize::from(matches!(event, Event::Arrive { .. }));
        self.scheduled += 1;
        self.agenda.insert((at, self.scheduled), event);
    }

    fn note(&mut self, note: Note) {
        let recent = &mut self.recent[usize::from(matches!(note, Note::Text(_)))];
        if recent.len() == RECENT {
            recent.pop_front();
        }
        recent.push_back((self.now, note));
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        let now = self.now;
        if let Event::Arrive { to, packet, attack } = event {
            self.in_flight -= 1;
            return self.arrive(to, packet, attack);
        }
        self.note(Note::Text(format!("{event:?}")));
        self.busy_until = self.busy_until.max(now + BUSY);
        let mut effects = Effects::default();
        match event {
            Event::Arrive { .. } => {}
            Event::Write { session, octets } => {
                for side in 0..2 {
                    let mut effects = Effects::default();
                    let (end, half) = self.place(session, side);
                    self.ends[end].write(half, octets, now, &mut effects)?;
                    self.take(end, effects)?;
                }
            }
            Event::Outage { session, length, only } => {
                for side in (0..2).filter(|side| only.is_none_or(|only| only == *side)) {
                    self.sessions[session].outage_until[side] = now + length;
                }
                self.disturb(session, now + length);
            }
            Event::Noise { session, length, loss } => {
                self.sessions[session].noise = (now + length, loss);
                self.disturb(session, now + length);
                for _ in 0..length / 4_000 {
                    let at = now + self.random.u64(0..length);
                    let octets = self.random.u32(19..2_000);
                    self.schedule(at, Event::Write { session, octets });
                }
            }
            Event::Reboot { end, length } => {
                self.ends[end].reboot(now, now + length)?;
                for session in self.of_end(end) {
                    self.excuse(session, now + length);
                }
            }
            Event::Restart { end, has_state } => {
                let of_end = self.of_end(end);
                let loses = |half: &Half| half.held & !half.valid != 0;
                let is_lost = self.ends[end].kind == Kind::Gateway
                    && (!has_state || self.ends[end].halves.iter().any(loses));
                self.ends[end].restart_gateway(has_state, now)?;
                for session in of_end.into_iter().filter(|_| is_lost) {
                    self.excuse(session, now);
                }
            }
            Event::SetClock { end, error } => self.ends[end].clock.set(now, error),
            Event::Freeze { end } => self.ends[end].clock.freeze(now),
            Event::Reload { session, side, known } => {
                let (end, half) = self.place(session, side);
                let known = self.ends[end].halves[half].file.known.max(known);
                self.ends[end].reload(half, known)?;
            }
            Event::ReloadDamaged { session, side } => {
                let (end, half) = self.place(session, side);
                self.ends[end].reload_damaged(half, &mut self.random)?;
            }
            Event::Remove { session, side, length } => {
                let (end, half) = self.place(session, side);
                if self.ends[end].halves[half].is_configured {
                    self.ends[end].remove(half, now, &mut effects)?;
                    self.take(end, effects)?;
                    self.schedule(now + length, Event::Add { session, side });
                    self.evaluate(session);
                }
            }
            Event::Add { session, side } => {
                let (end, half) = self.place(session, side);
                self.ends[end].configure(half, now)?;
            }
            Event::Attack { packets } => {
                for _ in 0..packets {
                    self.attack();
                }
            }
        }
        Ok(())
    }

    fn attack(&mut self) {
        let random = &mut self.random;
        let forged = if random.u8(0..4) == 0 { self.forge() } else { None };
        let count = self.ends.len();
        let end_of = |octets: &[u8]| (0..count).find(|end| octets[3] == *end as u8 + 1);
        let recorded = || {
            let (to, packet) = self.attacker.packet(&mut self.random, end_of)?;
            Some(Event::Arrive { to, packet, attack: Some(Attack::Recorded) })
        };
        let Some(event) = forged.or_else(recorded) else { return };
        let at = self.now + self.random.u64(0..2_000);
        self.schedule(at, event);
    }

    /// A packet under a key that has expired at its receiver.
    fn forge(&mut self) -> Option<Event> {
        let (session, side) = (self.random.usize(0..self.sessions.len()), self.random.usize(0..2));
        let (to, half) = self.place(session, 1 - side);
        let receiver = &self.ends[to].halves[half];
        let (end, half) = self.place(session, side);
        let sender = &self.ends[end].halves[half];
        let over = receiver.file.over(self.ends[to].clock.second(self.now)) & !receiver.held;
        let keys: Vec<_> =
            sender.file.chain.keys().iter().filter(|key| over >> key.key_id() & 1 == 1).collect();
        let key = self.random.choice(keys)?;
        let open = sender.open.iter().find(|open| open.tcp.state == State::Established)?;
        let opens = side == 0 && self.random.bool();
        let packet = forged(&open.tcp, key.mkt(), opens)?;
        let attack = Some(Attack::Forged { session, key: key.key_id() as usize });
        Some(Event::Arrive { to, packet, attack })
    }

    fn arrive(&mut self, to: usize, packet: Vec<u8>, attack: Option<Attack>) -> Result<(), String> {
        let record = self.sent.get(&digest(&packet)).copied();
        let end = &self.ends[to];
        if let Some(Attack::Forged { session, key }) = attack
            && end
                .halves
                .iter()
                .any(|half| half.session == session && (half.valid | half.held) >> key & 1 == 1)
        {
            return Ok(());
        }
        let segment = Segment::parse(&packet).ok();
        let pair = segment
            .as_ref()
            .map(|segment| SocketPair { local: segment.destination(), remote: segment.source() });
        let requested = segment.and_then(|segment| segment.ao_option().ok()?).map(|ao| ao.rnext_key_id.0);
        let known = pair.and_then(|pair| end.isns(&pair));
        let of_session =
            |record: &Record| end.halves.iter().find(|half| half.session == usize::from(record.session));
        // What the peer has sent in this very connection under a key that this end has to hold is accepted, however late it comes.
        let must_be_accepted = record.is_some_and(|record| {
            let valid = of_session(&record).map_or(0, |half| half.valid);
            let held = pair.and_then(|pair| end.open(&pair)).map_or(0, |open| open.held);
            let has_key = (valid | held) >> record.key & 1 == 1;
            let is_of_it = record
                .isns
                .1
                .zip(known)
                .is_some_and(|(isn, (own, peer))| own == isn && peer == record.isns.0);
            has_key && is_of_it && usize::from(record.from) != to && end.down_until <= self.now
        });
        let has_begun = pair.is_some_and(|pair| end.has_begun(&pair));
        // What acknowledges something new is newer than all before, so the key that it asks for is signed with from now on.
        let open = pair.and_then(|pair| end.open(&pair)).filter(|open| open.tcp.state == State::Established);
        let before = open.map(|open| open.tcp.acknowledged);
        let may_be_under =
            record.as_ref().and_then(of_session).map_or((0, 0), |half| (half.valid, half.held));
        let mut effects = Effects::default();
        let mut turn = Turn { now: self.now, random: &mut self.random, effects: &mut effects };
        let received = self.ends[to].receive(&packet, &mut turn)?;
        self.summary.attacks += u64::from(attack.is_some());
        let Received { is_accepted, why, .. } = received;
        self.note(Note::Packet { to, is_accepted, why, packet });
        if !received.is_accepted && must_be_accepted {
            return Err(
                "an end refuses what its peer has sent in this connection under a key that it has to hold"
                    .into(),
            );
        }
        if let Some(half) = received.half {
            self.follow_key(to, half);
        }
        let open = pair.zip(before).and_then(|(pair, before)| Some((before, self.ends[to].open(&pair)?)));
        if let Some((_, open)) = open.filter(|(before, open)| *before != open.tcp.acknowledged)
            && let Some((half, key)) = received.half.zip(requested)
            && let Half { ref agreement, opens, .. } = self.ends[to].halves[half]
            && let Some(key) = agreement.number(key, opens).filter(|key| open.held >> key & 1 == 1)
            && self.ends[to].current_key(half) != Some(key as u8)
        {
            return Err(format!("an end does not sign with key {key}, which a new acknowledgment asks for"));
        }
        if received.is_accepted {
            self.summary.accepted += 1;
            self.summary.replays += u64::from(attack.is_some());
            let Some(record) = record else { return Err("an end accepts what nobody has sent".into()) };
            let session = received.half.map(|half| self.ends[to].halves[half].session);
            if usize::from(record.from) == to || session != Some(usize::from(record.session)) {
                return Err("an end accepts what another than its peer has sent".into());
            }
            let expected = record.isns.1.map(|own| (own, record.isns.0));
            if !record.opens && received.isns != expected {
                return Err(format!(
                    "an end accepts a segment of another connection: {:?}, not {expected:?}",
                    received.isns
                ));
            }
            // A handshake that has begun keeps keys as a connection does.
            let keys = if record.opens && !has_begun { may_be_under.0 } else { may_be_under.1 };
            if keys >> record.key & 1 == 0 {
                return Err(format!(
                    "an end accepts a segment under key {}, which is not valid: {}",
                    record.key,
                    self.keys_of(record.session.into())
                ));
            }
        }
        self.take(to, effects)
    }

    /// Sends an end's packets, and takes note of what has changed.
    fn take(&mut self, from: usize, effects: Effects) -> Result<(), String> {
        let Effects { sent, changes, has_stepped } = effects;
        for sent in sent {
            self.send(from, sent.packet, sent.isns)?;
        }
        for (session, change) in &changes {
            match change {
                Change::None => {}
                Change::Established => {
                    self.summary.opened += 1;
                    let session = &mut self.sessions[*session];
                    (session.has_gone_back, session.current) = ([false; 2], [None; 2]);
                }
                Change::Lost(why) => {
                    self.summary.lost += 1;
                    self.note(Note::Text(format!("end {from} loses session {session}: {why}")));
                    self.evaluate(*session);
                    if self.now > self.sessions[*session].excused_until {
                        return Err(format!(
                            "session {session} is lost ({why}), although its ends have keys in common and the network works: {}",
                            self.keys_of(*session)
                        ));
                    }
                }
            }
            self.busy_until = self.busy_until.max(self.now + BUSY);
        }
        if has_stepped {
            self.busy_until = self.busy_until.max(self.now + BUSY);
            for session in self.of_end(from) {
                for _ in 0..4 {
                    let at = self.now + self.random.u64(0..100_000);
                    let octets = self.random.u32(19..1_500);
                    self.schedule(at, Event::Write { session, octets });
                }
            }
        }
        if has_stepped || !changes.is_empty() {
            self.of_end(from).into_iter().for_each(|session| self.evaluate(session));
        }
        Ok(())
    }

    fn send(&mut self, from: usize, packet: Vec<u8>, isns: (u32, Option<u32>)) -> Result<(), String> {
        self.summary.sent += 1;
        let segment = Segment::parse(&packet).map_err(|error| format!("an end sends no segment: {error}"))?;
        let ao =
            segment.ao_option().ok().flatten().ok_or("a segment to a protected peer is sent unsigned")?;
        let to = (0..self.ends.len()).find(|end| address(*end) == segment.destination_address());
        let to = to.ok_or("a packet for nobody")?;
        let half =
            self.ends[from].halves.iter().find(|half| half.remote == address(to)).ok_or("no session")?;
        let key = half
            .agreement
            .number(ao.key_id.0, half.opens)
            .ok_or("a segment is signed with a key of nobody")?;
        let (index, opens) = (half.session, segment.flags().syn() && !segment.flags().ack());
        let record = Record { from: from as u8, session: index as u8, key: key as u8, opens, isns };
        self.sent.insert(digest(&packet), record);
        let random = &mut self.random;
        self.attacker.record(to, &packet, random);
        let session = &self.sessions[index];
        if self.now < session.outage_until[usize::from(session.ends[0] != from)] {
            return Ok(());
        }
        let is_noisy = self.now < session.noise.0;
        let loss = if is_noisy { session.noise.1 } else { 0 };
        let copies = match random.u8(0..100) {
            chance if chance < loss => 0,
            chance if is_noisy && chance > 90 => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let late = match self.random.u8(..) {
                // Up to the maximum segment lifetime (RFC 9293 §3.4.2).
                0 if is_noisy => self.random.u64(0..120_000),
                1..50 if is_noisy => self.random.u64(0..1_500),
                _ => 0,
            };
            let at = self.now + self.random.u64(2..40) + late;
            self.schedule(at, Event::Arrive { to, packet: packet.clone(), attack: None });
        }
        Ok(())
    }
}

/// An event in words.
fn show(note: &Note) -> String {
    match note {
        Note::Text(text) => text.clone(),
        Note::Packet { to, is_accepted, why, packet } => match Segment::parse(packet) {
            Err(error) => format!("end {to} gets no segment: {error}"),
            Ok(segment) => {
                let verdict = match (is_accepted, why) {
                    (true, _) => "accepts".to_owned(),
                    (_, Some(why)) => format!("refuses ({why})"),
                    _ => "ignores".to_owned(),
                };
                let ids = segment.ao_option().ok().flatten().map(|ao| (ao.key_id.0, ao.rnext_key_id.0));
                format!(
                    "end {to} {verdict}: {:?} to {:?} {:?} {:#x}, acknowledges {:#x}, {} octets, KeyID and RNextKeyID {ids:?}",
                    segment.source(),
                    segment.destination(),
                    segment.flags(),
                    segment.sequence().0,
                    segment.acknowledgment().0,
                    segment.payload().len(),
                )
            }
        },
    }
}

/// A packet's digest, without what TCP-AO does not protect: the rest of the IP header, and TCP's checksum.
fn digest(packet: &[u8]) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = foldhash::quality::FixedState::default().build_hasher();
    for part in [&packet[12..36], &packet[38..]] {
        hasher.write(part);
    }
    hasher.finish()
}

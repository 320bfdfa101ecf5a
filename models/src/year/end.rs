//! An end: a clock that may be wrong, a stack with the sessions of a BGP daemon, and TCP-AO in the kernel or in a gateway below it.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use fastrand::Rng;
use wireseal_keys::{KeyChains, Timestamp};
use wireseal_linux::{IpCidr, PeerName, SocketKind};
use wireseal_tcp_ao::shim::{HashKey, OPTION_ROOM, PeerSlot, Shim, ShimConfig, ShimSlot};
use wireseal_tcp_ao::{
    Connection, ConnectionIdentifier, ConnectionState, Endpoint, MKTS_PER_PEER, Peer, SocketPair,
};

use super::chains::{Agreement, File, Keys, START};
use super::kernel::Socket;
use super::report::{Fault, Kind};
use super::tcp::{Change, Millis, Out, State, Tcp, packet, segment_of, set_checksum};

/// BGP's port.
const PORT: u16 = 179;
/// Connections that a gateway has room for.
const SLOTS: usize = 32;
/// The most connections of a session's end: the open one, an older one, and handshakes.
pub(super) const CONNECTIONS: usize = 5;
/// How often a gateway and a key manager look at their clocks, and the latest time at which they take a step.
const TICK: Millis = 1_000;
pub(super) const IDLE: i64 = 30;
/// When a session is opened again.
const RETRY: Millis = 5_000;

/// An end's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    /// By how much it is ahead, and since when that was so.
    error: i64,
    since: Millis,
    /// How much it gains in a million seconds.
    drift: i64,
    frozen: Option<i64>,
}

impl Clock {
    /// Its time, in milliseconds since the start of the year.
    fn read(&self, now: Millis) -> i64 {
        let passed = (now - self.since) as i64;
        self.frozen.unwrap_or(now as i64 + self.error + passed * self.drift / 1_000_000)
    }

    /// Sets it, so that it is ahead by this much.
    pub(super) fn set(&mut self, now: Millis, error: i64) {
        *self = Self { error, since: now, drift: self.drift, frozen: None };
    }

    pub(super) fn freeze(&mut self, now: Millis) {
        self.frozen = Some(self.read(now));
    }

    pub(super) fn second(&self, now: Millis) -> i64 {
        START + self.read(now).div_euclid(1_000)
    }
}

/// A connection of the stack.
pub(super) struct Open {
    pub(super) tcp: Tcp,
    /// The kernel's socket; a gateway keeps connections in its table.
    pub(super) socket: Option<Socket>,
    /// The keys that an established connection has to hold, by the simulator's own knowledge at the last step.
    pub(super) held: Keys,
    /// Whether the gateway has restarted without its state. After a replayed SYN it may sign for it again, with keys of no connection.
    pub(super) is_forgotten: bool,
}

/// One end of a session.
pub(super) struct Half {
    pub(super) session: usize,
    /// Whether this end opens the session.
    pub(super) opens: bool,
    pub(super) remote: IpAddr,
    pub(super) agreement: Agreement,
    pub(super) file: File,
    pub(super) is_configured: bool,
    /// The peer's index in a gateway's shim.
    pub(super) index: usize,
    pub(super) listener: Option<Socket>,
    pub(super) open: Vec<Open>,
    retry_at: Millis,
    /// A step is due when the clock shows this time, or an earlier one than at the last step.
    pub(super) next_step: i64,
    pub(super) last_step: i64,
    /// By the simulator's own knowledge, at the last step: the keys that are valid, those that a live connection may hold, and the
    /// preferred one.
    pub(super) valid: Keys,
    pub(super) held: Keys,
    pub(super) preferred: Option<usize>,
}

/// A packet that an end sends, with the ISNs of its connection: its own, and the peer's unless it is a SYN.
pub(super) struct Sent {
    pub(super) packet: Vec<u8>,
    pub(super) isns: (u32, Option<u32>),
}

/// What an end has done.
#[derive(Default)]
pub(super) struct Effects {
    pub(super) sent: Vec<Sent>,
    /// Sessions that were established or lost, and why.
    pub(super) changes: Vec<(usize, Change)>,
    /// Keys have begun or ended.
    pub(super) has_stepped: bool,
}

type Gateway = Shim<Vec<PeerSlot>, Vec<ShimSlot>>;

/// A router.
pub(super) struct End {
    pub(super) number: usize,
    pub(super) kind: Kind,
    pub(super) clock: Clock,
    pub(super) halves: Vec<Half>,
    pub(super) shim: Option<Gateway>,
    pub(super) fault: Option<Fault>,
    next_tick: Millis,
    next_port: u16,
    /// It is being started.
    pub(super) down_until: Millis,
}

pub(super) fn address(end: usize) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, end as u8 + 1).into()
}

pub(super) fn host(address: IpAddr) -> IpCidr {
    IpCidr::new_host(address)
}

impl End {
    pub(super) fn new(number: usize, kind: Kind, drift: i64, fault: Option<Fault>) -> Self {
        let (clock, halves, shim) = (Clock { drift, ..Clock::default() }, Vec::new(), None);
        let mut end =
            Self { number, kind, clock, halves, shim, fault, next_tick: 0, next_port: 49_152, down_until: 0 };
        end.start_shim();
        end
    }

    /// Adds its end of a session with another end.
    pub(super) fn add_session(
        &mut self,
        session: usize,
        opens: bool,
        remote: usize,
        agreement: &Agreement,
        known: usize,
    ) -> Result<(), String> {
        self.halves.push(Half {
            session,
            opens,
            remote: address(remote),
            agreement: agreement.clone(),
            file: File::read(agreement, opens, known)?,
            is_configured: false,
            index: 0,
            listener: None,
            open: Vec::new(),
            retry_at: 0,
            next_step: i64::MIN,
            last_step: i64::MIN,
            valid: 0,
            held: 0,
            preferred: None,
        });
        self.configure(self.halves.len() - 1, 0)
    }

    /// Configures the peer of a session.
    pub(super) fn configure(&mut self, half: usize, now: Millis) -> Result<(), String> {
        let (local, half) = (address(self.number), &mut self.halves[half]);
        let second = self.clock.second(now);
        if let Some(shim) = &mut self.shim {
            let connections = ConnectionIdentifier::between(host(local), host(half.remote));
            let mkts = half.file.chain.mkts(Timestamp::from_unix_seconds(second));
            half.index = shim.add_peer(Peer { connections, mkts }).map_err(|error| error.to_string())?;
        } else if !half.opens {
            half.listener = Some(Socket::new(PeerName::new(host(half.remote)), SocketKind::Listener));
        }
        (half.is_configured, half.next_step, self.next_tick) = (true, i64::MIN, 0);
        Ok(())
    }

    /// Removes the peer of a session, after its connections were reset.
    pub(super) fn remove(&mut self, half: usize, now: Millis, effects: &mut Effects) -> Result<(), String> {
        while let Some(open) = self.halves[half].open.pop() {
            let mut out = Vec::new();
            open.tcp.abort(&mut out);
            self.halves[half].open.push(open);
            self.transmit(half, self.halves[half].open.len() - 1, now, &out, effects)?;
            self.halves[half].open.pop();
        }
        let half = &mut self.halves[half];
        (half.is_configured, half.listener) = (false, None);
        (half.valid, half.held, half.preferred) = (0, 0, None);
        if let Some(shim) = &mut self.shim {
            shim.remove_peer(half.index).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Reads a session's file again. The old keys stay if it cannot be read.
    pub(super) fn reload(&mut self, half: usize, known: usize) -> Result<(), String> {
        let half = &mut self.halves[half];
        half.file = File::read(&half.agreement, half.opens, known)?;
        (half.next_step, self.next_tick) = (i64::MIN, 0);
        Ok(())
    }

    /// Reads a damaged file, which must be refused.
    pub(super) fn reload_damaged(&mut self, half: usize, random: &mut Rng) -> Result<(), String> {
        let half = &self.halves[half];
        let text = half.agreement.text(half.opens, half.file.known);
        // Cut off inside a string.
        let quotes: Vec<usize> = text.match_indices(" = \"").map(|(place, _)| place + 4).collect();
        let cut = random.choice(quotes).ok_or("a file without texts")?;
        match KeyChains::from_toml(&text[..cut]) {
            Ok(_) => Err("a damaged file is read".into()),
            Err(_) => Ok(()),
        }
    }

    fn start_shim(&mut self) {
        if self.kind == Kind::Gateway {
            let slots = ShimSlot::many(SLOTS);
            let peers = (0..self.halves.len().max(8)).map(|_| PeerSlot::EMPTY).collect();
            let shim = Shim::new(ShimConfig::new(1500), HashKey::new([7; 16]), peers, slots);
            self.shim = Some(shim.expect("there are no peers yet"));
        }
    }

    /// Restarts the whole router, which loses all its connections.
    pub(super) fn reboot(&mut self, now: Millis, until: Millis) -> Result<(), String> {
        for half in &mut self.halves {
            half.open.clear();
            (half.held, half.last_step, half.retry_at) = (0, i64::MIN, until);
        }
        self.down_until = until;
        self.start_shim();
        self.configure_all(now)
    }

    /// Restarts the gateway, or exports and imports the kernel's connections, with or without their state. The stack keeps its connections.
    pub(super) fn restart_gateway(&mut self, has_state: bool, now: Millis) -> Result<(), String> {
        for open in self.halves.iter_mut().flat_map(|half| &mut half.open) {
            if let Some(socket) = &mut open.socket {
                socket.change_state(|_| {})?;
            }
        }
        let Some(shim) = &mut self.shim else { return Ok(()) };
        let pairs: Vec<_> = shim.connections_with_peers().map(|(_, open)| open.pair()).collect();
        let states: Vec<_> = pairs.iter().filter_map(|pair| shim.export(pair)).collect();
        self.start_shim();
        for half in &mut self.halves {
            half.held = 0;
            half.open.iter_mut().for_each(|open| open.held = 0);
        }
        self.configure_all(now)?;
        let states = states.iter().map(|state| ConnectionState::from_octets(&state.to_octets()));
        for state in states.filter(|_| has_state) {
            self.adopt(&state.map_err(|error| error.to_string())?, now);
        }
        let known: Vec<_> = self
            .shim
            .iter()
            .flat_map(|shim| shim.connections_with_peers())
            .map(|(_, open)| open.pair())
            .collect();
        for open in self.halves.iter_mut().flat_map(|half| &mut half.open) {
            // A stack whose handshake is not over repeats its part, and the gateway hears it again.
            let is_open = !matches!(open.tcp.state, State::SynSent | State::SynReceived);
            open.is_forgotten |= is_open && !known.contains(&open.tcp.pair);
        }
        Ok(())
    }

    fn configure_all(&mut self, now: Millis) -> Result<(), String> {
        for half in 0..self.halves.len() {
            if self.halves[half].is_configured {
                self.configure(half, now)?;
            }
        }
        Ok(())
    }

    /// Continues a saved session, as a gateway does; if its keys are gone, the session has to open again.
    fn adopt(&mut self, state: &ConnectionState, now: Millis) {
        let Some(shim) = &mut self.shim else { return };
        let Some((_, peer)) = shim.peer_of(&state.pair) else { return };
        if let Ok(connection) = Connection::<MKTS_PER_PEER>::import(state, &peer.mkts) {
            let _ = shim.adopt(Duration::from_millis(now), connection);
        }
    }

    /// The ISNs of an established connection: this end's, and the peer's.
    pub(super) fn isns(&self, pair: &SocketPair) -> Option<(u32, u32)> {
        let of_kernel = || self.open(pair)?.socket.as_ref()?.keys.connection.as_ref().map(ends_of);
        let of_shim = || self.shim.as_ref()?.connection(pair).map(ends_of);
        of_kernel().or_else(of_shim).flatten()
    }

    /// Whether there is a connection of this pair, or a handshake.
    pub(super) fn has_begun(&self, pair: &SocketPair) -> bool {
        self.open(pair).is_some() || self.shim.as_ref().is_some_and(|shim| shim.connection(pair).is_some())
    }

    pub(super) fn open(&self, pair: &SocketPair) -> Option<&Open> {
        self.halves.iter().flat_map(|half| &half.open).find(|open| open.tcp.pair == *pair)
    }

    /// The SendID of the key that a session's open connection signs with.
    pub(super) fn current_key(&self, half: usize) -> Option<u8> {
        let half = &self.halves[half];
        let open = half.open.iter().find(|open| open.tcp.state == State::Established)?;
        let of_kernel = || Some(open.socket.as_ref()?.keys.connection.as_ref()?.current_key().send_id.0);
        let of_shim = || Some(self.shim.as_ref()?.connection(&open.tcp.pair)?.current_key().send_id.0);
        let send_id = of_kernel().or_else(of_shim)?;
        half.agreement.number(send_id, half.opens).map(|key| key as u8)
    }

    /// When something is to be done next.
    pub(super) fn next_event(&self) -> Millis {
        let timers = self.halves.iter().flat_map(|half| &half.open).map(|open| open.tcp.next_timer());
        let opening =
            self.halves.iter().filter(|half| half.opens && half.is_configured && half.open.is_empty());
        let next = timers.chain(opening.map(|half| half.retry_at)).fold(self.next_tick, Millis::min);
        next.max(self.down_until)
    }

    /// The first moment at which a chain's edge may be due.
    pub(super) fn next_edge(&self, now: Millis) -> Millis {
        let edges = self.halves.iter().filter(|half| half.is_configured);
        let second = self.clock.second(now);
        let edges = edges.filter_map(|half| {
            half.file.chain.next_change(Timestamp::from_unix_seconds(second)).map(Timestamp::unix_seconds)
        });
        let ahead = edges.min().map_or(i64::MAX, |edge| (edge - second) * 999);
        now.saturating_add(ahead.max(0) as u64)
    }

    /// Skips a stretch in which nobody sends.
    pub(super) fn skip(&mut self, length: Millis, until: Millis) {
        self.next_tick = until;
        for half in &mut self.halves {
            half.retry_at += length;
            half.open.iter_mut().for_each(|open| open.tcp.skip(length, until));
        }
    }

    /// Lets a session's daemon send so many octets.
    pub(super) fn write(
        &mut self,
        half: usize,
        octets: u32,
        now: Millis,
        effects: &mut Effects,
    ) -> Result<(), String> {
        for index in 0..self.halves[half].open.len() {
            let (tcp, mut out) = (&mut self.halves[half].open[index].tcp, Vec::new());
            if tcp.state == State::Established && self.down_until <= now {
                tcp.write(octets, now, &mut out);
                self.transmit(half, index, now, &out, effects)?;
            }
        }
        Ok(())
    }

    /// Takes steps that are due, lets timers run out, and opens sessions.
    pub(super) fn poll(
        &mut self,
        now: Millis,
        random: &mut Rng,
        effects: &mut Effects,
    ) -> Result<(), String> {
        if now < self.down_until {
            return Ok(());
        }
        if self.next_tick <= now {
            self.next_tick = now + TICK;
            for half in 0..self.halves.len() {
                self.step(half, now, effects)?;
            }
            if let Some(shim) = &mut self.shim {
                shim.expire(Duration::from_millis(now));
                let count = shim.connections().count();
                if count > SLOTS {
                    return Err(format!("a table of {SLOTS} slots has {count} connections"));
                }
            }
        }
        for half in 0..self.halves.len() {
            let mut index = 0;
            while index < self.halves[half].open.len() {
                let mut out = Vec::new();
                let change = self.halves[half].open[index].tcp.poll(now, &mut out);
                self.transmit(half, index, now, &out, effects)?;
                match change {
                    Change::Lost(_) => self.lose(half, index, change, now, effects),
                    _ => index += 1,
                }
            }
            let Half { opens, is_configured, retry_at, ref open, .. } = self.halves[half];
            if opens && is_configured && open.is_empty() && retry_at <= now {
                self.halves[half].retry_at = now + RETRY;
                self.connect(half, now, random, effects)?;
            }
        }
        Ok(())
    }

    pub(super) fn lose(
        &mut self,
        half: usize,
        index: usize,
        change: Change,
        now: Millis,
        effects: &mut Effects,
    ) {
        let half = &mut self.halves[half];
        half.retry_at = now + RETRY;
        if half.open.remove(index).tcp.state == State::Established {
            effects.changes.push((half.session, change));
        }
    }

    fn connect(
        &mut self,
        half: usize,
        now: Millis,
        random: &mut Rng,
        effects: &mut Effects,
    ) -> Result<(), String> {
        self.next_port = self.next_port.checked_add(1).unwrap_or(49_152);
        let local = Endpoint::new(address(self.number), self.next_port);
        let pair = SocketPair { local, remote: Endpoint::new(self.halves[half].remote, PORT) };
        let (mut out, isn) = (Vec::new(), isn(random));
        let tcp = Tcp::open(pair, isn, now, &mut out);
        let socket = if self.kind == Kind::Kernel {
            let half = &self.halves[half];
            let mut socket = Socket::new(PeerName::new(host(half.remote)), SocketKind::Closed);
            socket.step(&half.file.chain, Timestamp::from_unix_seconds(self.clock.second(now)));
            let connected = if half.preferred.is_none() { None } else { socket.connect(pair, isn) };
            if connected.is_none() && self.fault == Some(Fault::PassesUnsigned) {
                effects.sent.push(Sent { packet: packet(pair, &out[0], &[]), isns: (isn, None) });
            }
            let Some(socket) = connected else { return Ok(()) };
            Some(socket)
        } else {
            None
        };
        self.halves[half].open.push(Open { tcp, socket, held: 0, is_forgotten: false });
        self.transmit(half, 0, now, &out, effects)
    }

    /// Signs segments and sends them.
    pub(super) fn transmit(
        &mut self,
        half: usize,
        index: usize,
        now: Millis,
        segments: &[Out],
        effects: &mut Effects,
    ) -> Result<(), String> {
        for out in segments {
            let open = &self.halves[half].open[index];
            let (pair, isn) = (open.tcp.pair, open.tcp.isn);
            let is_known = open.tcp.state != State::SynSent && !open.is_forgotten;
            let remote_isn = is_known.then_some(open.tcp.remote_isn);
            let is_spoiled = self.fault == Some(Fault::RetransmitsWithNewestSne)
                && out.is_retransmission
                && self.is_of_earlier_turn(&pair, out.sequence);
            if is_spoiled {
                self.change_state(half, index, now, |state| state.send_sne.0 += 1)?;
            }
            if let Some(packet) = self.signed(half, index, now, out)? {
                effects.sent.push(Sent { packet, isns: (isn, remote_isn) });
            }
            if is_spoiled {
                self.change_state(half, index, now, |state| state.send_sne.0 -= 1)?;
            }
        }
        Ok(())
    }

    fn signed(
        &mut self,
        half: usize,
        index: usize,
        now: Millis,
        out: &Out,
    ) -> Result<Option<Vec<u8>>, String> {
        let open = &mut self.halves[half].open[index];
        if let Some(socket) = &mut open.socket {
            let Some(connection) = &mut socket.keys.connection else { return Ok(None) };
            let mut options = [0; 40];
            let length = connection.append_ao(&mut options, 0).map_err(|error| error.to_string())?;
            let mut packet = packet(open.tcp.pair, out, &options[..length]);
            // A reset of a connection that is not established may have no key.
            if connection.sign(segment_of(&mut packet)).is_err() {
                return if connection.is_established() { Err("cannot sign".into()) } else { Ok(None) };
            }
            set_checksum(&mut packet);
            return Ok(Some(packet));
        }
        let mut plain = packet(open.tcp.pair, out, &[]);
        set_checksum(&mut plain);
        let Some(shim) = &mut self.shim else { return Ok(None) };
        let mut buffer = [&[0; OPTION_ROOM], &plain[..]].concat();
        Ok(match shim.outbound(Duration::from_millis(now), &mut buffer, OPTION_ROOM) {
            Ok(range) => Some(buffer[range].to_vec()),
            Err(_) if self.fault == Some(Fault::PassesUnsigned) => Some(plain),
            Err(_) => None,
        })
    }

    /// Whether a sequence number comes before 2^32, and the newest after it.
    fn is_of_earlier_turn(&self, pair: &SocketPair, sequence: u32) -> bool {
        let of_kernel = || Some(self.open(pair)?.socket.as_ref()?.keys.connection.as_ref()?.highest_sent());
        let of_shim = || Some(self.shim.as_ref()?.connection(pair)?.highest_sent());
        of_kernel().or_else(of_shim).is_some_and(|(sne, highest)| sne.0 > 0 && sequence > highest.0)
    }

    /// Changes the state of an established connection, for a fault.
    fn change_state(
        &mut self,
        half: usize,
        index: usize,
        now: Millis,
        change: impl FnOnce(&mut ConnectionState),
    ) -> Result<(), String> {
        let open = &mut self.halves[half].open[index];
        if let Some(socket) = &mut open.socket {
            return socket.change_state(change);
        }
        let pair = open.tcp.pair;
        if let Some(mut state) = self.shim.as_mut().and_then(|shim| shim.export(&pair)) {
            change(&mut state);
            self.adopt(&state, now);
        }
        Ok(())
    }
}

pub(super) fn ends_of<const N: usize>(connection: &Connection<N>) -> Option<(u32, u32)> {
    let isns = connection.local_isn()?.0;
    connection.is_established().then_some((isns, connection.remote_isn()?.0))
}

/// An ISN; every second one is just below 2^32.
pub(super) fn isn(random: &mut Rng) -> u32 {
    if random.bool() { u32::MAX - random.u32(0..4_000) } else { random.u32(..) }
}

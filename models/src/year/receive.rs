//! What an end does with a packet from the link (the kernel or the gateway verifies it, then TCP gets it), and when keys begin or end.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use wireseal_keys::{Key, KeyChain, Lifetime, Timestamp};
use wireseal_linux::PeerName;
use wireseal_tcp_ao::shim::Refusal;
use wireseal_tcp_ao::{Segment, SocketPair};

use super::chains::Keys;
use super::end::{CONNECTIONS, Effects, End, Half, IDLE, Open, ends_of, host, isn};
use super::kernel::Socket;
use super::report::{Fault, Kind};
use super::tcp::{Change, Millis, State, Tcp};

/// What an end needs at a moment.
pub(super) struct Turn<'a> {
    pub(super) now: Millis,
    pub(super) random: &'a mut Rng,
    pub(super) effects: &'a mut Effects,
}

/// The verdict on a packet.
#[derive(Clone, Copy, Default)]
pub(super) struct Received {
    /// The session it belongs to, by the number of this end's half.
    pub(super) half: Option<usize>,
    pub(super) is_accepted: bool,
    /// Why it was refused, if TCP-AO has refused it.
    pub(super) why: Option<Refusal>,
    /// Of its connection, once that is established: this end's ISN, and the peer's.
    pub(super) isns: Option<(u32, u32)>,
}

impl End {
    /// Receives a packet from the link. Fails if the stack gets data that were not sent.
    pub(super) fn receive(&mut self, packet: &[u8], turn: &mut Turn<'_>) -> Result<Received, String> {
        let mut received = Received::default();
        let Some(segment) = Segment::parse(packet).ok().filter(|_| self.down_until <= turn.now) else {
            return Ok(received);
        };
        let pair = SocketPair { local: segment.destination(), remote: segment.source() };
        let Some(half) = self.halves.iter().position(|half| half.remote == pair.remote.address()) else {
            return Ok(received);
        };
        received.half = Some(half);
        if self.kind == Kind::Gateway {
            self.receive_in_gateway(&mut received, half, pair, packet, &segment, turn)?;
        } else if self.halves[half].is_configured {
            self.receive_in_kernel(&mut received, half, pair, &segment, turn)?;
        }
        Ok(received)
    }

    fn receive_in_gateway(
        &mut self,
        received: &mut Received,
        half: usize,
        pair: SocketPair,
        packet: &[u8],
        segment: &Segment<'_>,
        turn: &mut Turn<'_>,
    ) -> Result<(), String> {
        let (fault, index) = (self.fault, self.halves[half].index);
        let Some(shim) = &mut self.shim else { return Ok(()) };
        let opens = segment.flags().syn() && !segment.flags().ack();
        if fault == Some(Fault::SynReplacesConnection)
            && opens
            && shim.peer(index).is_some_and(|peer| peer.mkts.verify_syn(*segment).is_ok())
        {
            shim.forget(&pair);
        }
        let before =
            shim.connection(&pair).map(|open| (open.current_key().send_id, open.highest_received().1));
        let mut buffer = packet.to_vec();
        let range = match shim.inbound(Duration::from_millis(turn.now), &mut buffer) {
            // A peer that is not configured is not protected.
            Ok(_) if !self.halves[half].is_configured => return Ok(()),
            Ok(range) => range,
            Err(why) => {
                received.why = Some(why);
                return Ok(());
            }
        };
        let connection = shim.connection_mut(&pair);
        received.is_accepted = true;
        received.isns = connection.as_ref().and_then(|connection| ends_of(connection));
        if let (Some((current, highest)), Some(connection)) = (before, connection)
            && fault == Some(Fault::DeafToRetransmissions)
            && segment.sequence().before(highest)
        {
            let _ = connection.set_current_key(current);
        }
        let plain = buffer.get(range).ok_or("a packet outside of its buffer")?;
        let plain = Segment::parse(plain).map_err(|error| error.to_string())?;
        self.pass_to_tcp(half, pair, &plain, None, turn)
    }

    fn receive_in_kernel(
        &mut self,
        received: &mut Received,
        half: usize,
        pair: SocketPair,
        segment: &Segment<'_>,
        turn: &mut Turn<'_>,
    ) -> Result<(), String> {
        let fault = self.fault;
        let Half { open, listener, remote, .. } = &mut self.halves[half];
        let opens = segment.flags().syn() && !segment.flags().ack();
        let mkts = listener.as_ref().filter(|_| opens).map(|listener| listener.keys.mkts());
        let syn = mkts.as_ref().and_then(|mkts| mkts.verify_syn(*segment).ok());
        if fault == Some(Fault::SynReplacesConnection) && syn.is_some() {
            open.retain(|open| open.tcp.pair != pair);
        }
        let Some(known) = open.iter_mut().find(|open| open.tcp.pair == pair) else {
            let Some((listener, syn)) = listener.as_ref().zip(syn) else { return Ok(()) };
            let socket = Socket::accept(&listener.keys, &syn, PeerName::new(host(*remote)));
            received.is_accepted = true;
            return self.pass_to_tcp(half, pair, segment, Some(socket), turn);
        };
        // A handshake has the listener's keys until it ends.
        if known.tcp.state == State::SynReceived {
            let key_id = segment.ao_option().ok().flatten().map(|ao| ao.key_id);
            let has_key =
                listener.as_ref().zip(key_id).is_some_and(|(listener, id)| listener.keys.has_recv_id(id));
            if !has_key {
                return Ok(());
            }
        }
        let Some(socket) = &mut known.socket else { return Ok(()) };
        if let Err(why) = socket.keys.verify(segment, fault == Some(Fault::DeafToRetransmissions)) {
            received.why = Some(Refusal::Verify(why));
            return Ok(());
        }
        received.is_accepted = true;
        received.isns = socket.keys.connection.as_ref().and_then(ends_of);
        self.pass_to_tcp(half, pair, segment, None, turn)
    }

    /// Passes a verified segment to TCP; `socket` is the kernel's for a SYN that opens a connection.
    fn pass_to_tcp(
        &mut self,
        half: usize,
        pair: SocketPair,
        segment: &Segment<'_>,
        socket: Option<Socket>,
        turn: &mut Turn<'_>,
    ) -> Result<(), String> {
        let mut out = Vec::new();
        let Half { open, opens, session, is_configured, .. } = &mut self.halves[half];
        let Some(index) = open.iter().position(|open| open.tcp.pair == pair) else {
            if segment.flags().syn() && !segment.flags().ack() && !*opens && *is_configured {
                if open.len() == CONNECTIONS
                    && let Some(oldest) = open.iter().position(|open| open.tcp.state == State::SynReceived)
                {
                    open.remove(oldest);
                }
                let tcp = Tcp::accept(pair, isn(turn.random), segment.sequence().0, turn.now, &mut out);
                open.push(Open { tcp, socket, held: 0, is_forgotten: false });
                let last = open.len() - 1;
                self.transmit(half, last, turn.now, &out, turn.effects)?;
            }
            return Ok(());
        };
        let change = open[index].tcp.segment(segment, turn.now, &mut out)?;
        match change {
            Change::None => self.transmit(half, index, turn.now, &out, turn.effects),
            Change::Lost(_) => {
                self.lose(half, index, change, turn.now, turn.effects);
                Ok(())
            }
            Change::Established => {
                turn.effects.changes.push((*session, change));
                if let Some(socket) = &mut open[index].socket {
                    socket.establish();
                }
                self.transmit(half, index, turn.now, &out, turn.effects)?;
                self.close_older(half, &pair, turn.now, turn.effects)?;
                // The daemon attaches the connection to its key manager.
                self.halves[half].next_step = i64::MIN;
                self.step(half, turn.now, turn.effects)
            }
        }
    }

    /// Resets a session's connections from before this one: its peer has opened it anew.
    fn close_older(
        &mut self,
        half: usize,
        newest: &SocketPair,
        now: Millis,
        effects: &mut Effects,
    ) -> Result<(), String> {
        let is_older = |open: &Open| open.tcp.pair != *newest && open.tcp.state == State::Established;
        while let Some(index) = self.halves[half].open.iter().position(is_older) {
            let mut out = Vec::new();
            self.halves[half].open[index].tcp.abort(&mut out);
            self.transmit(half, index, now, &out, effects)?;
            self.halves[half].open.remove(index);
        }
        Ok(())
    }

    /// Brings a session's keys in line with its chain, if that is due, and checks which keys its connections hold.
    pub(super) fn step(&mut self, half: usize, now: Millis, effects: &mut Effects) -> Result<(), String> {
        let second = self.clock.second(now);
        let moment = Timestamp::from_unix_seconds(second);
        let number = half;
        let chain = self.chain(half, moment)?;
        let half = &mut self.halves[half];
        if !half.is_configured {
            return Ok(());
        }
        let before = (half.valid, half.preferred);
        half.valid = half.file.valid(second);
        // A live connection keeps keys that are valid later: this end's clock was set back.
        let over = half.file.over(second);
        half.held = half.valid | half.held & !over;
        for open in half.open.iter_mut().filter(|open| open.tcp.state == State::Established) {
            open.held = half.valid | open.held & !over;
        }
        half.preferred = half.file.preferred(second);
        effects.has_stepped |= before != (half.valid, half.preferred);
        let is_idle = self.kind == Kind::Kernel && second >= half.last_step.saturating_add(IDLE);
        if second < half.last_step || half.next_step <= second || is_idle {
            half.last_step = second;
            let next = half.file.chain.next_change(moment).map(Timestamp::unix_seconds);
            half.next_step = next.unwrap_or(i64::MAX);
            if let Some(shim) = &mut self.shim {
                chain.apply_to(shim, half.index, moment).map_err(|error| error.to_string())?;
            } else {
                self.step_sockets(number, &chain, now, moment, effects)?;
            }
        }
        self.check_keys(number)
    }

    fn step_sockets(
        &mut self,
        half: usize,
        chain: &Arc<KeyChain>,
        now: Millis,
        moment: Timestamp,
        effects: &mut Effects,
    ) -> Result<(), String> {
        let Half { listener, open, next_step, .. } = &mut self.halves[half];
        let mut expired = Vec::new();
        let listener = listener.iter_mut().map(|socket| (None, socket));
        // A handshake that the peer began has the listener's keys.
        let open = open.iter_mut().filter(|open| open.tcp.state != State::SynReceived);
        let open = open.filter_map(|open| Some((Some(open.tcp.pair), open.socket.as_mut()?)));
        for (pair, socket) in listener.chain(open) {
            let step = socket.step(chain, moment);
            if let Some(error) = step.failed.first() {
                return Err(format!("the kernel has refused a call: {error}"));
            }
            *next_step = step.next.map_or(*next_step, |next| next.unix_seconds().min(*next_step));
            expired.extend(pair.filter(|_| step.expired));
        }
        for pair in expired {
            // The daemon ends the session in order.
            if let Some(index) = self.halves[half].open.iter().position(|open| open.tcp.pair == pair) {
                let mut out = Vec::new();
                self.halves[half].open[index].tcp.abort(&mut out);
                self.transmit(half, index, now, &out, effects)?;
                self.lose(half, index, Change::Lost("its keys have expired"), now, effects);
            }
        }
        Ok(())
    }

    /// No connection may hold a key that has expired or was never valid.
    fn check_keys(&self, half: usize) -> Result<(), String> {
        let half = &self.halves[half];
        let number = |send_id: u8| half.agreement.number(send_id, half.opens);
        let check = |send_ids: &mut dyn Iterator<Item = u8>| {
            let keys = send_ids.filter_map(number).fold(0, |keys: Keys, key| keys | 1 << key);
            match keys & !half.held {
                0 => Ok(()),
                others => {
                    Err(format!("a connection holds the keys {keys:#b}, {others:#b} of them are not valid"))
                }
            }
        };
        let is_established = |open: &&Open| open.tcp.state == State::Established;
        for socket in half.open.iter().filter(is_established).filter_map(|open| open.socket.as_ref()) {
            check(&mut socket.keys.send_ids())?;
        }
        let connections = self.shim.iter().flat_map(|shim| shim.connections_with_peers());
        for (_, connection) in connections.filter(|(index, _)| *index == half.index) {
            check(&mut connection.keys().map(|key| key.send_id.0))?;
        }
        Ok(())
    }

    /// A session's chain as this end understands it: as it was read, but for some faults.
    fn chain(&self, half: usize, now: Timestamp) -> Result<Arc<KeyChain>, String> {
        let chain = &self.halves[half].file.chain;
        let changed = |key: &Key| {
            let (send, accept) = (*key.send_lifetime(), *key.accept_lifetime());
            match self.fault {
                Some(Fault::DeletesKeyInUse) => (!send.is_over(now)).then(|| key.clone()),
                Some(Fault::ClockSetBackDeletesKeys) => {
                    let is_valid = accept.widened_by(chain.accept_tolerance()).contains(now);
                    is_valid.then(|| key.clone())
                }
                _ => {
                    let accept = Lifetime::new(accept.from(), None).ok()?;
                    Key::new(key.key_id(), key.mkt().clone()).with_lifetimes(send, accept).ok()
                }
            }
        };
        let spoils = [Fault::DeletesKeyInUse, Fault::ClockSetBackDeletesKeys, Fault::ExpiredKeysStay];
        if !self.fault.is_some_and(|fault| spoils.contains(&fault)) {
            return Ok(Arc::clone(chain));
        }
        let keys: Vec<Key> = chain.keys().iter().filter_map(changed).collect();
        if keys.is_empty() {
            return Ok(Arc::clone(chain));
        }
        let spoiled = KeyChain::new(chain.name(), keys).map_err(|error| error.to_string())?;
        Ok(Arc::new(
            spoiled.with_accept_tolerance(chain.accept_tolerance()).map_err(|error| error.to_string())?,
        ))
    }
}

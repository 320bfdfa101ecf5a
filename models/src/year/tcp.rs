//! A small TCP without options, with what a BGP session needs on top: keepalives and a hold timer. Its timers are in virtual
//! time, so a quiet stretch is skipped by moving them.

use std::net::{IpAddr, Ipv4Addr};

use wireseal_tcp_ao::{Segment, SocketPair, checksum};

/// Milliseconds of virtual time.
pub(super) type Millis = u64;

/// BGP's suggested times (RFC 4271 §10).
pub(super) const HOLD: Millis = 90_000;
const KEEPALIVE: Millis = 30_000;
/// Octets of a BGP KEEPALIVE.
const KEEPALIVE_LENGTH: u32 = 19;

const FIRST_TIMEOUT: Millis = 1_000;
const LONGEST_TIMEOUT: Millis = 8_000;
/// How long a handshake may take.
const HANDSHAKE: Millis = 30_000;
/// Octets of a segment, and of all that are not acknowledged.
const MSS: u32 = 500;
const WINDOW: u32 = 4 * MSS;

pub(super) const SYN: u8 = 0x02;
pub(super) const RST: u8 = 0x04;
pub(super) const ACK: u8 = 0x10;

/// A segment to send.
#[derive(Clone, Debug)]
pub(super) struct Out {
    pub(super) sequence: u32,
    pub(super) acknowledgment: u32,
    pub(super) flags: u8,
    pub(super) payload: Vec<u8>,
    pub(super) is_retransmission: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    SynSent,
    SynReceived,
    Established,
}

/// What an event has done to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    None,
    Established,
    /// It is gone, with the reason.
    Lost(&'static str),
}

/// One end of a connection.
#[derive(Clone, Debug)]
pub(super) struct Tcp {
    pub(super) pair: SocketPair,
    pub(super) state: State,
    pub(super) isn: u32,
    pub(super) remote_isn: u32,
    /// The first octet that is not acknowledged, the next to send, and the end of what is to be sent.
    pub(super) acknowledged: u32,
    pub(super) next: u32,
    end: u32,
    pub(super) received: u32,
    timeout: Millis,
    /// After a timeout only the first segment is sent, until it is acknowledged.
    has_timed_out: bool,
    retransmit_at: Option<Millis>,
    give_up_at: Millis,
    keepalive_at: Millis,
}

impl Tcp {
    /// Opens a connection; the SYN is in `out`.
    pub(super) fn open(pair: SocketPair, isn: u32, now: Millis, out: &mut Vec<Out>) -> Self {
        let tcp = Self::new(pair, State::SynSent, (isn, 0), now);
        tcp.send(tcp.isn, SYN, false, out);
        tcp
    }

    /// Answers a SYN.
    pub(super) fn accept(pair: SocketPair, isn: u32, syn: u32, now: Millis, out: &mut Vec<Out>) -> Self {
        let tcp = Self::new(pair, State::SynReceived, (isn, syn), now);
        tcp.send(tcp.isn, SYN | ACK, false, out);
        tcp
    }

    fn new(pair: SocketPair, state: State, (isn, remote_isn): (u32, u32), now: Millis) -> Self {
        let next = isn.wrapping_add(1);
        Self {
            pair,
            state,
            isn,
            remote_isn,
            acknowledged: isn,
            next,
            end: next,
            received: remote_isn.wrapping_add(1),
            timeout: FIRST_TIMEOUT,
            has_timed_out: false,
            retransmit_at: Some(now + FIRST_TIMEOUT),
            give_up_at: now + HANDSHAKE,
            keepalive_at: Millis::MAX,
        }
    }

    /// Sends so many octets.
    pub(super) fn write(&mut self, octets: u32, now: Millis, out: &mut Vec<Out>) {
        self.end = self.end.wrapping_add(octets);
        self.flush(now, out);
    }

    /// Resets the connection.
    pub(super) fn abort(&self, out: &mut Vec<Out>) {
        self.send(self.next, RST | ACK, false, out);
    }

    /// Receives a verified segment from the peer. Fails if its data are wrong, and says why.
    pub(super) fn segment(
        &mut self,
        segment: &Segment<'_>,
        now: Millis,
        out: &mut Vec<Out>,
    ) -> Result<Change, String> {
        let flags = segment.flags();
        let (sequence, acknowledgment) = (segment.sequence().0, segment.acknowledgment().0);
        let acknowledges_syn = flags.ack() && acknowledgment == self.isn.wrapping_add(1);
        match self.state {
            State::SynSent if flags.syn() && acknowledges_syn => {
                (self.remote_isn, self.received) = (sequence, sequence.wrapping_add(1));
                self.establish(now);
                self.acknowledge(out);
                return Ok(Change::Established);
            }
            State::SynSent => return Ok(Change::None),
            State::SynReceived if flags.syn() && sequence == self.remote_isn => {
                self.send(self.isn, SYN | ACK, true, out);
                return Ok(Change::None);
            }
            State::SynReceived if flags.syn() || !acknowledges_syn => return Ok(Change::None),
            State::Established if flags.syn() => {
                // RFC 5961 §4.
                self.acknowledge(out);
                return Ok(Change::None);
            }
            _ => {}
        }
        if flags.rst() {
            return Ok(if sequence == self.received {
                Change::Lost("reset by the peer")
            } else {
                Change::None
            });
        }
        let mut change = Change::None;
        if self.state == State::SynReceived {
            self.establish(now);
            change = Change::Established;
        }
        let newly = acknowledgment.wrapping_sub(self.acknowledged);
        if flags.ack() && newly != 0 && newly <= self.next.wrapping_sub(self.acknowledged) {
            self.acknowledged = acknowledgment;
            self.timeout = FIRST_TIMEOUT;
            let is_done = self.acknowledged == self.next;
            self.retransmit_at = (!is_done).then_some(now + self.timeout);
            if self.has_timed_out && !is_done {
                self.resend(out);
            } else {
                self.has_timed_out = false;
                self.flush(now, out);
            }
        }
        let payload = segment.payload();
        if !payload.is_empty() {
            let known = self.received.wrapping_sub(sequence) as usize;
            if known < payload.len() {
                self.check(sequence, payload)?;
                self.received = sequence.wrapping_add(payload.len() as u32);
                self.give_up_at = now + HOLD;
            }
            self.acknowledge(out);
        }
        Ok(change)
    }

    /// Lets timers run out.
    pub(super) fn poll(&mut self, now: Millis, out: &mut Vec<Out>) -> Change {
        if self.give_up_at <= now {
            if self.state != State::Established {
                return Change::Lost("no answer to a SYN");
            }
            self.abort(out);
            return Change::Lost("the hold timer has run out");
        }
        if self.keepalive_at <= now {
            self.keepalive_at = now + KEEPALIVE;
            self.write(KEEPALIVE_LENGTH, now, out);
        }
        if self.retransmit_at.is_some_and(|at| at <= now) {
            self.timeout = (self.timeout * 2).min(LONGEST_TIMEOUT);
            self.retransmit_at = Some(now + self.timeout);
            match self.state {
                State::SynSent => self.send(self.isn, SYN, true, out),
                State::SynReceived => self.send(self.isn, SYN | ACK, true, out),
                State::Established => {
                    self.has_timed_out = true;
                    self.resend(out);
                }
            }
        }
        Change::None
    }

    /// When the next timer runs out.
    pub(super) fn next_timer(&self) -> Millis {
        self.give_up_at.min(self.keepalive_at).min(self.retransmit_at.unwrap_or(Millis::MAX))
    }

    /// Whether everything is acknowledged.
    pub(super) fn is_idle(&self) -> bool {
        self.state == State::Established && self.acknowledged == self.end
    }

    /// Skips a stretch in which nobody sends. A keepalive is due at its end.
    pub(super) fn skip(&mut self, length: Millis, until: Millis) {
        self.give_up_at += length;
        self.keepalive_at = until;
    }

    fn establish(&mut self, now: Millis) {
        self.state = State::Established;
        self.acknowledged = self.isn.wrapping_add(1);
        (self.timeout, self.retransmit_at, self.has_timed_out) = (FIRST_TIMEOUT, None, false);
        (self.give_up_at, self.keepalive_at) = (now + HOLD, now);
    }

    fn flush(&mut self, now: Millis, out: &mut Vec<Out>) {
        while self.state == State::Established && !self.has_timed_out && self.next != self.end {
            let room = WINDOW.saturating_sub(self.next.wrapping_sub(self.acknowledged));
            let length = self.end.wrapping_sub(self.next).min(MSS).min(room);
            if length == 0 {
                break;
            }
            self.data(self.next, length, false, out);
            self.next = self.next.wrapping_add(length);
            self.retransmit_at = self.retransmit_at.or(Some(now + self.timeout));
        }
    }

    fn resend(&self, out: &mut Vec<Out>) {
        let length = self.next.wrapping_sub(self.acknowledged).min(MSS);
        self.data(self.acknowledged, length, true, out);
    }

    fn acknowledge(&self, out: &mut Vec<Out>) {
        self.send(self.next, ACK, false, out);
    }

    fn send(&self, sequence: u32, flags: u8, is_retransmission: bool, out: &mut Vec<Out>) {
        let acknowledgment = if flags & ACK == 0 { 0 } else { self.received };
        out.push(Out { sequence, acknowledgment, flags, payload: Vec::new(), is_retransmission });
    }

    fn data(&self, sequence: u32, length: u32, is_retransmission: bool, out: &mut Vec<Out>) {
        let payload = (0..length).map(|index| octet(self.isn, sequence.wrapping_add(index))).collect();
        let acknowledgment = self.received;
        out.push(Out { sequence, acknowledgment, flags: ACK, payload, is_retransmission });
    }

    /// Checks that data are those that the peer sends in this connection.
    fn check(&self, sequence: u32, payload: &[u8]) -> Result<(), String> {
        let mut octets = (sequence..=u32::MAX).chain(0..).zip(payload);
        match octets.all(|(number, found)| octet(self.remote_isn, number) == *found) {
            true => Ok(()),
            false => Err(format!("data that the peer has not sent, from {sequence:#x} on")),
        }
    }
}

/// The octet with this sequence number in a connection with this ISN.
fn octet(isn: u32, number: u32) -> u8 {
    ((isn ^ number).wrapping_mul(0x9e37_79b9) >> 24) as u8
}

/// Octets of an IPv4 header, and of a TCP header without options.
const IPV4: usize = 20;
const TCP: usize = 20;

/// An IPv4 packet with this segment; `options` of a multiple of four octets, and no checksum of TCP's yet.
pub(super) fn packet(pair: SocketPair, segment: &Out, options: &[u8]) -> Vec<u8> {
    let length = IPV4 + TCP + options.len() + segment.payload.len();
    let mut packet = Vec::with_capacity(length);
    packet.extend([0x45, 0]);
    packet.extend((length as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    for end in [pair.local, pair.remote] {
        match end.address() {
            IpAddr::V4(address) => packet.extend(address.octets()),
            IpAddr::V6(_) => unreachable!("the simulated ends have IPv4 addresses"),
        }
    }
    let checksum = checksum::ipv4_header(&packet);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend(pair.local.port().to_be_bytes());
    packet.extend(pair.remote.port().to_be_bytes());
    packet.extend(segment.sequence.to_be_bytes());
    packet.extend(segment.acknowledgment.to_be_bytes());
    packet.extend([((TCP + options.len()) as u8 / 4) << 4, segment.flags, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend(options);
    packet.extend(&segment.payload);
    packet
}

/// The segment in a packet, to be signed or changed.
pub(super) fn segment_of(packet: &mut [u8]) -> &mut [u8] {
    &mut packet[IPV4..]
}

/// Gives a packet's segment the right checksum.
pub(super) fn set_checksum(packet: &mut [u8]) {
    let address = |at: usize| Ipv4Addr::from(*packet[at..].first_chunk().expect("a whole header")).into();
    let (source, destination) = (address(12), address(16));
    let tcp = segment_of(packet);
    tcp[16..18].fill(0);
    let checksum = checksum::tcp_to_send(source, destination, tcp);
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
}

//! A small TCP (RFC 9293) that takes over a connection from a kernel, continues it, and hands it back.
//!
//! It handles established connections only: no handshake, no close. It accepts in-order data and acknowledges all of it,
//! sends a few segments at a time, and goes back to the first unacknowledged octet when a timer expires. A [`Connection`]
//! imported from the kernel's state signs and verifies every segment.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use agent::{Amount, Counted, Pattern, TIME_LIMIT};
use anyhow::{Context, Result, bail, ensure};
use etherparse::{IpNumber, PacketBuilder, TcpHeader};
use smoltcp::phy::Medium;
use speaker::link::{DEFAULT_IP_MTU, Link};
use tokio::time::{Instant, sleep_until, timeout};
use wireseal_linux::{Exported, TcpState, Window};
use wireseal_tcp_ao::option::{MAX_OPTIONS_LENGTH, TCP_HEADER_LENGTH};
use wireseal_tcp_ao::{
    Connection, ConnectionState, MKTS_PER_PEER, MktSet, Segment, SeqNum, SneTracker, checksum,
};

use crate::wire::{Plug, Port, Wire, segment};

/// Retransmission timeout.
const RETRANSMISSION: Duration = Duration::from_millis(300);
/// Most octets in flight.
const CONGESTION_WINDOW: usize = 16 * 1024;
/// Most octets written but not acknowledged.
const SEND_QUEUE: usize = 64 * 1024;
/// Most octets received but not read; the advertised window follows from it.
const RECEIVE_QUEUE: usize = 64 * 1024;
/// Two NOPs and the start of a timestamps option (RFC 7323 §3.2).
const TIMESTAMPS: [u8; 4] = [1, 1, 8, 10];
/// Octets of the whole option, NOPs included.
const TIMESTAMPS_LENGTH: usize = 12;

/// One connection.
pub struct Carrier {
    place: Place,
    connection: Connection<MKTS_PER_PEER>,
    /// The state when the connection was taken over. The fields below hold what has changed since.
    taken: Exported,
    taken_at: Instant,
    /// Unacknowledged data, starting at `unacknowledged`; the first `sent` octets are in flight.
    send_queue: VecDeque<u8>,
    unacknowledged: SeqNum,
    sent: usize,
    retransmit_at: Option<Instant>,
    /// Unread data, ending at `receive_next`.
    receive_queue: VecDeque<u8>,
    receive_next: SeqNum,
    /// The peer's window in octets, and the sequence number of the segment that set it.
    window: (usize, SeqNum),
    /// The peer's latest timestamp.
    timestamp: u32,
}

impl Carrier {
    /// Takes over a connection at a place that receives its peer's packets.
    pub fn take_up(place: Place, exported: Exported, mkts: &MktSet<MKTS_PER_PEER>) -> Result<Self> {
        let connection = Connection::import(&exported.authentication, mkts)?;
        let tcp = &exported.tcp;
        let mut carrier = Self {
            place,
            connection,
            taken_at: Instant::now(),
            send_queue: tcp.send_queue.iter().copied().collect(),
            unacknowledged: SeqNum(tcp.send_next.0.wrapping_sub(u32::try_from(tcp.send_queue.len())?)),
            sent: 0,
            retransmit_at: None,
            receive_queue: tcp.receive_queue.iter().copied().collect(),
            receive_next: tcp.receive_next,
            window: (usize::try_from(tcp.window.send)?, tcp.window.send_update),
            timestamp: 0,
            taken: exported,
        };
        carrier.acknowledge()?;
        Ok(carrier)
    }

    /// Counters, including those taken over from the kernel.
    pub fn counters(&self) -> Counted {
        self.connection.counters().into()
    }

    /// Octets acknowledged and octets received since the takeover.
    pub fn moved(&self) -> (u32, u32) {
        let taken = &self.taken.tcp;
        let first = taken.send_next.0.wrapping_sub(taken.send_queue.len() as u32);
        (self.unacknowledged.0.wrapping_sub(first), self.receive_next.0.wrapping_sub(taken.receive_next.0))
    }

    /// Writes and reads concurrently, and checks each octet read. Written data may still be in flight on return.
    pub async fn transfer(&mut self, send: Amount, receive: Amount) -> Result<()> {
        let (mut written, mut read) = (Pattern::of(send), Pattern::of(receive));
        let mut latest = (self.moved(), Instant::now());
        loop {
            let room = SEND_QUEUE.saturating_sub(self.send_queue.len());
            self.send_queue.extend(written.take(room));
            let octets = read.left().min(self.receive_queue.len());
            read.check(&self.receive_queue.drain(..octets).collect::<Vec<_>>())?;
            self.send_what_may_go()?;
            if (written.left(), read.left()) == (0, 0) {
                return Ok(());
            }
            self.step().await?;
            if self.moved() != latest.0 {
                latest = (self.moved(), Instant::now());
            }
            ensure!(
                latest.1.elapsed() < TIME_LIMIT,
                "the carrier made no progress with {} octets to write and {} to read",
                written.left(),
                read.left()
            );
        }
    }

    /// Queues octets; [`Self::serve_until`] sends them.
    pub fn write_all(&mut self, octets: &[u8]) {
        self.send_queue.extend(octets);
    }

    /// Sends queued data and acknowledges received data until `is_done`.
    pub async fn serve_until(&mut self, is_done: impl Fn(&Self) -> bool) -> Result<()> {
        let serve = async {
            while !is_done(self) {
                self.send_what_may_go()?;
                self.step().await?;
            }
            Ok(())
        };
        timeout(TIME_LIMIT, serve).await.context("the carrier timed out")?
    }

    /// Returns the state, for a kernel to restore.
    pub fn export(self) -> Result<Exported> {
        let state = self.connection.export()?;
        let send = SneTracker::resume(state.send_sne, state.send_sequence);
        let receive = SneTracker::resume(state.receive_sne, state.receive_sequence);
        let taken = self.taken.tcp;
        let (window, send_update) = (u32::try_from(self.window.0)?, self.window.1);
        let room = RECEIVE_QUEUE.saturating_sub(self.receive_queue.len());
        let window = Window {
            send: window,
            send_max: taken.window.send_max.max(window),
            send_update,
            receive: u32::try_from(room)?,
            receive_update: self.receive_next,
        };
        let tcp = TcpState {
            send_next: SeqNum(self.unacknowledged.0.wrapping_add(u32::try_from(self.send_queue.len())?)),
            unsent: self.send_queue.len() - self.sent,
            send_queue: self.send_queue.into(),
            receive_next: self.receive_next,
            receive_queue: self.receive_queue.into(),
            timestamp: taken.timestamp.map(|value| value.wrapping_add(milliseconds_since(self.taken_at))),
            window,
            ..taken
        };
        let authentication = ConnectionState {
            send_sne: send.sne_of(self.unacknowledged),
            send_sequence: self.unacknowledged,
            receive_sne: receive.sne_of(self.receive_next),
            receive_sequence: self.receive_next,
            ..state
        };
        Ok(Exported { tcp, authentication, ..self.taken })
    }

    /// Processes one segment, or retransmits.
    async fn step(&mut self) -> Result<()> {
        let timer = async {
            match self.retransmit_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            frame = self.place.receive() => self.take(&frame),
            () = timer => self.send_again(),
        }
    }

    fn take(&mut self, frame: &[u8]) -> Result<()> {
        let Some(segment) = segment(frame) else { return Ok(()) };
        // The connection has counted it; nothing else to do.
        if self.connection.verify(&segment).is_err() {
            return Ok(());
        }
        let flags = segment.flags();
        ensure!(!flags.rst() && !flags.fin(), "the carrier's peer closed: {flags:?}");
        self.take_acknowledgment(&segment);
        let missing = self.receive_next.offset_from(segment.sequence());
        let (payload, expected) = (segment.payload(), usize::try_from(missing));
        if let Some(new) = expected.ok().and_then(|known| payload.get(known..)) {
            self.receive_queue.extend(new);
            self.receive_next = SeqNum(self.receive_next.0.wrapping_add(u32::try_from(new.len())?));
            self.timestamp = peer_timestamp(&segment).unwrap_or(self.timestamp);
        }
        // Keepalives and window probes carry an old sequence number and need an answer, too.
        if payload.is_empty() && missing == 0 { Ok(()) } else { self.acknowledge() }
    }

    fn take_acknowledgment(&mut self, segment: &Segment<'_>) {
        let acknowledged = segment.acknowledgment().offset_from(self.unacknowledged);
        let Some(acknowledged) =
            usize::try_from(acknowledged).ok().filter(|octets| *octets <= self.send_queue.len())
        else {
            return;
        };
        self.send_queue.drain(..acknowledged);
        self.unacknowledged = segment.acknowledgment();
        self.sent = self.sent.saturating_sub(acknowledged);
        let shift = self.taken.tcp.window_scale.map_or(0, |scale| scale.send);
        let header = segment.header();
        let window = usize::from(u16::from_be_bytes([header[14], header[15]])) << shift;
        self.window = (window, segment.sequence());
        if acknowledged > 0 {
            self.retransmit_at = (self.sent > 0).then(|| Instant::now() + RETRANSMISSION);
        }
    }

    fn send_what_may_go(&mut self) -> Result<()> {
        while self.sent < self.send_queue.len().min(CONGESTION_WINDOW).min(self.window.0) {
            self.send_data()?;
        }
        // The same timer probes a closed window.
        if !self.send_queue.is_empty() && self.retransmit_at.is_none() {
            self.retransmit_at = Some(Instant::now() + RETRANSMISSION);
        }
        Ok(())
    }

    fn send_again(&mut self) -> Result<()> {
        self.sent = 0;
        self.retransmit_at = Some(Instant::now() + RETRANSMISSION);
        self.send_data()
    }

    /// Sends the next data segment without checking the windows.
    fn send_data(&mut self) -> Result<()> {
        let options =
            self.connection.option_length() + self.taken.tcp.timestamp.map_or(0, |_| TIMESTAMPS_LENGTH);
        let most = usize::try_from(self.taken.tcp.mss)?.saturating_sub(options);
        let data: Vec<u8> = self.send_queue.iter().copied().skip(self.sent).take(most).collect();
        let sequence = SeqNum(self.unacknowledged.0.wrapping_add(u32::try_from(self.sent)?));
        self.sent += data.len();
        self.send(sequence, &data)
    }

    fn acknowledge(&mut self) -> Result<()> {
        let next = self.unacknowledged.0.wrapping_add(u32::try_from(self.sent)?);
        self.send(SeqNum(next), &[])
    }

    fn send(&mut self, sequence: SeqNum, data: &[u8]) -> Result<()> {
        let pair = self.connection.pair();
        let (from, to): (IpAddr, IpAddr) = (pair.local.address(), pair.remote.address());
        let room = RECEIVE_QUEUE.saturating_sub(self.receive_queue.len());
        let window = room >> self.taken.tcp.window_scale.map_or(0, |scale| scale.receive);
        let window = u16::try_from(window).unwrap_or(u16::MAX);
        let mut header = TcpHeader::new(pair.local.port(), pair.remote.port(), sequence.0, window);
        header.acknowledgment_number = self.receive_next.0;
        header.ack = true;
        header.psh = !data.is_empty();
        let mut options = [0; MAX_OPTIONS_LENGTH];
        let mut length = 0;
        if let Some(value) = self.taken.tcp.timestamp {
            let value = value.wrapping_add(milliseconds_since(self.taken_at));
            let octets = [TIMESTAMPS, value.to_be_bytes(), self.timestamp.to_be_bytes()].concat();
            options[..TIMESTAMPS_LENGTH].copy_from_slice(&octets);
            length = TIMESTAMPS_LENGTH;
        }
        let length = self.connection.append_ao(&mut options, length)?;
        header.set_options_raw(&options[..length])?;
        let mut tcp = header.to_bytes().to_vec();
        tcp.extend(data);
        self.connection.sign(&mut tcp)?;
        let checksum = checksum::tcp_to_send(from, to, &tcp);
        tcp[CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
        self.place.send(from, to, &tcp)
    }
}

/// The checksum field of a TCP header (RFC 9293 §3.1).
const CHECKSUM: std::ops::Range<usize> = 16..18;

const _: () = assert!(CHECKSUM.end < TCP_HEADER_LENGTH);

/// Linux timestamps count milliseconds.
fn milliseconds_since(start: Instant) -> u32 {
    // Timestamps wrap, too.
    start.elapsed().as_millis() as u32
}

fn peer_timestamp(segment: &Segment<'_>) -> Option<u32> {
    const KIND: u8 = TIMESTAMPS[2];
    let option = segment.options().flatten().find(|option| option.kind == KIND)?;
    Some(u32::from_be_bytes(*option.data.first_chunk()?))
}

/// IP hop limit of its packets.
const HOP_LIMIT: u8 = 64;

/// A guest's place; dropping it gives it back.
pub struct Place {
    own: Port,
    neighbour: Port,
    link: Link,
    _plug: Plug,
}

impl Place {
    /// Diverts the TCP segments of guest `own` to the free port `at`. Replies go to `neighbour`.
    pub fn take_over(wire: &Wire, own: Port, at: Port, neighbour: Port) -> Self {
        let link = Link::new(Medium::Ethernet, DEFAULT_IP_MTU);
        Self { own, neighbour, _plug: wire.plug_in_place_of(own, at, link.clone()), link }
    }

    /// Waits for the next frame. Cancel safe.
    pub async fn receive(&self) -> Vec<u8> {
        self.link.to_stack.pop().await
    }

    /// Sends a TCP segment.
    pub fn send(&self, from: IpAddr, to: IpAddr, tcp: &[u8]) -> Result<()> {
        let mut frame = Vec::new();
        let ethernet =
            PacketBuilder::ethernet2(self.own.hardware_address(), self.neighbour.hardware_address());
        let ip = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => ethernet.ipv4(from.octets(), to.octets(), HOP_LIMIT),
            (IpAddr::V6(from), IpAddr::V6(to)) => ethernet.ipv6(from.octets(), to.octets(), HOP_LIMIT),
            _ => bail!("no packet goes from {from} to {to}"),
        };
        ip.write_to_vec(&mut frame, IpNumber::TCP, tcp)?;
        self.link.from_stack.push(frame);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Barrier;
    use wireseal_algorithms::TcpAoAlgorithm;
    use wireseal_linux::WindowScale;
    use wireseal_tcp_ao::{Counters, Endpoint, HeardKeys, Isn, KeyId, MasterKey, Mkt, Sne, SocketPair};

    use super::*;
    use crate::wire::Port;
    use crate::wire::Wire;

    /// Octets each way before sequence numbers wrap: fewer than one transfer sends.
    const BEFORE_WRAP: u32 = 100_000;
    const OCTETS: u64 = 300_000;

    fn mkts() -> MktSet<MKTS_PER_PEER> {
        let master_key = MasterKey::new(b"moved").unwrap();
        let mkt = Mkt::new(KeyId(1), KeyId(1), TcpAoAlgorithm::Aes128Cmac, master_key).unwrap();
        MktSet::from_mkts([mkt]).unwrap()
    }

    fn exported(pair: SocketPair, isns: (u32, u32)) -> Exported {
        let (send, receive) = (SeqNum(isns.0.wrapping_add(1)), SeqNum(isns.1.wrapping_add(1)));
        let authentication = ConnectionState {
            pair,
            local_isn: Isn(isns.0),
            remote_isn: Isn(isns.1),
            send_sne: Sne(0),
            send_sequence: send,
            sent_end: send,
            receive_sne: Sne(0),
            receive_sequence: receive,
            acknowledged: send,
            heard: HeardKeys::ALL,
            current_key: KeyId(1),
            rnext_key: KeyId(1),
            counters: Counters::default(),
        };
        let tcp = TcpState {
            send_next: send,
            send_queue: Vec::new(),
            unsent: 0,
            receive_next: receive,
            receive_queue: Vec::new(),
            mss: 1460,
            window_scale: Some(WindowScale { send: 7, receive: 7 }),
            sack: true,
            timestamp: Some(1),
            window: Window {
                send: 65_535,
                send_max: 65_535,
                send_update: receive,
                receive: 65_535,
                receive_update: receive,
            },
        };
        Exported { tcp, authentication, required: false, accept_icmps: false }
    }

    fn ends() -> [Exported; 2] {
        let at = |port: Port, number| Endpoint::new(port.ipv6(), number);
        let pair = SocketPair { local: at(Port::North, 179), remote: at(Port::South, 40_000) };
        let isns = (u32::MAX - BEFORE_WRAP, u32::MAX - BEFORE_WRAP / 2);
        [exported(pair, isns), exported(pair.reversed(), (isns.1, isns.0))]
    }

    fn carriers(wire: &Wire, [north, south]: [Exported; 2]) -> [Carrier; 2] {
        let north =
            Carrier::take_up(Place::take_over(wire, Port::North, Port::Host, Port::South), north, &mkts());
        let south = Carrier::take_up(
            Place::take_over(wire, Port::South, Port::Userspace, Port::North),
            south,
            &mkts(),
        );
        [north.unwrap(), south.unwrap()]
    }

    fn amount(seed: u64, from: u64) -> Amount {
        Amount { octets: OCTETS, seed, from }
    }

    /// Both transfer; each keeps answering until the other has finished.
    async fn transfer_both([north, south]: &mut [Carrier; 2], from: u64) {
        let both = Barrier::new(2);
        let (to_south, to_north) = (amount(1, from), amount(2, from));
        tokio::join!(
            transfer_one(north, to_south, to_north, &both),
            transfer_one(south, to_north, to_south, &both)
        );
    }

    async fn transfer_one(carrier: &mut Carrier, send: Amount, receive: Amount, both: &Barrier) {
        carrier.transfer(send, receive).await.unwrap();
        tokio::select! {
            ended = carrier.serve_until(|_| false) => panic!("{ended:?}"),
            _ = both.wait() => {}
        }
    }

    #[tokio::test]
    async fn what_one_hands_back_another_takes_up() {
        let wire = Wire::default();
        let mut both = carriers(&wire, ends());
        transfer_both(&mut both, 0).await;
        let [north, south] = both;
        let ends = [north.export().unwrap(), south.export().unwrap()];
        assert_eq!(ends.each_ref().map(|end| end.authentication.send_sne), [Sne(1); 2]);
        let mut both = carriers(&wire, ends);
        transfer_both(&mut both, OCTETS).await;
        for carrier in &both {
            assert_eq!(carrier.counters().bad, 0);
        }
    }
}

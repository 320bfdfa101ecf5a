//! A made-up session, segment by segment.

use std::net::IpAddr;

use wireseal_tcp_ao::{Endpoint, Isn, Sne};

use super::found::{Found, IPV4_KEY, Recorded, verify};
use super::packet::packet;
use super::sign::{Signing, set_checksum};

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;

/// An MSS of 1,460 octets, as SYNs have it.
pub const MSS: [u8; 4] = [2, 4, 0x05, 0xb4];

/// Two ends; 0 opens, 1 listens.
pub struct Session {
    pub ends: [Endpoint; 2],
    pub isns: [Isn; 2],
    /// The next number of each end, not wrapped.
    pub next: [u64; 2],
    pub signing: [Signing; 2],
    pub time: u64,
    pub packets: Vec<Recorded>,
}

impl Session {
    pub fn new(isns: [u32; 2], signing: [Signing; 2]) -> Self {
        Self {
            ends: [Endpoint::new([192, 0, 2, 1], 50_000), Endpoint::new([192, 0, 2, 2], 179)],
            isns: isns.map(Isn),
            next: isns.map(u64::from),
            signing,
            time: 1_780_000_000_000_000_000,
            packets: Vec::new(),
        }
    }

    /// A session whose ends both sign like the recorded one over IPv4.
    pub fn usual(isns: [u32; 2]) -> Self {
        Self::new(isns, [Signing::ipv4(), Signing::ipv4()])
    }

    /// Verifies with [`IPV4_KEY`], and asserts that every segment is good, in this many connections.
    #[track_caller]
    pub fn all_good(&self, connections: usize) -> Found {
        let found = verify(&self.packets, &[IPV4_KEY]);
        found.assert_all_good(connections);
        found
    }

    pub fn wait(&mut self, seconds: u64) {
        self.time += seconds * 1_000_000_000;
    }

    pub fn addresses(&self, sender: usize) -> (IpAddr, IpAddr) {
        (self.ends[sender].address(), self.ends[1 - sender].address())
    }

    /// The segment that an end would send next, without TCP-AO and checksum.
    pub fn header(&self, sender: usize, flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut tcp = Vec::new();
        tcp.extend(self.ends[sender].port().to_be_bytes());
        tcp.extend(self.ends[1 - sender].port().to_be_bytes());
        tcp.extend((self.next[sender] as u32).to_be_bytes());
        let acknowledgment = if flags & ACK == 0 { 0 } else { self.next[1 - sender] as u32 };
        tcp.extend(acknowledgment.to_be_bytes());
        tcp.extend([((20 + options.len()) as u8 / 4) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
        tcp.extend(options);
        tcp.extend(payload);
        tcp
    }

    /// The same, signed.
    pub fn signed(&self, sender: usize, flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let tcp = self.header(sender, flags, options, payload);
        let isns = [self.isns[sender], self.isns[1 - sender]];
        let sne = Sne((self.next[sender] >> 32) as u32);
        self.signing[sender].sign(self.addresses(sender), &tcp, isns, sne)
    }

    /// Records a segment.
    pub fn record(&mut self, sender: usize, tcp: &[u8]) {
        self.time += 1_000_000;
        self.packets.push((self.time, packet(self.addresses(sender), tcp)));
    }

    /// Records a segment this many times, as a stack repeats one without an answer: after 1, 2, 4 … seconds.
    pub fn repeat(&mut self, sender: usize, tcp: &[u8], count: u32) {
        for number in 0..count {
            if number > 0 {
                self.wait(1 << (number - 1));
            }
            self.record(sender, tcp);
        }
    }

    /// Advances the sequence number of an end by a segment.
    pub fn advance(&mut self, sender: usize, flags: u8, payload: usize) {
        self.next[sender] += payload as u64 + u64::from(flags & (SYN | FIN) != 0);
    }

    /// Sends a segment, signed.
    pub fn send(&mut self, sender: usize, flags: u8, payload: &[u8]) {
        let options: &[u8] = if flags & SYN == 0 { &[] } else { &MSS };
        let tcp = self.signed(sender, flags, options, payload);
        self.record(sender, &tcp);
        self.advance(sender, flags, payload.len());
    }

    /// Sends a segment, unsigned.
    pub fn send_unsigned(&mut self, sender: usize, flags: u8, options: &[u8], payload: &[u8]) {
        let mut tcp = self.header(sender, flags, options, payload);
        set_checksum(self.addresses(sender), &mut tcp);
        self.record(sender, &tcp);
        self.advance(sender, flags, payload.len());
    }

    pub fn shake_hands(&mut self) {
        self.send(0, SYN, &[]);
        self.send(1, SYN | ACK, &[]);
        self.send(0, ACK, &[]);
    }

    /// One segment each way, acknowledged.
    pub fn talk(&mut self) {
        self.send(0, ACK | PSH, b"the opener's words");
        self.send(1, ACK | PSH, b"the listener's words");
        self.send(0, ACK, &[]);
    }

    /// The same ends once more, with other ISNs.
    pub fn again(&mut self, isns: [u32; 2]) {
        self.isns = isns.map(Isn);
        self.next = isns.map(u64::from);
    }

    pub fn close(&mut self) {
        self.send(0, FIN | ACK, &[]);
        self.send(1, FIN | ACK, &[]);
        self.send(0, ACK, &[]);
    }
}

/// A connection with a handshake and a word each way.
pub fn session() -> Session {
    let mut session = Session::usual([1000, 5000]);
    session.shake_hands();
    session.talk();
    session
}

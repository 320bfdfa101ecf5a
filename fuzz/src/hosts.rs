//! Two hosts that sign their segments, over IPv4 and IPv6, and the properties that must hold.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::time::Duration;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::shim::{
    Event, EventKind, HashKey, OPTION_ROOM, Observer, PeerSlot, Refusal, Shim, ShimConfig, ShimSlot,
};
use wireseal_tcp_ao::{
    ConnectionIdentifier, Counters, KeyId, MasterKey, Mkt, MktSet, Peer, Segment, SocketPair,
};

use crate::slow;

/// The first host's addresses.
pub const FIRST: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
/// The second host's addresses.
pub const SECOND: [&str; 2] = ["192.0.2.2", "2001:db8::2"];

const SLOTS: usize = 4;

/// A secret that differs for every input: libFuzzer sees comparisons, and would replay a MAC from an earlier run.
pub fn secret(input: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    hasher.finish()
}

/// An MKT whose master key stays the same when the ids are exchanged.
pub fn mkt(secret: u64, send_id: u8, recv_id: u8, algorithm: TcpAoAlgorithm) -> Mkt {
    let secret =
        [&[send_id.min(recv_id), send_id.max(recv_id)][..], &[0x5a; 22], &secret.to_be_bytes()].concat();
    let master_key = MasterKey::new(&secret).expect("32 octets");
    Mkt::new(KeyId(send_id), KeyId(recv_id), algorithm, master_key)
        .expect("built in, and 32 octets are enough for all")
}

fn mkts(secret: u64, choice: u8, is_first: bool) -> MktSet<4> {
    let mkt_of = |send_id, recv_id, algorithm| match is_first {
        true => mkt(secret, send_id, recv_id, algorithm),
        false => mkt(secret, recv_id, send_id, algorithm),
    };
    let (one, other) = (mkt_of(1, 2, TcpAoAlgorithm::HmacSha1), mkt_of(3, 4, TcpAoAlgorithm::Aes128Cmac));
    let chosen = match choice % 4 {
        0 => vec![one],
        1 => vec![one, other],
        2 => vec![other, one],
        _ => vec![],
    };
    MktSet::from_mkts(chosen).expect("ids that differ")
}

/// The octets that a segment's MAC covers, with the addresses: packets that agree in these are the same to TCP-AO.
type Covered = (IpAddr, IpAddr, Vec<u8>);

fn covered(packet: &[u8]) -> Option<Covered> {
    let segment = Segment::parse(packet).ok()?;
    let mut tcp = segment.tcp().to_vec();
    tcp[16..18].fill(0);
    Some((segment.source().address(), segment.destination().address(), tcp))
}

/// The shim's report on its last packet, and the connections that have opened and not ended.
#[derive(Default)]
struct Told {
    refused: u32,
    passed: u32,
    open: HashSet<SocketPair>,
}

impl Observer for Told {
    fn observe(&mut self, event: &Event) {
        match (event.kind, event.pair) {
            (EventKind::Refused { .. }, _) => self.refused += 1,
            (EventKind::Passed { .. }, _) => self.passed += 1,
            (EventKind::Opened, Some(pair)) => assert!(self.open.insert(pair), "it was open"),
            (EventKind::Ended(_), Some(pair)) => drop(self.open.remove(&pair)),
            _ => {}
        }
    }
}

/// One of the hosts.
pub struct Host {
    shim: Shim<Vec<PeerSlot>, Vec<ShimSlot>, Told>,
    /// Mismatches are accepted until this time.
    accepts_until: Duration,
    secret: u64,
    is_first: bool,
    signed: HashSet<Covered>,
}

impl Host {
    fn new(secret: u64, is_first: bool) -> Self {
        let (local, remote) = if is_first { (FIRST, SECOND) } else { (SECOND, FIRST) };
        let net = |address: &str| address.parse::<IpAddr>().expect("an address").into();
        let peers = [0, 1].map(|version| Peer {
            connections: ConnectionIdentifier::between(net(local[version]), net(remote[version])),
            mkts: mkts(secret, 0, is_first),
        });
        let slots = ShimSlot::many(SLOTS);
        let shim =
            Shim::new(ShimConfig::new(1500), HashKey::new([7; 16]), peers.map(PeerSlot::from).into(), slots)
                .expect("peers that do not overlap")
                .with_observer(Told::default());
        Self { shim, accepts_until: Duration::ZERO, secret, is_first, signed: HashSet::new() }
    }

    /// Whether a packet passed only because mismatches are accepted. The packet must be unchanged, and reported like a refusal.
    fn has_passed(&mut self, now: Duration, packet: &[u8], result: Option<&[u8]>) -> bool {
        let told = self.shim.observer_mut();
        let (refused, passed) = (std::mem::take(&mut told.refused), std::mem::take(&mut told.passed));
        assert_eq!(refused, u32::from(result.is_none()), "each refusal is told once");
        let open: Vec<SocketPair> = told.open.iter().copied().collect();
        for pair in open {
            assert!(self.shim.connection(&pair).is_some_and(|connection| connection.is_established()));
        }
        if passed > 0 {
            assert!(passed == 1 && now < self.accepts_until);
            assert!(result.is_some_and(|result| packet.starts_with(result)), "what passes is unchanged");
        }
        passed > 0
    }

    /// Accepts mismatches from both peers for this many minutes.
    fn accept_mismatches(&mut self, now: Duration, minutes: u8) {
        self.accepts_until = now + Duration::from_secs(u64::from(minutes) * 60);
        for index in 0..2 {
            self.shim.accept_mismatches(index, self.accepts_until).expect("there are two peers");
        }
    }

    /// Whether segments between these addresses, this host's own first, must be signed.
    fn is_protected(&self, local: IpAddr, remote: IpAddr) -> bool {
        let mut peers = self.shim.peers().map(|(_, peer)| &peer.connections);
        peers.any(|connections| connections.local.contains(&local) && connections.remote.contains(&remote))
    }

    /// The stack sends a packet; the result must be valid on the link.
    pub fn send(&mut self, now: Duration, packet: &[u8]) -> Option<Vec<u8>> {
        let mut buffer = [&[0xa5; OPTION_ROOM], packet].concat();
        let result = self.shim.outbound(now, &mut buffer, OPTION_ROOM);
        assert!(self.shim.connections().count() <= SLOTS);
        let sent = result.ok().map(|range| buffer[range].to_vec());
        if self.has_passed(now, packet, sent.as_deref()) {
            return sent;
        }
        let sent = sent?;
        if now < self.accepts_until && packet.starts_with(&sent) {
            // Every second unanswered SYN goes unsigned.
            return Some(sent);
        }
        let is_unchanged = packet.starts_with(&sent);
        match slow::tcp_packet(&sent) {
            Some(found) if self.is_protected(found.addresses.0, found.addresses.1) && !found.is_routed_on => {
                assert!(!found.is_fragment && sent.len() <= self.shim.config().mtu);
                slow::assert_checksums(&sent);
                let header_length = usize::from(found.tcp[12] >> 4) * 4;
                assert!(
                    slow::ao(&found.tcp[20..header_length]).expect("options that are well formed").is_some()
                );
                self.signed.extend(covered(&sent));
            }
            Some(found) if found.is_routed_on => self.signed.extend(covered(&sent)),
            _ => assert!(is_unchanged, "what no peer protects passes as it is"),
        }
        Some(sent)
    }

    /// A packet arrives from the link. From a protected peer, only packets that `peer` has signed may pass.
    pub fn receive(&mut self, now: Duration, packet: &[u8], peer: &Self) -> Option<Vec<u8>> {
        let (mut buffer, before) = (packet.to_vec(), *self.shim.counters());
        let result = self.shim.inbound(now, &mut buffer);
        assert!(self.shim.connections().count() <= SLOTS);
        let after = *self.shim.counters();
        assert!(total(&after) - total(&before) <= 1, "a packet has one verdict");
        let received = result.as_ref().ok().map(|range| buffer[range.clone()].to_vec());
        if self.has_passed(now, packet, received.as_deref()) {
            return received;
        }
        let range = match result {
            Ok(range) => range,
            Err(refusal) => {
                assert_eq!(buffer, packet, "a refused packet is unchanged");
                assert!(
                    after.good == before.good
                        || matches!(refusal, Refusal::ConnectionExists | Refusal::TableFull)
                );
                return None;
            }
        };
        let received = buffer[range].to_vec();
        assert_eq!((after.bad, after.required), (before.bad, before.required), "it was counted as bad");
        if let Some(found) = slow::tcp_packet(&received)
            && self.is_protected(found.addresses.1, found.addresses.0)
            && !found.is_routed_on
        {
            assert!(!found.is_fragment, "a fragment passed");
            let covered = covered(packet).expect("a whole segment");
            assert!(peer.signed.contains(&covered), "a segment passed that the peer did not sign");
            assert_eq!(after.good, before.good + 1);
            slow::assert_checksums(&received);
            let header_length = usize::from(found.tcp[12] >> 4) * 4;
            assert_eq!(slow::ao(&found.tcp[20..header_length]), Ok(None));
        } else {
            assert!(
                packet.starts_with(&received)
                    || slow::tcp_packet(&received).is_some_and(|tcp| tcp.is_routed_on)
            );
        }
        Some(received)
    }

    /// Gives the peers other keys, or none.
    pub fn set_mkts(&mut self, choice: u8) {
        for index in 0..2 {
            self.shim
                .set_mkts(index, mkts(self.secret, choice, self.is_first))
                .expect("peers that do not overlap");
        }
        if choice % 4 == 3 {
            assert_eq!(self.shim.connections().count(), 0, "without keys no connection lives");
        }
    }
}

fn total(counters: &Counters) -> u64 {
    counters.good + counters.bad + counters.key_not_found + counters.required + counters.dropped_icmp
}

/// Both hosts, and the time.
pub struct Hosts {
    first: Host,
    second: Host,
    now: Duration,
}

impl Hosts {
    /// Runs a script. Each step is an octet that chooses the operation, two octets of length, and that many octets of data.
    pub fn run(mut script: &[u8]) {
        let secret = secret(script);
        let (first, second) = (Host::new(secret, true), Host::new(secret, false));
        let mut hosts = Self { first, second, now: Duration::from_secs(1) };
        while let [what, high, low, rest @ ..] = script {
            let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
            let (body, others) = rest.split_at(length);
            hosts.step(*what, body);
            script = others;
        }
    }

    fn step(&mut self, what: u8, body: &[u8]) {
        let now = self.now;
        let (sender, receiver) = match what & 0x80 {
            0 => (&mut self.first, &mut self.second),
            _ => (&mut self.second, &mut self.first),
        };
        match (what & 0x7f, body) {
            // The stack sends, and the link delivers.
            (0, packet) => {
                if let Some(sent) = sender.send(now, packet) {
                    receiver.receive(now, &sent, sender);
                }
            }
            // The same, with one octet altered on the path and the checksums corrected.
            (1, [high, low, difference, packet @ ..]) => {
                if let Some(mut sent) = sender.send(now, packet) {
                    let at = usize::from(u16::from_be_bytes([*high, *low])) % sent.len();
                    sent[at] ^= difference;
                    slow::refresh_checksums(&mut sent);
                    receiver.receive(now, &sent, sender);
                }
            }
            // An attacker on the path sends a packet.
            (2, packet) => {
                receiver.receive(now, packet, sender);
            }
            (3, packet) => {
                let mut packet = packet.to_vec();
                slow::refresh_checksums(&mut packet);
                receiver.receive(now, &packet, sender);
            }
            (4, [seconds, ..]) => self.now += Duration::from_secs(u64::from(*seconds) * 60),
            (5, [choice, ..]) => sender.set_mkts(*choice),
            (6, _) => sender.shim.expire(now),
            (7, [minutes, ..]) => sender.accept_mismatches(now, *minutes),
            _ => {}
        }
    }
}

//! Two unchanged smoltcp stacks talk through authenticated devices, over a link that records its packets.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};
use wireseal_smoltcp::AuthenticatedDevice;
use wireseal_tcp_ao::shim::{Direction, HashKey, ShimSlot};
use wireseal_tcp_ao::{ConnectionIdentifier, KeyId, MasterKey, Mkt, MktSet, Peer, Segment, TcpAoAlgorithm};

struct Setup {
    algorithm: TcpAoAlgorithm,
    ipv6: bool,
    medium: Medium,
    mtu: usize,
    mac_length: usize,
    timestamps: bool,
    /// One packet in this many is lost; 0 for no loss.
    loss_every: usize,
    second_key: bool,
    wrong_secret: bool,
    listening: bool,
    /// Octets of each buffer; `None` for the device's MTU.
    buffer: Option<usize>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            algorithm: TcpAoAlgorithm::HmacSha1,
            ipv6: false,
            medium: Medium::Ip,
            mtu: 1500,
            mac_length: 12,
            timestamps: false,
            loss_every: 0,
            second_key: false,
            wrong_secret: false,
            listening: true,
            buffer: None,
        }
    }
}

#[derive(Default)]
struct Wire {
    queues: [VecDeque<Vec<u8>>; 2],
    seen: Vec<Vec<u8>>,
    loss_every: usize,
}

struct Link {
    wire: Rc<RefCell<Wire>>,
    end: usize,
    medium: Medium,
    mtu: usize,
}

struct Received(Vec<u8>);

struct Sender<'a>(&'a mut Link);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl phy::TxToken for Sender<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut frame = vec![0; length];
        let result = f(&mut frame);
        let mut wire = self.0.wire.borrow_mut();
        wire.seen.push(frame.clone());
        let lost = wire.loss_every > 0 && wire.seen.len().is_multiple_of(wire.loss_every);
        if !lost {
            wire.queues[1 - self.0.end].push_back(frame);
        }
        result
    }
}

impl Device for Link {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sender<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sender<'_>)> {
        let frame = self.wire.borrow_mut().queues[self.end].pop_front()?;
        Some((Received(frame), Sender(self)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sender<'_>> {
        Some(Sender(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = self.medium;
        capabilities.max_transmission_unit = self.mtu + if self.medium == Medium::Ethernet { 14 } else { 0 };
        capabilities
    }
}

struct End {
    device: AuthenticatedDevice<'static, Link>,
    interface: Interface,
    sockets: SocketSet<'static>,
    tcp: SocketHandle,
}

impl End {
    /// Packets that the shim refused, inbound and outbound.
    fn refused(&self) -> [u64; 2] {
        [Direction::Inbound, Direction::Outbound].map(|way| self.device.shim().refused(way).total())
    }

    fn new(setup: &Setup, wire: &Rc<RefCell<Wire>>, end: usize) -> Self {
        let addresses: [IpAddress; 2] = if setup.ipv6 {
            ["2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap()]
        } else {
            ["192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()]
        };
        let host = |address: IpAddress| std::net::IpAddr::from(address).into();
        let mut mkts = vec![mkt(setup, 1, if setup.wrong_secret && end == 1 { 9 } else { 1 })];
        if setup.second_key {
            mkts.push(mkt(setup, 2, 2));
        }
        let peer = Peer {
            connections: ConnectionIdentifier::between(host(addresses[end]), host(addresses[1 - end])),
            mkts: MktSet::from_mkts(mkts).unwrap(),
        };
        let link = Link { wire: wire.clone(), end, medium: setup.medium, mtu: setup.mtu };
        let slots: Vec<_> = ShimSlot::many(4);
        let buffer = vec![0; setup.buffer.unwrap_or(link.capabilities().max_transmission_unit)];
        let mut device = AuthenticatedDevice::new(
            link,
            HashKey::new([7; 16]),
            vec![peer.into()],
            slots,
            [buffer.clone(), buffer],
        )
        .unwrap();
        let hardware = match setup.medium {
            Medium::Ethernet => HardwareAddress::Ethernet(EthernetAddress([2, 0, 0, 0, 0, end as u8])),
            _ => HardwareAddress::Ip,
        };
        let mut config = Config::new(hardware);
        config.random_seed = 7 + end as u64;
        let mut interface = Interface::new(config, &mut device, Instant::ZERO);
        interface.update_ip_addrs(|list| {
            let length = if setup.ipv6 { 64 } else { 24 };
            list.push(IpCidr::new(addresses[end], length)).unwrap();
        });
        let buffer = || tcp::SocketBuffer::new(vec![0; 65_535]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        if setup.timestamps {
            socket.set_tsval_generator(Some(|| 42));
        }
        socket.set_timeout(Some(Duration::from_secs(30)));
        if end == 1 && setup.listening {
            socket.listen(179).unwrap();
        }
        let mut sockets = SocketSet::new(Vec::new());
        let tcp = sockets.add(socket);
        if end == 0 {
            let context = interface.context();
            sockets.get_mut::<tcp::Socket<'_>>(tcp).connect(context, (addresses[1], 179), 50_000).unwrap();
        }
        Self { device, interface, sockets, tcp }
    }

    /// Makes this frame arrive next.
    fn receive_frame(&mut self, frame: Vec<u8>) {
        let link = self.device.inner_mut();
        link.wire.borrow_mut().queues[link.end].push_front(frame);
    }

    fn socket(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.tcp)
    }
}

fn mkt(setup: &Setup, id: u8, secret: u8) -> Mkt {
    let master_key = MasterKey::new(&[secret; 32]).unwrap();
    Mkt::new(KeyId(id), KeyId(id), setup.algorithm, master_key)
        .unwrap()
        .with_mac_length(setup.mac_length)
        .unwrap()
}

struct Pair {
    a: End,
    b: End,
    wire: Rc<RefCell<Wire>>,
    packets: Vec<Vec<u8>>,
    header: usize,
    now: Instant,
}

impl Pair {
    fn new(setup: &Setup) -> Self {
        let wire = Rc::new(RefCell::new(Wire { loss_every: setup.loss_every, ..Wire::default() }));
        let header = if setup.medium == Medium::Ethernet { 14 } else { 0 };
        let (a, b) = (End::new(setup, &wire, 0), End::new(setup, &wire, 1));
        Self { a, b, wire, packets: Vec::new(), header, now: Instant::ZERO }
    }

    fn poll(&mut self) {
        for end in [&mut self.a, &mut self.b] {
            end.interface.poll(self.now, &mut end.device, &mut end.sockets);
        }
        self.now += Duration::from_millis(5);
        let header = self.header;
        let seen = std::mem::take(&mut self.wire.borrow_mut().seen);
        // Neighbour discovery is not TCP.
        let is_tcp = |frame: &Vec<u8>| Segment::parse(&frame[header..]).is_ok();
        self.packets.extend(seen.into_iter().filter(is_tcp));
    }

    fn try_connect(&mut self) -> bool {
        for _ in 0..2000 {
            self.poll();
            if self.a.socket().may_send() && self.b.socket().may_send() {
                return true;
            }
        }
        false
    }

    fn connect(&mut self) {
        assert!(self.try_connect(), "no connection");
    }

    fn is_reset(&mut self) -> bool {
        self.a.socket().state() == tcp::State::Closed
    }

    /// Sends `octets` octets each way, and checks that the same ones arrive.
    fn transfer(&mut self, octets: usize) {
        let pattern = |at: usize| (at * 7 + at / 251) as u8;
        let mut sent = [0; 2];
        let mut received = [0; 2];
        for _ in 0..200_000 {
            for (index, end) in [&mut self.a, &mut self.b].into_iter().enumerate() {
                let socket = end.socket();
                while sent[index] < octets && socket.can_send() {
                    let chunk: Vec<u8> = (sent[index]..octets.min(sent[index] + 4096)).map(pattern).collect();
                    sent[index] += socket.send_slice(&chunk).unwrap();
                }
                while socket.can_recv() {
                    let base = received[index];
                    received[index] += socket
                        .recv(|data| {
                            assert!(data.iter().enumerate().all(|(i, octet)| *octet == pattern(base + i)));
                            (data.len(), data.len())
                        })
                        .unwrap();
                }
            }
            if received == [octets; 2] {
                return;
            }
            self.poll();
        }
        panic!("{received:?} of {octets} octets arrived");
    }

    /// The TCP packets that were put on the link, lost ones included, without link-layer header.
    fn link_packets(&self) -> impl Iterator<Item = &[u8]> {
        self.packets.iter().map(|frame| &frame[self.header..])
    }
}

#[test]
fn every_algorithm_carries_data_over_both_ip_versions_and_both_media() {
    for algorithm in TcpAoAlgorithm::ALL {
        for ipv6 in [false, true] {
            for medium in [Medium::Ip, Medium::Ethernet] {
                let mut pair = Pair::new(&Setup { algorithm, ipv6, medium, ..Setup::default() });
                pair.connect();
                pair.transfer(200_000);
                for end in [&pair.a, &pair.b] {
                    let counters = end.device.shim().counters();
                    assert!(counters.good > 100, "{algorithm} {counters:?}");
                    assert_eq!((counters.bad, counters.key_not_found, counters.required), (0, 0, 0));
                    assert_eq!(end.refused(), [0; 2], "{algorithm} ipv6 {ipv6} {medium:?}");
                }
                assert!(pair.link_packets().all(|packet| {
                    Segment::parse(packet)
                        .is_ok_and(|segment| segment.ao_option().is_ok_and(|ao| ao.is_some()))
                }));
            }
        }
    }
}

#[test]
fn ao_35_full_size_segments_fill_the_mtu_and_never_exceed_it() {
    for (mtu, ipv6) in [(1500, false), (1500, true), (1280, true), (576, false), (9000, false)] {
        let mut pair = Pair::new(&Setup { mtu, ipv6, timestamps: true, ..Setup::default() });
        pair.connect();
        pair.transfer(300_000);
        let longest = pair.link_packets().map(<[u8]>::len).max().unwrap();
        assert!(longest <= mtu, "{longest} octets on a link with an MTU of {mtu}");
        // The stack leaves room for the longest option; the MAC here has 12 octets.
        assert!(longest >= mtu - 4, "{longest} octets of {mtu} used");
        let headers = if ipv6 { 60 } else { 40 };
        for syn in
            pair.link_packets().filter_map(|packet| Segment::parse(packet).ok()).filter(|s| s.flags().syn())
        {
            let mss = syn.options().flatten().find(|option| option.kind == 2).unwrap();
            assert_eq!(mss.data, u16::try_from(mtu - headers).unwrap().to_be_bytes());
        }
    }
}

#[test]
fn with_short_buffers_both_ends_send_less_and_longer_frames_are_dropped() {
    for medium in [Medium::Ip, Medium::Ethernet] {
        let mut pair = Pair::new(&Setup { medium, buffer: Some(700), timestamps: true, ..Setup::default() });
        pair.connect();
        pair.transfer(100_000);
        let longest = pair.link_packets().map(<[u8]>::len).max().unwrap();
        let header = if medium == Medium::Ethernet { 14 } else { 0 };
        assert!((690..=700).contains(&(longest + header)), "{longest} octets");
        pair.a.receive_frame(vec![0x45; 701]);
        pair.transfer(1000);
        assert_eq!((pair.a.device.unreadable(), pair.b.device.unreadable()), (1, 0));
    }
}

#[test]
fn ao_35_sack_blocks_make_room_for_the_option() {
    let mut pair = Pair::new(&Setup { mac_length: 16, timestamps: true, loss_every: 19, ..Setup::default() });
    pair.connect();
    pair.transfer(300_000);
    let with_sack = pair
        .link_packets()
        .filter_map(|packet| Segment::parse(packet).ok())
        .filter(|segment| segment.options().flatten().any(|option| option.kind == 5))
        .count();
    assert!(with_sack > 0, "loss must have brought out selective acknowledgments");
    assert_eq!([pair.a.refused()[1], pair.b.refused()[1]], [0; 2]);
}

#[test]
fn a_key_rolls_over_under_traffic() {
    let mut pair = Pair::new(&Setup { second_key: true, ..Setup::default() });
    pair.connect();
    pair.transfer(50_000);
    for (key, other) in [(KeyId(2), KeyId(1)), (KeyId(1), KeyId(2))] {
        let sockets = pair.b.device.shim().connections().next().unwrap().pair();
        pair.b.device.shim_mut().connection_mut(&sockets).unwrap().set_rnext_key(key).unwrap();
        pair.transfer(50_000);
        let current = |end: &End| end.device.shim().connections().next().unwrap().current_key().send_id;
        assert_eq!(current(&pair.a), key, "the peer was asked to change");
        assert_eq!(current(&pair.b), other, "and asked for nothing itself");
        let sockets = pair.a.device.shim().connections().next().unwrap().pair();
        pair.a.device.shim_mut().connection_mut(&sockets).unwrap().set_rnext_key(key).unwrap();
        pair.transfer(50_000);
        assert_eq!(current(&pair.b), key);
    }
    assert_eq!(pair.a.device.shim().counters().bad + pair.b.device.shim().counters().bad, 0);
    assert_eq!([pair.a.refused(), pair.b.refused()], [[0; 2]; 2]);
}

#[test]
fn a_wrong_secret_lets_nothing_through_and_leaves_no_state() {
    let mut pair = Pair::new(&Setup { wrong_secret: true, ..Setup::default() });
    assert!(!pair.try_connect());
    assert!(pair.b.device.shim().counters().bad > 0);
    assert_eq!(pair.b.device.shim().connections().count(), 0);
}

#[test]
fn a_refused_connection_is_reset_with_a_segment_that_verifies() {
    let mut pair = Pair::new(&Setup { listening: false, ..Setup::default() });
    assert!(!pair.try_connect());
    let counters = pair.a.device.shim().counters();
    assert_eq!((counters.good, counters.bad, counters.required), (1, 0, 0), "the listener's reset");
    assert!(pair.is_reset(), "the stack was told");
    assert_eq!(pair.b.device.shim().connections().count(), 0, "a refused connection is forgotten");
}

#[test]
fn a_silent_session_is_forgotten_by_smoltcps_clock() {
    let mut pair = Pair::new(&Setup::default());
    pair.connect();
    let limit = Duration::from_secs(3 * 3600);
    for (after, left) in [(limit, 1), (limit + Duration::from_secs(60), 0)] {
        // The session has made progress since the clock started.
        pair.b.device.expire(Instant::ZERO + after);
        assert_eq!(pair.b.device.shim().connections().count(), left);
    }
}

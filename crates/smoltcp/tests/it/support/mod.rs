//! Two smoltcp stacks and a link between them that remembers what went over it.

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
use wireseal_tcp_ao::{ConnectionIdentifier, KeyId, MasterKey, Mkt, MktSet, Peer, TcpAoAlgorithm};

pub const ALGORITHMS: [TcpAoAlgorithm; 5] = TcpAoAlgorithm::ALL;

pub struct Setup {
    pub algorithm: TcpAoAlgorithm,
    pub ipv6: bool,
    pub medium: Medium,
    pub mtu: usize,
    pub mac_length: usize,
    pub timestamps: bool,
    /// Every so many packets one is lost; 0 for none.
    pub loss_every: usize,
    pub second_key: bool,
    pub wrong_secret: bool,
    pub listening: bool,
    /// Octets of each buffer, if not the device's.
    pub buffer: Option<usize>,
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

pub struct Link {
    wire: Rc<RefCell<Wire>>,
    end: usize,
    medium: Medium,
    mtu: usize,
}

pub struct Received(Vec<u8>);
pub struct Sender<'a>(&'a mut Link);

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

pub struct End {
    pub device: AuthenticatedDevice<'static, Link>,
    interface: Interface,
    sockets: SocketSet<'static>,
    tcp: SocketHandle,
}

impl End {
    /// Packets that the shim refused, inbound and outbound.
    pub fn refused(&self) -> [u64; 2] {
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

    /// Has this frame arrive next.
    pub fn receive_frame(&mut self, frame: Vec<u8>) {
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

pub struct Pair {
    pub a: End,
    pub b: End,
    wire: Rc<RefCell<Wire>>,
    packets: Vec<Vec<u8>>,
    header: usize,
    now: Instant,
}

impl Pair {
    pub fn new(setup: &Setup) -> Self {
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
        // Neighbour discovery is not TCP's concern.
        let is_tcp = |frame: &Vec<u8>| wireseal_tcp_ao::Segment::parse(&frame[header..]).is_ok();
        self.packets.extend(seen.into_iter().filter(is_tcp));
    }

    pub fn try_connect(&mut self) -> bool {
        for _ in 0..2000 {
            self.poll();
            if self.a.socket().may_send() && self.b.socket().may_send() {
                return true;
            }
        }
        false
    }

    pub fn connect(&mut self) {
        assert!(self.try_connect(), "no connection");
    }

    pub fn is_reset(&mut self) -> bool {
        self.a.socket().state() == tcp::State::Closed
    }

    /// Sends so many octets each way, and checks that the same ones arrive.
    pub fn transfer(&mut self, octets: usize) {
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
    pub fn link_packets(&self) -> impl Iterator<Item = &[u8]> {
        self.packets.iter().map(|frame| &frame[self.header..])
    }
}

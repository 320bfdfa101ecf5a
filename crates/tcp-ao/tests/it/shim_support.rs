//! Shared by the shim's tests: packets that etherparse builds and reads, and two shims with a link between them.

use etherparse::{IpNumber, Ipv4Header, Ipv4Options, Ipv6Header, TcpHeader, TcpSlice};
pub(crate) use wireseal_tcp_ao::shim::*;

use crate::support::*;

pub(crate) const PSH: u8 = 0x08;
pub(crate) const URG: u8 = 0x20;
pub(crate) const ECE: u8 = 0x40;
pub(crate) const CWR: u8 = 0x80;

pub(crate) const CLIENT_ISN: u32 = 0x1000_0000;
pub(crate) const SERVER_ISN: u32 = 0xffff_fff0;

pub(crate) type TestShim<O = ()> = Shim<Vec<PeerSlot>, Vec<ShimSlot>, O>;

/// A TCP packet to build, from the local to the remote end of its pair.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) pair: SocketPair,
    /// Without ports and checksum.
    pub(crate) tcp: TcpHeader,
    pub(crate) payload: Vec<u8>,
    /// Options of the IPv4 header.
    pub(crate) ip_options: Vec<u8>,
    /// IPv6 extension headers, the last of which must lead to TCP, and the number of the first.
    pub(crate) extensions: (u8, Vec<u8>),
}

impl Packet {
    pub(crate) fn new(pair: SocketPair, flags: u8, sequence: u32, acknowledgment: u32) -> Self {
        let mut tcp = TcpHeader::new(0, 0, sequence, 0x1234);
        let flag = |bit| flags & bit != 0;
        (tcp.fin, tcp.syn, tcp.rst, tcp.psh) = (flag(FIN), flag(SYN), flag(RST), flag(PSH));
        (tcp.ack, tcp.urg, tcp.ece, tcp.cwr) = (flag(ACK), flag(URG), flag(ECE), flag(CWR));
        tcp.acknowledgment_number = acknowledgment;
        Self { pair, tcp, payload: Vec::new(), ip_options: Vec::new(), extensions: (6, Vec::new()) }
    }

    pub(crate) fn options(mut self, options: &[u8]) -> Self {
        self.tcp.set_options_raw(options).unwrap();
        self
    }

    pub(crate) fn payload(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    /// The whole IP packet, with correct checksums.
    pub(crate) fn build(&self) -> Vec<u8> {
        let mut tcp = self.tcp.clone();
        (tcp.source_port, tcp.destination_port) = (self.pair.local.port(), self.pair.remote.port());
        let mut packet = Vec::new();
        match (self.pair.local.address(), self.pair.remote.address()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let (source, destination) = (source.octets(), destination.octets());
                let length = (tcp.header_len() + self.payload.len()) as u16;
                let mut ip = Ipv4Header::new(length, 64, IpNumber::TCP, source, destination).unwrap();
                ip.options = Ipv4Options::try_from(&self.ip_options[..]).unwrap();
                ip.total_len = ip.header_len() as u16 + length;
                ip.identification = 0x7777;
                ip.dont_fragment = true;
                ip.header_checksum = ip.calc_header_checksum();
                ip.write_raw(&mut packet).unwrap();
                tcp.checksum = tcp.calc_checksum_ipv4(&ip, &self.payload).unwrap();
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let ip = Ipv6Header {
                    traffic_class: 0xc0,
                    payload_length: (self.extensions.1.len() + tcp.header_len() + self.payload.len()) as u16,
                    next_header: IpNumber(self.extensions.0),
                    hop_limit: 255,
                    source: source.octets(),
                    destination: destination.octets(),
                    ..Ipv6Header::default()
                };
                ip.write(&mut packet).unwrap();
                packet.extend(&self.extensions.1);
                tcp.checksum = tcp.calc_checksum_ipv6(&ip, &self.payload).unwrap();
            }
            _ => panic!("a socket pair of two families"),
        }
        // As the shim sends it, so that input and output can be compared.
        tcp.checksum = if tcp.checksum == 0 { 0xffff } else { tcp.checksum };
        packet.extend(tcp.to_bytes());
        packet.extend(&self.payload);
        packet
    }
}

/// What etherparse reads in a packet whose lengths and checksums are all right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) header: TcpHeader,
    pub(crate) payload: Vec<u8>,
    /// The options without NOPs, each with its kind and length.
    pub(crate) options: Vec<Vec<u8>>,
}

impl Read {
    pub(crate) fn option(&self, kind: u8) -> Option<&[u8]> {
        self.options.iter().find(|option| option[0] == kind).map(|option| &option[2..])
    }

    pub(crate) fn mss(&self) -> Option<u16> {
        self.option(2).map(|data| u16::from_be_bytes(data.try_into().unwrap()))
    }

    pub(crate) fn is_signed(&self) -> bool {
        self.option(29).is_some()
    }
}

/// The options in a header, as RFC 9293 §3.2 describes them.
pub(crate) fn options_of(mut octets: &[u8]) -> Vec<Vec<u8>> {
    let mut options = Vec::new();
    while let [kind, rest @ ..] = octets {
        match kind {
            0 => break,
            1 => octets = rest,
            _ => {
                let (option, others) = octets.split_at(usize::from(rest[0]));
                options.push(option.to_vec());
                octets = others;
            }
        }
    }
    options
}

/// Reads a packet, and fails on any wrong length or checksum.
pub(crate) fn read(packet: &[u8]) -> Read {
    let sliced = etherparse::SlicedPacket::from_ip(packet).unwrap();
    let payload = sliced.ip_payload().unwrap();
    assert!(!payload.fragmented && payload.ip_number == IpNumber::TCP);
    let tcp = TcpSlice::from_slice(payload.payload).unwrap();
    let sum = match sliced.net.as_ref().unwrap() {
        etherparse::NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(usize::from(header.total_len), packet.len());
            assert_eq!(header.header_checksum, header.calc_header_checksum(), "IPv4 header checksum");
            tcp.calc_checksum_ipv4(header.source, header.destination)
        }
        etherparse::NetSlice::Ipv6(ip) => {
            let header = ip.header().to_header();
            assert_eq!(usize::from(header.payload_length) + 40, packet.len());
            tcp.calc_checksum_ipv6(header.source, header.destination)
        }
        etherparse::NetSlice::Arp(_) => panic!("not IP"),
    };
    // Zero is sent as 0xffff.
    let sum = Some(sum.unwrap()).filter(|sum| *sum != 0).unwrap_or(0xffff);
    assert_eq!(tcp.checksum(), sum, "TCP checksum");
    Read { header: tcp.to_header(), payload: tcp.payload().to_vec(), options: options_of(tcp.options()) }
}

/// A packet from the stack behind `shim`, as it comes out on the link.
pub(crate) fn outbound<O: Observer>(
    shim: &mut TestShim<O>,
    now: Duration,
    packet: &[u8],
) -> Result<Vec<u8>, Refusal> {
    let mut buffer = [&[0xa5; OPTION_ROOM], packet].concat();
    let range = shim.outbound(now, &mut buffer, OPTION_ROOM)?;
    Ok(buffer[range].to_vec())
}

/// A packet from the link, as the stack behind `shim` gets it; a refused packet must be unchanged.
pub(crate) fn inbound<O: Observer>(
    shim: &mut TestShim<O>,
    now: Duration,
    packet: &[u8],
) -> Result<Vec<u8>, Refusal> {
    let mut buffer = packet.to_vec();
    match shim.inbound(now, &mut buffer) {
        Ok(range) => Ok(buffer[range].to_vec()),
        Err(refusal) => {
            assert_eq!(buffer, packet, "a refused packet is unchanged");
            Err(refusal)
        }
    }
}

pub(crate) const UNSIGNED: Refusal = Refusal::Verify(VerifyError::Unsigned);

pub(crate) const fn unknown_key(id: u8) -> Refusal {
    Refusal::Verify(VerifyError::UnknownKeyId(KeyId(id)))
}

pub(crate) const fn bad_mac(id: u8) -> Refusal {
    Refusal::Verify(VerifyError::BadMac { key_id: KeyId(id) })
}

/// Corrects the TCP checksum of an IPv4 packet without options, so that the MAC decides the verdict.
pub(crate) fn refresh_checksum(packet: &mut [u8]) {
    let tcp = TcpSlice::from_slice(&packet[20..]).unwrap();
    let [a, b, c, d, e, f, g, h] = packet[12..20] else { panic!("no IPv4 header") };
    let sum = tcp.calc_checksum_ipv4([a, b, c, d], [e, f, g, h]).unwrap();
    packet[36..38].copy_from_slice(&sum.to_be_bytes());
}

/// The events that a shim has reported.
#[derive(Default)]
pub(crate) struct Log(Vec<Event>);

impl Log {
    pub(crate) fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.0)
    }
}

impl Observer for Log {
    fn observe(&mut self, event: &Event) {
        self.0.push(*event);
    }
}

/// The events since the last call; each is about the peer and connection of `ipv4_pair()`.
pub(crate) fn kinds(shim: &mut TestShim<Log>) -> Vec<EventKind> {
    let events = shim.observer_mut().take();
    for event in &events {
        assert_eq!(event.peer, Some(0));
        assert!([ipv4_pair(), ipv4_pair().reversed()].contains(&event.pair.unwrap()), "{event}");
    }
    events.into_iter().map(|event| event.kind).collect()
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A SYN from the local end of `pair`, signed with the first of these keys.
pub(crate) fn signed_syn(pair: SocketPair, mkts: MktSet<MKTS_PER_PEER>, isn: u32) -> Vec<u8> {
    outbound(&mut shim(pair, mkts, 1), seconds(1), &Packet::new(pair, SYN, isn, 0).build()).unwrap()
}

/// A SYN that the client of `ipv4_pair()` signed earlier, from the same port.
pub(crate) fn recorded_syn(ids: &[(u8, u8)], isn: u32) -> Vec<u8> {
    signed_syn(ipv4_pair(), mkts(ids), isn)
}

/// The peer at the remote end of `pair`, any port.
pub(crate) fn peer(pair: SocketPair, mkts: MktSet<MKTS_PER_PEER>) -> PeerSlot {
    let connections =
        ConnectionIdentifier::between(pair.local.address().into(), pair.remote.address().into());
    Peer { connections, mkts }.into()
}

/// A key for the tables of a shim, the same in every run.
pub(crate) fn hash_key() -> HashKey {
    HashKey::new(*b"not random, here")
}

pub(crate) fn slots(count: usize) -> Vec<ShimSlot> {
    ShimSlot::many(count)
}

pub(crate) fn shim(pair: SocketPair, mkts: MktSet<MKTS_PER_PEER>, slots_count: usize) -> TestShim {
    shim_of(vec![peer(pair, mkts)], slots_count)
}

pub(crate) fn shim_of(peers: Vec<PeerSlot>, slots_count: usize) -> TestShim {
    Shim::new(ShimConfig::new(1500), hash_key(), peers, slots(slots_count)).unwrap()
}

pub(crate) fn with_ports(pair: SocketPair, local: u16, remote: u16) -> SocketPair {
    SocketPair {
        local: Endpoint::new(pair.local.address(), local),
        remote: Endpoint::new(pair.remote.address(), remote),
    }
}

/// Two hosts with a shim each; the client is the local end of `pair`. Eight slots each.
pub(crate) struct Link<O = ()> {
    pub(crate) client: TestShim<O>,
    pub(crate) server: TestShim<O>,
    pub(crate) pair: SocketPair,
    pub(crate) now: Duration,
}

impl Link {
    /// With HMAC-SHA-1 MKTs of these ids as the client has them.
    pub(crate) fn with_ids(pair: SocketPair, ids: &[(u8, u8)]) -> Self {
        Self::with_mkts(pair, mkts(ids), mirrored(ids))
    }

    pub(crate) fn with_mkts(
        pair: SocketPair,
        client: MktSet<MKTS_PER_PEER>,
        server: MktSet<MKTS_PER_PEER>,
    ) -> Self {
        Self {
            client: shim(pair, client, 8),
            server: shim(pair.reversed(), server, 8),
            pair,
            now: Duration::from_secs(1000),
        }
    }

    /// The same after the handshake.
    pub(crate) fn connected(pair: SocketPair) -> Self {
        let mut link = Self::with_ids(pair, &[(1, 2)]);
        link.connect(pair);
        link
    }

    /// The same with an observer at each end.
    pub(crate) fn observed<O: Observer + Default>(self) -> Link<O> {
        let Self { client, server, pair, now } = self;
        let [client, server] = [client, server].map(|shim| shim.with_observer(O::default()));
        Link { client, server, pair, now }
    }
}

impl<O: Observer> Link<O> {
    /// Shakes hands between these endpoints.
    pub(crate) fn connect(&mut self, pair: SocketPair) {
        self.deliver_to_server(&Packet::new(pair, SYN, CLIENT_ISN, 0)).unwrap();
        let syn_ack = Packet::new(pair.reversed(), SYN | ACK, SERVER_ISN, CLIENT_ISN + 1);
        self.deliver_to_client(&syn_ack).unwrap();
        self.deliver_to_server(&Packet::new(pair, ACK, CLIENT_ISN + 1, SERVER_ISN + 1)).unwrap();
        assert!(self.client.connection(&pair).unwrap().is_established());
        assert!(self.server.connection(&pair.reversed()).unwrap().is_established());
    }

    /// The client's packet as it is on the link; it must be signed.
    pub(crate) fn client_sends(&mut self, packet: &Packet) -> Result<Vec<u8>, Refusal> {
        let signed = outbound(&mut self.client, self.now, &packet.build())?;
        assert!(read(&signed).is_signed());
        Ok(signed)
    }

    /// The server's packet as it is on the link; it must be signed.
    pub(crate) fn server_sends(&mut self, packet: &Packet) -> Result<Vec<u8>, Refusal> {
        let signed = outbound(&mut self.server, self.now, &packet.build())?;
        assert!(read(&signed).is_signed());
        Ok(signed)
    }

    /// Delivers a packet from the link to the server's stack.
    pub(crate) fn server_gets(&mut self, packet: &[u8]) -> Result<Vec<u8>, Refusal> {
        inbound(&mut self.server, self.now, packet)
    }

    /// Delivers a packet from the link to the client's stack.
    pub(crate) fn client_gets(&mut self, packet: &[u8]) -> Result<Vec<u8>, Refusal> {
        inbound(&mut self.client, self.now, packet)
    }

    /// Sends a packet from the server's stack to the link.
    pub(crate) fn server_emits(&mut self, packet: &[u8]) -> Result<Vec<u8>, Refusal> {
        outbound(&mut self.server, self.now, packet)
    }

    /// Sends a packet from the client's stack to the link.
    pub(crate) fn client_emits(&mut self, packet: &[u8]) -> Result<Vec<u8>, Refusal> {
        outbound(&mut self.client, self.now, packet)
    }

    /// The client's packet without data as it is on the link; it must be signed.
    pub(crate) fn client_signs(&mut self, flags: u8, sequence: u32, ack: u32) -> Result<Vec<u8>, Refusal> {
        self.client_sends(&Packet::new(self.pair, flags, sequence, ack))
    }

    /// The server's packet without data as it is on the link; it must be signed.
    pub(crate) fn server_signs(&mut self, flags: u8, sequence: u32, ack: u32) -> Result<Vec<u8>, Refusal> {
        self.server_sends(&Packet::new(self.pair.reversed(), flags, sequence, ack))
    }

    /// Sends a packet without data from the client's stack to the server's.
    pub(crate) fn forth(&mut self, flags: u8, sequence: u32, ack: u32) -> Result<Vec<u8>, Refusal> {
        self.deliver_to_server(&Packet::new(self.pair, flags, sequence, ack))
    }

    /// Sends a packet without data from the server's stack to the client's.
    pub(crate) fn back(&mut self, flags: u8, sequence: u32, ack: u32) -> Result<Vec<u8>, Refusal> {
        self.deliver_to_client(&Packet::new(self.pair.reversed(), flags, sequence, ack))
    }

    /// Sends a packet from the client's stack to the server's.
    pub(crate) fn deliver_to_server(&mut self, packet: &Packet) -> Result<Vec<u8>, Refusal> {
        let signed = self.client_sends(packet)?;
        inbound(&mut self.server, self.now, &signed)
    }

    /// Sends a packet from the server's stack to the client's.
    pub(crate) fn deliver_to_client(&mut self, packet: &Packet) -> Result<Vec<u8>, Refusal> {
        let signed = self.server_sends(packet)?;
        inbound(&mut self.client, self.now, &signed)
    }

    pub(crate) fn client_data(&self, payload: &[u8]) -> Packet {
        Packet::new(self.pair, ACK | PSH, CLIENT_ISN + 1, SERVER_ISN.wrapping_add(1)).payload(payload)
    }

    pub(crate) fn server_data(&self, payload: &[u8]) -> Packet {
        let pair = self.pair.reversed();
        Packet::new(pair, ACK | PSH, SERVER_ISN.wrapping_add(1), CLIENT_ISN + 1).payload(payload)
    }
}

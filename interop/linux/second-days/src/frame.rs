//! Frames: reading them, for the witness and the attacker, and making the attacker's.

use std::net::{IpAddr, SocketAddr};

use anyhow::Result;
use etherparse::{
    EtherType, Ethernet2Header, IpFragOffset, IpNumber, Ipv4Header, Ipv6ExtensionSlice, Ipv6FragmentHeader,
    Ipv6Header, NetSlice, PacketBuilder, PacketBuilderStep, SlicedPacket, TcpHeader, TransportSlice,
    ether_type,
};

const HOP_LIMIT: u8 = 64;
/// The kinds of TCP options: MD5 signatures, and TCP-AO.
pub const MD5: u8 = 19;
pub const TCP_AO: u8 = 29;

/// A TCP segment in a frame.
#[derive(Clone, Debug)]
pub struct Seen {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub header: TcpHeader,
    pub payload: usize,
    /// Whether it has exactly one whole TCP-AO option.
    pub is_signed: bool,
}

impl Seen {
    /// The sequence number after it.
    pub fn next(&self) -> u32 {
        let extra = u32::from(self.header.syn) + u32::from(self.header.fin);
        self.header.sequence_number.wrapping_add(self.payload as u32 + extra)
    }
}

/// What a frame contains of TCP.
pub enum Content {
    Segment(Box<Seen>),
    /// The first fragment of a TCP packet between these, and whether it is signed. The other fragments do nothing without it.
    Fragment(IpAddr, IpAddr, bool),
    Other,
}

pub fn read(frame: &[u8]) -> Content {
    let Ok(packet) = SlicedPacket::from_ethernet(frame) else { return Content::Other };
    let (from, to, payload, is_first): (IpAddr, IpAddr, _, _) = match &packet.net {
        Some(NetSlice::Ipv4(ip)) => {
            let (header, payload) = (ip.header(), ip.payload());
            let is_first = header.fragments_offset().value() == 0;
            (header.source_addr().into(), header.destination_addr().into(), payload, is_first)
        }
        Some(NetSlice::Ipv6(ip)) => {
            let (header, payload) = (ip.header(), ip.payload());
            let is_first = ip.extensions().clone().into_iter().all(|extension| match extension {
                Ipv6ExtensionSlice::Fragment(fragment) => fragment.fragment_offset().value() == 0,
                _ => true,
            });
            (header.source_addr().into(), header.destination_addr().into(), payload, is_first)
        }
        _ => return Content::Other,
    };
    match packet.transport {
        // Ports and options are in the first fragment.
        None if payload.fragmented && is_first && payload.ip_number == IpNumber::TCP => {
            match TcpHeader::from_slice(payload.payload) {
                Ok((header, _)) => Content::Fragment(from, to, is_signed(header.options.as_slice())),
                Err(_) => Content::Fragment(from, to, false),
            }
        }
        Some(TransportSlice::Tcp(tcp)) => {
            let header = tcp.to_header();
            Content::Segment(Box::new(Seen {
                from: SocketAddr::new(from, header.source_port),
                to: SocketAddr::new(to, header.destination_port),
                payload: tcp.payload().len(),
                is_signed: is_signed(tcp.options()),
                header,
            }))
        }
        _ => Content::Other,
    }
}

fn is_signed(mut options: &[u8]) -> bool {
    let mut signatures = 0;
    loop {
        match options {
            [] | [0, ..] => return signatures == 1,
            [1, rest @ ..] => options = rest,
            [kind, length, ..] if (2..=options.len()).contains(&usize::from(*length)) => {
                signatures += u32::from(*kind == TCP_AO && *length > 4);
                options = &options[usize::from(*length)..];
            }
            _ => return false,
        }
    }
}

/// The two ends of a forged frame: hardware addresses, and addresses.
#[derive(Clone, Copy)]
pub struct Path {
    pub hardware: [[u8; 6]; 2],
    pub addresses: [IpAddr; 2],
}

impl Path {
    fn ethernet(&self) -> Ethernet2Header {
        let [source, destination] = self.hardware;
        let ether_type = if self.addresses[0].is_ipv4() { ether_type::IPV4 } else { ether_type::IPV6 };
        Ethernet2Header { source, destination, ether_type: EtherType(ether_type.0) }
    }

    fn builder(&self) -> PacketBuilderStep<etherparse::IpHeaders> {
        let [source, destination] = self.hardware;
        let ethernet = PacketBuilder::ethernet2(source, destination);
        match self.addresses {
            [IpAddr::V4(from), IpAddr::V4(to)] => ethernet.ipv4(from.octets(), to.octets(), HOP_LIMIT),
            [IpAddr::V6(from), IpAddr::V6(to)] => ethernet.ipv6(from.octets(), to.octets(), HOP_LIMIT),
            _ => unreachable!("both ends have one version of IP"),
        }
    }

    /// A TCP segment, with its checksum.
    pub fn segment(&self, header: TcpHeader, payload: &[u8]) -> Result<Vec<u8>> {
        let mut frame = Vec::new();
        self.builder().tcp_header(header).write(&mut frame, payload)?;
        Ok(frame)
    }

    /// The same in fragments of this many octets, a multiple of eight.
    pub fn fragments(&self, header: TcpHeader, payload: &[u8], size: usize, id: u32) -> Result<Vec<Vec<u8>>> {
        let whole = self.segment(header, payload)?;
        let is_ipv4 = self.addresses[0].is_ipv4();
        let packet =
            &whole[Ethernet2Header::LEN + if is_ipv4 { Ipv4Header::MIN_LEN } else { Ipv6Header::LEN }..];
        let count = packet.len().div_ceil(size);
        let fragment = |(number, part): (usize, &[u8])| {
            let offset = IpFragOffset::try_new((number * size / 8) as u16)?;
            let has_more = number + 1 < count;
            let mut frame = self.ethernet().to_bytes().to_vec();
            match self.addresses {
                [IpAddr::V4(from), IpAddr::V4(to)] => {
                    let length = part.len() as u16;
                    let mut ip =
                        Ipv4Header::new(length, HOP_LIMIT, IpNumber::TCP, from.octets(), to.octets())?;
                    ip.identification = id as u16;
                    (ip.fragment_offset, ip.more_fragments, ip.dont_fragment) = (offset, has_more, false);
                    ip.header_checksum = ip.calc_header_checksum();
                    frame.extend(ip.to_bytes());
                }
                [IpAddr::V6(from), IpAddr::V6(to)] => {
                    let ip = Ipv6Header {
                        payload_length: (Ipv6FragmentHeader::LEN + part.len()) as u16,
                        next_header: IpNumber::IPV6_FRAGMENTATION_HEADER,
                        hop_limit: HOP_LIMIT,
                        source: from.octets(),
                        destination: to.octets(),
                        ..Ipv6Header::default()
                    };
                    frame.extend(ip.to_bytes());
                    frame.extend(Ipv6FragmentHeader::new(IpNumber::TCP, offset, has_more, id).to_bytes());
                }
                _ => unreachable!("both ends have one version of IP"),
            }
            frame.extend(part);
            Ok(frame)
        };
        packet.chunks(size).enumerate().map(fragment).collect()
    }

    /// An ICMP error about a packet that the receiver sent; the MTU is in the last octets of its header.
    pub fn icmp_error(&self, (kind, code): (u8, u8), mtu: u32, quoted: &[u8]) -> Result<Vec<u8>> {
        let mut frame = Vec::new();
        match self.addresses[0] {
            IpAddr::V4(_) => {
                self.builder().icmpv4_raw(kind, code, mtu.to_be_bytes()).write(&mut frame, quoted)?;
            }
            IpAddr::V6(_) => {
                self.builder().icmpv6_raw(kind, code, mtu.to_be_bytes()).write(&mut frame, quoted)?;
            }
        }
        Ok(frame)
    }
}

//! Frames that no stack has sent: what somebody on the wire, or far away, could send in another's name.

use std::net::IpAddr;

use etherparse::err::packet::BuildWriteError;
use etherparse::{
    ArpHardwareId, ArpOperation, ArpPacket, EtherType, IpHeaders, NetSlice, PacketBuilder, PacketBuilderStep,
    SlicedPacket, TcpHeader,
};
use router_peer::transport::ETHERNET_HEADER;
use wireseal_tcp_ao::option::{AO_HEADER_LENGTH, MAX_OPTIONS_LENGTH};
use wireseal_tcp_ao::{
    Isn, KdfContext, KeyId, Mkt, Segment, SeqNum, Sne, SocketPair, TrafficKey, append_ao, sign_segment,
};

use crate::failure::Failure;
use crate::lab::Addresses;
use crate::recording::Recording;
use crate::wire::{Port, Wire};

/// The time to live of forged packets.
const HOPS: u8 = 64;
/// Octets of a quoted packet that an ICMP error carries: the headers, as RFC 1812 §4.3.2.3 asks for.
const QUOTED: usize = 128;
/// The window that a forged SYN offers.
const WINDOW: u16 = u16::MAX;

/// A TCP segment in the making. Its checksums are right in the end, so that nothing is dropped for them.
#[derive(Clone, Debug)]
pub struct Forgery {
    /// The connection, as the end sees it in whose name the segment goes.
    pair: SocketPair,
    header: TcpHeader,
    payload: Vec<u8>,
}

impl Forgery {
    /// An unsigned SYN.
    #[must_use]
    pub fn syn(pair: SocketPair, isn: Isn) -> Self {
        let mut header = TcpHeader::new(pair.local.port(), pair.remote.port(), isn.0, WINDOW);
        header.syn = true;
        Self { pair, header, payload: Vec::new() }
    }

    /// The unsigned acknowledgment that an end of a connection could send next: it stands in both windows. Nothing of the
    /// connection may be under way that the recording does not have. `None` until both ends have sent something.
    #[must_use]
    pub fn next(recording: &Recording, pair: SocketPair) -> Option<Self> {
        let mut header = TcpHeader::new(pair.local.port(), pair.remote.port(), 0, 0);
        header.sequence_number = end_of_sent(recording, &pair)?.0;
        header.acknowledgment_number = end_of_sent(recording, &pair.reversed())?.0;
        header.ack = true;
        header.window_size = segments_of(recording, &pair).last()?.window;
        Some(Self { pair, header, payload: Vec::new() })
    }

    /// The unsigned reset that refuses a SYN, up to whose end it acknowledges (RFC 9293 §3.10.7.1).
    #[must_use]
    pub fn refusal(pair: SocketPair, end: SeqNum) -> Self {
        let mut header = TcpHeader::new(pair.local.port(), pair.remote.port(), 0, 0);
        header.acknowledgment_number = end.0;
        (header.rst, header.ack) = (true, true);
        Self { pair, header, payload: Vec::new() }
    }

    /// Resets the connection.
    #[must_use]
    pub fn reset(mut self) -> Self {
        self.header.rst = true;
        self
    }

    /// Has data.
    #[must_use]
    pub fn carrying(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self.header.psh = true;
        self
    }

    /// Has an AO option with a MAC of this length that is made up.
    ///
    /// # Errors
    /// When the option has no room.
    pub fn with_made_up_mac(
        mut self,
        key_id: KeyId,
        rnext_key_id: KeyId,
        mac_length: usize,
    ) -> Result<Self, Failure> {
        let mut space = [0; MAX_OPTIONS_LENGTH];
        let length = append_ao(&mut space, 0, mac_length)?;
        space[2..AO_HEADER_LENGTH].copy_from_slice(&[key_id.0, rnext_key_id.0]);
        space[AO_HEADER_LENGTH..AO_HEADER_LENGTH + mac_length].fill(0xa5);
        self.header.set_options_raw(&space[..length])?;
        Ok(self)
    }

    /// Is signed with an MKT of the end in whose name it goes, as it is by now; SNEs are still 0.
    ///
    /// # Errors
    /// When the option has no room, or the recording has not both SYNs of the connection.
    pub fn signed_with(self, mkt: &Mkt, recording: &Recording) -> Result<Self, Failure> {
        let pair = self.pair;
        let isns = isn_of(recording, &pair).zip(isn_of(recording, &pair.reversed()));
        let (own, other) = isns.ok_or_else(|| Failure(format!("{pair} has not been opened on the wire")))?;
        let parameters = mkt.parameters();
        let key = TrafficKey::derive(
            parameters.algorithm,
            mkt.master_key(),
            &KdfContext::send_other(pair, own, other),
        );
        let mut forgery = self.with_made_up_mac(mkt.send_id(), mkt.recv_id(), parameters.mac_length())?;
        let addresses = (pair.local.address(), pair.remote.address());
        let mut tcp = [forgery.header.to_bytes().as_slice(), &forgery.payload].concat();
        sign_segment(&key, Sne(0), addresses, &mut tcp, parameters, mkt.recv_id())?;
        forgery.header = TcpHeader::from_slice(&tcp)?.0;
        Ok(forgery)
    }

    /// The frame.
    ///
    /// # Errors
    /// When an address belongs to no port of the wire, or the segment is too long.
    pub fn frame(&self) -> Result<Vec<u8>, Failure> {
        let packet = packet(self.pair.local.address(), self.pair.remote.address())?;
        let mut frame = Vec::new();
        packet.tcp_header(self.header.clone()).write(&mut frame, &self.payload)?;
        Ok(frame)
    }

    /// Puts it onto the wire.
    ///
    /// # Errors
    /// Those of [`frame`](Self::frame).
    pub fn inject(&self, wire: &Wire) -> Result<(), Failure> {
        wire.inject(port_of(self.pair.remote.address())?, self.frame()?);
        Ok(())
    }
}

/// An ICMP error in the name of the other end about the segment that the end `pair.local` could have sent last, and the
/// port of the end that is to be deceived. `more` is what the last four octets of the ICMP header say, such as an MTU.
///
/// # Errors
/// When the recording does not have the connection.
pub fn icmp_error(
    recording: &Recording,
    pair: SocketPair,
    (kind, code): (u8, u8),
    more: u32,
) -> Result<(Port, Vec<u8>), Failure> {
    let quoted =
        Forgery::next(recording, pair).ok_or_else(|| Failure(format!("{pair} is not on the wire")))?;
    let quoted = quoted.frame()?.split_off(ETHERNET_HEADER);
    let quoted = &quoted[..quoted.len().min(QUOTED)];
    let (liar, deceived) = (pair.remote.address(), pair.local.address());
    let packet = packet(liar, deceived)?;
    let mut frame = Vec::new();
    let write = |written: Result<(), BuildWriteError>| written.map_err(Failure::from);
    match deceived {
        IpAddr::V4(_) => write(packet.icmpv4_raw(kind, code, more.to_be_bytes()).write(&mut frame, quoted))?,
        IpAddr::V6(_) => write(packet.icmpv6_raw(kind, code, more.to_be_bytes()).write(&mut frame, quoted))?,
    }
    Ok((port_of(deceived)?, frame))
}

/// A question for the hardware address of a port, from somebody at [`Port::Host`].
///
/// # Errors
/// When the frame cannot be built.
pub fn arp_request(port: Port) -> Result<Vec<u8>, Failure> {
    let (asker, asked) = (Addresses::of(Port::Host), Addresses::of(port));
    let request = ArpPacket::new(
        ArpHardwareId::ETHERNET,
        EtherType::IPV4,
        ArpOperation::REQUEST,
        &asker.hardware_address,
        &asker.ipv4.octets(),
        &[0; 6],
        &asked.ipv4.octets(),
    )?;
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(asker.hardware_address, [0xff; 6]).arp(request).write(&mut frame)?;
    Ok(frame)
}

/// Whether a frame answers to [`arp_request`].
#[must_use]
pub fn is_arp_reply(frame: &[u8]) -> bool {
    match SlicedPacket::from_ethernet(frame).ok().and_then(|packet| packet.net) {
        Some(NetSlice::Arp(arp)) => {
            arp.operation() == ArpOperation::REPLY
                && arp.target_protocol_addr() == Addresses::of(Port::Host).ipv4.octets()
        }
        _ => false,
    }
}

/// The ISN of the end `pair.local`, from its last SYN.
fn isn_of(recording: &Recording, pair: &SocketPair) -> Option<Isn> {
    segments_of(recording, pair).filter(|sent| sent.is_syn).last().map(|sent| Isn(sent.sequence.0))
}

/// The number behind all that the end `pair.local` has sent since its last SYN.
fn end_of_sent(recording: &Recording, pair: &SocketPair) -> Option<SeqNum> {
    segments_of(recording, pair).fold(None, |highest: Option<SeqNum>, sent| match highest {
        Some(highest) if !sent.is_syn && !highest.before(sent.end) => Some(highest),
        _ => Some(sent.end),
    })
}

struct Sent {
    sequence: SeqNum,
    end: SeqNum,
    window: u16,
    is_syn: bool,
}

/// What the end `pair.local` has sent.
fn segments_of(recording: &Recording, pair: &SocketPair) -> impl Iterator<Item = Sent> {
    let of_pair =
        |segment: &Segment<'_>| segment.source() == pair.local && segment.destination() == pair.remote;
    recording.frames.iter().filter(|frame| frame.from.is_some()).filter_map(move |frame| {
        let segment = frame.segment().filter(of_pair)?;
        let window = TcpHeader::from_slice(segment.tcp()).ok()?.0.window_size;
        Some(Sent { sequence: segment.sequence(), end: segment.end(), window, is_syn: segment.flags().syn() })
    })
}

/// The start of a packet, between ports of the wire.
fn packet(source: IpAddr, destination: IpAddr) -> Result<PacketBuilderStep<IpHeaders>, Failure> {
    let hardware_address = |address| port_of(address).map(|port| Addresses::of(port).hardware_address);
    let ethernet = PacketBuilder::ethernet2(hardware_address(source)?, hardware_address(destination)?);
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Ok(ethernet.ipv4(source.octets(), destination.octets(), HOPS))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            Ok(ethernet.ipv6(source.octets(), destination.octets(), HOPS))
        }
        _ => Err(Failure(format!("{source} and {destination} are of two families"))),
    }
}

fn port_of(address: IpAddr) -> Result<Port, Failure> {
    let ports = [Port::Userspace, Port::North, Port::South, Port::Host];
    let found = ports.into_iter().find(|port| Addresses::of(*port).like(address) == address);
    found.ok_or_else(|| Failure(format!("no port of the wire has {address}")))
}

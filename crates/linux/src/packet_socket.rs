//! The packets of an interface, as they come and go.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use libc::c_int;
use socket2::{Domain, Protocol, Socket, Type};

use crate::packet_filter::PacketFilter;
use crate::sys::{
    PACKETS_AT_ONCE, PacketHead, bind_packet_socket, packet_socket_address, packet_statistics,
    receive_packets, set_all,
};

/// Receives the packets that an interface sends and receives, of which a [`PacketFilter`] chooses.
///
/// Opening one needs `CAP_NET_RAW`; using it needs no privilege. Nothing but what passes the filter is copied at any time.
pub struct PacketSocket {
    socket: Socket,
    has_ethernet: bool,
    buffers: Vec<u8>,
    heads: Box<[PacketHead; PACKETS_AT_ONCE]>,
    /// How many packets the buffers hold.
    received: usize,
    statistics: PacketStatistics,
}

/// What the kernel counted since a socket was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PacketStatistics {
    /// Packets that passed the filter, those dropped included.
    pub passed: u64,
    /// Packets that passed the filter and were dropped, because the socket's buffer was full.
    pub dropped: u64,
}

/// A packet in a socket's buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceivedPacket<'a> {
    /// When the kernel received or sent it: nanoseconds since 1970-01-01T00:00:00Z.
    pub unix_nanoseconds: u64,
    /// Its octets, at most 65,536; what they begin with is the socket's [link type](PacketSocket::link_type).
    pub octets: &'a [u8],
    /// How many octets it had on the wire.
    pub original_length: usize,
}

/// Octets of the longest packet that is received whole.
const LONGEST: usize = 65_536;
/// Octets of a VLAN tag, which the kernel takes off.
const TAG: usize = 4;
/// Octets of LINKTYPE_LINUX_SLL's header, which is put before packets that have none of Ethernet.
const COOKED: usize = 16;
/// Octets in front of what is received: room for either.
const GAP: usize = COOKED + TAG;
const PIECE: usize = GAP + LONGEST;
/// Octets that wait in the kernel, with what it needs for itself: half a second of 100,000 segments a second.
const KERNEL_BUFFER: c_int = 64 << 20;

const LINKTYPE_ETHERNET: u16 = 1;
const LINKTYPE_LINUX_SLL: u16 = 113;

/// Attaches a filter, or one that passes more if the kernel has no room for it: whoever reads the packets tells them apart then.
fn attach(socket: &Socket, filter: &PacketFilter, has_ethernet: bool) -> io::Result<()> {
    let by_port = PacketFilter { peers: Vec::new(), ports: filter.ports.clone() };
    let mut attached = Ok(());
    for filter in [filter, &by_port, &PacketFilter::default()] {
        attached = socket.attach_filter(&filter.program(has_ethernet));
        // net.core.optmem_max limits it.
        if !attached.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ENOMEM)) {
            break;
        }
    }
    attached
}

impl PacketSocket {
    /// Opens a socket for the interface with this index, or for all interfaces for `None`. Its packets begin with an Ethernet header if
    /// the interface has that or is the loopback interface; if not, and with all interfaces, with the header of LINKTYPE_LINUX_SLL.
    ///
    /// # Errors
    /// Those of the kernel: `PermissionDenied` without `CAP_NET_RAW`, ENODEV if there is no such interface, ENETDOWN if it is down.
    pub fn open(interface: Option<u32>, filter: &PacketFilter) -> io::Result<Self> {
        let nothing = Some(Protocol::from(0));
        let mut socket = Socket::new(Domain::PACKET, Type::RAW, nothing)?;
        let index = interface.unwrap_or(0);
        let has_ethernet = if interface.is_some() {
            bind_packet_socket(socket.as_fd(), index, 0)?;
            let kind = packet_socket_address(socket.as_fd())?.sll_hatype;
            matches!(kind, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK)
        } else {
            false
        };
        if !has_ethernet {
            socket = Socket::new(Domain::PACKET, Type::DGRAM, nothing)?;
        }
        attach(&socket, filter, has_ethernet)?;
        // Beyond what the administrator allows it needs CAP_NET_ADMIN.
        let force = (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, KERNEL_BUFFER);
        if set(&socket, force).is_err() {
            socket.set_recv_buffer_size(KERNEL_BUFFER as usize)?;
        }
        set(&socket, (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1))?;
        set(&socket, (libc::SOL_PACKET, libc::PACKET_AUXDATA, 1))?;
        // Before this it received nothing.
        bind_packet_socket(socket.as_fd(), index, (libc::ETH_P_ALL as u16).to_be())?;
        // An interface that is down can be bound to.
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        Ok(Self {
            socket,
            has_ethernet,
            buffers: vec![0; PIECE * PACKETS_AT_ONCE],
            heads: Box::new([PacketHead::EMPTY; PACKETS_AT_ONCE]),
            received: 0,
            statistics: PacketStatistics::default(),
        })
    }

    /// Makes the interface with this index receive packets for other hosts too, as long as the socket is open.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn set_promiscuous(&self, interface: u32) -> io::Result<()> {
        let request = libc::packet_mreq {
            mr_ifindex: c_int::try_from(interface).map_err(|_| io::ErrorKind::InvalidInput)?,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set_all(self.socket.as_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &[request])
    }

    /// What its packets begin with: a LINKTYPE number.
    #[must_use]
    pub const fn link_type(&self) -> u16 {
        if self.has_ethernet { LINKTYPE_ETHERNET } else { LINKTYPE_LINUX_SLL }
    }

    /// Receives packets that are there; [`packets`](Self::packets) has them until the next call. Returns whether there may be more.
    /// Never waits; to wait, poll the socket.
    ///
    /// # Errors
    /// Those of the kernel, such as ENETDOWN once when the interface goes down; there are no packets then.
    pub fn receive(&mut self) -> io::Result<bool> {
        let Self { socket, buffers, heads, .. } = self;
        self.received = 0;
        match receive_packets(socket.as_fd(), buffers, PIECE, GAP, heads) {
            Ok(received) => self.received = received,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        Ok(self.received == PACKETS_AT_ONCE)
    }

    /// The packets that were received, in order.
    pub fn packets(&mut self) -> impl Iterator<Item = ReceivedPacket<'_>> {
        let has_ethernet = self.has_ethernet;
        let received = self.heads.iter().zip(self.buffers.chunks_exact_mut(PIECE)).take(self.received);
        received.filter_map(move |(head, buffer)| packet(head, buffer, has_ethernet))
    }

    /// What the kernel has counted so far.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn statistics(&mut self) -> io::Result<PacketStatistics> {
        // The kernel's counters begin anew with each call.
        let [passed, dropped] = packet_statistics(self.socket.as_fd())?.map(u64::from);
        self.statistics.passed += passed;
        self.statistics.dropped += dropped;
        Ok(self.statistics)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl std::fmt::Debug for PacketSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketSocket").field("socket", &self.socket).finish_non_exhaustive()
    }
}

fn set(socket: &Socket, (level, name, value): (c_int, c_int, c_int)) -> io::Result<()> {
    set_all(socket.as_fd(), level, name, &[value])
}

/// Puts a packet's link-layer header together; `None` for one that is received twice.
fn packet<'a>(head: &PacketHead, buffer: &'a mut [u8], has_ethernet: bool) -> Option<ReceivedPacket<'a>> {
    let PacketHead { from, length, .. } = head;
    // The loopback interface receives what it sends.
    if from.sll_hatype == libc::ARPHRD_LOOPBACK && from.sll_pkttype == libc::PACKET_OUTGOING {
        return None;
    }
    let control = Control::read(&head.control[..head.control_length]);
    let mut start = GAP;
    if has_ethernet {
        // Between the addresses and the EtherType.
        if let (Some(tag), 12..) = (control.tag, *length) {
            start -= TAG;
            buffer.copy_within(GAP..GAP + 12, start);
            buffer[start + 12..start + 16].copy_from_slice(&tag);
        }
    } else {
        // The header ends with the EtherType, and so does a tag.
        let mut ether_type = from.sll_protocol.to_ne_bytes();
        if let Some(tag) = control.tag {
            start -= TAG;
            let [kind @ .., a, b] = tag;
            buffer[start..GAP].copy_from_slice(&[[a, b], ether_type].concat());
            ether_type = kind;
        }
        start -= COOKED;
        let header = &mut buffer[start..start + COOKED];
        header[0..2].copy_from_slice(&u16::from(from.sll_pkttype).to_be_bytes());
        header[2..4].copy_from_slice(&from.sll_hatype.to_be_bytes());
        header[4..6].copy_from_slice(&u16::from(from.sll_halen).to_be_bytes());
        header[6..14].copy_from_slice(&from.sll_addr);
        header[14..].copy_from_slice(&ether_type);
    }
    let end = GAP + (*length).min(LONGEST);
    Some(ReceivedPacket {
        unix_nanoseconds: control.unix_nanoseconds,
        octets: &buffer[start..end],
        original_length: GAP - start + length,
    })
}

/// What the kernel's control messages say of a packet.
#[derive(Clone, Copy, Default)]
struct Control {
    unix_nanoseconds: u64,
    /// The VLAN tag that was taken off: its EtherType, then the number.
    tag: Option<[u8; TAG]>,
}

impl Control {
    /// Reads messages: each begins with a `struct cmsghdr`, which is a length and two integers, and is padded to the size of the length.
    fn read(mut octets: &[u8]) -> Self {
        const WORD: usize = size_of::<usize>();
        const HEAD: usize = WORD + 8;
        let mut found = Self::default();
        while let Some((&length, rest)) = octets.split_first_chunk() {
            let length = usize::from_ne_bytes(length);
            let (Some(&level), Some(&kind)) =
                (rest.first_chunk(), rest.get(4..).and_then(<[u8]>::first_chunk))
            else {
                break;
            };
            let Some(data) = octets.get(HEAD..length) else { break };
            match (c_int::from_ne_bytes(level), c_int::from_ne_bytes(kind)) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => found.unix_nanoseconds = nanoseconds(data),
                (libc::SOL_PACKET, libc::PACKET_AUXDATA) => found.tag = tag(data),
                _ => {}
            }
            octets = octets.get(length.next_multiple_of(WORD)..).unwrap_or_default();
        }
        found
    }
}

/// A `struct timespec`: seconds and nanoseconds, each half of it.
fn nanoseconds(data: &[u8]) -> u64 {
    let number = |octets: &[u8]| match *octets {
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        _ => octets.first_chunk().map_or(0, |octets| u64::from_ne_bytes(*octets)),
    };
    let (seconds, nanoseconds) = data.split_at(data.len() / 2);
    number(seconds).saturating_mul(1_000_000_000).saturating_add(number(nanoseconds))
}

/// The VLAN tag in a `struct tpacket_auxdata`: a status and two lengths of four octets, two offsets, the tag's number and its EtherType.
fn tag(data: &[u8]) -> Option<[u8; TAG]> {
    let status = u32::from_ne_bytes(*data.first_chunk()?);
    let half = |place: usize| data.get(place..)?.first_chunk().copied().map(u16::from_ne_bytes);
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let kind = if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { half(18)? } else { 0x8100 };
    let ([a, b], [c, d]) = (kind.to_be_bytes(), half(16)?.to_be_bytes());
    Some([a, b, c, d])
}

//! Sending signed packets, past the path MTU that the kernel has noted for its own TCP.
//!
//! A packet that goes back into the kernel in the place of the unsigned one would be held against the path MTU, which is smaller by the
//! option than what fits: TCP is told so, and this is the same note. A raw socket is held against the link's MTU alone. What leaves by
//! it goes where the unsigned packet would have gone: it has that packet's source, mark and device, by which routes are chosen.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;

use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrIn, SockaddrIn6, SockaddrLike, sendmsg};
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
    set_socket_send_buffer_size_force,
};
use socket2::{Domain, Protocol, Socket, Type};

use super::queues::Packet;

/// `IPPROTO_RAW`: the packets come with their IP headers.
const WITH_HEADER: i32 = 255;
/// Octets of packets that may be on their way to the device.
const SEND_BUFFER: usize = 4 << 20;
/// Sent packets that are remembered: more than a thread sends before it receives again.
const MOST_SENT: usize = 256;

/// A raw socket for each version of IP.
pub(super) struct Wire {
    ipv4: Raw,
    /// `None` where the kernel has no IPv6.
    ipv6: Option<Raw>,
    /// What was sent and has not come by the thread's queue yet, in which it is told from packets of programs by this.
    sent: VecDeque<u64>,
    hash: RandomState,
}

struct Raw {
    socket: Socket,
    /// That of the packet before.
    mark: u32,
}

impl Raw {
    fn open(domain: Domain) -> io::Result<Self> {
        let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(WITH_HEADER)))?;
        socket.set_nonblocking(true)?;
        set_socket_send_buffer_size_force(&socket, SEND_BUFFER)?;
        Ok(Self { socket, mark: 0 })
    }

    fn send(
        &mut self,
        packet: &[u8],
        mark: u32,
        from: ControlMessage<'_>,
        to: &impl SockaddrLike,
    ) -> io::Result<()> {
        if mark != self.mark {
            self.socket.set_mark(mark)?;
            self.mark = mark;
        }
        let socket = self.socket.as_raw_fd();
        sendmsg(socket, &[IoSlice::new(packet)], &[from], MsgFlags::empty(), Some(to))?;
        Ok(())
    }
}

impl Wire {
    pub(super) fn open() -> io::Result<Self> {
        let ipv4 = Raw::open(Domain::IPV4)?;
        let ipv6 = match Raw::open(Domain::IPV6) {
            Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => None,
            opened => Some(opened?),
        };
        // The link's MTU counts, not the path's.
        set_ip_mtu_discover(&ipv4.socket, Ipv4PathMtuDiscovery::PROBE)?;
        if let Some(ipv6) = &ipv6 {
            set_ipv6_mtu_discover(&ipv6.socket, Ipv6PathMtuDiscovery::PROBE)?;
        }
        Ok(Self { ipv4, ipv6, sent: VecDeque::new(), hash: RandomState::new() })
    }

    /// Sends what has become of a packet to where its header says, by the device that the packet was about to leave by. It comes by the
    /// thread's own queue once more, where [`has_sent`](Self::has_sent) knows it.
    ///
    /// # Errors
    /// EMSGSIZE if it does not fit the link; and others.
    pub(super) fn send(&mut self, packet: &Packet, signed: &[u8]) -> io::Result<()> {
        let (from, to) = ends(signed).ok_or(io::ErrorKind::InvalidInput)?;
        // Before it is sent, because it is in the queue once it has been.
        let hash = self.hash.hash_one(segment(signed));
        if self.sent.len() == MOST_SENT {
            self.sent.pop_front();
        }
        self.sent.push_back(hash);
        let sent = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let source = libc::in_pktinfo {
                    ipi_ifindex: packet.to_device.cast_signed(),
                    ipi_spec_dst: libc::in_addr { s_addr: u32::from_ne_bytes(from.octets()) },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                let to = SockaddrIn::from(SocketAddrV4::new(to, 0));
                self.ipv4.send(signed, packet.mark, ControlMessage::Ipv4PacketInfo(&source), &to)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let source = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr { s6_addr: from.octets() },
                    ipi6_ifindex: packet.to_device,
                };
                let scope = if to.is_unicast_link_local() { packet.to_device } else { 0 };
                let to = SockaddrIn6::from(SocketAddrV6::new(to, 0, 0, scope));
                let ipv6 = self.ipv6.as_mut().ok_or(io::ErrorKind::Unsupported)?;
                ipv6.send(signed, packet.mark, ControlMessage::Ipv6PacketInfo(&source), &to)
            }
            _ => Err(io::ErrorKind::InvalidInput.into()),
        };
        if sent.is_err() {
            self.sent.pop_back();
        }
        sent
    }

    /// Whether a packet of the thread's queue is one that has been sent here; each is known once.
    pub(super) fn has_sent(&mut self, packet: &[u8]) -> bool {
        if self.sent.is_empty() {
            return false;
        }
        let hash = self.hash.hash_one(segment(packet));
        let at = self.sent.iter().position(|sent| *sent == hash);
        at.is_some_and(|at| self.sent.remove(at).is_some())
    }
}

/// The two ends that a packet's IP header names.
fn ends(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    Some(match packet.first()? >> 4 {
        4 => {
            let [from, to] = [12, 16].map(|at| packet.get(at..)?.first_chunk::<4>());
            (Ipv4Addr::from(*from?).into(), Ipv4Addr::from(*to?).into())
        }
        6 => {
            let [from, to] = [8, 24].map(|at| packet.get(at..)?.first_chunk::<16>());
            (Ipv6Addr::from(*from?).into(), Ipv6Addr::from(*to?).into())
        }
        _ => return None,
    })
}

/// Where a packet's IP header says that it goes.
pub(super) fn destination(packet: &[u8]) -> Option<IpAddr> {
    ends(packet).map(|(_, to)| to)
}

/// What is behind a packet's IP header, of which the kernel writes some fields anew.
fn segment(packet: &[u8]) -> &[u8] {
    let header = match packet.first() {
        Some(first) if first >> 4 == 4 => usize::from(first & 0xf) * 4,
        _ => 40,
    };
    packet.get(header..).unwrap_or_default()
}

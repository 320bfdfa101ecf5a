//! Sending signed packets, past the path MTU that the kernel has noted for its own TCP.
//!
//! A packet that goes back into the kernel in the place of the unsigned one would be held against the path MTU, which is smaller by the
//! option than what fits: TCP is told so, and this is the same note.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// Marks the gateway's own packets, which the rules leave alone. Octets of "WSEL".
pub(super) const MARK: u32 = 0x5753_454c;

/// `IPPROTO_RAW`: the packets come with their IP headers.
const WITH_HEADER: i32 = 255;

/// A raw socket for each version of IP.
pub(super) struct Wire {
    ipv4: Socket,
    ipv6: Socket,
}

impl Wire {
    pub(super) fn open() -> io::Result<Self> {
        let open = |domain| {
            let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(WITH_HEADER)))?;
            socket.set_mark(MARK)?;
            socket.set_nonblocking(true)?;
            Ok::<_, io::Error>(socket)
        };
        let (ipv4, ipv6) = (open(Domain::IPV4)?, open(Domain::IPV6)?);
        // The link's MTU counts, not the path's.
        set_ip_mtu_discover(&ipv4, Ipv4PathMtuDiscovery::PROBE)?;
        set_ipv6_mtu_discover(&ipv6, Ipv6PathMtuDiscovery::PROBE)?;
        Ok(Self { ipv4, ipv6 })
    }

    /// Sends a packet to where its header says. `device` is the index of the one that it leaves by, for link-local addresses.
    ///
    /// # Errors
    /// EMSGSIZE if it does not fit the link; and others.
    pub(super) fn send(&self, packet: &[u8], device: u32) -> io::Result<()> {
        let (socket, to): (_, SockAddr) = match destination(packet).ok_or(io::ErrorKind::InvalidInput)? {
            IpAddr::V4(to) => (&self.ipv4, SocketAddrV4::new(to, 0).into()),
            IpAddr::V6(to) => {
                let scope = if to.is_unicast_link_local() { device } else { 0 };
                (&self.ipv6, SocketAddrV6::new(to, 0, 0, scope).into())
            }
        };
        socket.send_to(packet, &to).map(drop)
    }
}

/// Where a packet's IP header says that it goes.
pub(super) fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(Ipv4Addr::from(*packet.get(16..)?.first_chunk::<4>()?).into()),
        6 => Some(Ipv6Addr::from(*packet.get(24..)?.first_chunk::<16>()?).into()),
        _ => None,
    }
}

//! The listeners and sessions of known services in a network namespace, asked of the kernel by netlink (`linux/inet_diag.h`), as `ss` does.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use cidr::{IpCidr, IpInet};
use netlink_packet_core::{
    Emitable, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_ALIGNTO, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer,
    NetlinkHeader, NetlinkMessage, NlasIterator, Parseable,
};
use netlink_packet_sock_diag::constants::{
    AF_INET, AF_INET6, INET_DIAG_MD5SIG, IPPROTO_TCP, TCP_ESTABLISHED, TCP_LISTEN,
};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponseHeader, SocketId, StateFlags};
use netlink_packet_sock_diag::{SOCK_DIAG_BY_FAMILY, SockDiagMessage};
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use zeroize::Zeroizing;

use super::host::{Role, Service};

/// Octets of the longest datagram: the kernel fills those of a dump up to 32 KiB, and an attribute has up to 64 KiB.
const DATAGRAM: usize = 128 << 10;
/// Octets of `struct tcp_diag_md5sig`: family, prefix length, length of the secret, address, secret.
const MD5_KEY: usize = 1 + 1 + 2 + 16 + 80;

/// A socket as the kernel describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub(super) service: Service,
    pub(super) role: Role,
    pub(super) local: SocketAddr,
    /// The index of the device that it is bound to; 0 if it is bound to none.
    pub(super) device: u32,
    /// Its number among all sockets of the host; 0 if no process has it, or none yet.
    pub(super) inode: u64,
    /// The peers that it has TCP-MD5 keys for; `None` if they were not asked for, or are more than an answer has room for.
    pub(super) tcp_md5: Option<Vec<IpCidr>>,
}

/// A netlink socket in the network namespace of the thread that has made it.
struct Asker {
    socket: Socket,
    /// It holds the secrets of TCP-MD5 keys. It never grows, because that would leave them behind.
    datagram: Zeroizing<Vec<u8>>,
}

/// The listeners and sessions of the known services in the calling thread's network namespace. `with_md5` also asks for TCP-MD5 keys; the
/// kernel shows them to CAP_NET_ADMIN alone, and to others a socket looks as if it had none.
///
/// Sessions that are closed at this end, and those of which only a SYN was received, are left out: no program has them.
pub(super) fn listeners_and_sessions(with_md5: bool) -> io::Result<Vec<Found>> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    // Then only the kernel's messages are received.
    socket.connect(&netlink_sys::SocketAddr::new(0, 0))?;
    let mut asker = Asker { socket, datagram: Zeroizing::new(Vec::with_capacity(DATAGRAM)) };
    let mut all = Vec::new();
    for family in [AF_INET, AF_INET6] {
        let any = if family == AF_INET { SocketId::new_v4() } else { SocketId::new_v6() };
        let (mut found, mut keys) = (Vec::new(), HashMap::new());
        asker.ask(family, any.clone(), NLM_F_DUMP, ExtensionFlags::empty(), |header, _| {
            found.extend(describe(&header).map(|found| (found, header.socket_id)));
        })?;
        if with_md5 && !found.is_empty() {
            // The keys come with `struct tcp_info`, unasked. A list without them first: at a socket with more keys than fit into a datagram
            // the kernel ends the list, and does not say so.
            asker.ask(family, any, NLM_F_DUMP, ExtensionFlags::INFO, |header, attributes| {
                keys.insert(header.socket_id.cookie, md5_peers(attributes));
            })?;
        }
        for (mut found, id) in found {
            if with_md5 {
                found.tcp_md5 = match keys.remove(&id.cookie) {
                    Some(keys) => keys,
                    None => match asker.one(family, id) {
                        // It was closed.
                        Err(error) if error.kind() == ErrorKind::NotFound => continue,
                        keys => keys.ok().flatten(),
                    },
                };
            }
            all.push(found);
        }
    }
    Ok(all)
}

impl Asker {
    /// The TCP-MD5 keys of one socket, for which the kernel makes as much room as they need.
    fn one(&mut self, family: u8, id: SocketId) -> io::Result<Option<Vec<IpCidr>>> {
        let (cookie, mut keys) = (id.cookie, None);
        self.ask(family, id, NLM_F_ACK, ExtensionFlags::INFO, |header, attributes| {
            if header.socket_id.cookie == cookie {
                keys = md5_peers(attributes);
            }
        })?;
        Ok(keys)
    }

    /// Asks for sockets in the states of interest, and shows each of the answer: its description, and the octets of its attributes.
    fn ask(
        &mut self,
        family: u8,
        socket_id: SocketId,
        flags: u16,
        extensions: ExtensionFlags,
        mut show: impl FnMut(InetResponseHeader, &[u8]),
    ) -> io::Result<()> {
        let states =
            StateFlags::LISTEN | StateFlags::ESTABLISHED | StateFlags::SYN_SENT | StateFlags::CLOSE_WAIT;
        let request = InetRequest { family, protocol: IPPROTO_TCP, extensions, states, socket_id };
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
        message.finalize();
        let mut octets = vec![0; message.buffer_len()];
        message.serialize(&mut octets);
        self.socket.send(&octets, 0)?;
        loop {
            self.datagram.clear();
            self.socket.recv(&mut *self.datagram, 0)?;
            if read(&self.datagram, &mut show)? {
                return Ok(());
            }
        }
    }
}

/// Reads a datagram of the answer. Returns whether it was the last.
fn read(datagram: &[u8], mut show: impl FnMut(InetResponseHeader, &[u8])) -> io::Result<bool> {
    let invalid = || io::Error::new(ErrorKind::InvalidData, "the kernel's list of sockets cannot be read");
    let mut rest = datagram;
    while !rest.is_empty() {
        let message = NetlinkBuffer::new_checked(rest).map_err(|_| invalid())?;
        let payload = message.payload();
        match message.message_type() {
            NLMSG_DONE | NLMSG_ERROR => {
                // An acknowledgment has code 0, and a dump that fails on its way ends with an error too.
                let code = payload.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                return if code < 0 {
                    Err(io::Error::from_raw_os_error(code.saturating_neg()))
                } else {
                    Ok(true)
                };
            }
            SOCK_DIAG_BY_FAMILY => {
                let header = InetResponseHeader::parse(payload).map_err(|_| invalid())?;
                let attributes = payload.get(header.buffer_len()..).ok_or_else(invalid)?;
                show(header, attributes);
            }
            _ => {}
        }
        let length = (message.length() as usize).next_multiple_of(NLMSG_ALIGNTO.into());
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(false)
}

/// What a socket is (`struct inet_diag_msg`), without its keys; `None` if it is of no known service.
fn describe(header: &InetResponseHeader) -> Option<Found> {
    let id = &header.socket_id;
    let (local, remote) = (id.source_port, id.destination_port);
    let by_port = |port| Service::ALL.into_iter().find(|service| service.ports().contains(&port));
    let address = |address: IpAddr, port| match address.to_canonical() {
        // A link-local address means nothing without its device.
        IpAddr::V6(address) if address.is_unicast_link_local() => {
            SocketAddrV6::new(address, port, 0, id.interface_id).into()
        }
        address => SocketAddr::new(address, port),
    };
    let (service, role) = if header.state == TCP_LISTEN {
        (by_port(local)?, Role::Listener)
    } else {
        let is_opener = match (by_port(local), by_port(remote)) {
            (Some(_), Some(_)) => None,
            (local, _) => Some(local.is_none()),
        };
        let peer = address(id.destination_address, remote);
        let is_established = header.state == TCP_ESTABLISHED;
        (by_port(local).or(by_port(remote))?, Role::Session { peer, is_opener, is_established })
    };
    let local = address(id.source_address, local);
    let (device, inode) = (id.interface_id, header.inode.into());
    Some(Found { service, role, local, device, inode, tcp_md5: None })
}

/// The peers of the TCP-MD5 keys among a socket's attributes; `None` if they are damaged, as with more keys than an attribute has room for.
fn md5_peers(attributes: &[u8]) -> Option<Vec<IpCidr>> {
    let mut peers = Vec::new();
    for attribute in NlasIterator::new(attributes) {
        let attribute = attribute.ok()?;
        if attribute.kind() == INET_DIAG_MD5SIG {
            let keys = attribute.value().chunks_exact(MD5_KEY);
            if !keys.remainder().is_empty() {
                return None;
            }
            for key in keys {
                peers.push(md5_peer(key)?);
            }
        }
    }
    Some(peers)
}

/// The network that a TCP-MD5 key is for.
fn md5_peer(key: &[u8]) -> Option<IpCidr> {
    let [family, prefix, _, _, rest @ ..] = key else { return None };
    let address: IpAddr = match *family {
        AF_INET => Ipv4Addr::from(*rest.first_chunk::<4>()?).into(),
        AF_INET6 => Ipv6Addr::from(*rest.first_chunk::<16>()?).into(),
        _ => return None,
    };
    // The kernel keeps the address as it was given, with host bits.
    Some(IpInet::new(address, *prefix).ok()?.network())
}

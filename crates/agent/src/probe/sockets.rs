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
        asker
            .ask(family, any.clone(), NLM_F_DUMP, ExtensionFlags::empty(), |header, _| {
                found.extend(describe(&header).map(|found| (found, header.socket_id)));
            })
            .map_err(without_module)?;
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

/// What is wrong if the kernel does not know of a list of TCP sockets: usually it loads the module by itself.
fn without_module(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::NotFound => {
            io::Error::other("the kernel has no list of them; `modprobe tcp_diag` loads it")
        }
        _ => error,
    }
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

/// A socket of a known service: what it is, its device, its inode, and the peers of its TCP-MD5 keys.
#[cfg(fuzzing)]
pub type Told = (Service, Role, SocketAddr, u32, u64, Option<Vec<IpCidr>>);

/// For the fuzz targets: the sockets in a datagram of the kernel's, and whether it is the last.
///
/// # Errors
/// An error that the kernel reports, or that the datagram cannot be read.
#[cfg(fuzzing)]
pub fn listed_sockets(datagram: &[u8]) -> io::Result<(Vec<Told>, bool)> {
    let mut all = Vec::new();
    let is_last = read(datagram, |header, attributes| {
        all.extend(describe(&header).map(|Found { service, role, local, device, inode, .. }| {
            (service, role, local, device, inode, md5_peers(attributes))
        }));
    })?;
    Ok((all, is_last))
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{NLMSG_NOOP, NlaBuffer};
    use netlink_packet_sock_diag::constants::TCP_CLOSE_WAIT;

    use super::*;

    /// A message of the kernel.
    fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut octets = vec![0; 16];
        octets.extend(payload);
        let mut header = NetlinkBuffer::new(&mut octets[..]);
        header.set_message_type(kind);
        header.set_length(16 + payload.len() as u32);
        octets.resize(octets.len().next_multiple_of(4), 0);
        octets
    }

    /// `struct inet_diag_msg`: this state, these ports, addresses 192.0.2.1 and 192.0.2.2, or mapped ones of IPv6.
    fn header(family: u8, state: u8, ports: [u16; 2]) -> Vec<u8> {
        let mut octets = vec![family, state, 0, 0];
        octets.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        for last in [1, 2] {
            let address = Ipv4Addr::new(192, 0, 2, last);
            let mut place = if family == AF_INET { [0; 16] } else { address.to_ipv6_mapped().octets() };
            if family == AF_INET {
                place[..4].copy_from_slice(&address.octets());
            }
            octets.extend(place);
        }
        octets.extend(7_u32.to_ne_bytes());
        // Cookie, timer, queues, user; then the inode.
        octets.extend([0; 24]);
        octets.extend(99_u32.to_ne_bytes());
        octets
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut octets = vec![0; 4];
        octets.extend(value);
        let mut attribute = NlaBuffer::new(&mut octets[..]);
        attribute.set_kind(kind);
        attribute.set_length(4 + value.len() as u16);
        octets.resize(octets.len().next_multiple_of(4), 0);
        octets
    }

    /// `struct tcp_diag_md5sig`.
    fn md5_key(family: u8, prefix: u8, address: &[u8]) -> Vec<u8> {
        let mut key = vec![family, prefix, 6, 0];
        key.extend(address);
        key.resize(20, 0);
        key.extend(b"secret");
        key.resize(MD5_KEY, 0);
        key
    }

    /// What a datagram tells: each socket of a known service with its keys, and whether it is the last.
    fn told(datagram: &[u8]) -> io::Result<(Vec<Found>, bool)> {
        let mut all = Vec::new();
        let is_last = read(datagram, |header, attributes| {
            let found = describe(&header);
            all.extend(found.map(|found| Found { tcp_md5: md5_peers(attributes), ..found }));
        })?;
        Ok((all, is_last))
    }

    /// A datagram with a listener that has two keys, a session from an IPv6 socket, and the end.
    fn datagram() -> Vec<u8> {
        let keys =
            [md5_key(AF_INET, 8, &[10, 1, 2, 3]), md5_key(AF_INET6, 32, &[0x20, 1, 0xd, 0xb8])].concat();
        let listener = [
            header(AF_INET, TCP_LISTEN, [179, 0]),
            attribute(9, b"bbr\0"),
            attribute(INET_DIAG_MD5SIG, &keys),
        ];
        let session = header(AF_INET6, TCP_CLOSE_WAIT, [40_000, 323]);
        [
            message(NLMSG_NOOP, &[]),
            message(SOCK_DIAG_BY_FAMILY, &listener.concat()),
            message(SOCK_DIAG_BY_FAMILY, &session),
            message(NLMSG_DONE, &0_i32.to_ne_bytes()),
        ]
        .concat()
    }

    #[test]
    fn what_the_kernel_tells_is_read() {
        let (found, is_last) = told(&datagram()).unwrap();
        assert!(is_last);
        let [listener, session] = &found[..] else { panic!("{found:?}") };
        let expected = Found {
            service: Service::Bgp,
            role: Role::Listener,
            local: "192.0.2.1:179".parse().unwrap(),
            device: 7,
            inode: 99,
            // The kernel keeps host bits.
            tcp_md5: Some(vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()]),
        };
        assert_eq!(*listener, expected);
        let peer = "192.0.2.2:323".parse().unwrap();
        assert_eq!(session.role, Role::Session { peer, is_opener: Some(true), is_established: false });
        assert_eq!((session.service, session.tcp_md5.as_deref()), (Service::Rtr, Some(&[][..])));
    }

    #[test]
    fn who_has_opened_a_session_is_told_by_the_ports() {
        for (ports, expected) in [
            ([179, 40_000], Some((Service::Bgp, Some(false)))),
            ([40_000, 11_019], Some((Service::Bmp, Some(true)))),
            ([646, 646], Some((Service::Ldp, None))),
            // This end's port decides what it is.
            ([639, 4189], Some((Service::Msdp, None))),
            ([80, 40_000], None),
        ] {
            let (found, is_last) =
                told(&message(SOCK_DIAG_BY_FAMILY, &header(AF_INET, TCP_ESTABLISHED, ports))).unwrap();
            let found = found.first().map(|found| match found.role {
                Role::Session { is_opener, is_established: true, .. } => (found.service, is_opener),
                role => panic!("{role:?}"),
            });
            assert_eq!((found, is_last), (expected, false), "{ports:?}");
        }
    }

    #[test]
    fn errors_and_damage_are_no_empty_list() {
        for (kind, code) in
            [(NLMSG_ERROR, -libc::ENOENT), (NLMSG_DONE, -libc::EINVAL), (NLMSG_ERROR, i32::MIN)]
        {
            let mut whole = datagram();
            whole.truncate(whole.len() - 20);
            whole.extend(message(kind, &code.to_ne_bytes()));
            let error = told(&whole).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(code.saturating_neg()));
        }
        // It is not taken for a network namespace that has ended.
        let missing = without_module(io::Error::from_raw_os_error(libc::ENOENT));
        assert!(missing.kind() != ErrorKind::NotFound && missing.to_string().contains("modprobe tcp_diag"));
        let whole = datagram();
        for length in 0..whole.len() - 16 {
            // Cut between two messages it is good, but not the end.
            if let Ok((_, is_last)) = told(&whole[..length]) {
                assert!(!is_last, "{length}");
            }
        }
        // Half a key, a family that no key has, too long a prefix: not known, which is not "none".
        let half = attribute(INET_DIAG_MD5SIG, &[2; MD5_KEY / 2]);
        let other = attribute(INET_DIAG_MD5SIG, &md5_key(9, 8, &[10]));
        let long = attribute(INET_DIAG_MD5SIG, &md5_key(AF_INET, 33, &[10]));
        let cut = [4, 0];
        for damaged in [&half[..], &other, &long, &cut] {
            assert_eq!(md5_peers(damaged), None, "{damaged:?}");
        }
        assert_eq!(md5_peers(&[]), Some(Vec::new()));
    }

    #[test]
    fn no_octet_makes_it_panic() {
        let whole = datagram();
        for at in 0..whole.len() {
            for octet in [0, 1, 2, 3, 4, 16, 0x7f, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] = octet;
                // Whatever it tells; that it ends is what counts.
                let _ = told(&changed);
            }
        }
    }
}

//! Looking: the kind of an attached socket, and its VRF. `Calls` of `apply` reads its keys.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use libc::{
    AF_NETLINK, IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINKINFO, IFLA_MASTER, NETLINK_ROUTE, NLM_F_REQUEST,
};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use wireseal_tcp_ao::Counters;

use crate::key::Family;
use crate::manager::peers::PeerTable;
use crate::manager::plan::{Memory, SocketKind};
use crate::manager::report::Seen;
use crate::{Error, PeerName, TcpAoSocket};

/// The kind of a device's master (`linux/if_link.h`), which some versions of libc lack.
const IFLA_INFO_SLAVE_KIND: u16 = 4;

/// Octets before the attributes: `struct nlmsghdr` and `struct ifinfomsg`.
const HEADERS: usize = 32;
/// More than the kernel writes about one device.
const ANSWER: usize = 1 << 16;

/// What identifies a socket, whichever descriptor it has (`st_dev` and `st_ino`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity(u64, u64);

/// The manager's own descriptor, unless the socket was let go.
#[derive(Debug, Default)]
pub(super) struct Descriptor(Option<OwnedFd>);

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_ref().expect("a socket that was let go is not looked at").as_fd()
    }
}

/// A socket of a manager, with its state from one step to the next.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) identity: Identity,
    pub(super) descriptor: Descriptor,
    pub(super) memories: PeerTable<Memory>,
    pub(super) seen: Seen,
    /// Tells a connection that has ended from a socket that has not connected yet.
    was_connected: bool,
}

/// The kind of a socket, with its peer and address families.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) kind: SocketKind,
    /// The peer's address if it is a connection; never an IPv4-mapped one.
    pub(super) remote: Option<IpAddr>,
    /// Whether it takes keys for IPv4 and for IPv6 peers.
    pub(super) families: [bool; 2],
}

impl Attached {
    /// Duplicates the descriptor of a socket.
    pub(super) fn new(socket: &(impl AsFd + ?Sized)) -> io::Result<Self> {
        let (identity, descriptor) = duplicate(socket)?;
        let (memories, seen) = (PeerTable::new(), Seen::default());
        Ok(Self { identity, descriptor, memories, seen, was_connected: false })
    }

    /// Looks at the socket; `None` for a connection that has ended.
    pub(super) fn look(&mut self) -> Result<Option<Look>, Error> {
        let socket = SockRef::from(&self.descriptor);
        let (kind, remote) = match socket.is_listener()? {
            true => (SocketKind::Listener, None),
            false => match socket.peer_addr().ok().and_then(|peer| peer.as_socket()) {
                Some(peer) => (SocketKind::Connection, Some(peer.ip().to_canonical())),
                None if self.was_connected => return Ok(None),
                None => (SocketKind::Closed, None),
            },
        };
        let families = match self.socket().family()? {
            Family::Ipv4 => [true, false],
            Family::Ipv6 => [!socket.only_v6()?, true],
        };
        self.was_connected |= kind == SocketKind::Connection;
        Ok(Some(Look { kind, remote, families }))
    }

    /// The socket's counters; `None` without TCP-AO.
    pub(super) fn counters(&self) -> Option<Counters> {
        self.socket().info().ok().flatten().map(|info| info.counters)
    }

    /// The interface index of the VRF device that the socket, or the device it is bound to, belongs to; 0 for none.
    pub(super) fn vrf(&self) -> io::Result<u32> {
        SockRef::from(&self.descriptor).device()?.map_or(Ok(0), |device| vrf_of_device(&device))
    }

    /// Whether the peer of a connection has not yet signed with the key that it was asked for.
    pub(super) fn is_peer_behind(&self, peer: PeerName) -> bool {
        self.memories.get(&peer).is_some_and(Memory::is_peer_behind)
    }

    pub(super) fn socket(&self) -> TcpAoSocket<'_> {
        TcpAoSocket::new(&self.descriptor)
    }

    /// Whether it has no descriptor.
    pub(super) const fn is_let_go(&self) -> bool {
        self.descriptor.0.is_none()
    }

    /// Closes the descriptor, keeps the bookkeeping.
    pub(super) fn let_go(&mut self) {
        self.descriptor = Descriptor::default();
    }

    /// Takes another descriptor of the same socket; returns whether it is the same socket.
    pub(super) fn take_up(&mut self, socket: &(impl AsFd + ?Sized)) -> io::Result<bool> {
        let (identity, descriptor) = duplicate(socket)?;
        let is_same = identity == self.identity;
        if is_same {
            self.descriptor = descriptor;
        }
        Ok(is_same)
    }
}

fn duplicate(socket: &(impl AsFd + ?Sized)) -> io::Result<(Identity, Descriptor)> {
    let file = File::from(socket.as_fd().try_clone_to_owned()?);
    let metadata = file.metadata()?;
    Ok((Identity(metadata.dev(), metadata.ino()), Descriptor(Some(file.into()))))
}

/// The index of the VRF device that the device with this name is, or belongs to (`linux/if_link.h`); 0 for none. It looks in the calling
/// thread's network namespace.
///
/// # Errors
/// The kernel's: ENODEV if no device has this name.
pub fn vrf_of_device(device: &[u8]) -> io::Result<u32> {
    let kernel = Socket::new(Domain::from(AF_NETLINK), Type::DGRAM, Some(Protocol::from(NETLINK_ROUTE)))?;
    kernel.send(&question(device))?;
    let mut answer = vec![0; ANSWER];
    let length = (&kernel).read(&mut answer)?;
    vrf_in(answer.get(..length).unwrap_or_default())
}

/// `RTM_GETLINK` for the device with this name.
fn question(device: &[u8]) -> Vec<u8> {
    let attribute = 4 + device.len() + 1;
    let length = HEADERS + attribute.next_multiple_of(4);
    let mut message = Vec::with_capacity(length);
    message.extend((length as u32).to_ne_bytes());
    message.extend(libc::RTM_GETLINK.to_ne_bytes());
    message.extend((NLM_F_REQUEST as u16).to_ne_bytes());
    message.resize(HEADERS, 0);
    message.extend((attribute as u16).to_ne_bytes());
    message.extend(IFLA_IFNAME.to_ne_bytes());
    message.extend(device);
    message.resize(length, 0);
    message
}

/// The VRF in the kernel's answer.
fn vrf_in(answer: &[u8]) -> io::Result<u32> {
    let number = |at: usize| Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?));
    let invalid = || io::Error::from(ErrorKind::InvalidData);
    let kind = answer.get(4..6).ok_or_else(invalid)?;
    if kind == (libc::NLMSG_ERROR as u16).to_ne_bytes() {
        let errno = number(16).ok_or_else(invalid)?.cast_signed();
        return Err(io::Error::from_raw_os_error(errno.saturating_neg()));
    }
    let (own, attributes) = number(20).zip(answer.get(HEADERS..)).ok_or_else(invalid)?;
    let described = find(attributes, IFLA_LINKINFO).unwrap_or_default();
    let is_vrf = |kind| find(described, kind).is_some_and(|text| text.starts_with(b"vrf\0"));
    let master = || find(attributes, IFLA_MASTER).and_then(|index| index.try_into().ok());
    Ok(if is_vrf(IFLA_INFO_KIND) {
        own
    } else if is_vrf(IFLA_INFO_SLAVE_KIND) {
        u32::from_ne_bytes(master().ok_or_else(invalid)?)
    } else {
        0
    })
}

/// The contents of the first attribute of this type.
fn find(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (header, _) = attributes.split_at_checked(4)?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        // The two highest bits are flags.
        if u16::from_ne_bytes([header[2], header[3]]) & 0x3fff == wanted {
            return attributes.get(4..length);
        }
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, contents: &[u8]) -> Vec<u8> {
        let mut octets = (4 + contents.len() as u16).to_ne_bytes().to_vec();
        octets.extend(kind.to_ne_bytes());
        octets.extend(contents);
        octets.resize(octets.len().next_multiple_of(4), 0);
        octets
    }

    /// The kernel's answer about device 7, whose master is device 9.
    fn answer(kind: &[u8], slave_kind: &[u8]) -> Vec<u8> {
        let mut octets = vec![0; HEADERS];
        octets[4..6].copy_from_slice(&libc::RTM_NEWLINK.to_ne_bytes());
        octets[20..24].copy_from_slice(&7u32.to_ne_bytes());
        octets.extend(attribute(IFLA_IFNAME, b"blue\0"));
        octets.extend(attribute(IFLA_MASTER, &9u32.to_ne_bytes()));
        let kinds = [attribute(IFLA_INFO_KIND, kind), attribute(IFLA_INFO_SLAVE_KIND, slave_kind)];
        octets.extend(attribute(IFLA_LINKINFO, &kinds.concat()));
        octets
    }

    #[test]
    fn a_vrf_is_its_own_and_what_belongs_to_one_has_its_index() {
        for (kind, slave_kind, expected) in [
            (&b"vrf\0"[..], &b""[..], 7),
            (b"veth\0", b"vrf\0", 9),
            (b"veth\0", b"bridge\0", 0),
            (b"vrfx\0", b"", 0),
        ] {
            assert_eq!(vrf_in(&answer(kind, slave_kind)).unwrap(), expected, "{kind:?} {slave_kind:?}");
        }
        assert_eq!(vrf_in(&answer(b"", b"")[..HEADERS]).unwrap(), 0, "a device without a kind");
    }

    #[test]
    fn an_answer_that_makes_no_sense_is_an_error() {
        let whole = answer(b"veth\0", b"vrf\0");
        for length in 0..HEADERS {
            assert!(vrf_in(&whole[..length]).is_err());
        }
        for length in HEADERS..whole.len() {
            let _ = vrf_in(&whole[..length]);
        }
        assert!(find(&[0; 7], 1).is_none());
    }

    #[test]
    fn the_kernel_answers() {
        assert_eq!(vrf_of_device(b"lo").unwrap(), 0);
        assert_eq!(vrf_of_device(b"no-such-device").unwrap_err().raw_os_error(), Some(libc::ENODEV));
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(Attached::new(&socket).unwrap().vrf().unwrap(), 0, "it is bound to no device");
    }
}

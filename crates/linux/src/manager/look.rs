//! Looking: the kind of an attached socket, and its place: VRF and interface. `Calls` of `apply` reads its keys.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use socket2::SockRef;
use wireseal_tcp_ao::Counters;

use crate::device::Device;
use crate::key::Family;
use crate::manager::peers::{PeerTable, Place};
use crate::manager::plan::{Memory, SocketKind};
use crate::manager::report::Seen;
use crate::{Error, PeerName, Remote, TcpAoSocket};

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
    /// It has sent a SYN, which is not answered.
    pub(super) is_connecting: bool,
    /// The peer's address if it is a connection; never an IPv4-mapped one.
    pub(super) remote: Option<IpAddr>,
    /// The interface of a connection's link-local address.
    pub(super) scope: Option<u32>,
    /// The interface that a listener, or a socket that will listen, is bound to, if peers are for one interface.
    pub(super) device: Option<u32>,
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

    /// Looks at the socket; `None` for a connection that has ended. `has_links` tells whether a peer is for one interface.
    pub(super) fn look(&mut self, has_links: impl Fn() -> bool) -> Result<Option<Look>, Error> {
        let socket = SockRef::from(&self.descriptor);
        let (kind, remote) = match socket.is_listener()? {
            true => (SocketKind::Listener, None),
            false => match socket.peer_addr().ok().and_then(|peer| peer.as_socket()) {
                Some(peer) => (SocketKind::Connection, Some(Remote::from(peer))),
                None if self.was_connected => return Ok(None),
                None => (SocketKind::Closed, None),
            },
        };
        let is_connecting = kind == SocketKind::Closed && self.socket().is_connecting()?;
        let device = match kind {
            SocketKind::Listener | SocketKind::Closed if has_links() => self.place(None)?.interface,
            _ => None,
        };
        let (remote, scope) = remote.map(|remote| (remote.address, remote.interface)).unzip();
        let scope = scope.flatten();
        let families = match self.socket().family()? {
            Family::Ipv4 => [true, false],
            Family::Ipv6 => [!socket.only_v6()?, true],
        };
        self.was_connected |= kind == SocketKind::Connection;
        Ok(Some(Look { kind, is_connecting, remote, scope, device, families }))
    }

    /// The socket's counters; `None` without TCP-AO.
    pub(super) fn counters(&self) -> Option<Counters> {
        self.socket().info().ok().flatten().map(|info| info.counters)
    }

    /// The VRF that the socket, or the device that it is bound to, belongs to, and the interface: that of its link-local address, or else the
    /// one that it is bound to.
    pub(super) fn place(&self, scope: Option<u32>) -> io::Result<Place> {
        let Some(name) = SockRef::from(&self.descriptor).device()? else {
            return Ok(Place { vrf: 0, interface: scope });
        };
        let Device { index, vrf } = Device::named(&name)?;
        Ok(Place { vrf, interface: scope.or((index != vrf).then_some(index)) })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_is_bound_to_no_device_is_in_no_vrf() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let attached = Attached::new(&socket).unwrap();
        assert_eq!(attached.place(None).unwrap(), Place { vrf: 0, interface: None });
        assert_eq!(attached.place(Some(7)).unwrap(), Place { vrf: 0, interface: Some(7) });
    }
}

//! Looking: what an attached socket is. `Calls` of `apply` reads which keys it has.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use socket2::SockRef;
use wireseal_tcp_ao::Counters;

use crate::key::Family;
use crate::manager::peers::PeerTable;
use crate::manager::plan::{Memory, SocketKind};
use crate::manager::report::Seen;
use crate::manager::vrf::vrf_of;
use crate::{Error, PeerName, TcpAoSocket};

/// What identifies a socket, whichever descriptor it has (`st_dev` and `st_ino`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity(u64, u64);

/// A descriptor of the manager's own, unless the socket was let go.
#[derive(Debug, Default)]
pub(super) struct Descriptor(Option<OwnedFd>);

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_ref().expect("a socket that was let go is not looked at").as_fd()
    }
}

/// A socket of a manager, and what is remembered of it from one step to the next.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) identity: Identity,
    pub(super) descriptor: Descriptor,
    pub(super) memories: PeerTable<Memory>,
    pub(super) seen: Seen,
    /// Tells a connection that has ended from a socket that has not connected yet.
    was_connected: bool,
}

/// What a socket is.
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

    /// The socket's counters, if it has TCP-AO.
    pub(super) fn counters(&self) -> Option<Counters> {
        self.socket().info().ok().flatten().map(|info| info.counters)
    }

    /// The interface index of the VRF device that the socket belongs to; 0 for none.
    pub(super) fn vrf(&self) -> io::Result<u32> {
        vrf_of(&SockRef::from(&self.descriptor))
    }

    /// Whether the peer of a connection has not yet signed with the key that it was asked for.
    pub(super) fn is_peer_behind(&self, peer: PeerName) -> bool {
        self.memories.get(&peer).is_some_and(Memory::is_peer_behind)
    }

    pub(super) fn socket(&self) -> TcpAoSocket<'_> {
        TcpAoSocket::new(&self.descriptor)
    }

    /// Whether there is no descriptor.
    pub(super) const fn is_let_go(&self) -> bool {
        self.descriptor.0.is_none()
    }

    /// Closes the descriptor, keeps the bookkeeping.
    pub(super) fn let_go(&mut self) {
        self.descriptor = Descriptor::default();
    }

    /// Takes a descriptor of the same socket again; returns whether it is the same.
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

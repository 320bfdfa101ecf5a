//! One socket of a manager.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use socket2::SockRef;
use wireseal_keys::{Key, KeyChain};
use wireseal_tcp_ao::{Counters, MasterKey, Mkt};
use zeroize::Zeroizing;

use crate::manager::action::{Action, SocketKind};
use crate::manager::apply::{Outcome, Scope};
use crate::manager::peers::PeerTable;
use crate::manager::refusals::Seen;
use crate::manager::state::Memory;
use crate::manager::target::key_of;
use crate::manager::vrf::vrf_of;
use crate::network::Family;
use crate::{Error, KeyName, PeerName, SocketKey, Successor, TcpAoSocket};

/// Octets of a placeholder's secret.
const PLACEHOLDER_SECRET_LENGTH: usize = 32;

/// What identifies a socket, whichever descriptor it has (`st_dev` and `st_ino`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity(u64, u64);

/// A descriptor of the manager's own, if it has one at present.
#[derive(Debug, Default)]
struct Descriptor(Option<OwnedFd>);

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_ref().expect("a socket that was let go is not looked at").as_fd()
    }
}

/// A manager's own descriptor of a socket, and what it remembers of it.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) identity: Identity,
    descriptor: Descriptor,
    memories: PeerTable<Memory>,
    pub(super) seen: Seen,
    /// Tells a connection that has ended from a socket that has not connected yet.
    was_connected: bool,
}

impl Attached {
    /// Duplicates the descriptor of a socket.
    pub(super) fn new<S: AsFd + ?Sized>(socket: &S) -> io::Result<Self> {
        let (identity, descriptor) = duplicate(socket)?;
        let (memories, seen) = (PeerTable::new(), Seen::default());
        Ok(Self { identity, descriptor, memories, seen, was_connected: false })
    }

    /// Whether there is no descriptor.
    pub(super) const fn is_let_go(&self) -> bool {
        self.descriptor.0.is_none()
    }

    /// Closes the descriptor; what is remembered stays.
    pub(super) fn let_go(&mut self) {
        self.descriptor = Descriptor::default();
    }

    /// Takes a descriptor of the same socket again; returns whether it is the same.
    pub(super) fn take_up<S: AsFd + ?Sized>(&mut self, socket: &S) -> io::Result<bool> {
        let (identity, descriptor) = duplicate(socket)?;
        let is_same = identity == self.identity;
        if is_same {
            self.descriptor = descriptor;
        }
        Ok(is_same)
    }

    pub(super) fn socket(&self) -> TcpAoSocket<'_> {
        TcpAoSocket::new(&self.descriptor)
    }

    /// Whether the peer of a connection has not yet signed with the key that it was asked for.
    pub(super) fn is_peer_behind(&self, peer: PeerName) -> bool {
        self.memories.get(&peer).is_some_and(Memory::is_peer_behind)
    }

    /// The peer's address if it is connected; never an IPv4-mapped one.
    pub(super) fn peer(&self) -> Option<IpAddr> {
        let peer = SockRef::from(&self.descriptor).peer_addr().ok()?.as_socket()?;
        Some(peer.ip().to_canonical())
    }

    /// The socket's counters, if it has TCP-AO.
    pub(super) fn counters(&self) -> Option<Counters> {
        self.socket().info().ok().flatten().map(|info| info.counters)
    }

    /// What the socket is; `None` for a connection that has ended.
    pub(super) fn kind(&mut self) -> io::Result<Option<SocketKind>> {
        if SockRef::from(&self.descriptor).is_listener()? {
            return Ok(Some(SocketKind::Listener));
        }
        if self.peer().is_some() {
            self.was_connected = true;
            return Ok(Some(SocketKind::Connection));
        }
        Ok((!self.was_connected).then_some(SocketKind::Closed))
    }

    /// The interface index of the VRF device that the socket belongs to; 0 for none.
    pub(super) fn vrf(&self) -> io::Result<u32> {
        vrf_of(&SockRef::from(&self.descriptor))
    }

    /// Whether the socket takes keys for IPv4 and for IPv6 peers.
    pub(super) fn families(&self) -> Result<[bool; 2], Error> {
        Ok(match self.socket().family()? {
            Family::Ipv4 => [true, false],
            Family::Ipv6 => [!SockRef::from(&self.descriptor).only_v6()?, true],
        })
    }

    /// Brings the keys of the socket in line with the chains of the peers in `scope`.
    pub(super) fn apply(&mut self, scope: &Scope<'_>) -> Outcome {
        let socket = TcpAoSocket::new(&self.descriptor);
        scope.settle(&mut self.memories, || socket.keys(), |action, chain| apply(&socket, chain, action))
    }
}

fn duplicate<S: AsFd + ?Sized>(socket: &S) -> io::Result<(Identity, Descriptor)> {
    let file = File::from(socket.as_fd().try_clone_to_owned()?);
    let metadata = file.metadata()?;
    Ok((Identity(metadata.dev(), metadata.ino()), Descriptor(Some(file.into()))))
}

/// Applies one action to a socket. Only adding needs the chain.
fn apply(socket: &TcpAoSocket<'_>, chain: Option<&KeyChain>, action: &Action) -> Result<(), Error> {
    let add = |name: KeyName, mkt, set_current, set_rnext| {
        let KeyName { remote, vrf, .. } = name;
        socket.add_key(&SocketKey { remote, vrf, mkt, set_current, set_rnext })
    };
    match *action {
        Action::Add { key_id, key, set_current, set_rnext } => {
            match chain.and_then(|chain| key_of(chain, key_id)).map(Key::mkt) {
                Some(mkt) => add(key, mkt, set_current, set_rnext),
                None => Ok(()),
            }
        }
        Action::AddPlaceholder { key } => match chain {
            Some(chain) => add(key, &placeholder(chain, key)?, false, false),
            None => Ok(()),
        },
        Action::SetCurrent(key) => socket.set_current_key(key.send_id),
        Action::SetRnext(key) => socket.set_rnext_key(key.recv_id),
        Action::Delete { key, successor, is_current, is_rnext, .. } => {
            let current = successor.filter(|_| is_current).map(|name| name.send_id);
            let rnext = successor.filter(|_| is_rnext).map(|name| name.recv_id);
            socket.delete_key(&key, Successor { current, rnext })
        }
    }
}

/// A key with these ids and a random secret. Its algorithm is one of the chain's, since the kernel may lack others.
fn placeholder(chain: &KeyChain, KeyName { send_id, recv_id, .. }: KeyName) -> io::Result<Mkt> {
    let mut secret = Zeroizing::new([0; PLACEHOLDER_SECRET_LENGTH]);
    getrandom::fill(secret.as_mut_slice())?;
    let master_key = MasterKey::new(secret.as_slice()).expect("32 octets are between 1 and 80");
    let algorithm = chain.keys()[0].mkt().parameters().algorithm;
    Mkt::with_short_master_key(send_id, recv_id, algorithm, master_key).map_err(io::Error::other)
}

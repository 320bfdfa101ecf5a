//! The program's sockets and their keys.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::os::fd::{OwnedFd, RawFd};

use rustix::io::Errno;
use socket2::SockRef;
use tracing::field::display;
use wireseal_keys::{KeyChain, Timestamp};
use wireseal_linux::{KeyManager, PeerName, TcpAoSocket};

use super::RunError;
use super::process::Opened;
use super::protected::Protected;
use super::socket::{Kind, inode_of, kind_of, local_of, remote_of, reset};
use crate::config::{Config, Md5};
use crate::error::ConfigError;
use crate::status::{ListenerStatus, PeerStatus, Segments};

/// The sockets with keys, and who has which.
pub(super) struct Sockets {
    manager: KeyManager,
    peers: Vec<(PeerName, KeyChain)>,
    ports: Vec<u16>,
    refuse_others: bool,
    md5: Md5,
    /// By inode number, which no two open sockets have in common.
    known: HashMap<u64, Known>,
    /// Those that the program has connected itself, as far as they are open: the peer's port decides on them. All others were accepted, or come
    /// from outside and may have been.
    connected: HashSet<u64>,
    /// Segments of sockets that are closed, and bad ones at listeners, by peer.
    past: HashMap<PeerName, Segments>,
}

enum Known {
    /// It has keys.
    Protected(Protected),
    /// It needs none, or cannot have any, and that does not change unless the program connects it or listens.
    Other,
}

const KEYLESS: &str = "Multipath TCP and SMC take no TCP-AO keys";

impl Sockets {
    pub(super) fn new(config: Config) -> Result<Self, RunError> {
        let mut sockets = Self {
            manager: KeyManager::default(),
            peers: Vec::new(),
            ports: Vec::new(),
            refuse_others: false,
            md5: Md5::Refuse,
            known: HashMap::new(),
            connected: HashSet::new(),
            past: HashMap::new(),
        };
        sockets.change(config)?;
        Ok(sockets)
    }

    /// Carries out another configuration from now on. Listeners that are open stay as open to others as they were.
    pub(super) fn change(&mut self, config: Config) -> Result<(), RunError> {
        self.manager.set_peers(config.peers.iter().cloned()).map_err(ConfigError::from)?;
        (self.peers, self.ports) = (config.peers, config.ports);
        (self.refuse_others, self.md5) = (config.refuse_others, config.md5);
        self.known.retain(|_, known| !matches!(known, Known::Other));
        Ok(())
    }

    /// Forgets a socket; its keys stay.
    pub(super) fn forget(&mut self, socket: &OwnedFd) {
        if let Ok(inode) = inode_of(socket) {
            self.remove(inode);
            self.connected.remove(&inode);
        }
    }

    fn remove(&mut self, inode: u64) {
        if let Some(Known::Protected(protected)) = self.known.remove(&inode) {
            self.keep_count(&protected);
        }
    }

    /// What a socket has counted stays counted.
    fn keep_count(&mut self, protected: &Protected) {
        if let Some((peer, segments)) = protected.counted() {
            let past = self.past.entry(peer).or_default();
            *past = past.plus(segments);
        }
    }

    /// Puts the keys for `remote` on a socket that will connect to it, if it is a peer.
    pub(super) fn protect_connecting(&mut self, socket: &OwnedFd, remote: SocketAddr) -> Result<(), Errno> {
        let inode = inode_of(socket)?;
        self.connected.insert(inode);
        let address = remote.ip().to_canonical();
        if !self.ports.contains(&remote.port()) {
            return Ok(());
        }
        if let SocketAddr::V6(remote) = remote
            && let Some(device) =
                NonZeroU32::new(remote.scope_id()).filter(|_| remote.ip().is_unicast_link_local())
        {
            // As the kernel does when it connects; the peer may be one of that device's VRF.
            SockRef::from(socket).bind_device_by_index_v6(Some(device)).map_err(|_| Errno::INVAL)?;
        }
        if kind_of(socket) == Kind::Keyless {
            return match self.manager.attach_connecting(socket, address, Timestamp::now()) {
                Err(Error::NoPeer(_)) => Ok(()),
                _ => {
                    tracing::error!(%remote, "connect was refused: {KEYLESS}");
                    Err(Errno::KEYREJECTED)
                }
            };
        }
        // Perhaps with keys for another address.
        self.remove(inode);
        match self.manager.attach_connecting(socket, address, Timestamp::now()) {
            Ok(attachment) => {
                let protected = Protected::new(attachment);
                tracing::info!(%remote, keys = %protected.keys(socket), "connecting with the keys of the peer");
                self.known.insert(inode, Known::Protected(protected));
                Ok(())
            }
            Err(Error::NoPeer(_)) => Ok(()),
            Err(error) => {
                tracing::error!(%remote, %error, "connect was refused");
                Err(errno_of(&error))
            }
        }
    }

    /// Puts the keys of all peers on a socket that will listen; returns whether its port is one that is protected.
    pub(super) fn protect_listener(&mut self, socket: &OwnedFd) -> Result<bool, Errno> {
        let inode = inode_of(socket)?;
        self.connected.remove(&inode);
        let Some(local) = local_of(socket).filter(|local| self.ports.contains(&local.port())) else {
            return Ok(false);
        };
        self.remove(inode);
        if kind_of(socket) == Kind::Keyless {
            tracing::error!(%local, "a listener stays without keys: {KEYLESS}");
            return Err(Errno::KEYREJECTED);
        }
        let attached = self.manager.attach(socket, Timestamp::now()).and_then(|attachment| {
            // The manager does not have a listener with TCP-MD5 keys require TCP-AO.
            TcpAoSocket::new(socket).set_required(self.refuse_others)?;
            Ok(attachment)
        });
        match attached {
            Ok(attachment) => {
                tracing::info!(%local, "listening with the keys of all peers");
                self.known.insert(inode, Known::Protected(Protected::new(attachment)));
                Ok(true)
            }
            Err(error) => {
                tracing::error!(%local, %error, "a listener stays without keys");
                Err(errno_of(&error))
            }
        }
    }

    /// Carries the key chains out on all sockets that are open, and looks at those that are new.
    pub(super) fn step(&mut self, open: &HashMap<u64, (i32, RawFd)>) {
        let known = std::mem::take(&mut self.known);
        let (still_open, closed): (HashMap<_, _>, HashMap<_, _>) =
            known.into_iter().partition(|(inode, _)| open.contains_key(inode));
        self.known = still_open;
        self.connected.retain(|inode| open.contains_key(inode));
        for known in closed.values() {
            if let Known::Protected(protected) = known {
                self.keep_count(protected);
            }
        }
        for_each(open, |inode, socket| self.step_socket(inode, socket));
    }

    fn step_socket(&mut self, inode: u64, socket: &OwnedFd) {
        match self.known.get_mut(&inode) {
            Some(Known::Protected(protected)) => match protected.step(&self.manager, socket) {
                Ok(refused) => {
                    for (peer, segments) in refused {
                        let past = self.past.entry(peer).or_default();
                        *past = past.plus(segments);
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "a socket's keys cannot be kept current");
                    self.remove(inode);
                }
            },
            Some(Known::Other) => {}
            None => self.look_at(inode, socket),
        }
    }

    /// Whether the configuration protects a connection: the peer's port counts if the program has connected it, else either.
    fn is_protected(&self, inode: u64, socket: &OwnedFd, remote: SocketAddr) -> bool {
        self.ports.contains(&remote.port()) || self.may_be_accepted(inode, socket)
    }

    /// Whether a connection may have been accepted at a protected port.
    fn may_be_accepted(&self, inode: u64, socket: &OwnedFd) -> bool {
        !self.connected.contains(&inode)
            && local_of(socket).is_some_and(|local| self.ports.contains(&local.port()))
    }

    /// Whether a TCP-MD5 key for this peer is refused: it, a part of it or a network around it has TCP-AO keys, or must have some.
    pub(super) fn refuses_md5(&self, of: PeerName) -> bool {
        let of = of.canonical();
        let overlaps = |peer: PeerName| {
            let is_same_vrf = peer.vrf.zip(of.vrf).is_none_or(|(peer, of)| peer == of);
            let [own, other] = [peer.remote, of.remote];
            is_same_vrf && (own.contains(&other.first_address()) || other.contains(&own.first_address()))
        };
        let is_refused = self.md5 == Md5::Refuse
            && (self.refuse_others || self.peers.iter().any(|(peer, _)| overlaps(peer.canonical())));
        if is_refused {
            tracing::warn!(peer = %of, "a TCP-MD5 key of the program's was refused");
        }
        is_refused
    }

    /// Whether a socket whose connection has ended may still have unread data. It may be unsigned, and would be read as a peer's.
    fn is_remainder(&self, inode: u64, socket: &OwnedFd) -> bool {
        self.may_be_accepted(inode, socket)
            && kind_of(socket) != Kind::Other
            && remote_of(socket).is_none()
            && TcpAoSocket::new(socket).has_received().unwrap_or(true)
    }

    /// A socket that the program has accepted or inherited, or is not done with yet.
    fn look_at(&mut self, inode: u64, socket: &OwnedFd) {
        if kind_of(socket) == Kind::Other {
            self.known.insert(inode, Known::Other);
        } else if let Some(remote) = remote_of(socket) {
            if self.is_protected(inode, socket, remote) {
                self.accepted(inode, socket, remote);
            } else {
                self.known.insert(inode, Known::Other);
            }
        } else if SockRef::from(socket).is_listener().unwrap_or(false) {
            // Without keys it goes on for others; a session with a peer that comes of it is reset.
            if self.protect_listener(socket) != Ok(true) {
                self.known.insert(inode, Known::Other);
            }
        } else if self.is_remainder(inode, socket) {
            let local = local_of(socket).map(display);
            tracing::error!(
                local,
                "a session ended before it was checked: whatever it had received was discarded"
            );
            reset(socket);
            self.known.insert(inode, Known::Other);
        }
    }

    fn accepted(&mut self, inode: u64, socket: &OwnedFd, remote: SocketAddr) {
        match self.manager.attach_accepted(socket, remote.ip(), Timestamp::now()) {
            Ok(attachment) => {
                self.known.insert(inode, Known::Protected(Protected::new(attachment)));
                self.step_socket(inode, socket);
            }
            Err(Error::NoPeer(_)) => {
                self.known.insert(inode, Known::Other);
            }
            Err(error) => {
                tracing::error!(local = local_of(socket).map(display), %remote, %error, "a session was reset");
                reset(socket);
                self.known.insert(inode, Known::Other);
            }
        }
    }

    /// The peers with their sessions, and the listeners, as they were at the last step.
    pub(super) fn status(&self, started: Timestamp) -> (Vec<PeerStatus>, Vec<ListenerStatus>) {
        let protected = || {
            self.known.values().filter_map(|known| match known {
                Known::Protected(protected) => Some(protected),
                Known::Other => None,
            })
        };
        let mut peers: HashMap<PeerName, PeerStatus> = HashMap::new();
        for (name, chain) in &self.peers {
            let name = name.canonical();
            let segments = self.past.get(&name).copied().unwrap_or_default();
            peers.insert(name, PeerStatus { segments, ..PeerStatus::new(&name, chain, started) });
        }
        for protected in protected() {
            let of_peer =
                protected.counted().and_then(|(peer, segments)| Some((peers.get_mut(&peer)?, segments)));
            if let Some((peer, segments)) = of_peer {
                peer.segments = peer.segments.plus(segments);
                peer.sessions.extend(protected.session());
            }
        }
        let in_order = self.peers.iter().filter_map(|(name, _)| peers.remove(&name.canonical()));
        (in_order.collect(), protected().filter_map(Protected::listener).collect())
    }
}

/// Calls `with` for each of these sockets, with a duplicate of its descriptor that is closed afterwards.
fn for_each(open: &HashMap<u64, (i32, RawFd)>, mut with: impl FnMut(u64, &OwnedFd)) {
    let mut processes = HashMap::new();
    for (inode, (pid, descriptor)) in open {
        let process = processes.entry(*pid).or_insert_with(|| Opened::of_thread(*pid));
        let Ok(process) = process else { continue };
        let Ok(socket) = process.duplicate(*descriptor) else { continue };
        // The program may have closed it since, and opened another.
        if inode_of(&socket) == Ok(*inode) {
            with(*inode, &socket);
        }
    }
}

/// What the program is told.
const fn errno_of(error: &Error) -> Errno {
    match error {
        Error::NoKeyToSendWith { .. } => Errno::KEYEXPIRED,
        _ => Errno::KEYREJECTED,
    }
}

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

use super::process::Opened;
use super::protected::{Kind, Protected, inode_of, keys_of, kind_of, local_of, remote_of};
use crate::config::{Config, Md5};
use crate::error::Error;
use crate::status::{ListenerStatus, PeerStatus, Segments};

/// What is known of the program's sockets, and the peers' keys.
pub(super) struct Sockets {
    manager: KeyManager,
    peers: Vec<(PeerName, KeyChain)>,
    ports: Vec<u16>,
    refuse_others: bool,
    md5: Md5,
    /// By inode, which is unique among open sockets.
    known: HashMap<u64, Known>,
    /// Open sockets that the program has connected itself: for these, the peer's port decides. All others were accepted, or were inherited
    /// and may have been accepted.
    connected: HashSet<u64>,
    /// Segments of closed sockets, and bad ones at listeners, by peer.
    past: HashMap<PeerName, Segments>,
}

enum Known {
    /// It has keys.
    Protected(Protected),
    /// It needs no keys or cannot have any, until the program connects it or listens, or as long as it has this remote address: the
    /// program may have connected it unseen.
    Other(Option<SocketAddr>),
}

const KEYLESS: &str = "Multipath TCP and SMC take no TCP-AO keys";

impl Sockets {
    pub(super) fn new(config: Config) -> Result<Self, Error> {
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

    /// Replaces the configuration. Open listeners keep their `refuse_others`.
    pub(super) fn change(&mut self, config: Config) -> Result<(), Error> {
        self.manager.set_peers(config.peers.iter().cloned())?;
        (self.peers, self.ports) = (config.peers, config.ports);
        (self.refuse_others, self.md5) = (config.refuse_others, config.md5);
        self.known.retain(|_, known| !matches!(known, Known::Other(_)));
        Ok(())
    }

    /// The protected ports.
    pub(super) fn ports(&self) -> &[u16] {
        &self.ports
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

    /// Keeps what a socket has counted.
    fn keep_count(&mut self, protected: &Protected) {
        if let Some((peer, segments)) = protected.counted() {
            let past = self.past.entry(peer).or_default();
            *past = past.plus(segments);
        }
    }

    /// Puts keys on a socket that will connect to `remote`, if that is a peer.
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
            // As the kernel does on `connect`, because the peer may be in that device's VRF.
            SockRef::from(socket).bind_device_by_index_v6(Some(device)).map_err(|_| Errno::INVAL)?;
        }
        if kind_of(socket) == Kind::Keyless {
            return match self.manager.attach_connecting(socket, address, Timestamp::now()) {
                Err(wireseal_linux::Error::NoPeer(_)) => Ok(()),
                _ => {
                    tracing::error!(%remote, "connect was refused: {KEYLESS}");
                    Err(Errno::KEYREJECTED)
                }
            };
        }
        // It may have keys for another address.
        self.remove(inode);
        match self.manager.attach_connecting(socket, address, Timestamp::now()) {
            Ok(attachment) => {
                tracing::info!(%remote, keys = %keys_of(socket), "connecting with the keys of the peer");
                self.known.insert(inode, Known::Protected(Protected::new(attachment)));
                Ok(())
            }
            Err(wireseal_linux::Error::NoPeer(_)) => Ok(()),
            Err(error) => {
                tracing::error!(%remote, %error, "connect was refused");
                Err(errno_of(&error))
            }
        }
    }

    /// Puts the keys of all peers on a socket that will listen; returns whether its port is protected.
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
            // The manager does not do this for a listener with TCP-MD5 keys.
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

    /// Installs and removes keys as the key chains say on all open sockets, and looks at new ones.
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
            Some(Known::Other(decided_with)) => {
                if remote_of(socket).is_some_and(|remote| *decided_with != Some(remote)) {
                    self.look_at(inode, socket);
                }
            }
            None => self.look_at(inode, socket),
        }
    }

    /// Whether a connection has a protected port: the peer's, or its own if it may have been accepted.
    fn is_protected(&self, inode: u64, socket: &OwnedFd, remote: SocketAddr) -> bool {
        self.ports.contains(&remote.port()) || self.may_be_accepted(inode, socket)
    }

    /// Whether a connection may have been accepted at a protected port.
    fn may_be_accepted(&self, inode: u64, socket: &OwnedFd) -> bool {
        !self.connected.contains(&inode)
            && local_of(socket).is_some_and(|local| self.ports.contains(&local.port()))
    }

    /// Whether a TCP-MD5 key for this address or network is refused: it overlaps with a peer's, or all others are refused.
    pub(super) fn refuses_md5(&self, of: PeerName) -> bool {
        let is_refused = self.md5 == Md5::Refuse
            && (self.refuse_others || self.peers.iter().any(|(peer, _)| peer.overlaps(&of)));
        if is_refused {
            tracing::warn!(peer = %of.canonical(), "a TCP-MD5 key of the program's was refused");
        }
        is_refused
    }

    /// Whether a connection that may be a peer's has ended and left unread data, which may be unsigned.
    fn is_remainder(&self, inode: u64, socket: &OwnedFd) -> bool {
        self.may_be_accepted(inode, socket)
            && kind_of(socket) != Kind::Other
            && remote_of(socket).is_none()
            && TcpAoSocket::new(socket).has_received().unwrap_or(true)
    }

    /// Looks at a socket that is new, or has a new remote address: accepted, inherited, connected unseen or not in use yet.
    fn look_at(&mut self, inode: u64, socket: &OwnedFd) {
        if kind_of(socket) == Kind::Other {
            self.known.insert(inode, Known::Other(remote_of(socket)));
        } else if let Some(remote) = remote_of(socket) {
            if self.is_protected(inode, socket, remote) {
                self.accepted(inode, socket, remote);
            } else {
                self.known.insert(inode, Known::Other(Some(remote)));
            }
        } else if SockRef::from(socket).is_listener().unwrap_or(false) {
            // Without keys it still serves others; sessions with peers that it accepts are reset.
            if self.protect_listener(socket) != Ok(true) {
                self.known.insert(inode, Known::Other(None));
            }
        } else if self.is_remainder(inode, socket) {
            let local = local_of(socket).map(display);
            tracing::error!(
                local,
                "a session ended before it was checked: whatever it had received was discarded"
            );
            let _ = TcpAoSocket::new(socket).reset();
            self.known.insert(inode, Known::Other(None));
        }
    }

    fn accepted(&mut self, inode: u64, socket: &OwnedFd, remote: SocketAddr) {
        match self.manager.attach_accepted(socket, remote.ip(), Timestamp::now()) {
            Ok(attachment) => {
                self.known.insert(inode, Known::Protected(Protected::new(attachment)));
                self.step_socket(inode, socket);
            }
            Err(wireseal_linux::Error::NoPeer(_)) => {
                self.known.insert(inode, Known::Other(Some(remote)));
            }
            Err(error) => {
                tracing::error!(local = local_of(socket).map(display), %remote, %error, "a session was reset");
                let _ = TcpAoSocket::new(socket).reset();
                self.known.insert(inode, Known::Other(None));
            }
        }
    }

    /// The peers with their sessions, and the listeners, as they were at the last step.
    pub(super) fn status(&self, started: Timestamp) -> (Vec<PeerStatus>, Vec<ListenerStatus>) {
        let protected = || {
            self.known.values().filter_map(|known| match known {
                Known::Protected(protected) => Some(protected),
                Known::Other(_) => None,
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

/// Calls `with` for each of these sockets with a duplicate that is closed afterwards.
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

/// The error that the program's call returns.
const fn errno_of(error: &wireseal_linux::Error) -> Errno {
    match error {
        wireseal_linux::Error::NoKeyToSendWith { .. } => Errno::KEYEXPIRED,
        _ => Errno::KEYREJECTED,
    }
}

//! The program's sockets and their keys.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use socket2::SockRef;
use wireseal_linux::{KeyManager, ManagerError, PeerName, TcpAoSocket};
use wireseal_tcp_ao::key_chain::{KeyChain, Timestamp};

use super::RunError;
use super::process::Opened;
use super::protected::Protected;
use super::socket::{inode_of, is_tcp, local_of, remote_of};
use crate::config::Config;
use crate::error::ConfigError;
use crate::status::{ListenerStatus, PeerStatus, Segments};

/// The sockets with keys, and who has which.
pub(super) struct Sockets {
    manager: KeyManager,
    peers: Vec<(PeerName, KeyChain)>,
    ports: Vec<u16>,
    refuse_others: bool,
    /// By inode number, which no two open sockets have in common.
    known: HashMap<u64, Known>,
    /// Segments of sockets that are closed, and bad ones at listeners, by peer.
    past: HashMap<PeerName, Segments>,
}

enum Known {
    /// It has keys.
    Protected(Protected),
    /// It needs none, and that does not change unless the program connects it or listens.
    Other,
}

impl Sockets {
    pub(super) fn new(config: Config) -> Result<Self, RunError> {
        let mut sockets = Self {
            manager: KeyManager::default(),
            peers: Vec::new(),
            ports: Vec::new(),
            refuse_others: false,
            known: HashMap::new(),
            past: HashMap::new(),
        };
        sockets.change(config)?;
        Ok(sockets)
    }

    /// Carries out another configuration from now on. Listeners that are open stay as open to others as they were.
    pub(super) fn change(&mut self, config: Config) -> Result<(), RunError> {
        self.manager.set_peers(config.peers.iter().cloned()).map_err(ConfigError::from)?;
        (self.peers, self.ports, self.refuse_others) = (config.peers, config.ports, config.refuse_others);
        self.known.retain(|_, known| matches!(known, Known::Protected(_)));
        Ok(())
    }

    /// Forgets a socket; its keys stay.
    pub(super) fn forget(&mut self, socket: &OwnedFd) {
        if let Ok(inode) = inode_of(socket) {
            self.remove(inode);
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
        let address = remote.ip().to_canonical();
        if !self.ports.contains(&remote.port()) || remote_of(socket).is_some() {
            return Ok(());
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
            Err(ManagerError::NoPeer(_)) => Ok(()),
            Err(error) => {
                tracing::error!(%remote, %error, "connect was refused");
                Err(errno_of(&error))
            }
        }
    }

    /// Puts the keys of all peers on a socket that will listen; returns whether its port is one that is protected.
    pub(super) fn protect_listener(&mut self, socket: &OwnedFd) -> Result<bool, Errno> {
        let Some(local) = local_of(socket).filter(|local| self.ports.contains(&local.port())) else {
            return Ok(false);
        };
        let inode = inode_of(socket)?;
        self.remove(inode);
        let attached = self.manager.attach(socket, Timestamp::now()).and_then(|attachment| {
            if !self.refuse_others {
                TcpAoSocket::new(socket).set_required(false)?;
            }
            Ok(attachment)
        });
        match attached {
            Ok(attachment) => {
                tracing::info!(%local, "listening with the keys of all peers");
                self.known.insert(inode, Known::Protected(Protected::new(attachment)));
                Ok(true)
            }
            Err(error) => {
                tracing::error!(%local, %error, "listen was refused");
                Err(errno_of(&error))
            }
        }
    }

    /// Puts keys on listeners that are open, and notes sessions with peers that are, which stay as they are.
    pub(super) fn take_over(&mut self, open: &HashMap<u64, (i32, RawFd)>) {
        for_each(open, |inode, socket| {
            if let Some(remote) = remote_of(socket)
                && self.is_protected(socket, remote)
                && matches!(
                    self.manager.attach_accepted(socket, remote.ip(), Timestamp::now()),
                    Err(ManagerError::Unsigned)
                )
            {
                tracing::warn!(%remote, "this session is open already and stays unsigned; the next one with this peer has keys");
                self.known.insert(inode, Known::Other);
            }
        });
        self.step(open);
    }

    /// Carries the key chains out on all sockets that are open, and looks at those that are new.
    pub(super) fn step(&mut self, open: &HashMap<u64, (i32, RawFd)>) {
        let known = std::mem::take(&mut self.known);
        let (still_open, closed): (HashMap<_, _>, HashMap<_, _>) =
            known.into_iter().partition(|(inode, _)| open.contains_key(inode));
        self.known = still_open;
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

    /// Whether the configuration protects connections at one of these ports.
    fn is_protected(&self, socket: &OwnedFd, remote: SocketAddr) -> bool {
        let ports = [Some(remote), local_of(socket)];
        ports.into_iter().flatten().any(|address| self.ports.contains(&address.port()))
    }

    /// A socket that the program has accepted or inherited, or is not done with yet.
    fn look_at(&mut self, inode: u64, socket: &OwnedFd) {
        if !is_tcp(socket) {
            self.known.insert(inode, Known::Other);
            return;
        }
        if let Some(remote) = remote_of(socket) {
            if self.is_protected(socket, remote) {
                self.accepted(inode, socket, remote);
            } else {
                self.known.insert(inode, Known::Other);
            }
        } else if SockRef::from(socket).is_listener().unwrap_or(false) {
            let is_protected = self.protect_listener(socket);
            if is_protected == Ok(false) {
                self.known.insert(inode, Known::Other);
            } else if is_protected.is_err() {
                let _ = shutdown(socket, Shutdown::Both);
            }
        }
    }

    fn accepted(&mut self, inode: u64, socket: &OwnedFd, remote: SocketAddr) {
        match self.manager.attach_accepted(socket, remote.ip(), Timestamp::now()) {
            Ok(attachment) => {
                self.known.insert(inode, Known::Protected(Protected::new(attachment)));
                self.step_socket(inode, socket);
            }
            Err(ManagerError::NoPeer(_)) => {
                self.known.insert(inode, Known::Other);
            }
            Err(error) => {
                tracing::error!(%remote, %error, "a session was shut down");
                let _ = shutdown(socket, Shutdown::Both);
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
const fn errno_of(error: &ManagerError) -> Errno {
    match error {
        ManagerError::NoKeyToSendWith { .. } => Errno::KEYEXPIRED,
        _ => Errno::KEYREJECTED,
    }
}

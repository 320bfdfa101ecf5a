//! The program's sockets and their keys.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd, RawFd};

use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use socket2::{Domain, Protocol, SockRef};
use wireseal_linux::{Attachment, KeyManager, ManagerError, TcpAoSocket};
use wireseal_tcp_ao::key_chain::Timestamp;

use super::RunError;
use super::process::Opened;
use crate::{Config, ConfigError};

/// The sockets with keys, and who has which.
pub(super) struct Sockets {
    manager: KeyManager,
    ports: Vec<u16>,
    refuse_others: bool,
    /// By inode number, which no two open sockets have in common.
    known: HashMap<u64, Known>,
}

enum Known {
    /// It has keys; or its session is over, because it has none to send with any more.
    Protected { attachment: Attachment, is_over: bool },
    /// It needs none, and that does not change unless the program connects it or listens.
    Other,
}

impl Sockets {
    pub(super) fn new(config: Config) -> Result<Self, RunError> {
        let mut sockets = Self {
            manager: KeyManager::default(),
            ports: Vec::new(),
            refuse_others: false,
            known: HashMap::new(),
        };
        sockets.change(config)?;
        Ok(sockets)
    }

    /// Carries out another configuration from now on. Listeners that are open stay as open to others as they were.
    pub(super) fn change(&mut self, config: Config) -> Result<(), RunError> {
        self.manager.set_peers(config.peers).map_err(ConfigError::from)?;
        (self.ports, self.refuse_others) = (config.ports, config.refuse_others);
        self.known.retain(|_, known| matches!(known, Known::Protected { .. }));
        Ok(())
    }

    /// Forgets a socket; its keys stay.
    pub(super) fn forget(&mut self, socket: &OwnedFd) {
        if let Ok(inode) = inode_of(socket) {
            self.known.remove(&inode);
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
        self.known.remove(&inode);
        match self.manager.attach_connecting(socket, address, Timestamp::now()) {
            Ok(attachment) => {
                tracing::info!(%remote, "connecting with the keys of the peer");
                self.keep(inode, attachment);
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
        self.known.remove(&inode);
        let attached = self.manager.attach(socket, Timestamp::now()).and_then(|attachment| {
            if !self.refuse_others {
                TcpAoSocket::new(socket).set_required(false)?;
            }
            Ok(attachment)
        });
        match attached {
            Ok(attachment) => {
                tracing::info!(%local, "listening with the keys of all peers");
                self.keep(inode, attachment);
                Ok(true)
            }
            Err(error) => {
                tracing::error!(%local, %error, "listen was refused");
                Err(errno_of(&error))
            }
        }
    }

    /// Carries the key chains out on all sockets that are open, and looks at those that are new.
    pub(super) fn step(&mut self, open: &HashMap<u64, (i32, RawFd)>) {
        let mut processes = HashMap::new();
        for (inode, (pid, descriptor)) in open {
            if matches!(self.known.get(inode), Some(Known::Other)) {
                continue;
            }
            let process = processes.entry(*pid).or_insert_with(|| Opened::of_thread(*pid));
            let Ok(process) = process else { continue };
            let Ok(socket) = process.duplicate(*descriptor) else { continue };
            // The program may have closed it since, and opened another.
            if inode_of(&socket) == Ok(*inode) {
                self.step_socket(*inode, &socket);
            }
        }
        self.known.retain(|inode, _| open.contains_key(inode));
    }

    fn step_socket(&mut self, inode: u64, socket: &OwnedFd) {
        let Some(Known::Protected { attachment, is_over }) = self.known.get_mut(&inode) else {
            return self.look_at(inode, socket);
        };
        match self.manager.step_with(attachment, socket, Timestamp::now()) {
            Ok(report) if report.expired && !*is_over => {
                *is_over = true;
                // The log of the step has the reason.
                let _ = shutdown(socket, Shutdown::Both);
            }
            Ok(_) => {}
            Err(error) => {
                tracing::error!(%error, "a socket's keys cannot be kept current");
                self.known.remove(&inode);
            }
        }
    }

    /// A socket that the program has accepted or inherited, or is not done with yet.
    fn look_at(&mut self, inode: u64, socket: &OwnedFd) {
        if !is_tcp(socket) {
            self.known.insert(inode, Known::Other);
            return;
        }
        if let Some(remote) = remote_of(socket) {
            let is_protected = |port| self.ports.contains(&port);
            if is_protected(remote.port()) || local_of(socket).is_some_and(|local| is_protected(local.port()))
            {
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
                tracing::info!(%remote, "a session with the keys of the peer");
                self.keep(inode, attachment);
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

    fn keep(&mut self, inode: u64, attachment: Attachment) {
        // The program alone holds its sockets open.
        attachment.let_go();
        self.known.insert(inode, Known::Protected { attachment, is_over: false });
    }
}

/// What the program is told.
const fn errno_of(error: &ManagerError) -> Errno {
    match error {
        ManagerError::NoKeyToSendWith { .. } => Errno::KEYEXPIRED,
        _ => Errno::KEYREJECTED,
    }
}

/// Whether it is a socket for TCP over IPv4 or IPv6.
pub(super) fn is_tcp(socket: &impl AsFd) -> bool {
    let socket = SockRef::from(socket);
    let is_ip = || matches!(socket.domain(), Ok(Domain::IPV4 | Domain::IPV6));
    matches!(socket.protocol(), Ok(Some(Protocol::TCP))) && is_ip()
}

/// The number of a socket.
pub(super) fn inode_of(socket: &OwnedFd) -> Result<u64, Errno> {
    fstat(socket).map(|metadata| metadata.st_ino)
}

fn remote_of(socket: &impl AsFd) -> Option<SocketAddr> {
    SockRef::from(socket).peer_addr().ok()?.as_socket()
}

fn local_of(socket: &impl AsFd) -> Option<SocketAddr> {
    SockRef::from(socket).local_addr().ok()?.as_socket()
}

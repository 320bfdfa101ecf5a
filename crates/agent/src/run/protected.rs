//! A socket of the program: its kind, and its keys if it has any.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use socket2::{Domain, Protocol, SockRef};
use wireseal_keys::Timestamp;
use wireseal_linux::{Attachment, InstalledKey, KeyManager, PeerName, SocketKind, SocketReport, TcpAoSocket};
use wireseal_tcp_ao::KeyId;

use crate::status::{ListenerStatus, Segments, SessionStatus};

/// Whether a socket can have keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// TCP over IPv4 or IPv6.
    Tcp,
    /// Multipath TCP or SMC: it opens TCP connections that take no keys.
    Keyless,
    /// It has nothing to do with TCP.
    Other,
}

/// `linux/in.h` and `linux/socket.h`.
const IPPROTO_SMC: i32 = 256;
const IPPROTO_MPTCP: i32 = 262;
const AF_SMC: i32 = 43;

pub(super) fn kind_of(socket: &impl AsFd) -> Kind {
    let socket = SockRef::from(socket);
    let protocol = socket.protocol().ok().flatten().map_or(0, i32::from);
    match socket.domain() {
        Ok(Domain::IPV4 | Domain::IPV6) if protocol == i32::from(Protocol::TCP) => Kind::Tcp,
        Ok(Domain::IPV4 | Domain::IPV6) if [IPPROTO_SMC, IPPROTO_MPTCP].contains(&protocol) => Kind::Keyless,
        // A socket option turns a TCP socket into an SMC one.
        Ok(domain) if i32::from(domain) == AF_SMC => Kind::Keyless,
        _ => Kind::Other,
    }
}

/// A socket's inode, which identifies it.
pub(super) fn inode_of(socket: &OwnedFd) -> Result<u64, Errno> {
    fstat(socket).map(|metadata| metadata.st_ino)
}

pub(super) fn remote_of(socket: &impl AsFd) -> Option<SocketAddr> {
    SockRef::from(socket).peer_addr().ok()?.as_socket()
}

pub(super) fn local_of(socket: &impl AsFd) -> Option<SocketAddr> {
    SockRef::from(socket).local_addr().ok()?.as_socket()
}

/// A socket with keys, and what the last step found.
pub(super) struct Protected {
    attachment: Attachment,
    /// Whether its session was shut down because its last key for sending has expired.
    is_over: bool,
    found: Option<Found>,
}

#[derive(Clone, Copy)]
struct Found {
    kind: Option<SocketKind>,
    peer: Option<PeerName>,
    local: SocketAddr,
    remote: Option<SocketAddr>,
    /// The SendID of the current key, and the RecvID of the rnext key.
    current: Option<KeyId>,
    asked_for: Option<KeyId>,
    is_peer_behind: bool,
    segments: Segments,
}

/// The keys of a socket in words, without their secrets.
pub(super) fn keys_of(socket: &OwnedFd) -> String {
    let keys = TcpAoSocket::new(socket).keys().unwrap_or_default();
    let in_words = |key: &InstalledKey| {
        let (send_id, recv_id, algorithm) = (key.name.send_id, key.name.recv_id, key.algorithm.name());
        let used = match (key.is_current, key.is_rnext) {
            (true, true) => ", in use",
            (true, false) => ", sent with",
            (false, true) => ", asked for",
            (false, false) => "",
        };
        format!("SendID {send_id}, RecvID {recv_id}, {algorithm}{used}")
    };
    keys.iter().map(in_words).collect::<Vec<_>>().join("; ")
}

impl Protected {
    /// Keeps no descriptor, so that only the program holds its sockets open.
    pub(super) fn new(attachment: Attachment) -> Self {
        attachment.let_go();
        Self { attachment, is_over: false, found: None }
    }

    /// Installs and removes keys as the key chains say. Returns what a listener has refused since the last step, by peer.
    pub(super) fn step(
        &mut self,
        manager: &KeyManager,
        socket: &OwnedFd,
    ) -> Result<Vec<(PeerName, Segments)>, wireseal_linux::Error> {
        let report = manager.step_with(&self.attachment, socket, Timestamp::now())?;
        if report.state.expired && !self.is_over {
            self.is_over = true;
            // The step has logged why.
            let _ = shutdown(socket, Shutdown::Both);
        }
        let was_open = self.found.is_some_and(|found| found.kind == Some(SocketKind::Connection));
        self.found = look(socket, &report);
        if report.kind == Some(SocketKind::Connection)
            && !was_open
            && let Some(Found { local, remote: Some(remote), .. }) = self.found
        {
            tracing::info!(%local, %remote, keys = %keys_of(socket), "a session with the keys of the peer");
        }
        let bad = |(key, segments): &(wireseal_linux::KeyName, u64)| {
            (key.peer(), Segments { bad_mac: *segments, ..Segments::default() })
        };
        let is_listener = report.kind == Some(SocketKind::Listener);
        Ok(report.refused.bad.iter().filter(|_| is_listener).map(bad).collect())
    }

    /// The peer of a connection, and its segments.
    pub(super) fn counted(&self) -> Option<(PeerName, Segments)> {
        self.found.and_then(|found| Some((found.peer?, found.segments)))
    }

    pub(super) fn session(&self) -> Option<SessionStatus> {
        let found = self.found?;
        let is_established = found.kind == Some(SocketKind::Connection);
        Some(SessionStatus {
            local: found.local,
            remote: found.remote?,
            is_established,
            send_id: found.current?,
            asked_for: found.asked_for?,
            is_peer_behind: found.is_peer_behind,
        })
    }

    pub(super) fn listener(&self) -> Option<ListenerStatus> {
        let found = self.found.filter(|found| found.kind == Some(SocketKind::Listener))?;
        Some(ListenerStatus { local: found.local, segments: found.segments })
    }
}

fn look(socket: &OwnedFd, report: &SocketReport) -> Option<Found> {
    let info = TcpAoSocket::new(socket).info().ok().flatten();
    Some(Found {
        kind: report.kind,
        peer: report.state.peer,
        local: canonical(local_of(socket)?),
        remote: remote_of(socket).map(canonical),
        current: info.and_then(|info| info.current_key),
        asked_for: info.and_then(|info| info.rnext_key),
        is_peer_behind: report.state.is_peer_behind,
        segments: report.state.counters.unwrap_or_default().into(),
    })
}

/// An IPv4-mapped address as an IPv4 address.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

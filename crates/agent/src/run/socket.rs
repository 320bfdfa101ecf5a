//! What a socket is.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::net::{Shutdown, connect_unspec, shutdown};
use socket2::{Domain, Protocol, SockRef};

/// What can be done for a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// TCP over IPv4 or IPv6.
    Tcp,
    /// It opens TCP connections that take no keys: Multipath TCP's and SMC's.
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
        // An option turns a socket for TCP into this.
        Ok(domain) if i32::from(domain) == AF_SMC => Kind::Keyless,
        _ => Kind::Other,
    }
}

/// Ends a connection by a reset. What was received and not yet read is gone.
pub(super) fn reset(socket: &OwnedFd) {
    if connect_unspec(socket).is_err() {
        let _ = shutdown(socket, Shutdown::Both);
    }
}

/// The number of a socket.
pub(super) fn inode_of(socket: &OwnedFd) -> Result<u64, Errno> {
    fstat(socket).map(|metadata| metadata.st_ino)
}

pub(super) fn remote_of(socket: &impl AsFd) -> Option<SocketAddr> {
    SockRef::from(socket).peer_addr().ok()?.as_socket()
}

pub(super) fn local_of(socket: &impl AsFd) -> Option<SocketAddr> {
    SockRef::from(socket).local_addr().ok()?.as_socket()
}

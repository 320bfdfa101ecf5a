//! What a socket is.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::fstat;
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockRef};

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

pub(super) fn remote_of(socket: &impl AsFd) -> Option<SocketAddr> {
    SockRef::from(socket).peer_addr().ok()?.as_socket()
}

pub(super) fn local_of(socket: &impl AsFd) -> Option<SocketAddr> {
    SockRef::from(socket).local_addr().ok()?.as_socket()
}

//! The sequence number that a connection starts at.

use std::os::fd::AsFd;

use socket2::SockRef;
use wireseal_tcp_ao::Isn;

use crate::error::Error;
use crate::socket::TcpAoSocket;
use crate::sys;

/// Lets a closed socket's next `connect` start at this sequence number (`TCP_QUEUE_SEQ`), so that a test can see sequence
/// numbers wrap without sending 4 GiB before. 0 leaves the choice to the kernel.
///
/// Anything else should leave it to the kernel, too: who can guess an ISN can forge what is not signed.
///
/// # Errors
/// [`Error::NoPermission`] without CAP_NET_ADMIN, and on a socket that listens or is connected. Nothing has changed then.
pub fn choose_isn<S: AsFd + ?Sized>(socket: &S, isn: Isn) -> Result<(), Error> {
    let socket = TcpAoSocket::new(socket);
    let fd = socket.fd();
    let view = SockRef::from(&fd);
    let reuse_address = view.reuse_address()?;
    socket.repair(libc::TCP_REPAIR, &sys::TCP_REPAIR_ON)?;
    let chosen = socket
        .repair(libc::TCP_REPAIR_QUEUE, &sys::TCP_SEND_QUEUE)
        .and_then(|()| socket.repair(libc::TCP_QUEUE_SEQ, &isn.0));
    socket.repair(libc::TCP_REPAIR, &sys::TCP_REPAIR_OFF_NO_WP)?;
    // Repair has its own idea of it, and the end of repair turns it off.
    view.set_reuse_address(reuse_address)?;
    chosen
}

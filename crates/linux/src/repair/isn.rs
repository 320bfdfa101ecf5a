//! Choosing the sequence number that a connection starts at.

use std::os::fd::AsFd;

use linux_raw_sys::net::{
    TCP_QUEUE_SEQ, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP, TCP_REPAIR_ON, TCP_REPAIR_QUEUE, TCP_SEND_QUEUE,
};
use socket2::SockRef;
use wireseal_tcp_ao::Isn;

use crate::error::Error;
use crate::socket::TcpAoSocket;

/// Makes the next `connect` of a closed socket start at this sequence number (`TCP_QUEUE_SEQ`); 0 leaves the choice to the
/// kernel.
///
/// This is for tests in which sequence numbers wrap. Elsewhere leave it to the kernel: an ISN that can be guessed lets
/// anyone forge unsigned segments.
///
/// # Errors
/// [`Error::NoPermission`] without CAP_NET_ADMIN, and on a socket that listens or is connected; nothing has changed then.
pub fn choose_isn<S: AsFd + ?Sized>(socket: &S, isn: Isn) -> Result<(), Error> {
    let socket = TcpAoSocket::new(socket);
    let fd = socket.fd();
    let view = SockRef::from(&fd);
    let reuse_address = view.reuse_address()?;
    socket.repair(TCP_REPAIR, &TCP_REPAIR_ON)?;
    let chosen = socket
        .repair(TCP_REPAIR_QUEUE, &(TCP_SEND_QUEUE as u32))
        .and_then(|()| socket.repair(TCP_QUEUE_SEQ, &isn.0));
    socket.repair(TCP_REPAIR, &TCP_REPAIR_OFF_NO_WP)?;
    // Repair sets it, and the end of repair turns it off.
    view.set_reuse_address(reuse_address)?;
    chosen
}

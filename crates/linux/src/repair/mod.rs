//! Moving a live connection to another socket, process or machine (`TCP_REPAIR` and `TCP_AO_REPAIR`).

mod export;
mod isn;
mod restore;

use std::ffi::c_int;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use socket2::{SockFilter, SockRef};
use wireseal_tcp_ao::{ConnectionState, SeqNum};

use crate::errno::Asked;
use crate::error::Error;
use crate::socket::TcpAoSocket;
use crate::sys;

pub use isn::choose_isn;
pub use restore::restore;

/// An established connection taken off one socket, for [`restore`] to put on another. It holds no secret: the keys travel
/// another way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exported {
    /// What TCP knows.
    pub tcp: TcpState,
    /// What TCP-AO knows beside the keys. `send_sequence` is that of the first octet not acknowledged, and
    /// `receive_sequence` that of the next octet expected, since those are what the kernel keeps SNEs for.
    pub authentication: ConnectionState,
    /// Whether unsigned segments were refused from peers that no key is for.
    pub required: bool,
    /// Whether hard ICMP errors were obeyed.
    pub accept_icmps: bool,
}

/// What TCP knows of an established connection (RFC 9293 §3.3.1). Debug shows how long the queues are, not what is in
/// them.
#[derive(Clone, PartialEq, Eq)]
pub struct TcpState {
    /// The sequence number of the next octet to be written: that behind the last of `send_queue`.
    pub send_next: SeqNum,
    /// Octets written and not acknowledged, the oldest first; the last `unsent` of them were not sent either.
    pub send_queue: Vec<u8>,
    /// How many octets at the end of `send_queue` were never sent.
    pub unsent: usize,
    /// The sequence number of the next octet expected: that behind the last of `receive_queue`.
    pub receive_next: SeqNum,
    /// Octets received, acknowledged and not read, the oldest first.
    pub receive_queue: Vec<u8>,
    /// Octets of data in the largest segment to be sent, by the peer's MSS option.
    pub mss: u32,
    /// The shifts of the announced windows, unless window scaling (RFC 7323) was not agreed on.
    pub window_scale: Option<WindowScale>,
    /// Whether selective acknowledgments (RFC 2018) were agreed on.
    pub sack: bool,
    /// The timestamp to go on from, in the kernel's ticks, unless timestamps (RFC 7323) were not agreed on.
    pub timestamp: Option<u32>,
    /// The windows.
    pub window: Window,
}

impl fmt::Debug for TcpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { send_next, send_queue, unsent, receive_next, receive_queue, .. } = self;
        let Self { mss, window_scale, sack, timestamp, window, .. } = self;
        f.debug_struct("TcpState")
            .field("send_next", send_next)
            .field("send_queue", &format_args!("{} octets", send_queue.len()))
            .field("unsent", unsent)
            .field("receive_next", receive_next)
            .field("receive_queue", &format_args!("{} octets", receive_queue.len()))
            .field("mss", mss)
            .field("window_scale", window_scale)
            .field("sack", sack)
            .field("timestamp", timestamp)
            .field("window", window)
            .finish()
    }
}

/// The shifts of the windows that the two ends announce: 0 to 14 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowScale {
    /// Of the peer's announcements.
    pub send: u8,
    /// Of this end's announcements.
    pub receive: u8,
}

/// A connection's windows, in octets (`struct tcp_repair_window` in `linux/tcp.h`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// What the peer lets this end send.
    pub send: u32,
    /// The most it ever let this end send.
    pub send_max: u32,
    /// The sequence number of the segment that last updated it.
    pub send_update: SeqNum,
    /// What this end lets the peer send.
    pub receive: u32,
    /// The next sequence number expected when this end last announced it.
    pub receive_update: SeqNum,
}

/// A connection that takes in no segment while its state is read. It thaws on drop, unless it is abandoned.
///
/// Segments that arrive meanwhile are dropped, as if lost, and no more than counted: the peer sends them again. A socket
/// filter does that, and takes the place of one that the socket had, for good. What the peer has room for may still go out
/// until it is exported, and later counts as sent and lost: the restored connection sends it again.
///
/// When the process ends meanwhile, the connection is gone and the peer is not told, as after [`Frozen::abandon`].
#[derive(Debug)]
pub struct Frozen<'fd> {
    socket: TcpAoSocket<'fd>,
    /// Of `SO_REUSEADDR`, which the end of repair turns off: a listening socket could not be bound again beside this one.
    reuse_address: bool,
}

impl<'fd> TcpAoSocket<'fd> {
    /// Stops the connection (`TCP_REPAIR`), so that its state can be read and stays what was read.
    ///
    /// # Errors
    /// [`Error::NoPermission`] without CAP_NET_ADMIN, or on a listening socket.
    pub fn freeze(&self) -> Result<Frozen<'fd>, Error> {
        let reuse_address = SockRef::from(&self.fd()).reuse_address()?;
        self.repair(libc::TCP_REPAIR, &sys::TCP_REPAIR_ON)?;
        let frozen = Frozen { socket: *self, reuse_address };
        deafen(self.fd())?;
        Ok(frozen)
    }

    /// One of the options that make up repair.
    fn repair<T: sys::Plain>(&self, name: c_int, value: &T) -> Result<(), Error> {
        sys::set(self.fd(), name, value).map_err(|error| self.error(&Asked::Repair, error))
    }
}

impl Frozen<'_> {
    /// Lets segments in again, and then out. `mode` says whether a window probe goes out at once.
    fn thaw(&self, mode: c_int) -> Result<(), Error> {
        let fd = self.socket.fd();
        let view = SockRef::from(&fd);
        let detached = view.detach_filter();
        self.socket.repair(libc::TCP_REPAIR, &mode)?;
        view.set_reuse_address(self.reuse_address)?;
        match detached {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Leaves the connection to whoever restores it: closing this socket then sends nothing to the peer.
    pub fn abandon(self) {
        std::mem::forget(self);
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        // Nobody is left to tell, and of a socket that is gone nothing stays frozen.
        drop(self.thaw(sys::TCP_REPAIR_OFF_NO_WP));
    }
}

/// Lets no segment through to the socket: a filter of one instruction, which returns a length of 0.
fn deafen(fd: BorrowedFd<'_>) -> io::Result<()> {
    const RETURN_CONSTANT: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    SockRef::from(&fd).attach_filter(&[SockFilter::new(RETURN_CONSTANT, 0, 0, 0)])
}

#[cfg(test)]
mod tests;

//! Stopping a connection while its state is read.

use std::ffi::c_int;
use std::io;
use std::os::fd::BorrowedFd;

use linux_raw_sys::net::{TCP_REPAIR, TCP_REPAIR_OFF_NO_WP, TCP_REPAIR_ON};
use socket2::{SockFilter, SockRef};

use crate::errno::Request;
use crate::error::Error;
use crate::socket::TcpAoSocket;
use crate::sys;

/// A connection that takes in no segments while its state is read. Dropping it lets the connection continue, unless it has been
/// [exported](Frozen::export): then it stays frozen, so that it never lives in two places, and closing its socket sends nothing to
/// the peer. [`Frozen::resume`] lets it continue all the same.
///
/// Segments that arrive while it is frozen are counted and dropped, as if lost, and the peer sends them again. A socket filter
/// does this; it permanently replaces any filter the socket had. What the peer's window has room for may still go out until the
/// connection is exported. It counts as sent and lost, and the restored connection sends it again.
///
/// If the process ends while the connection is frozen, the connection is gone and the peer is not told.
#[derive(Debug)]
pub struct Frozen<'fd> {
    pub(super) socket: TcpAoSocket<'fd>,
    /// `SO_REUSEADDR`, which the end of repair turns off: no listening socket could be bound beside this one any more.
    reuse_address: bool,
    /// Whether dropping it leaves it frozen.
    pub(super) is_exported: bool,
}

impl<'fd> TcpAoSocket<'fd> {
    /// Stops the connection (`TCP_REPAIR`), so that its state can be read and stays as it was read.
    ///
    /// # Errors
    /// [`Error::NoPermission`] without CAP_NET_ADMIN, or on a listening socket.
    pub fn freeze(&self) -> Result<Frozen<'fd>, Error> {
        let reuse_address = SockRef::from(&self.fd()).reuse_address()?;
        self.repair(TCP_REPAIR, &TCP_REPAIR_ON)?;
        let frozen = Frozen { socket: *self, reuse_address, is_exported: false };
        drop_all_segments(self.fd())?;
        Ok(frozen)
    }

    /// Sets one of the options that make up repair.
    pub(super) fn repair<T: sys::Plain>(&self, name: u32, value: &T) -> Result<(), Error> {
        sys::set(self.fd(), name, value).map_err(|error| self.error(&Request::Repair, error))
    }
}

impl Frozen<'_> {
    /// Lets segments in again, and then out. `TCP_REPAIR_OFF` sends a window probe at once, `TCP_REPAIR_OFF_NO_WP` does not.
    pub(super) fn thaw(&self, mode: c_int) -> Result<(), Error> {
        let fd = self.socket.fd();
        let view = SockRef::from(&fd);
        let detached = view.detach_filter();
        self.socket.repair(TCP_REPAIR, &mode)?;
        view.set_reuse_address(self.reuse_address)?;
        match detached {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Lets an exported connection continue here after all. Discard the [`Exported`](crate::Exported): restored somewhere else, it
    /// would be the same connection twice, with SNEs that soon differ.
    ///
    /// # Errors
    /// [`Error::Io`]; the connection may then still be frozen.
    pub fn resume(mut self) -> Result<(), Error> {
        // Not a second time when it is dropped.
        self.is_exported = true;
        self.thaw(TCP_REPAIR_OFF_NO_WP)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        if !self.is_exported {
            // An error has nowhere to go, and a socket that is gone is not frozen.
            drop(self.thaw(TCP_REPAIR_OFF_NO_WP));
        }
    }
}

/// Attaches a socket filter of one instruction, which returns a length of 0.
fn drop_all_segments(fd: BorrowedFd<'_>) -> io::Result<()> {
    const RETURN_CONSTANT: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    SockRef::from(&fd).attach_filter(&[SockFilter::new(RETURN_CONSTANT, 0, 0, 0)])
}

//! A connection whose keys are managed.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::SockRef;
use wireseal_keys::Timestamp;

use crate::net::local::{Local, connect};
use crate::{Attachment, Error, KeyManager, ManagerError};

/// A connection with a peer of a [`KeyManager`]. The peer's key chain is carried out on it for as long as it is open.
///
/// Dereferences to the stream `S`: std's, or with feature `tokio` tokio's. The connection stays open when its chain has ended or its
/// peer was removed, so that you can end the session in order: look at [`SocketState::expired`] in `attachment().state()` from time to
/// time, or with tokio wait for `attachment().expired()`.
///
/// As with a [`TcpAoListener`](crate::TcpAoListener), fork before, and connect in the network namespace that the peer is in.
///
/// [`SocketState::expired`]: crate::SocketState::expired
#[derive(Debug)]
pub struct TcpAoStream<S = TcpStream> {
    // Dropped first: the attachment keeps the socket open, too.
    attachment: Attachment,
    stream: S,
}

impl TcpAoStream {
    /// Connects to a peer of the manager, with its keys.
    ///
    /// # Errors
    /// [`ManagerError::NoPeer`], [`ManagerError::NoKeyToSendWith`], [`Error::NotSupported`] if this kernel has no TCP-AO, others of
    /// [`KeyManager::attach_connecting`], and [`ManagerError::Io`] if the connection fails. A peer with other keys does not answer at
    /// all, so that it looks like one that is not there (ETIMEDOUT).
    pub fn connect(remote: SocketAddr, manager: &KeyManager) -> Result<Self, ManagerError> {
        Self::connect_from(Local::default(), remote, manager)
    }

    /// The same from a local address, or in a VRF.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect), and [`ManagerError::Io`] if the address or the VRF cannot be used.
    pub fn connect_from(
        local: Local,
        remote: SocketAddr,
        manager: &KeyManager,
    ) -> Result<Self, ManagerError> {
        let socket = local.socket(remote)?;
        let attachment = attach_connecting(&socket, remote, manager)?;
        connect(|| socket.connect(&remote.into())).map_err(ManagerError::connecting(remote))?;
        Ok(Self { attachment, stream: socket.into() })
    }
}

/// Puts the peer's keys on a socket that will connect to it.
pub(super) fn attach_connecting(
    socket: &impl AsFd,
    remote: SocketAddr,
    manager: &KeyManager,
) -> Result<Attachment, ManagerError> {
    let attachment = manager.attach_connecting(socket, remote.ip(), Timestamp::now())?;
    manager.run_in_background().map_err(Error::Io)?;
    Ok(attachment)
}

impl<S: AsFd> TcpAoStream<S> {
    /// A connection that was accepted, with its keys; `None` if it is refused, and reset.
    pub(super) fn accepted(stream: S, remote: SocketAddr, manager: &KeyManager) -> Option<Self> {
        let attached = manager.run_in_background().map_err(|error| Error::Io(error).into());
        match attached.and_then(|()| manager.attach_accepted(&stream, remote.ip(), Timestamp::now())) {
            Ok(attachment) => Some(Self { attachment, stream }),
            Err(error) => {
                // Without it the connection would be closed in order, as if it had been served.
                let _ = SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO));
                crate::log::refused(remote, &error);
                None
            }
        }
    }
}

impl<S> TcpAoStream<S> {
    /// Keeps the keys on the socket current.
    pub const fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// A connection that was opened by hand: on a socket with options of its own, say, attached with
    /// [`KeyManager::attach_connecting`], and then connected.
    pub const fn from_parts(stream: S, attachment: Attachment) -> Self {
        Self { attachment, stream }
    }

    /// The stream and the attachment. Keep the attachment for as long as the connection is open, and drop it first: tokio's
    /// `into_split`, for instance, needs the stream alone.
    pub fn into_parts(self) -> (S, Attachment) {
        (self.stream, self.attachment)
    }
}

impl<S> Deref for TcpAoStream<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.stream
    }
}

impl<S> DerefMut for TcpAoStream<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.stream
    }
}

impl<S: AsFd> AsFd for TcpAoStream<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl<S: Read> Read for TcpAoStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.stream.read_vectored(buffers)
    }
}

impl<S: Write> Write for TcpAoStream<S> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream.write_vectored(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

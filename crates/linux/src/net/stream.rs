//! A connection whose keys are managed.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, SockRef, Socket, Type};
use wireseal_tcp_ao::key_chain::Timestamp;

use crate::{Attachment, Error, KeyManager, ManagerError, TcpAoSocket};

/// A connection with a peer of a [`KeyManager`]. The peer's key chain is carried out on it for as long as it is open.
///
/// Dereferences to the stream `S`: std's, or with feature `tokio` tokio's. Look at [`SocketState::expired`] in
/// `attachment().state()` from time to time: the connection stays open when its chain has ended or its peer was removed, so that
/// you can end the session in order.
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
    /// [`KeyManager::attach_connecting`], and `Error::Io` if the connection fails. A peer with other keys does not answer at all,
    /// so that it looks like one that is not there (ETIMEDOUT).
    pub fn connect(remote: SocketAddr, manager: &KeyManager) -> Result<Self, ManagerError> {
        let socket = Socket::new(Domain::for_address(remote), Type::STREAM, None).map_err(Error::Io)?;
        Self::connect_from(socket, remote, manager, |socket| socket.connect(&remote.into()))
    }

    /// The same with a socket that is not connected yet: one in a VRF, or bound to a local address. It takes `connect` to know how.
    pub(super) fn connect_from(
        socket: Socket,
        remote: SocketAddr,
        manager: &KeyManager,
        connect: impl FnOnce(&Socket) -> io::Result<()>,
    ) -> Result<Self, ManagerError> {
        let attachment = manager.attach_connecting(&socket, remote.ip(), Timestamp::now())?;
        manager.run_in_background().map_err(Error::Io)?;
        connect(&socket).map_err(Error::Io)?;
        Ok(Self { attachment, stream: socket.into() })
    }

    /// A connection that was accepted, with its keys; `None` if it is refused, and reset.
    pub(super) fn accepted(stream: TcpStream, remote: SocketAddr, manager: &KeyManager) -> Option<Self> {
        match attach_accepted(&stream, remote, manager) {
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

/// Attaches a connection to its peer, unless the handshake was signed with a key of another peer.
///
/// What such a caller sent before its keys were taken away is in the receive queue, and would be read as the peer's.
fn attach_accepted(
    stream: &TcpStream,
    remote: SocketAddr,
    manager: &KeyManager,
) -> Result<Attachment, ManagerError> {
    manager.run_in_background().map_err(Error::Io)?;
    let keys = TcpAoSocket::new(stream).keys()?;
    // With the address: a connection that its peer has reset already has none, and would get the keys of all peers.
    let attachment = manager.attach_connecting(stream, remote.ip(), Timestamp::now())?;
    // The rnext key was the one that the SYN was signed with, and only this end changes it.
    match keys.iter().find(|key| key.is_rnext).map(|key| key.name) {
        Some(key) if attachment.state().peer != Some(key.peer()) => {
            Err(ManagerError::KeyOfAnotherPeer { address: remote.ip().to_canonical(), key })
        }
        _ => Ok(attachment),
    }
}

impl<S> TcpAoStream<S> {
    /// Keeps the keys on the socket current.
    pub const fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// A connection that was opened by hand: bound to an address or a VRF, say, attached with
    /// [`KeyManager::attach_connecting`], and then connected.
    pub const fn from_parts(stream: S, attachment: Attachment) -> Self {
        Self { attachment, stream }
    }

    /// The stream and the attachment. Keep the attachment for as long as the connection is open, and drop it first: tokio's
    /// `into_split`, for instance, needs the stream alone.
    pub fn into_parts(self) -> (S, Attachment) {
        (self.stream, self.attachment)
    }

    /// The same connection with another type of the same stream.
    #[cfg(feature = "tokio")]
    pub(super) fn try_map<T>(self, convert: impl FnOnce(S) -> io::Result<T>) -> io::Result<TcpAoStream<T>> {
        Ok(TcpAoStream { attachment: self.attachment, stream: convert(self.stream)? })
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

//! A connection whose keys are managed, and where it is opened from.

use std::ffi::c_int;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, TcpStream};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, SockRef, Socket, Type};
use wireseal_keys::Timestamp;

use crate::manager::{Attachment, KeyManager};
use crate::{Error, log, sys};

/// The local end of a connection to be opened. By default the kernel chooses it.
///
/// A link-local address is on the interface of the remote address (its scope id) or, without one, on the interface given as `vrf`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Local {
    /// The local address; the kernel chooses the port.
    pub address: Option<IpAddr>,
    /// The interface index of the VRF device, as in [`PeerName::vrf`](crate::PeerName::vrf), or of any other device to bind the socket to.
    pub vrf: Option<u32>,
}

impl Local {
    /// A socket that is not connected yet. It belongs to the network namespace of the calling thread.
    fn socket(&self, remote: SocketAddr) -> Result<Socket, Error> {
        let opened = || -> io::Result<Socket> {
            let socket = Socket::new(Domain::for_address(remote), Type::STREAM, None)?;
            let set = |level, name, value: u32| {
                sys::set_all(socket.as_fd(), level, name, &[value.cast_signed() as c_int])
            };
            let scope = scope_of(remote);
            // The kernel binds the socket to the interface of a link-local address only when it connects. That is too late to find its peer
            // in a VRF.
            if let Some(device) = self.vrf.or(scope) {
                set(libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, device)?;
            }
            if let Some(address) = self.address {
                // Without this, each port of the address could serve only one connection.
                set(libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
                let local = match address {
                    IpAddr::V6(address) if address.is_unicast_link_local() => {
                        SocketAddrV6::new(address, 0, 0, scope.unwrap_or(0)).into()
                    }
                    _ => SocketAddr::new(address, 0),
                };
                socket.bind(&local.into())?;
            }
            Ok(socket)
        };
        opened().map_err(Error::at("connect to", remote))
    }
}

/// The interface index of a link-local address.
fn scope_of(address: SocketAddr) -> Option<u32> {
    match address {
        SocketAddr::V6(address) if address.ip().is_unicast_link_local() => {
            Some(address.scope_id()).filter(|scope| *scope != 0)
        }
        _ => None,
    }
}

/// A connection with a peer of a [`KeyManager`], whose keys are kept current while it is open.
///
/// Dereferences to the stream `S`: std's, or with feature `tokio` tokio's. The connection stays open when its chain has ended or its peer
/// was removed, so that you can end the session in order: check [`SocketState::expired`] in `attachment().state()` regularly, or with tokio
/// wait for `attachment().expired()`.
///
/// As with a [`TcpAoListener`](crate::TcpAoListener), fork first, and connect in the network namespace that the peer is in.
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
    /// [`Error::NoPeer`], [`Error::NoKeyToSendWith`], [`Error::NotSupported`] if this kernel has no TCP-AO, others of
    /// [`KeyManager::attach_connecting`], and [`Error::Address`] if the connection fails. A peer with other keys does not answer, so
    /// connecting times out (ETIMEDOUT).
    pub fn connect(remote: SocketAddr, manager: &KeyManager) -> Result<Self, Error> {
        Self::connect_from(Local::default(), remote, manager)
    }

    /// Connects from a local address, or in a VRF.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect), and [`Error::Address`] if the address or the VRF cannot be used.
    pub fn connect_from(local: Local, remote: SocketAddr, manager: &KeyManager) -> Result<Self, Error> {
        let socket = local.socket(remote)?;
        let attachment = attach_connecting(&socket, remote, manager)?;
        connect(|| socket.connect(&remote.into())).map_err(Error::at("connect to", remote))?;
        Ok(Self { attachment, stream: socket.into() })
    }
}

/// Connects, retrying after EINTR: Linux goes on connecting, and the next call waits for the same connection.
fn connect(mut attempt: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Puts the peer's keys on a socket that will connect to it.
fn attach_connecting(
    socket: &impl AsFd,
    remote: SocketAddr,
    manager: &KeyManager,
) -> Result<Attachment, Error> {
    let attachment = manager.attach_connecting(socket, remote, Timestamp::now())?;
    manager.run_in_background()?;
    Ok(attachment)
}

impl<S: AsFd> TcpAoStream<S> {
    /// An accepted connection with its keys; `None` if it is refused, and then it is reset.
    pub(crate) fn accepted(stream: S, remote: SocketAddr, manager: &KeyManager) -> Option<Self> {
        let running = manager.run_in_background().map_err(Error::Io);
        match running.and_then(|()| manager.attach_accepted(&stream, remote.ip(), Timestamp::now())) {
            Ok(attachment) => Some(Self { attachment, stream }),
            Err(error) => {
                // Reset it: an orderly close would look as if it had been served.
                let _ = SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO));
                log::refused(remote, &error);
                None
            }
        }
    }
}

impl<S> TcpAoStream<S> {
    /// The attachment, which keeps the keys on the socket current.
    pub const fn attachment(&self) -> &Attachment {
        &self.attachment
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

/// Calls that may wait in the kernel run on tokio's threads for blocking calls.
#[cfg(feature = "tokio")]
mod with_tokio {
    use std::io::{self, IoSlice};
    use std::net::SocketAddr;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
    use tokio::net::{TcpSocket, TcpStream};
    use tokio::task::spawn_blocking;

    use super::{Error, KeyManager, Local, TcpAoStream, attach_connecting};

    impl TcpAoStream<TcpStream> {
        /// Connects to a peer of the manager, with its keys, as [`TcpAoStream::connect`] does (feature `tokio`).
        ///
        /// # Errors
        /// As for [`TcpAoStream::connect`].
        pub async fn connect_async(remote: SocketAddr, manager: &KeyManager) -> Result<Self, Error> {
            Self::connect_async_from(Local::default(), remote, manager).await
        }

        /// Connects from a local address, or in a VRF.
        ///
        /// # Errors
        /// As for [`TcpAoStream::connect_from`].
        pub async fn connect_async_from(
            local: Local,
            remote: SocketAddr,
            manager: &KeyManager,
        ) -> Result<Self, Error> {
            let (socket, manager) = (local.socket(remote)?, manager.clone());
            let failed = Error::at("connect to", remote);
            socket.set_nonblocking(true).map_err(&failed)?;
            let attach = move || Ok::<_, Error>((attach_connecting(&socket, remote, &manager)?, socket));
            let (attachment, socket) = spawn_blocking(attach).await.map_err(io::Error::other)??;
            let stream = TcpSocket::from_std_stream(socket.into()).connect(remote).await.map_err(failed)?;
            Ok(Self { attachment, stream })
        }
    }

    impl<S: AsyncRead + Unpin> AsyncRead for TcpAoStream<S> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut **self).poll_read(context, buffer)
        }
    }

    impl<S: AsyncWrite + Unpin> AsyncWrite for TcpAoStream<S> {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &[u8],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut **self).poll_write(context, buffer)
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut **self).poll_flush(context)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut **self).poll_shutdown(context)
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffers: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut **self).poll_write_vectored(context, buffers)
        }

        fn is_write_vectored(&self) -> bool {
            (**self).is_write_vectored()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_has_its_local_address_and_its_device() {
        let remote = "127.0.0.1:9".parse().unwrap();
        let local = Local { address: Some("127.0.0.2".parse().unwrap()), vrf: Some(1) };
        let socket = local.socket(remote).unwrap();
        assert_eq!(socket.local_addr().unwrap().as_socket(), Some("127.0.0.2:0".parse().unwrap()));
        assert_eq!(socket.device().unwrap().as_deref(), Some(&b"lo"[..]), "the first interface");
        let elsewhere = Local { address: Some("192.0.2.1".parse().unwrap()), vrf: None };
        let error = elsewhere.socket(remote).unwrap_err().to_string();
        assert!(
            error.starts_with("cannot connect to 127.0.0.1:9: Cannot assign requested address"),
            "{error}"
        );
    }

    #[test]
    fn a_signal_does_not_end_connecting() {
        let mut errors =
            vec![io::ErrorKind::ConnectionRefused, io::ErrorKind::Interrupted, io::ErrorKind::Interrupted];
        let done = connect(|| Err(errors.pop().unwrap().into()));
        assert_eq!(done.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert!(errors.is_empty());
    }
}

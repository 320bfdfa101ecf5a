//! Listeners and streams over tokio's sockets. What may wait in the kernel runs on tokio's threads for blocking calls.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::spawn_blocking;

use crate::net::listener::bound;
use crate::net::local::Local;
use crate::net::stream::attach_connecting;
use crate::{Error, KeyManager, ManagerError, TcpAoListener, TcpAoStream};

impl TcpAoListener {
    /// The same listener for tokio (feature `tokio`).
    ///
    /// # Errors
    /// As for `tokio::net::TcpListener::from_std`. It panics outside a runtime, like that.
    pub fn into_async(self) -> io::Result<TcpAoListener<TcpListener>> {
        self.try_map(|socket| {
            socket.set_nonblocking(true)?;
            TcpListener::from_std(socket)
        })
    }
}

impl TcpAoListener<TcpListener> {
    /// Binds and listens as [`TcpAoListener::bind`] does (feature `tokio`). The keys of many peers take a while.
    ///
    /// # Errors
    /// As for [`TcpAoListener::bind`].
    pub async fn bind_async(address: SocketAddr, manager: &KeyManager) -> Result<Self, ManagerError> {
        let (socket, manager) = (bound(address)?, manager.clone());
        let listener = blocking(move || TcpAoListener::from_socket(socket, &manager)).await??;
        listener.into_async().map_err(ManagerError::listening(address))
    }

    /// Waits for the next connection from one of the peers, as [`TcpAoListener::accept`] does.
    ///
    /// It is cancel safe: if it is dropped before it is ready, the next call returns the connection whose keys are being put in
    /// order. If several tasks call it, they take turns.
    ///
    /// # Errors
    /// As for [`TcpAoListener::accept`].
    pub async fn accept(&self) -> Result<(TcpAoStream<TcpStream>, SocketAddr), ManagerError> {
        let manager = self.manager.clone();
        let attach = move |stream, remote| Some((TcpAoStream::accepted(stream, remote, &manager)?, remote));
        self.accepting.next(&self.socket, attach).await.map_err(|error| self.cannot_accept(error))
    }
}

impl TcpAoStream<TcpStream> {
    /// Connects to a peer of the manager, with its keys, as [`TcpAoStream::connect`] does (feature `tokio`).
    ///
    /// # Errors
    /// As for [`TcpAoStream::connect`].
    pub async fn connect_async(remote: SocketAddr, manager: &KeyManager) -> Result<Self, ManagerError> {
        Self::connect_async_from(Local::default(), remote, manager).await
    }

    /// The same from a local address, or in a VRF.
    ///
    /// # Errors
    /// As for [`TcpAoStream::connect_from`].
    pub async fn connect_async_from(
        local: Local,
        remote: SocketAddr,
        manager: &KeyManager,
    ) -> Result<Self, ManagerError> {
        let (socket, manager) = (local.socket(remote)?, manager.clone());
        let failed = ManagerError::connecting(remote);
        socket.set_nonblocking(true).map_err(&failed)?;
        let attached = move || Ok::<_, ManagerError>((attach_connecting(&socket, remote, &manager)?, socket));
        let (attachment, socket) = blocking(attached).await??;
        let stream = TcpSocket::from_std_stream(socket.into()).connect(remote).await.map_err(failed)?;
        Ok(Self::from_parts(stream, attachment))
    }
}

/// What may wait in the kernel, on one of tokio's threads for that.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    spawn_blocking(work).await.map_err(|error| Error::Io(io::Error::other(error)))
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

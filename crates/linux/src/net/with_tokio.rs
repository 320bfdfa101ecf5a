//! Listeners and streams over tokio's sockets. What may wait in the kernel runs on tokio's threads for blocking calls.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinError, spawn_blocking};

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
    /// Waits for the next connection from one of the peers, as [`TcpAoListener::accept`] does.
    ///
    /// If it is dropped before it is ready, at most one connection is lost: the one whose keys are being put in order. Its peer
    /// sees it closed.
    ///
    /// # Errors
    /// As for tokio's.
    pub async fn accept(&self) -> io::Result<(TcpAoStream<TcpStream>, SocketAddr)> {
        loop {
            let (stream, remote) = self.socket.accept().await?;
            let (stream, manager) = (stream.into_std()?, self.manager.clone());
            let accepted = spawn_blocking(move || TcpAoStream::accepted(stream, remote, &manager)).await;
            if let Some(stream) = accepted.map_err(io::Error::other)? {
                return Ok((stream.try_map(TcpStream::from_std)?, remote));
            }
        }
    }
}

impl TcpAoStream<TcpStream> {
    /// Connects to a peer of the manager, with its keys, as [`TcpAoStream::connect`] does (feature `tokio`).
    ///
    /// # Errors
    /// As for [`TcpAoStream::connect`].
    pub async fn connect_async(remote: SocketAddr, manager: &KeyManager) -> Result<Self, ManagerError> {
        let manager = manager.clone();
        let prepared = spawn_blocking(move || {
            let socket = Socket::new(Domain::for_address(remote), Type::STREAM.nonblocking(), None);
            TcpAoStream::connect_from(socket.map_err(Error::Io)?, remote, &manager, |_| Ok(()))
        });
        let (socket, attachment) = prepared.await.map_err(joined)??.into_parts();
        let stream = TcpSocket::from_std_stream(socket).connect(remote).await.map_err(Error::Io)?;
        Ok(Self::from_parts(stream, attachment))
    }
}

fn joined(error: JoinError) -> Error {
    Error::Io(io::Error::other(error))
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

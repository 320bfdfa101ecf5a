//! Streams and listeners over the sockets of a stack.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{RecvError, State};
use smoltcp::wire::{IpEndpoint, IpListenEndpoint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::table::SocketTable;

/// Connections that may be in their handshake at once on one listener.
const BACKLOG: usize = 4;

/// A TCP connection. Dropping it closes it in order: what was written is still sent.
pub struct TcpStream {
    table: Arc<SocketTable>,
    handle: SocketHandle,
    /// The driver runs as long as somebody holds this.
    _keep_alive: Arc<dyn Send + Sync>,
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpStream").field("handle", &self.handle).finish_non_exhaustive()
    }
}

fn socket_addr(endpoint: IpEndpoint) -> SocketAddr {
    SocketAddr::new(endpoint.addr.into(), endpoint.port)
}

impl TcpStream {
    pub(super) fn new(
        table: Arc<SocketTable>,
        handle: SocketHandle,
        keep_alive: Arc<dyn Send + Sync>,
    ) -> Self {
        Self { table, handle, _keep_alive: keep_alive }
    }

    /// Waits until the handshake is over.
    pub(super) async fn connected(&self) -> io::Result<()> {
        poll_fn(|context| {
            let mut sockets = self.table.sockets.lock();
            let socket = SocketTable::tcp(&mut sockets, self.handle);
            match socket.state() {
                State::SynSent | State::SynReceived => {
                    socket.register_send_waker(context.waker());
                    Poll::Pending
                }
                State::Closed => Poll::Ready(Err(io::ErrorKind::ConnectionRefused.into())),
                _ => Poll::Ready(Ok(())),
            }
        })
        .await
    }

    /// The own address and port, or nothing once the connection is gone.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        SocketTable::tcp(&mut self.table.sockets.lock(), self.handle).local_endpoint().map(socket_addr)
    }

    /// The peer's address and port, or nothing once the connection is gone.
    #[must_use]
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        SocketTable::tcp(&mut self.table.sockets.lock(), self.handle).remote_endpoint().map(socket_addr)
    }

    /// The state of the connection (RFC 9293 section 3.3.2).
    #[must_use]
    pub fn state(&self) -> State {
        SocketTable::tcp(&mut self.table.sockets.lock(), self.handle).state()
    }

    /// Ends the connection with a RST; what was not yet sent is lost.
    pub fn abort(&self) {
        self.table.with(self.handle, |socket| socket.abort());
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        self.table.finish(self.handle);
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut sockets = self.table.sockets.lock();
        let socket = SocketTable::tcp(&mut sockets, self.handle);
        if !socket.can_recv() && socket.may_recv() {
            socket.register_recv_waker(context.waker());
            return Poll::Pending;
        }
        match socket.recv_slice(buf.initialize_unfilled()) {
            Ok(octets) => {
                buf.advance(octets);
                // The driver may have a larger window to tell the peer.
                self.table.wake.notify_one();
                Poll::Ready(Ok(()))
            }
            Err(RecvError::Finished) => Poll::Ready(Ok(())),
            Err(RecvError::InvalidState) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        }
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let mut sockets = self.table.sockets.lock();
        let socket = SocketTable::tcp(&mut sockets, self.handle);
        if !socket.may_send() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if !socket.can_send() {
            socket.register_send_waker(context.waker());
            return Poll::Pending;
        }
        let octets = socket.send_slice(data).map_err(|_| io::ErrorKind::BrokenPipe)?;
        self.table.wake.notify_one();
        Poll::Ready(Ok(octets))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.table.with(self.handle, |socket| socket.close());
        Poll::Ready(Ok(()))
    }
}

/// Accepts connections on one port.
pub struct TcpListener {
    table: Arc<SocketTable>,
    endpoint: IpListenEndpoint,
    waiting: Vec<SocketHandle>,
    keep_alive: Arc<dyn Send + Sync>,
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl TcpListener {
    pub(super) fn new(
        table: Arc<SocketTable>,
        endpoint: IpListenEndpoint,
        keep_alive: Arc<dyn Send + Sync>,
    ) -> io::Result<Self> {
        let mut listener = Self { table, endpoint, waiting: Vec::with_capacity(BACKLOG), keep_alive };
        for _ in 0..BACKLOG {
            let handle = listener.listen()?;
            listener.waiting.push(handle);
        }
        Ok(listener)
    }

    fn listen(&self) -> io::Result<SocketHandle> {
        let handle = self.table.add();
        let listening = self.table.with(handle, |socket| socket.listen(self.endpoint));
        if let Err(error) = listening {
            self.table.finish(handle);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error.to_string()));
        }
        Ok(handle)
    }

    /// Waits for a connection whose handshake is over. Cancelling the wait loses no connection.
    ///
    /// # Errors
    /// `InvalidInput` when the port cannot be listened on again.
    pub async fn accept(&mut self) -> io::Result<TcpStream> {
        let place = poll_fn(|context| self.poll_ready(context)).await;
        let fresh = self.listen()?;
        let handle = std::mem::replace(&mut self.waiting[place], fresh);
        Ok(TcpStream::new(Arc::clone(&self.table), handle, Arc::clone(&self.keep_alive)))
    }

    fn poll_ready(&self, context: &mut Context<'_>) -> Poll<usize> {
        let mut sockets = self.table.sockets.lock();
        for (place, &handle) in self.waiting.iter().enumerate() {
            let socket = SocketTable::tcp(&mut sockets, handle);
            if !matches!(socket.state(), State::Listen | State::SynReceived) {
                return Poll::Ready(place);
            }
            socket.register_recv_waker(context.waker());
        }
        Poll::Pending
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        for &handle in &self.waiting {
            self.table.finish(handle);
        }
    }
}

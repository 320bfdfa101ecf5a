//! Streams and listeners over the sockets of a stack.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{RecvError, Socket, State};
use smoltcp::wire::IpListenEndpoint;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::shared::Shared;

/// Connections that may be in their handshake at once on one listener.
const BACKLOG: usize = 4;

/// A TCP connection. Dropping it closes it in order: what was written is still sent.
pub struct TcpStream {
    shared: Arc<Shared>,
    handle: SocketHandle,
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpStream").field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl TcpStream {
    pub(super) fn new(shared: Arc<Shared>, handle: SocketHandle) -> Self {
        Self { shared, handle }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Socket<'static>) -> R) -> R {
        self.shared.with(self.handle, f)
    }

    /// Waits until the handshake is over.
    pub(super) async fn connected(&self) -> io::Result<()> {
        let poll = |socket: &mut Socket<'_>, context: &Context<'_>| match socket.state() {
            State::SynSent | State::SynReceived => {
                socket.register_send_waker(context.waker());
                Poll::Pending
            }
            State::Closed => Poll::Ready(Err(io::ErrorKind::ConnectionRefused.into())),
            _ => Poll::Ready(Ok(())),
        };
        poll_fn(|context| self.with(|socket| poll(socket, context))).await
    }

    /// This end's address and port and the peer's, or nothing once the connection is gone.
    #[must_use]
    pub fn ends(&self) -> Option<[SocketAddr; 2]> {
        let ends = self.with(|socket| Some([socket.local_endpoint()?, socket.remote_endpoint()?]))?;
        Some(ends.map(|end| SocketAddr::new(end.addr.into(), end.port)))
    }

    /// The state of the connection (RFC 9293 §3.3.2).
    #[must_use]
    pub fn state(&self) -> State {
        self.with(|socket| socket.state())
    }

    /// Ends the connection with a RST; what was not yet sent is lost.
    pub fn abort(&self) {
        self.with(Socket::abort);
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        self.with(Socket::close);
        self.shared.core().finishing.push(self.handle);
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.with(|socket| {
            if !socket.can_recv() && socket.may_recv() {
                socket.register_recv_waker(context.waker());
                return Poll::Pending;
            }
            match socket.recv_slice(buffer.initialize_unfilled()) {
                Ok(octets) => buffer.advance(octets),
                Err(RecvError::Finished) => {}
                Err(RecvError::InvalidState) => {
                    return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
                }
            }
            Poll::Ready(Ok(()))
        })
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.with(|socket| {
            if socket.may_send() && !socket.can_send() {
                socket.register_send_waker(context.waker());
                return Poll::Pending;
            }
            Poll::Ready(socket.send_slice(data).map_err(|_| io::ErrorKind::BrokenPipe.into()))
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(Socket::close);
        Poll::Ready(Ok(()))
    }
}

/// Accepts connections on one port.
#[derive(Debug)]
pub struct TcpListener {
    endpoint: IpListenEndpoint,
    waiting: Vec<TcpStream>,
}

impl TcpListener {
    pub(super) fn new(shared: &Arc<Shared>, endpoint: IpListenEndpoint) -> io::Result<Self> {
        let waiting = (0..BACKLOG).map(|_| listen(shared, endpoint));
        Ok(Self { endpoint, waiting: waiting.collect::<io::Result<_>>()? })
    }

    /// Waits for a connection whose handshake is over. Cancelling the wait loses no connection.
    ///
    /// # Errors
    /// When the port cannot be listened on again.
    pub async fn accept(&mut self) -> io::Result<TcpStream> {
        let is_open = |stream: &TcpStream, context: &Context<'_>| {
            stream.with(|socket| {
                socket.register_recv_waker(context.waker());
                !matches!(socket.state(), State::Listen | State::SynReceived)
            })
        };
        let place = poll_fn(|context| {
            let open = self.waiting.iter().position(|stream| is_open(stream, context));
            open.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        let fresh = listen(&self.waiting[place].shared, self.endpoint)?;
        Ok(std::mem::replace(&mut self.waiting[place], fresh))
    }
}

fn listen(shared: &Arc<Shared>, endpoint: IpListenEndpoint) -> io::Result<TcpStream> {
    let handle = shared.core().add();
    let stream = TcpStream::new(Arc::clone(shared), handle);
    let listening = stream.with(|socket| socket.listen(endpoint));
    listening.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    Ok(stream)
}

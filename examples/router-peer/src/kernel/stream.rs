//! A connection, and an eye on its keys.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};
use tracing::{info, warn};
use wireseal_linux::{Attachment, ManagerError};
use wireseal_tcp_ao::Counters;
use wireseal_tcp_ao::key_chain::KeyChain;

use super::{COUNTERS_CHECK, Protection, Refusals, counters};
use crate::protection::{now, until};

/// An open connection. Dropping it closes it in order; one whose keys have run out is reset.
#[derive(Debug)]
pub struct KernelStream {
    // First, because it holds the socket open too.
    keys: Option<Keys>,
    stream: TcpStream,
    /// Whether the keys have run out, after which nothing may be sent.
    is_over: bool,
}

/// The keys of a connection, and what has been seen of them.
#[derive(Debug)]
struct Keys {
    _attachment: Attachment,
    chain: Arc<KeyChain>,
    look: Pin<Box<Sleep>>,
    refusals: Refusals,
}

impl KernelStream {
    pub(super) fn new(stream: TcpStream, attachment: Option<Attachment>, protection: &Protection) -> Self {
        let keys = match (attachment, protection) {
            (Some(attachment), Protection::TcpAo(_, chain)) => Some(Keys {
                _attachment: attachment,
                chain: Arc::clone(chain),
                look: Box::pin(sleep(Duration::ZERO)),
                refusals: Refusals::default(),
            }),
            _ => None,
        };
        Self { keys, stream, is_over: false }
    }

    /// Takes charge of a connection that was accepted with keys from the listening socket.
    pub(super) fn accepted(stream: TcpStream, protection: &Protection) -> Result<Self, ManagerError> {
        match protection.attach(&stream) {
            Ok(attachment) => Ok(Self::new(stream, attachment, protection)),
            Err(error) => {
                Self::new(stream, None, protection).reset();
                Err(error)
            }
        }
    }

    /// Ends the connection with a RST.
    pub fn reset(self) {
        // If it fails the connection ends in order instead.
        let _ = self.stream.set_zero_linger();
    }

    /// Fails once no key may be sent with any more.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let Some(keys) = &mut self.keys else { return Ok(()) };
        while !self.is_over && keys.look.as_mut().poll(context).is_ready() {
            let at = now();
            if keys.chain.at(at).preferred().is_none() {
                warn!(chain = keys.chain.name(), "no key may be sent with: connection reset");
                self.stream.set_zero_linger()?;
                self.is_over = true;
                break;
            }
            keys.refusals.warn_of_more(&self.stream);
            keys.look.as_mut().reset(Instant::now() + until(keys.chain.next_change(at)).min(COUNTERS_CHECK));
        }
        if self.is_over { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }
}

impl Drop for KernelStream {
    fn drop(&mut self) {
        if self.keys.is_some()
            && let Some(Counters { good, bad, key_not_found, required, dropped_icmp }) =
                counters(&self.stream)
        {
            info!(good, bad, key_not_found, required, dropped_icmp, "TCP-AO of the connection");
        }
    }
}

impl AsyncRead for KernelStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // A session always reads, so somebody always looks.
        this.check(context)?;
        Pin::new(&mut this.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for KernelStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_over {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

//! Stepping by the wall clock, with tokio.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::MissedTickBehavior;
use wireseal_tcp_ao::key_chain::Timestamp;

use crate::manager::{KeyManager, Managed, StepReport};

/// How often the wall clock is looked at. It may be set, so that sleeping for longer would miss a change.
const TICK: Duration = Duration::from_secs(1);

impl KeyManager {
    /// Steps by the wall clock: whenever the chain changes, at least every 30 seconds, and every second while a peer has
    /// not switched. Ends when nobody else has the manager any more, neither another handle nor an attachment.
    ///
    /// The steps run where tokio lets calls block. What they report goes nowhere; see [`Self::run_reporting`].
    ///
    /// ```no_run
    /// use tokio::io::AsyncWriteExt;
    /// use tokio::net::TcpSocket;
    /// use wireseal_linux::{KeyManager, Managed};
    /// use wireseal_tcp_ao::key_chain::{KeyChain, Timestamp};
    ///
    /// async fn call(chain: KeyChain, now: Timestamp) -> Result<(), Box<dyn std::error::Error>> {
    ///     let manager = KeyManager::new(chain, "192.0.2.7/32".parse()?, None)?;
    ///     tokio::spawn(manager.clone().run());
    ///     let socket = Managed::new(TcpSocket::new_v4()?, &manager, now)?;
    ///     let mut stream = socket.connect("192.0.2.7:179".parse()?).await?;
    ///     stream.write_all(b"signed, with whatever key holds").await?;
    ///     Ok(())
    /// }
    /// ```
    pub async fn run(self) {
        self.run_reporting(|_| {}).await;
    }

    /// The same, and gives every step's report to `report`, which is the place to shut down what has
    /// [expired](StepReport::expired).
    pub async fn run_reporting(self, mut report: impl FnMut(StepReport)) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if Arc::strong_count(&self.shared) == 1 {
                return;
            }
            let now = wall_clock();
            if !self.shared.state().pace.is_due(now) {
                continue;
            }
            let manager = self.clone();
            if let Ok(step) = tokio::task::spawn_blocking(move || manager.step(now)).await {
                report(step);
            }
        }
    }
}

/// What the system's clock says, also before 1970.
fn wall_clock() -> Timestamp {
    let seconds = match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        Err(error) => i64::try_from(error.duration().as_secs()).map_or(i64::MIN, |seconds| -seconds),
    };
    Timestamp::from_unix_seconds(seconds)
}

impl Managed<TcpSocket> {
    /// Connects with the keys that the socket has.
    ///
    /// # Errors
    /// Those of [`TcpSocket::connect`]; the socket is then closed. Where no key may be sent with any more, connecting
    /// comes to nothing: give it a timeout.
    pub async fn connect(self, remote: SocketAddr) -> io::Result<Managed<TcpStream>> {
        let (attachment, socket) = self.into_parts();
        Ok(Managed::from_parts(attachment, socket.connect(remote).await?))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Managed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut **self).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Managed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut **self).poll_write(context, octets)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut **self).poll_write_vectored(context, octets)
    }

    fn is_write_vectored(&self) -> bool {
        (**self).is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut **self).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut **self).poll_shutdown(context)
    }
}

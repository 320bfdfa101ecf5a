//! Stepping by the system clock, with tokio.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use tokio::time::MissedTickBehavior;
use wireseal_keys::Timestamp;

use crate::log::Log;
use crate::manager::attachment::REPORTING;
use crate::manager::background::TICK;
use crate::manager::key_manager::KeyManager;
use crate::manager::report::StepReport;
use crate::{Attachment, Error, ManagerError};

impl KeyManager {
    /// [`attach`](Self::attach) on one of tokio's threads for blocking calls: deleting keys of another peer from an accepted
    /// connection takes some milliseconds. If it is dropped before it is ready, the socket is not attached.
    ///
    /// # Errors
    /// As for [`attach`](Self::attach).
    pub async fn attach_async<S: AsFd + ?Sized>(
        &self,
        socket: &S,
        now: Timestamp,
    ) -> Result<Attachment, ManagerError> {
        let (socket, manager) = (socket.as_fd().try_clone_to_owned().map_err(Error::Io)?, self.clone());
        let attached = tokio::task::spawn_blocking(move || manager.attach(&socket, now)).await;
        attached.map_err(|error| Error::Io(io::Error::other(error)))?
    }

    /// Takes [steps that are due](Self::step_due) by the system clock, which it reads every second. Ends when no other handle or
    /// attachment of the manager is left.
    ///
    /// The steps run on tokio's threads for blocking calls. Each is logged (feature `tracing`) and passes its report to `report`: shut
    /// down there the connections that have [expired](crate::SocketReport::expired), or have each wait for
    /// [`Attachment::expired`]. It takes the place of the thread that
    /// [`TcpAoListener`](crate::TcpAoListener) and [`TcpAoStream`](crate::TcpAoStream) start if nothing takes steps; when the task ends
    /// early, the next connection starts it again.
    ///
    /// ```no_run
    /// use std::net::SocketAddr;
    ///
    /// use tokio::net::TcpSocket;
    /// use wireseal_linux::KeyManager;
    /// use wireseal_keys::{KeyChain, Timestamp};
    ///
    /// async fn call(chain: KeyChain, now: Timestamp) -> Result<(), Box<dyn std::error::Error>> {
    ///     let manager = KeyManager::new(chain, "192.0.2.7/32".parse()?, None)?;
    ///     tokio::spawn(manager.clone().run_reporting(|report| println!("{report:?}")));
    ///     let remote: SocketAddr = "192.0.2.7:179".parse()?;
    ///     let socket = TcpSocket::new_v4()?;
    ///     let attachment = manager.attach_connecting(&socket, remote.ip(), now)?;
    ///     let stream = socket.connect(remote).await?;
    ///     // Speak BGP on the stream.
    ///     drop(attachment);
    ///     drop(stream);
    ///     Ok(())
    /// }
    /// ```
    pub fn run_reporting(self, mut report: impl FnMut(StepReport)) -> impl Future<Output = ()> {
        // At once, so that a listener bound later starts no thread for it; one that was started before ends.
        let clock = self.shared.claim_clock(REPORTING);
        async move {
            let (_clock, mut log) = (clock, Log::default());
            let mut ticks = tokio::time::interval(TICK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                if Arc::strong_count(&self.shared) == 1 {
                    return;
                }
                let now = Timestamp::now();
                let manager = self.clone();
                if let Ok(Some(step)) = tokio::task::spawn_blocking(move || manager.step_due(now)).await {
                    log.step(&step);
                    report(step);
                }
            }
        }
    }
}

impl Attachment {
    /// Waits until a step finds that the connection is to be shut down ([`SocketState::expired`](crate::SocketState::expired)), or
    /// until the attachment is dropped.
    ///
    /// ```no_run
    /// # async fn talk(stream: wireseal_linux::TcpAoStream<tokio::net::TcpStream>) -> std::io::Result<()> {
    /// let expired = stream.attachment().expired();
    /// tokio::select! {
    ///     () = expired => {} // Say goodbye, signed.
    ///     readable = stream.readable() => readable?,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn expired(&self) -> impl Future<Output = ()> + Send + Sync + use<> {
        let (shared, number) = (Arc::clone(&self.shared), self.number);
        async move {
            loop {
                // Before the state is looked at, so that no change comes in between.
                let changed = shared.expired.notified();
                if shared.state().has_expired(number) {
                    return;
                }
                changed.await;
            }
        }
    }
}

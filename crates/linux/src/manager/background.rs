//! Steps by the system clock, in a thread or, with tokio, in a task.

use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use wireseal_keys::Timestamp;

use crate::log::Log;
use crate::manager::KeyManager;
use crate::manager::sockets::{Shared, lock};

/// How often the clock is read. It may be set at any time, and a longer sleep would miss that.
const TICK: Duration = Duration::from_secs(1);

impl KeyManager {
    /// Starts a thread that takes [steps that are due](Self::step_due) every second and when peers change, unless this manager already has
    /// one or a task of [`run_reporting`](Self::run_reporting). It ends when no handle or attachment of the manager is left.
    pub(crate) fn run_in_background(&self) -> io::Result<()> {
        if let Some(token) = lock(&self.shared.clock).claim_for_thread() {
            let shared = Arc::downgrade(&self.shared);
            thread::Builder::new().name("tcp-ao keys".to_owned()).spawn(move || run(shared, token))?;
        }
        Ok(())
    }
}

/// Takes steps until the manager is gone or a task reports them.
fn run(shared: Weak<Shared>, _token: Arc<()>) {
    let mut log = Log::default();
    if let Some(shared) = shared.upgrade() {
        lock(&shared.clock).handle = Some(thread::current());
    }
    while let Some(shared) = shared.upgrade().filter(|shared| !lock(&shared.clock).has_task()) {
        if let Some(report) = (KeyManager { shared }).step_due(Timestamp::now()) {
            log.step(&report);
        }
        // A change of the peers wakes the thread.
        thread::park_timeout(TICK);
    }
}

#[cfg(feature = "tokio")]
mod task {
    use tokio::time::MissedTickBehavior;

    use super::*;
    use crate::manager::report::StepReport;
    use crate::manager::sockets::Attachment;

    impl KeyManager {
        /// Takes [steps that are due](Self::step_due) by the system clock, which it reads every second. Ends when no other handle or
        /// attachment of the manager is left.
        ///
        /// The steps run on tokio's threads for blocking calls. Each is logged (feature `tracing`), and its report is passed to `report`: shut
        /// down there the connections that have [expired](crate::SocketState::expired), or let each wait for [`Attachment::expired`]. The
        /// task replaces the thread of [`TcpAoListener`](crate::TcpAoListener) and [`TcpAoStream`](crate::TcpAoStream); if it ends early, the
        /// next connection starts the thread again.
        ///
        /// ```no_run
        /// use std::net::SocketAddr;
        ///
        /// use tokio::net::TcpSocket;
        /// use wireseal_linux::KeyManager;
        /// use wireseal_keys::{KeyChain, Timestamp};
        ///
        /// async fn call(chain: KeyChain, now: Timestamp) -> Result<(), Box<dyn std::error::Error>> {
        ///     let manager = KeyManager::default();
        ///     manager.set_peer("192.0.2.7".parse()?, chain)?;
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
            // Claimed at once, so that a listener bound later starts no thread; a running thread ends.
            let token = lock(&self.shared.clock).claim_for_task();
            async move {
                let (_token, mut log) = (token, Log::default());
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
                    // Registered before the state is read, so that no change is missed.
                    let changed = shared.expired.notified();
                    if shared.state().has_expired(number) {
                        return;
                    }
                    changed.await;
                }
            }
        }
    }
}

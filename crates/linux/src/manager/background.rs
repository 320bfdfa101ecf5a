//! Steps by the system clock: in a thread, in an event loop of the caller's, or, with tokio, in a task.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io};

use wireseal_keys::Timestamp;

use crate::log::Log;
use crate::manager::KeyManager;
use crate::manager::report::StepReport;
use crate::manager::sockets::{Clock, Shared, Timer, lock};

/// How often the clock is read. It may be set at any time, and a longer sleep would miss that.
const TICK: Duration = Duration::from_secs(1);

impl KeyManager {
    /// Starts a thread that takes [steps that are due](Self::step_due) by the system clock: every second, and at once when peers change or
    /// a socket needs it. It passes each report to `report`, after logging it (feature `tracing`). Then no call that waits in the kernel is on
    /// your own threads: this is for daemons without tokio. Do not wait in `report` for [progress](Self::wait_until), which only this thread
    /// makes.
    ///
    /// The thread ends when no handle or attachment of the manager is left, so do not move one into `report`. It takes steps in the network
    /// namespace of the caller, and does not survive a fork. It replaces the thread of [`TcpAoListener`](crate::TcpAoListener) and
    /// [`TcpAoStream`](crate::TcpAoStream).
    ///
    /// # Errors
    /// [`AlreadyExists`](io::ErrorKind::AlreadyExists) if another thread, task or [timer](Self::step_timer) of this manager reports its
    /// steps already, and as for
    /// [`std::thread::Builder::spawn`]; no thread was started then.
    pub fn spawn(&self, report: impl FnMut(StepReport) + Send + 'static) -> io::Result<JoinHandle<()>> {
        let token = self.claim_alone()?;
        self.start(token, |_| true, report)
    }

    /// # Errors
    /// If steps are reported already.
    fn claim_alone(&self) -> io::Result<Arc<()>> {
        let mut clock = lock(&self.shared.clock);
        if clock.is_reporting() {
            let message = "another thread, task or timer of this key manager reports its steps";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        Ok(clock.claim_reporting())
    }

    /// Starts a thread that takes the steps that are due, unless a thread or a task of this manager does already. It ends when another
    /// thread or task begins to report steps, or when no handle or attachment of the manager is left.
    pub(crate) fn run_in_background(&self) -> io::Result<()> {
        let token = lock(&self.shared.clock).claim_silently();
        let is_alone = |clock: &Clock| !clock.is_reporting();
        token.map_or(Ok(()), |token| self.start(token, is_alone, drop).map(drop))
    }

    /// Starts a thread that takes steps until the manager is gone or `goes_on` returns false.
    fn start(
        &self,
        token: Arc<()>,
        goes_on: impl Fn(&Clock) -> bool + Send + 'static,
        mut report: impl FnMut(StepReport) + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let manager = Arc::downgrade(&self.shared);
        let steps = move || {
            let (_token, mut log) = (token, Log::default());
            // Changes of the peers wake the thread that goes on.
            let is_taken_up = |shared: &Arc<Shared>| {
                let mut clock = lock(&shared.clock);
                let goes_on = goes_on(&clock);
                if goes_on {
                    clock.handle = Some(thread::current());
                }
                goes_on
            };
            while let Some(shared) = manager.upgrade().filter(is_taken_up) {
                // This drops the handle before the report, and before the thread waits.
                let step = Self { shared }.step_due(Timestamp::now());
                if let Some(step) = step {
                    log.step(&step);
                    report(step);
                }
                thread::park_timeout(TICK);
            }
        };
        thread::Builder::new().name("tcp-ao keys".to_owned()).spawn(steps)
    }
}

impl KeyManager {
    /// Lets an event loop of yours take the steps: makes a descriptor for it that is readable when one is due, because the time has come or
    /// peers have changed. Then call [`StepTimer::step`].
    ///
    /// The timer takes the place of [`spawn`](Self::spawn), and of the thread of [`TcpAoListener`](crate::TcpAoListener) and
    /// [`TcpAoStream`](crate::TcpAoStream), until it is dropped. It does not survive a fork.
    ///
    /// # Errors
    /// [`AlreadyExists`](io::ErrorKind::AlreadyExists) if a thread, a task or another timer of this manager reports its steps already, and
    /// as for `timerfd_create`.
    pub fn step_timer(&self) -> io::Result<StepTimer> {
        let timer = Arc::new(Timer::new()?);
        let token = self.claim_alone()?;
        *lock(&self.shared.timer) = Arc::downgrade(&timer);
        self.shared.set_timer();
        Ok(StepTimer { manager: self.clone(), timer, log: Mutex::default(), _token: token })
    }
}

/// Takes a [`KeyManager`]'s steps in an event loop ([`KeyManager::step_timer`]): watch its descriptor, and call [`step`](Self::step) when it is
/// readable. Do not read from it.
///
/// ```no_run
/// use std::time::Duration;
///
/// use mio::unix::SourceFd;
/// use mio::{Events, Interest, Poll, Token};
/// use std::os::fd::{AsFd, AsRawFd};
/// use wireseal_linux::KeyManager;
///
/// fn run(manager: &KeyManager) -> std::io::Result<()> {
///     let timer = manager.step_timer()?;
///     let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(64));
///     poll.registry().register(&mut SourceFd(&timer.as_fd().as_raw_fd()), Token(0), Interest::READABLE)?;
///     loop {
///         poll.poll(&mut events, None)?;
///         if events.iter().any(|event| event.token() == Token(0)) {
///             println!("{:?}", timer.step());
///         }
///     }
/// }
/// ```
pub struct StepTimer {
    manager: KeyManager,
    timer: Arc<Timer>,
    log: Mutex<Log>,
    _token: Arc<()>,
}

impl StepTimer {
    /// Takes a [step that is due](KeyManager::step_due) by the system clock, if one is, and logs it (feature `tracing`). Afterwards the
    /// descriptor is readable only when the next one is due.
    ///
    /// It may be called at any time, by several threads. A step that deletes a key from a connection waits in the kernel for
    /// [some milliseconds](KeyManager#what-waits-in-the-kernel): if your event loop must not, call this in a thread that watches the
    /// descriptor alone. The descriptor does not show that a listener has refused segments with a wrong MAC; they are reported with the next
    /// step, at least every 30 seconds.
    #[must_use = "the report says which connections to shut down"]
    pub fn step(&self) -> Option<StepReport> {
        self.timer.clear();
        let report = self.manager.step_due(Timestamp::now());
        if let Some(report) = &report {
            lock(&self.log).step(report);
        }
        self.manager.shared.set_timer();
        report
    }

    /// When a step is due, for an event loop with timers instead of descriptors; a moment that has passed means at once. It changes with each
    /// step, change of peers and attached socket.
    #[must_use]
    pub fn due(&self) -> Timestamp {
        self.manager.shared.state().due()
    }
}

impl AsFd for StepTimer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.0.as_fd()
    }
}

impl fmt::Debug for StepTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepTimer").field("due", &self.due()).finish_non_exhaustive()
    }
}

#[cfg(feature = "tokio")]
mod task {
    use tokio::time::timeout;

    use super::*;
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
            let token = lock(&self.shared.clock).claim_reporting();
            async move {
                let (_token, mut log) = (token, Log::default());
                while Arc::strong_count(&self.shared) > 1 {
                    let now = Timestamp::now();
                    let manager = self.clone();
                    if let Ok(Some(step)) = tokio::task::spawn_blocking(move || manager.step_due(now)).await {
                        log.step(&step);
                        report(step);
                    }
                    // A change of the peers wakes the task.
                    let _ = timeout(TICK, self.shared.due.notified()).await;
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

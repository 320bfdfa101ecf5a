//! Stepping by the system clock.

use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use wireseal_keys::Timestamp;

use crate::log::Log;
use crate::manager::attachment::{Clock, Shared, THREAD, lock};
use crate::manager::key_manager::KeyManager;

/// How often the clock is read. It may be set at any time, so sleeping longer would miss a change.
pub(super) const TICK: Duration = Duration::from_secs(1);

impl KeyManager {
    /// Starts a thread that takes [steps that are due](Self::step_due) every second and when peers change, unless this manager has one or
    /// [`run_reporting`](Self::run_reporting) was called. Ends when no handle or attachment of the manager is left.
    ///
    /// Binding a [`TcpAoListener`](crate::TcpAoListener) and connecting a [`TcpAoStream`](crate::TcpAoStream) do this.
    pub(crate) fn run_in_background(&self) -> io::Result<()> {
        if let Some(clock) = self.shared.claim_clock(THREAD) {
            let shared = Arc::downgrade(&self.shared);
            thread::Builder::new().name("tcp-ao keys".to_owned()).spawn(move || run(shared, clock))?;
        }
        Ok(())
    }
}

/// Takes steps until the manager is gone or a task reports them.
fn run(shared: Weak<Shared>, _clock: Clock) {
    let mut log = Log::default();
    if let Some(shared) = shared.upgrade() {
        *lock(&shared.thread) = Some(thread::current());
    }
    while let Some(shared) = shared.upgrade().filter(|shared| shared.is_clock(THREAD)) {
        if let Some(report) = (KeyManager { shared }).step_due(Timestamp::now()) {
            log.step(&report);
        }
        // A change of the peers wakes it.
        thread::park_timeout(TICK);
    }
}

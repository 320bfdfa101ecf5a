//! Stepping by the system clock.

use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, SystemTime};

use wireseal_tcp_ao::key_chain::Timestamp;

use crate::log;
use crate::manager::attachment::Shared;
use crate::manager::key_manager::KeyManager;

/// How often the clock is read. It may be set at any time, so sleeping longer would miss a change.
pub(super) const TICK: Duration = Duration::from_secs(1);

impl KeyManager {
    /// Starts a thread that takes [steps that are due](Self::step_due) every second, unless this manager has one or
    /// [`run_reporting`](Self::run_reporting) was called. Ends when no handle or attachment of the manager is left.
    ///
    /// Binding a [`TcpAoListener`](crate::TcpAoListener) and connecting a [`TcpAoStream`](crate::TcpAoStream) do this.
    pub(crate) fn run_in_background(&self) -> io::Result<()> {
        if self.shared.claim_clock() {
            let shared = Arc::downgrade(&self.shared);
            let run = || run(shared);
            thread::Builder::new().name("tcp-ao keys".to_owned()).spawn(run).inspect_err(|_| {
                self.shared.release_clock();
            })?;
        }
        Ok(())
    }
}

fn run(shared: Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        if let Some(report) = (KeyManager { shared }).step_due(system_clock()) {
            log::step(&report);
        }
        thread::sleep(TICK);
    }
}

/// The system clock, which may be set before 1970.
pub(crate) fn system_clock() -> Timestamp {
    let seconds = match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        Err(error) => i64::try_from(error.duration().as_secs()).map_or(i64::MIN, |seconds| -seconds),
    };
    Timestamp::from_unix_seconds(seconds)
}

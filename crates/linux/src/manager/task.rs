//! Stepping by the system clock, with tokio.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::MissedTickBehavior;
use wireseal_tcp_ao::key_chain::Timestamp;

use crate::manager::key_manager::KeyManager;
use crate::manager::report::StepReport;

/// How often the clock is read. It may be set at any time, so sleeping longer would miss a change.
const TICK: Duration = Duration::from_secs(1);

impl KeyManager {
    /// Takes [steps that are due](Self::step_due) by the system clock, which it reads every second. Ends when no other handle or
    /// attachment of the manager is left.
    ///
    /// The steps run on tokio's threads for blocking calls. Each passes its report to `report`: shut down there the connections
    /// that have [expired](crate::SocketReport::expired).
    ///
    /// ```no_run
    /// use std::net::SocketAddr;
    ///
    /// use tokio::net::TcpSocket;
    /// use wireseal_linux::KeyManager;
    /// use wireseal_tcp_ao::key_chain::{KeyChain, Timestamp};
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
    pub async fn run_reporting(self, mut report: impl FnMut(StepReport)) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if Arc::strong_count(&self.shared) == 1 {
                return;
            }
            let now = system_clock();
            let manager = self.clone();
            if let Ok(Some(step)) = tokio::task::spawn_blocking(move || manager.step_due(now)).await {
                report(step);
            }
        }
    }
}

/// The system clock, which may be set before 1970.
fn system_clock() -> Timestamp {
    let seconds = match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        Err(error) => i64::try_from(error.duration().as_secs()).map_or(i64::MIN, |seconds| -seconds),
    };
    Timestamp::from_unix_seconds(seconds)
}

//! Stepping by the system clock, with tokio.

use std::sync::Arc;

use tokio::time::MissedTickBehavior;
use wireseal_tcp_ao::key_chain::Timestamp;

use crate::manager::attachment::REPORTING;
use crate::manager::background::TICK;
use crate::manager::key_manager::KeyManager;
use crate::manager::report::StepReport;

impl KeyManager {
    /// Takes [steps that are due](Self::step_due) by the system clock, which it reads every second. Ends when no other handle or
    /// attachment of the manager is left.
    ///
    /// The steps run on tokio's threads for blocking calls. Each passes its report to `report`: shut down there the connections
    /// that have [expired](crate::SocketReport::expired). It takes the place of the thread that
    /// [`TcpAoListener`](crate::TcpAoListener) and [`TcpAoStream`](crate::TcpAoStream) start if nothing takes steps; when the task ends
    /// early, the next connection starts it again.
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
    pub fn run_reporting(self, mut report: impl FnMut(StepReport)) -> impl Future<Output = ()> {
        // At once, so that a listener bound later starts no thread for it; one that was started before ends.
        let clock = self.shared.claim_clock(REPORTING);
        async move {
            let _clock = clock;
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
                    report(step);
                }
            }
        }
    }
}

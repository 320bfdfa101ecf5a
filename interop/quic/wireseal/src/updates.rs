//! Key updates that this end starts during the transfer.

use std::sync::Arc;
use std::time::Duration;

use quinn::{Connection, Side};
use wireseal_quinn::CountedKeys;

/// Octets sent at a time.
pub(crate) const PIECE: usize = 16_384;
const RETRY_AFTER: Duration = Duration::from_millis(5);

/// Starts a key update after each of some numbers of octets sent.
pub(crate) struct Updates {
    connection: Connection,
    /// These include the connection's 1-RTT keys, so each update adds to them.
    keys: Arc<CountedKeys>,
    due_at: Vec<usize>,
    started: usize,
}

impl Updates {
    /// Two updates, after a quarter and after three quarters of `total` octets, or none.
    pub(crate) fn new(connection: &Connection, keys: Arc<CountedKeys>, wanted: bool, total: usize) -> Self {
        let due_at = if wanted { vec![total / 4, total / 4 * 3] } else { Vec::new() };
        Self { connection: connection.clone(), keys, due_at, started: 0 }
    }

    /// Starts the update that is due after `sent` octets, if any.
    pub(crate) async fn sent(&mut self, sent: usize) {
        if self.due_at.get(self.started).is_none_or(|&due| sent < due) {
            return;
        }
        while !(self.handshake_confirmed() && self.start()) {
            tokio::time::sleep(RETRY_AFTER).await;
        }
        self.started += 1;
    }

    /// How many updates quinn has started on demand.
    pub(crate) fn started(&self) -> usize {
        self.started
    }

    /// No update may start before that (RFC 9001 §6.1): a client waits for HANDSHAKE_DONE, a server has sent it.
    fn handshake_confirmed(&self) -> bool {
        self.connection.side() == Side::Server || self.connection.stats().frame_rx.handshake_done > 0
    }

    /// Whether quinn has started an update, which it refuses for three probe timeouts after the last.
    fn start(&self) -> bool {
        let before = self.keys.packet_keys().len();
        self.connection.force_key_update();
        self.keys.packet_keys().len() > before
    }
}

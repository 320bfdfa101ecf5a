//! Events for `tracing`.

use crate::shim::{Event, EventKind, Observer};

/// Logs each event through `tracing`: its `Display` as the message, with the fields `peer` and `pair`.
///
/// | level | events |
/// |---|---|
/// | warn | a packet passed unprotected, the peer is still on the old key |
/// | info | a connection opened or ended, key switched |
/// | debug | a packet refused, a handshake ended: an attacker can cause any number of these, and must not fill a disk |
///
/// [`Shim::refused`](crate::shim::Shim::refused) and [`Shim::counters`](crate::shim::Shim::counters) count refused packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TracingObserver;

impl Observer for TracingObserver {
    fn observe(&mut self, event: &Event) {
        let Event { peer, pair, kind } = event;
        match kind {
            EventKind::Passed { .. } | EventKind::PeerOnOldKey { .. } => {
                tracing::warn!(peer, ?pair, "{event}");
            }
            EventKind::Opened | EventKind::Ended(_) | EventKind::KeySwitched { .. } => {
                tracing::info!(peer, ?pair, "{event}");
            }
            EventKind::Refused { .. } | EventKind::HandshakeEnded(_) => {
                tracing::debug!(peer, ?pair, "{event}");
            }
        }
    }
}

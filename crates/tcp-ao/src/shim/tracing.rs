//! Events for `tracing`.

use crate::shim::{End, Event, EventKind, Observer};

/// Gives each event to `tracing`, as its `Display` writes it, with the fields `peer` and `pair`.
///
/// | level | events |
/// |---|---|
/// | warn | a packet passed unprotected, the peer is still on the old key, a connection evicted |
/// | info | opened, ended, key switched |
/// | debug | a packet refused: an attacker chooses how many, and must not fill a disk |
///
/// [`Shim::refused`](crate::shim::Shim::refused) and [`Shim::counters`](crate::shim::Shim::counters) count what is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TracingObserver;

impl Observer for TracingObserver {
    fn observe(&mut self, event: &Event) {
        let Event { peer, pair, kind } = event;
        match kind {
            EventKind::Passed { .. } | EventKind::PeerOnOldKey { .. } | EventKind::Ended(End::Evicted) => {
                tracing::warn!(peer, ?pair, "{event}");
            }
            EventKind::Opened | EventKind::Ended(_) | EventKind::KeySwitched { .. } => {
                tracing::info!(peer, ?pair, "{event}");
            }
            EventKind::Refused { .. } => tracing::debug!(peer, ?pair, "{event}"),
        }
    }
}

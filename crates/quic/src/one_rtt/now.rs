//! The clock of the caller.

use core::time::Duration;

/// For how many probe timeouts old keys are kept, and the next update has to wait (RFC 9001 §6.5).
const PROBE_TIMEOUTS: u32 = 3;

/// The present time and probe timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The time since an instant that stays the same for the connection.
    pub time: Duration,
    /// The present probe timeout (RFC 9002 §6.2.1).
    pub probe_timeout: Duration,
}

impl Now {
    pub(super) fn after_probe_timeouts(self) -> Duration {
        self.time.saturating_add(self.probe_timeout.saturating_mul(PROBE_TIMEOUTS))
    }
}

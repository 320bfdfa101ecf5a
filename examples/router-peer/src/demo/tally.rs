//! What a router counts of what it receives, and by how much that has moved.

use std::fmt;

use wireseal_tcp_ao::Counters;

use crate::protection::Protected;
use crate::stack::Stack;

/// Wireseal's counters of one router, or how they have moved.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Tally {
    /// By verdict.
    pub(super) counters: Counters,
    /// Packets from the wire that TCP never saw.
    pub(super) dropped: u64,
    /// Packets of TCP's that never reached the wire.
    pub(super) withheld: u64,
}

impl Tally {
    pub(super) fn of(stack: &Stack<Protected>) -> Self {
        stack.with_device(|device| {
            let refused = device.refused();
            Self { counters: *device.shim().counters(), dropped: refused.inbound, withheld: refused.outbound }
        })
    }

    /// So many segments verified and nothing else.
    pub(super) fn good(good: u64) -> Self {
        Self { counters: Counters { good, ..Counters::default() }, ..Self::default() }
    }

    /// So many segments dropped as bad and nothing else.
    pub(super) fn bad(bad: u64) -> Self {
        Self { counters: Counters { bad, ..Counters::default() }, dropped: bad, withheld: 0 }
    }

    /// One segment dropped for its key id and nothing else.
    pub(super) fn key_not_found() -> Self {
        let counters = Counters { key_not_found: 1, ..Counters::default() };
        Self { counters, dropped: 1, withheld: 0 }
    }

    /// One segment dropped as unsigned and nothing else.
    pub(super) fn required() -> Self {
        Self { counters: Counters { required: 1, ..Counters::default() }, dropped: 1, withheld: 0 }
    }

    /// How the counters have moved since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let (now, then) = (&self.counters, &earlier.counters);
        Self {
            counters: Counters {
                good: now.good - then.good,
                bad: now.bad - then.bad,
                key_not_found: now.key_not_found - then.key_not_found,
                required: now.required - then.required,
                dropped_icmp: now.dropped_icmp - then.dropped_icmp,
            },
            dropped: self.dropped - earlier.dropped,
            withheld: self.withheld - earlier.withheld,
        }
    }
}

/// As `dropped 1, bad +1`: counters that have not moved are left out.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dropped {}", self.dropped)?;
        let counters = [
            ("good", self.counters.good),
            ("bad", self.counters.bad),
            ("key not found", self.counters.key_not_found),
            ("required", self.counters.required),
            ("dropped ICMP", self.counters.dropped_icmp),
            ("not sent", self.withheld),
        ];
        for (name, count) in counters.iter().filter(|(_, count)| *count > 0) {
            write!(f, ", {name} +{count}")?;
        }
        Ok(())
    }
}

//! What a router counts of what it receives, and by how much that has grown.

use std::array::from_fn;
use std::fmt;

use speaker::stack::Stack;

const NAMES: [&str; 7] = ["dropped", "good", "bad", "key not found", "required", "dropped ICMP", "not sent"];

/// A router's counters, in the order of their names: packets that TCP never saw, Wireseal's verdicts, and packets of TCP's
/// that never reached the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Tally([u64; 7]);

impl Tally {
    pub(super) const KEY_NOT_FOUND: Self = Self([1, 0, 0, 1, 0, 0, 0]);
    pub(super) const REQUIRED: Self = Self([1, 0, 0, 0, 1, 0, 0]);

    pub(super) const fn good(good: u64) -> Self {
        Self([0, good, 0, 0, 0, 0, 0])
    }

    pub(super) const fn bad(bad: u64) -> Self {
        Self([bad, 0, bad, 0, 0, 0, 0])
    }

    pub(super) fn of(stack: &Stack) -> Self {
        let (refused, by) = stack.with_device(|device| (device.refused(), *device.shim().counters()));
        let [dropped, withheld] = [refused.inbound, refused.outbound];
        Self([dropped, by.good, by.bad, by.key_not_found, by.required, by.dropped_icmp, withheld])
    }

    pub(super) const fn dropped(&self) -> u64 {
        self.0[0]
    }

    pub(super) const fn verified(&self) -> u64 {
        self.0[1]
    }

    /// How the counters have grown since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self(from_fn(|place| self.0[place] - earlier.0[place]))
    }
}

/// As `dropped 1, bad +1`: counters that have not grown are left out.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dropped {}", self.dropped())?;
        let grown = NAMES.iter().zip(self.0).skip(1).filter(|(_, count)| *count > 0);
        grown.map(|(name, count)| write!(f, ", {name} +{count}")).collect()
    }
}

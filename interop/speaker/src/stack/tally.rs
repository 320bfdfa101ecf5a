//! A stack's counters and how they have grown.

use std::array::from_fn;
use std::fmt;

use wireseal_tcp_ao::shim::Direction;

use super::shared::Device;

const NAMES: [&str; 7] = ["dropped", "good", "bad", "key not found", "required", "dropped ICMP", "not sent"];

/// The counters of a stack's device: packets dropped before TCP, Wireseal's verdicts, and packets of TCP that Wireseal did
/// not sign.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tally([u64; 7]);

impl Tally {
    pub(super) fn of(device: &Device) -> Self {
        let (shim, by) = (device.shim(), *device.shim().counters());
        let [dropped, withheld] =
            [Direction::Inbound, Direction::Outbound].map(|direction| shim.refused(direction).total());
        Self([dropped, by.good, by.bad, by.key_not_found, by.required, by.dropped_icmp, withheld])
    }

    /// Packets that were dropped before TCP.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.0[0]
    }

    /// Segments that verified.
    #[must_use]
    pub const fn verified(&self) -> u64 {
        self.0[1]
    }

    /// The growth since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(from_fn(|place| self.0[place] - earlier.0[place]))
    }
}

/// For example `dropped 1, bad +1`; counters that have not grown are left out.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dropped {}", self.dropped())?;
        let mut grown = NAMES.iter().zip(self.0).skip(1).filter(|(_, count)| *count > 0);
        grown.try_for_each(|(name, count)| write!(f, ", {name} +{count}"))
    }
}

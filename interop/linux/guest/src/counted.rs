//! What an end of a connection has counted.

use std::array::from_fn;
use std::fmt;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// Segments by verdict, at either end: the kernel's counters in `/proc/net/netstat`, or Wireseal's.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    pub good: u64,
    pub bad: u64,
    pub key_not_found: u64,
    pub required: u64,
    pub dropped_icmps: u64,
    pub md5_not_found: u64,
    pub md5_unexpected: u64,
    pub md5_failure: u64,
}

/// For each counter, a function that makes it the only one which is not zero.
macro_rules! constructors {
    ($($counter:ident)*) => {
        $(
            #[must_use]
            pub const fn $counter($counter: u64) -> Self {
                Self { $counter, ..Self::NOTHING }
            }
        )*
    };
}

impl Counted {
    const NAMES: [&'static str; 8] = [
        "good",
        "bad",
        "key not found",
        "required",
        "dropped ICMPs",
        "MD5 not found",
        "MD5 unexpected",
        "MD5 failure",
    ];
    const NOTHING: Self = Self::of([0; 8]);

    const fn of(values: [u64; 8]) -> Self {
        let [good, bad, key_not_found, required, dropped_icmps, md5_not_found, md5_unexpected, md5_failure] =
            values;
        Self { good, bad, key_not_found, required, dropped_icmps, md5_not_found, md5_unexpected, md5_failure }
    }

    const fn values(&self) -> [u64; 8] {
        let Self { good, bad, key_not_found, required, .. } = *self;
        let Self { dropped_icmps, md5_not_found, md5_unexpected, md5_failure, .. } = *self;
        [good, bad, key_not_found, required, dropped_icmps, md5_not_found, md5_unexpected, md5_failure]
    }

    constructors!(good bad key_not_found required dropped_icmps md5_unexpected);

    /// Each counter with its name.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Self::NAMES.into_iter().zip(self.values())
    }

    /// Whether each counter is at least as high as the other's.
    #[must_use]
    pub fn has_reached(&self, other: &Self) -> bool {
        self.values().iter().zip(other.values()).all(|(own, other)| *own >= other)
    }

    /// What was counted since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self::of(from_fn(|place| self.values()[place] - earlier.values()[place]))
    }

    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self::of(from_fn(|place| self.values()[place] + other.values()[place]))
    }
}

impl Counted {
    /// The same, if an end has counted what it should.
    ///
    /// # Errors
    /// It has counted something else.
    pub fn check(self, end: &str, expected: &Self) -> Result<Self> {
        ensure!(self == *expected, "{end} has counted {self} instead of {expected}");
        Ok(self)
    }

    /// The same, if an end has counted good segments and nothing else.
    ///
    /// # Errors
    /// It has counted something else.
    pub fn check_good(self, end: &str) -> Result<Self> {
        ensure!(self.good > 0 && self == Self::good(self.good), "{end} has counted {self}");
        Ok(self)
    }
}

impl From<wireseal_tcp_ao::Counters> for Counted {
    fn from(counters: wireseal_tcp_ao::Counters) -> Self {
        let wireseal_tcp_ao::Counters { good, bad, key_not_found, required, dropped_icmp } = counters;
        Self { good, bad, key_not_found, required, dropped_icmps: dropped_icmp, ..Self::NOTHING }
    }
}

impl fmt::Display for Counted {
    /// The counters that are not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = self.named().filter(|(_, segments)| *segments > 0);
        let counted: Vec<String> = counted.map(|(name, segments)| format!("{segments} {name}")).collect();
        f.write_str(if counted.is_empty() { "nothing" } else { "" })?;
        f.write_str(&counted.join(", "))
    }
}

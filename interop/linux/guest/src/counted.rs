//! What an end of a connection has counted.

use std::fmt;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// Declares [`Counted`]: each counter with its name, and a function that makes it the only one which is not zero.
macro_rules! counters {
    ($($counter:ident $name:literal)*) => {
        /// Segments by verdict, at either end: the kernel's counters in `/proc/net/netstat`, or Wireseal's.
        #[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Counted {
            $(pub $counter: u64,)*
        }

        impl Counted {
            const NOTHING: Self = Self { $($counter: 0,)* };

            $(
                #[must_use]
                pub const fn $counter($counter: u64) -> Self {
                    Self { $counter, ..Self::NOTHING }
                }
            )*

            /// Each counter with its name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$(($name, self.$counter),)*].into_iter()
            }

            fn combine(&self, other: &Self, combined: impl Fn(u64, u64) -> u64) -> Self {
                Self { $($counter: combined(self.$counter, other.$counter),)* }
            }
        }
    };
}

counters! {
    good "good"
    bad "bad"
    key_not_found "key not found"
    required "required"
    dropped_icmps "dropped ICMPs"
    md5_not_found "MD5 not found"
    md5_unexpected "MD5 unexpected"
    md5_failure "MD5 failure"
}

impl Counted {
    /// Whether each counter is at least as high as the other's.
    #[must_use]
    pub fn has_reached(&self, other: &Self) -> bool {
        self.named().zip(other.named()).all(|((_, own), (_, other))| own >= other)
    }

    /// What was counted since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.combine(earlier, |now, earlier| now - earlier)
    }

    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.combine(other, |own, other| own + other)
    }

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

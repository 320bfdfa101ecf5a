//! Times of packets.

use std::fmt;

use serde::{Serialize, Serializer};
use wireseal_tcp_ao::key_chain::Timestamp;

/// The time of a packet, to the nanosecond.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Time {
    nanoseconds: u64,
}

impl Time {
    /// The time this many nanoseconds after 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn from_unix_nanoseconds(nanoseconds: u64) -> Self {
        Self { nanoseconds }
    }

    /// Nanoseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn unix_nanoseconds(self) -> u64 {
        self.nanoseconds
    }

    /// The same in whole seconds, as key chains count.
    #[must_use]
    pub const fn timestamp(self) -> Timestamp {
        Timestamp::from_unix_seconds((self.nanoseconds / 1_000_000_000) as i64)
    }
}

/// RFC 3339 in UTC with microseconds: `2026-01-01T00:00:00.000000Z`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.timestamp().to_string();
        write!(f, "{}.{:06}Z", seconds.trim_end_matches('Z'), self.nanoseconds % 1_000_000_000 / 1000)
    }
}

/// As [`Display`](fmt::Display) writes it.
impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

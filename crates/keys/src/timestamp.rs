//! Moments in time.

use core::fmt;
use core::str::FromStr;
#[cfg(feature = "std")]
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

/// A moment in UTC, in whole seconds, from year 0 to 9999, the range of RFC 3339.
///
/// With the feature `std`, `Timestamp::now` reads the system's clock, and a `Timestamp` converts from and to `SystemTime`. Otherwise this
/// crate reads no clock: make one from [seconds since 1970](Self::from_unix_seconds).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 0000-01-01T00:00:00Z.
    pub const MIN: Self = Self(-62_167_219_200);
    /// 9999-12-31T23:59:59Z.
    pub const MAX: Self = Self(253_402_300_799);

    /// The moment `seconds` after 1970-01-01T00:00:00Z, clamped to [`Self::MIN`] and [`Self::MAX`].
    #[must_use]
    pub const fn from_unix_seconds(seconds: i64) -> Self {
        if seconds < Self::MIN.0 {
            Self::MIN
        } else if seconds > Self::MAX.0 {
            Self::MAX
        } else {
            Self(seconds)
        }
    }

    /// Seconds since 1970-01-01T00:00:00Z, negative before it.
    #[must_use]
    pub const fn unix_seconds(self) -> i64 {
        self.0
    }

    /// The moment `seconds` later, at most [`Self::MAX`].
    #[must_use]
    pub const fn later_by(self, seconds: u32) -> Self {
        Self::from_unix_seconds(self.0 + seconds as i64)
    }

    /// The moment `seconds` earlier, at least [`Self::MIN`].
    #[must_use]
    pub const fn earlier_by(self, seconds: u32) -> Self {
        Self::from_unix_seconds(self.0 - seconds as i64)
    }
}

#[cfg(feature = "std")]
impl Timestamp {
    /// The time of the system's clock (feature `std`).
    #[must_use]
    pub fn now() -> Self {
        SystemTime::now().into()
    }
}

/// Rounded down to a whole second (feature `std`).
#[cfg(feature = "std")]
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let seconds = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            Err(error) => {
                let before = error.duration();
                let seconds = before.as_secs() + u64::from(before.subsec_nanos() > 0);
                i64::try_from(seconds).map_or(i64::MIN, |seconds| -seconds)
            }
        };
        Self::from_unix_seconds(seconds)
    }
}

/// A moment that the system cannot express becomes 1970-01-01T00:00:00Z (feature `std`).
#[cfg(feature = "std")]
impl From<Timestamp> for SystemTime {
    fn from(Timestamp(seconds): Timestamp) -> Self {
        let distance = Duration::from_secs(seconds.unsigned_abs());
        let time =
            if seconds < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
        time.unwrap_or(UNIX_EPOCH)
    }
}

/// The text is not an RFC 3339 date and time with offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a date and time with offset (RFC 3339), such as 2026-11-20T10:00:00Z")]
pub struct ParseTimestampError;

/// Reads an RFC 3339 date and time with any offset; a fraction of a second is dropped.
///
/// # Errors
/// [`ParseTimestampError`].
impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        DateTime::parse_from_rfc3339(text)
            .map(|moment| Self::from_unix_seconds(moment.timestamp()))
            .map_err(|_| ParseTimestampError)
    }
}

/// Writes what `Display` writes (feature `serde`).
#[cfg(feature = "serde")]
impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads what `FromStr` reads (feature `serde`).
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = alloc::string::String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Writes RFC 3339 in UTC, such as `2026-11-20T10:00:00Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = DateTime::<Utc>::UNIX_EPOCH + TimeDelta::seconds(self.0);
        f.pad(&moment.to_rfc3339_opts(SecondsFormat::Secs, true))
    }
}

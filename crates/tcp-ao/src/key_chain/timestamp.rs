//! Moments in time.

use core::fmt;
use core::str::FromStr;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

/// A moment in UTC, in whole seconds, between the years 0 and 9999, the range of RFC 3339.
///
/// This crate reads no clock. With an operating system, get `now` from
/// `SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs()`.
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

/// Writes RFC 3339 in UTC, such as `2026-11-20T10:00:00Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = DateTime::<Utc>::UNIX_EPOCH + TimeDelta::seconds(self.0);
        f.pad(&moment.to_rfc3339_opts(SecondsFormat::Secs, true))
    }
}

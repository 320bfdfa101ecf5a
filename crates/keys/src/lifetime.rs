//! When a key is valid.

use crate::error::{Error, Problem};
use crate::timestamp::Timestamp;

/// A time interval that includes its start but not its end; either may be missing (RFC 8177 §3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Lifetime {
    from: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl Lifetime {
    /// RFC 8177's `always`, the default.
    pub const ALWAYS: Self = Self { from: None, until: None };

    /// A lifetime that starts at `from` and is over at `until`; `None` means no start or no end.
    ///
    /// # Errors
    /// [`Problem::LifetimeEmpty`] unless `until` is after `from`.
    pub fn new(from: Option<Timestamp>, until: Option<Timestamp>) -> Result<Self, Error> {
        match (from, until) {
            (Some(from), Some(until)) if from >= until => Err(Problem::LifetimeEmpty { from, until }.into()),
            _ => Ok(Self { from, until }),
        }
    }

    /// A lifetime that starts at `from` and never ends.
    #[must_use]
    pub const fn starting(from: Timestamp) -> Self {
        Self { from: Some(from), until: None }
    }

    /// The first moment of the lifetime; `None` if it has no start.
    #[must_use]
    pub const fn from(&self) -> Option<Timestamp> {
        self.from
    }

    /// The first moment after the lifetime; `None` if it has no end.
    #[must_use]
    pub const fn until(&self) -> Option<Timestamp> {
        self.until
    }

    /// Whether `now` is in the lifetime.
    #[must_use]
    pub fn contains(&self, now: Timestamp) -> bool {
        self.from.is_none_or(|from| from <= now) && !self.is_over(now)
    }

    /// Whether the lifetime is over.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Whether some moment is in both lifetimes.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let starts_in_time =
            |a: &Self, b: &Self| a.from.is_none_or(|from| b.until.is_none_or(|until| from < until));
        starts_in_time(self, other) && starts_in_time(other, self)
    }

    /// The moments that are in both lifetimes; `None` if there are none.
    #[must_use]
    pub fn common(&self, other: &Self) -> Option<Self> {
        let until = match (self.until, other.until) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self::new(self.from.max(other.from), until).ok()
    }

    /// Whether every moment of the other lifetime is in this one.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let from = self.from.is_none_or(|mine| other.from.is_some_and(|theirs| mine <= theirs));
        let until = self.until.is_none_or(|mine| other.until.is_some_and(|theirs| theirs <= mine));
        from && until
    }

    /// The lifetime made longer by `seconds` at either end.
    #[must_use]
    pub fn widened_by(&self, seconds: u32) -> Self {
        Self {
            from: self.from.map(|from| from.earlier_by(seconds)),
            until: self.until.map(|until| until.later_by(seconds)),
        }
    }
}

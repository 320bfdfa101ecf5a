//! What the receiving end remembers between packets.

use crate::window::DuplicateWindow;

/// One packet number space of the receiving end: the largest authentic number, and which of the latest numbers were seen.
#[derive(Debug)]
pub struct ReceiveSpace {
    pub(crate) largest: Option<u64>,
    pub(crate) window: Option<DuplicateWindow>,
}

impl ReceiveSpace {
    /// An empty space, which detects duplicates among the latest [`DuplicateWindow::SPAN`] numbers.
    #[must_use]
    pub const fn new() -> Self {
        Self { largest: None, window: Some(DuplicateWindow::new()) }
    }

    /// An empty space for stacks that detect duplicates themselves, for instance with the ranges they acknowledge.
    #[must_use]
    pub const fn without_window() -> Self {
        Self { largest: None, window: None }
    }

    /// The largest number of an authentic packet so far.
    #[must_use]
    pub const fn largest(&self) -> Option<u64> {
        self.largest
    }

    /// Records an authentic packet. `false`, with nothing recorded, for a duplicate.
    #[inline]
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        let is_new = self.window.as_mut().is_none_or(|window| window.insert(number));
        if is_new {
            self.largest = self.largest.max(Some(number));
        }
        is_new
    }
}

impl Default for ReceiveSpace {
    fn default() -> Self {
        Self::new()
    }
}

/// How many packets of a connection failed authentication, under all its keys together (RFC 9001 §6.6).
#[derive(Debug, Default)]
pub struct AuthenticationFailures {
    count: u64,
}

impl AuthenticationFailures {
    /// No failure so far.
    #[must_use]
    pub const fn new() -> Self {
        Self { count: 0 }
    }

    /// A count that continues from `count`, for a connection that was moved here.
    #[must_use]
    pub const fn from_count(count: u64) -> Self {
        Self { count }
    }

    /// The number of failures; it stops at `u64::MAX`.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Counts one more failure.
    pub(crate) fn add(&mut self) {
        self.count = self.count.saturating_add(1);
    }
}

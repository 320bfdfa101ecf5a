//! A mutex for short critical sections that never await.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A mutex that stays usable after a holder panicked: what it guards here is a queue or a table, whole between statements.
#[derive(Debug, Default)]
pub struct Locked<T>(Mutex<T>);

impl<T> Locked<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits for the lock and takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Why a row has failed.

use std::fmt;

/// A sentence that says what was found and what was expected.
#[derive(Debug)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl Failure {
    /// The same, with what was being done.
    #[must_use]
    pub fn during(self, what: impl fmt::Display) -> Self {
        Self(format!("{what}: {self}"))
    }
}

/// Fails with a sentence unless a condition holds.
///
/// # Errors
/// The sentence.
pub fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(Failure(otherwise())) }
}

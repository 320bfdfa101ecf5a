//! Why a row has failed.

use std::fmt;

/// A sentence that says what was found and what was expected.
#[derive(Debug)]
pub struct Failure(pub String);

pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(format!("{:#}", error.into()))
    }
}

impl Failure {
    /// The same, with what was being done.
    pub fn during(self, what: impl fmt::Display) -> Self {
        Self(format!("{what}: {self}"))
    }
}

pub fn fail<T>(sentence: impl Into<String>) -> Result<T> {
    Err(Failure(sentence.into()))
}

/// Fails with a sentence unless a condition holds.
pub fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { fail(otherwise()) }
}

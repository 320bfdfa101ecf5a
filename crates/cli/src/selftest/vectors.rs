//! Files of test vectors, and the results of running them.

use serde::Deserialize;

use crate::hex;

/// The test vectors of one source, run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// The source, such as `RFC 4493`.
    pub source: &'static str,
    /// What the vectors are about.
    pub subject: String,
    /// How many vectors there are.
    pub vectors: usize,
    /// The vectors that failed, by their names in the source; without octets of keys.
    pub failures: Vec<String>,
}

impl Group {
    pub(super) const fn new(source: &'static str, subject: String) -> Self {
        Self { source, subject, vectors: 0, failures: Vec::new() }
    }

    pub(super) fn count(&mut self, passed: bool, name: impl FnOnce() -> String) {
        self.vectors += 1;
        if !passed {
            self.failures.push(name());
        }
    }

    /// Whether all vectors passed.
    #[must_use]
    pub const fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// Octets that a file spells in hexadecimal.
#[derive(Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Octets(pub(super) Vec<u8>);

impl TryFrom<String> for Octets {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        hex::decode(&text).map(Self).ok_or("not pairs of hexadecimal digits")
    }
}

/// Reads a file of vectors, which is part of the program; tests read them all.
pub(super) fn read<'a, T: Deserialize<'a>>(text: &'a str) -> T {
    serde_json::from_str(text).expect("the program's own vectors are well-formed")
}

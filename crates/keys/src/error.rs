//! Errors of keys and texts, with their places.

use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use wireseal_algorithms::ParseAlgorithmError;
use wireseal_tcp_ao::MktError;

use crate::timestamp::{ParseTimestampError, Timestamp};

/// A place in a text, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// What is wrong. It never contains a secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The text has a syntax error, an unknown, missing or repeated field, or a value that its field does not accept. Values are not shown.
    #[error("{0}")]
    Text(Cow<'static, str>),
    /// The algorithm is unknown or ambiguous.
    #[error("{0}")]
    Algorithm(ParseAlgorithmError),
    /// The secret or the MAC length is impossible, or the algorithm is not built in.
    #[error("{0}")]
    Mkt(MktError),
    /// The secret is shorter than the algorithm requires.
    #[error("{error}; {accepted_by} accepts it")]
    SecretTooShort {
        /// The lengths.
        error: MktError,
        /// What to write into the file to use it anyway.
        accepted_by: &'static str,
    },
    /// A number is too small or too large.
    #[error("must be a whole number from {min} to {max}")]
    OutOfRange {
        /// The smallest possible.
        min: u64,
        /// The largest possible.
        max: u64,
    },
    /// A date and time cannot be read.
    #[error("{0}")]
    Timestamp(ParseTimestampError),
    /// A lifetime does not end after it starts.
    #[error("ends at {until}, which is not after {from}")]
    LifetimeEmpty {
        /// The start.
        from: Timestamp,
        /// The end.
        until: Timestamp,
    },
    /// The accept lifetime does not cover the send lifetime.
    #[error("must cover the send lifetime, because one MKT both signs and verifies (RFC 5925)")]
    AcceptLifetimeTooShort,
    /// The chain has no keys.
    #[error("there are no keys")]
    NoKeys,
    /// Another key of the chain has this key id.
    #[error("another key of the chain has this key id")]
    KeyIdTwice,
    /// The chain has no key with this key id, which it should prefer.
    #[error("no key of the chain has this key id")]
    NoSuchKey,
    /// Another key of the chain has this SendID or RecvID, and their accept lifetimes overlap.
    #[error("key {by} has this id too, and their accept lifetimes overlap")]
    IdInUse {
        /// The other key's key id.
        by: u64,
    },
    /// Another chain of the file has this name.
    #[error("another key chain has this name")]
    ChainTwice,
    /// A format can express none of the keys.
    #[cfg(feature = "formats")]
    #[error("no key can be written as {to}: {}", .losses.join("; "))]
    NothingLeft {
        /// The name of the format.
        to: &'static str,
        /// Why not, one sentence for each key.
        losses: alloc::vec::Vec<String>,
    },
}

/// Why keys, or a text with keys, cannot be used.
///
/// It prints as one line with the file, the place in it, and the key chain, the key and the field under their names in the text, as far as
/// they are known. An error from reading a text does not know the file: put the name in front.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error(pub(crate) Box<Parts>);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Parts {
    pub(crate) file: Option<String>,
    pub(crate) position: Option<Position>,
    pub(crate) chain: Option<String>,
    pub(crate) key_id: Option<u64>,
    pub(crate) field: Option<Cow<'static, str>>,
    pub(crate) problem: Problem,
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self(Box::new(Parts { file: None, position: None, chain: None, key_id: None, field: None, problem }))
    }
}

/// An error about a secret or an id, from making an MKT, so that `?` works where chains are built.
impl From<MktError> for Error {
    fn from(error: MktError) -> Self {
        Problem::Mkt(error).into()
    }
}

impl Error {
    /// An error about a value of the text.
    #[cfg(feature = "serde")]
    pub(crate) fn text(message: impl Into<Cow<'static, str>>) -> Self {
        Problem::Text(message.into()).into()
    }

    /// Whether an algorithm is known, but not one of TCP-AO: its key can be left out, and the others be used.
    #[cfg(feature = "formats")]
    pub(crate) fn is_of_other_algorithm(&self) -> bool {
        matches!(self.0.problem, Problem::Algorithm(reason) if reason != ParseAlgorithmError::Unknown)
    }

    pub(crate) fn field(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.0.field = Some(field.into());
        self
    }

    /// Puts the name of a table before that of its field.
    #[cfg(feature = "serde")]
    pub(crate) fn within(self, table: &'static str) -> Self {
        let field = self.0.field.as_ref();
        let field = field.map_or(Cow::Borrowed(table), |field| alloc::format!("{table}.{field}").into());
        self.field(field)
    }

    pub(crate) fn in_key(mut self, key_id: u64) -> Self {
        self.0.key_id = Some(key_id);
        self
    }

    pub(crate) fn in_chain(mut self, name: &str) -> Self {
        self.0.chain = Some(name.to_owned());
        self
    }

    #[cfg(feature = "formats")]
    pub(crate) fn at(mut self, position: impl Into<Option<Position>>) -> Self {
        self.0.position = position.into();
        self
    }

    #[cfg(feature = "formats")]
    pub(crate) fn in_file(mut self, file: &std::path::Path) -> Self {
        self.0.file = Some(alloc::format!("{}", file.display()));
        self
    }

    /// A fault of the chain, or of the key, at this place in a list.
    pub(crate) fn of(self, chain: Option<usize>, key: Option<usize>) -> Fault {
        Fault { chain, key, error: self }
    }

    /// The place in the text: that of the value in question or, if something is missing, of the table that lacks it. `None` if there is no
    /// text.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.0.position
    }

    /// What is wrong.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.0.problem
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { file, position, chain, key_id, field, problem } = &*self.0;
        if let Some(file) = file {
            write!(f, "{file}: ")?;
        }
        let mut separator = "";
        let mut part = |text: fmt::Arguments<'_>| -> fmt::Result {
            write!(f, "{separator}{text}")?;
            separator = ", ";
            Ok(())
        };
        if let Some(Position { line, column }) = position {
            part(format_args!("line {line}, column {column}"))?;
        }
        if let Some(name) = chain {
            part(format_args!("key chain {name:?}"))?;
        }
        if let Some(key_id) = key_id {
            part(format_args!("key {key_id}"))?;
        }
        if let Some(field) = field {
            part(format_args!("{field}"))?;
        }
        write!(f, "{}{problem}", if separator.is_empty() { "" } else { ": " })
    }
}

impl core::error::Error for Error {}

/// An error before its place in a text has been looked up.
#[derive(Debug)]
#[cfg_attr(not(any(feature = "toml", feature = "json")), expect(dead_code, reason = "there is no text"))]
pub(crate) struct Fault {
    /// Which of the chains.
    pub(crate) chain: Option<usize>,
    /// Which of the chain's keys.
    pub(crate) key: Option<usize>,
    pub(crate) error: Error,
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        fault.error
    }
}

//! What is wrong with a key chain, and where.

use alloc::borrow::{Cow, ToOwned};
use alloc::string::String;
use core::fmt;

use wireseal_algorithms::ParseAlgorithmError;

use crate::MktError;
use crate::key_chain::{ParseTimestampError, Timestamp};

/// A place in a text, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// What is wrong. It never contains a secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Problem {
    /// The text has a syntax error, an unknown, missing or repeated field, or a value that its field does not take. Values are
    /// not shown.
    #[error("{0}")]
    Text(Cow<'static, str>),
    /// The algorithm is unknown or ambiguous.
    #[error("{0}")]
    Algorithm(ParseAlgorithmError),
    /// The secret or the MAC length is impossible.
    #[error(fmt = mkt)]
    Mkt(MktError),
    /// A number is not between 0 and `max`.
    #[error("{got} is not between 0 and {max}")]
    OutOfRange {
        /// The number.
        got: i64,
        /// The largest possible.
        max: i64,
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
    #[error("another key of the chain has this id")]
    KeyIdTwice,
    /// Another key of the chain has this SendID or RecvID, and their accept lifetimes overlap.
    #[error("key {by} has this id too, and their accept lifetimes overlap")]
    IdInUse {
        /// The other key's key id.
        by: u64,
    },
    /// Another chain of the file has this name.
    #[error("another key chain has this name")]
    ChainTwice,
}

fn mkt(error: &MktError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match error {
        MktError::MasterKeyTooShort { .. } => write!(f, "{error}; allow-short-secret accepts it"),
        _ => write!(f, "{error}"),
    }
}

/// Why a key chain, or a text with key chains, cannot be used.
///
/// It prints as one line that names the key chain, the key and the field as far as they are known, and the position of an
/// error in the text. Put the file's name in front of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyChainError {
    position: Option<Position>,
    chain: Option<String>,
    key_id: Option<u64>,
    field: Option<Cow<'static, str>>,
    problem: Problem,
}

impl KeyChainError {
    pub(super) const fn new(problem: Problem) -> Self {
        Self { position: None, chain: None, key_id: None, field: None, problem }
    }

    pub(super) fn field(self, field: impl Into<Cow<'static, str>>) -> Self {
        Self { field: Some(field.into()), ..self }
    }

    pub(super) fn in_key(self, key_id: impl Into<Option<u64>>) -> Self {
        Self { key_id: key_id.into(), ..self }
    }

    pub(super) fn in_chain(self, name: &str) -> Self {
        Self { chain: Some(name.to_owned()), ..self }
    }

    #[cfg(any(feature = "toml", feature = "json"))]
    pub(super) fn at(self, position: Option<Position>) -> Self {
        Self { position, ..self }
    }

    /// The place in the text, for an error of the parser.
    #[must_use]
    pub const fn position(&self) -> Option<Position> {
        self.position
    }

    /// What is wrong.
    #[must_use]
    pub const fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl fmt::Display for KeyChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut part = |text: fmt::Arguments<'_>| -> fmt::Result {
            write!(f, "{separator}{text}")?;
            separator = ", ";
            Ok(())
        };
        if let Some(Position { line, column }) = self.position {
            part(format_args!("line {line}, column {column}"))?;
        }
        if let Some(name) = &self.chain {
            part(format_args!("key chain {name:?}"))?;
        }
        if let Some(key_id) = self.key_id {
            part(format_args!("key {key_id}"))?;
        }
        if let Some(field) = &self.field {
            part(format_args!("{field}"))?;
        }
        write!(f, "{}{}", if separator.is_empty() { "" } else { ": " }, self.problem)
    }
}

impl core::error::Error for KeyChainError {}

//! What is wrong with a key chain, and where.

use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use wireseal_algorithms::ParseAlgorithmError;

use crate::{ParseTimestampError, Timestamp};
use wireseal_tcp_ao::MktError;

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
    /// The secret or the MAC length is impossible, or the algorithm is not built in.
    #[error("{0}")]
    Mkt(MktError),
    /// The secret is shorter than the algorithm asks for.
    #[error("{error}; {accepted_by} accepts it")]
    SecretTooShort {
        /// The lengths.
        error: MktError,
        /// What to write into the file to use it all the same.
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

/// Why a key chain, or a text with key chains, cannot be used.
///
/// It prints as one line with the place in the text, and the key chain, the key and the field as the text calls them, as far as
/// they are known. Put the file's name in front of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyChainError {
    pub(super) position: Option<Position>,
    pub(super) chain: Option<String>,
    pub(super) key_id: Option<u64>,
    pub(super) field: Option<Cow<'static, str>>,
    pub(super) problem: Problem,
}

impl KeyChainError {
    pub(super) const fn new(problem: Problem) -> Self {
        Self { position: None, chain: None, key_id: None, field: None, problem }
    }

    pub(super) fn field(self, field: impl Into<Cow<'static, str>>) -> Self {
        Self { field: Some(field.into()), ..self }
    }

    /// Puts the name of a table before that of its field.
    #[cfg(feature = "serde")]
    pub(super) fn within(self, table: &'static str) -> Self {
        let field = self.field.map_or(table.into(), |field| alloc::format!("{table}.{field}").into());
        Self { field: Some(field), ..self }
    }

    pub(super) fn in_key(self, key_id: impl Into<Option<u64>>) -> Self {
        Self { key_id: key_id.into(), ..self }
    }

    pub(super) fn in_chain(self, name: &str) -> Self {
        Self { chain: Some(name.to_owned()), ..self }
    }

    /// What is wrong with the chain, or with the key, at this place in a list.
    pub(super) fn at(self, chain: Option<usize>, key: Option<usize>) -> Fault {
        Fault { chain, key, error: Box::new(self) }
    }

    /// The place in the text: of the value in question or, if something is missing, of the table that lacks it. `None` if there
    /// is no text.
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

/// An error before its place in a text has been looked up.
#[derive(Debug)]
#[cfg_attr(not(any(feature = "toml", feature = "json")), expect(dead_code, reason = "there is no text"))]
pub(super) struct Fault {
    /// Which of the chains.
    pub(super) chain: Option<usize>,
    /// Which of the chain's keys.
    pub(super) key: Option<usize>,
    pub(super) error: Box<KeyChainError>,
}

impl From<Fault> for KeyChainError {
    fn from(fault: Fault) -> Self {
        *fault.error
    }
}

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
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    /// The text is not of its format, or a field is unknown, missing, double or of the wrong type; in the words of the
    /// parser, less the values it met.
    Text(String),
    /// The algorithm is unknown or refused.
    Algorithm(ParseAlgorithmError),
    /// The MKT is impossible: its secret or its MAC length.
    Mkt(MktError),
    /// A number is outside of its range.
    OutOfRange {
        /// The number.
        value: i64,
        /// The largest that is possible; the smallest is 0.
        max: i64,
    },
    /// A `key-id` is not a 64-bit number.
    KeyIdNotANumber,
    /// `options` is neither `covered` nor `excluded`.
    OptionCoverage,
    /// There is no secret, or there are two.
    NotOneSecret,
    /// A secret given as text has characters outside ASCII, whose octets depend on the encoding.
    SecretNotAscii,
    /// A hexadecimal secret has an odd number of digits, or something else than digits.
    SecretNotHexadecimal,
    /// A date and time cannot be read.
    Timestamp(ParseTimestampError),
    /// A date and time of TOML lacks its offset.
    TimestampWithoutOffset,
    /// A lifetime ends before it starts, or as it starts.
    LifetimeEmpty {
        /// The start.
        from: Timestamp,
        /// The end.
        until: Timestamp,
    },
    /// A lifetime is given in two ways that exclude each other, or has a duration but no start.
    LifetimeContradictory,
    /// The accept lifetime does not cover the send lifetime.
    AcceptLifetimeTooShort,
    /// A chain has no keys.
    NoKeys,
    /// Another key of the chain has this key id.
    KeyIdTwice,
    /// Another key of the chain has the SendID or the RecvID, and can be in use at the same time.
    IdInUse {
        /// The other key's key id.
        by: u64,
    },
    /// Another chain of the file has this name.
    ChainTwice,
    /// The field asks for something that Wireseal does not do, for this reason.
    Refused(&'static str),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(message) => f.write_str(message),
            Self::Algorithm(error) => error.fmt(f),
            Self::Mkt(error @ MktError::MasterKeyTooShort { .. }) => {
                write!(f, "{error}; allow-short-secret takes it all the same")
            }
            Self::Mkt(error) => error.fmt(f),
            Self::OutOfRange { value, max } => write!(f, "{value} is not between 0 and {max}"),
            Self::KeyIdNotANumber => write!(f, "not a number between 0 and {}", u64::MAX),
            Self::OptionCoverage => f.write_str("neither \"covered\" nor \"excluded\""),
            Self::NotOneSecret => f.write_str("give one secret, either as text or as hexadecimal digits"),
            Self::SecretNotAscii => {
                f.write_str("the secret has characters outside ASCII; give its octets as hexadecimal digits")
            }
            Self::SecretNotHexadecimal => f.write_str("not an even number of hexadecimal digits"),
            Self::Timestamp(error) => error.fmt(f),
            Self::TimestampWithoutOffset => {
                f.write_str("not a date and time with offset, such as the Z of UTC")
            }
            Self::LifetimeEmpty { from, until } => write!(f, "ends at {until}, which is not after {from}"),
            Self::LifetimeContradictory => f.write_str("say once when it starts and once when it ends"),
            Self::AcceptLifetimeTooShort => {
                f.write_str("must cover the send lifetime, since one MKT both signs and verifies (RFC 5925)")
            }
            Self::NoKeys => f.write_str("there are no keys"),
            Self::KeyIdTwice => f.write_str("another key of the chain has this id"),
            Self::IdInUse { by } => write!(f, "key {by} has this id too, and their accept lifetimes overlap"),
            Self::ChainTwice => f.write_str("another key chain has this name"),
            Self::Refused(reason) => f.write_str(reason),
        }
    }
}

impl core::error::Error for Problem {}

/// Why a key chain, or a text of them, cannot be used: the configuration is to blame, and nothing was taken from it.
///
/// It prints as one line that names the key chain, the key and the field as far as they are known, and the place for
/// what the parser refused. The file's name is for the caller to put in front.
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

    /// Where in the text, when the parser refused it.
    #[must_use]
    pub const fn position(&self) -> Option<Position> {
        self.position
    }

    /// The name of the key chain.
    #[must_use]
    pub fn chain(&self) -> Option<&str> {
        self.chain.as_deref()
    }

    /// The key id of the key.
    #[must_use]
    pub const fn key_id(&self) -> Option<u64> {
        self.key_id
    }

    /// The field, by its name in the text; where the parser refused it, the path from the top of the text to it.
    #[must_use]
    pub fn field_name(&self) -> Option<&str> {
        self.field.as_deref()
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
        if let Some(Position { line, column }) = self.position {
            write!(f, "line {line}, column {column}")?;
            separator = ", ";
        }
        if let Some(name) = &self.chain {
            write!(f, "{separator}key chain {name:?}")?;
            separator = ", ";
        }
        if let Some(key_id) = self.key_id {
            write!(f, "{separator}key {key_id}")?;
            separator = ", ";
        }
        if let Some(field) = &self.field {
            write!(f, "{separator}{field}")?;
            separator = ", ";
        }
        write!(f, "{}{}", if separator.is_empty() { "" } else { ": " }, self.problem)
    }
}

impl core::error::Error for KeyChainError {}

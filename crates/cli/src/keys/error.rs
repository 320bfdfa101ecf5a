//! What is wrong with a file of keys or a `--key`, and where. Errors contain neither secrets nor what stands in their place.

use std::io;
use std::path::PathBuf;
use std::{error, fmt};

use wireseal_algorithms::ParseAlgorithmError;
use wireseal_tcp_ao::key_chain::{KeyChainError, Position, Problem};

/// Why keys cannot be used. Nothing was read from where they are.
#[derive(Debug)]
pub enum KeysError {
    /// A file of keys cannot be used.
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: FileProblem,
    },
    /// A `--key` is wrong.
    Argument(ArgumentError),
    /// A key cannot be an MKT.
    Unusable {
        /// The name of the key in reports.
        name: String,
        /// Where it is in its text.
        position: Option<Position>,
        /// Which part of it is wrong.
        field: &'static str,
        /// Why.
        problem: Problem,
    },
}

/// Why a file of keys cannot be used.
#[derive(Debug)]
pub enum FileProblem {
    /// It cannot be read.
    Read(io::Error),
    /// It is not UTF-8 text.
    NotText,
    /// Neither its name nor its content shows its format.
    UnknownFormat,
    /// It has no key for TCP-AO.
    NoKeys,
    /// A key chain in TOML or JSON is wrong.
    KeyChain(Box<KeyChainError>),
    /// A router configuration is wrong.
    Configuration(TextError),
}

/// What is wrong in a router configuration, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextError {
    /// Where.
    pub position: Position,
    /// The statement or the key's property, as the format calls it.
    pub field: &'static str,
    /// What is wrong.
    pub problem: TextProblem,
}

/// What can be wrong with a property of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TextProblem {
    /// Something else was expected here.
    Expected(&'static str),
    /// It is missing and has no default.
    Missing,
    /// It is given twice.
    Twice,
    /// It is out of range.
    OutOfRange {
        /// The largest allowed number; the smallest is 0.
        max: u64,
    },
    /// The algorithm is unknown or refused.
    Algorithm(ParseAlgorithmError),
    /// A lifetime does not end after it begins.
    LifetimeEmpty,
    /// It is refused for this reason.
    Refused(&'static str),
    /// A quoted string, a comment or a block has no end.
    Unclosed,
}

/// What is wrong with a `--key`.
#[derive(Debug)]
pub enum ArgumentError {
    /// The part with this number, from 1, has no `=` or an unknown name.
    Part(usize),
    /// A part is given twice.
    Twice(&'static str),
    /// A part is missing.
    Missing(&'static str),
    /// A value cannot be used.
    Value {
        /// The part's name.
        field: &'static str,
        /// Why.
        problem: TextProblem,
    },
    /// A secret that is kept elsewhere cannot be read.
    Source {
        /// The part's name, such as `secret-file`.
        field: &'static str,
        /// Why.
        reason: String,
    },
}

impl fmt::Display for KeysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, problem } => write!(f, "{}: {problem}", path.display()),
            Self::Argument(error) => write!(f, "--key: {error}"),
            Self::Unusable { name, position, field, problem } => {
                write!(f, "key {name}")?;
                if let Some(Position { line, column }) = position {
                    write!(f, " (line {line}, column {column})")?;
                }
                write!(f, ", {field}: {problem}")
            }
        }
    }
}

impl error::Error for KeysError {}

impl From<ArgumentError> for KeysError {
    fn from(error: ArgumentError) -> Self {
        Self::Argument(error)
    }
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::NotText => f.write_str("not UTF-8 text"),
            Self::UnknownFormat => f.write_str(
                "unknown format of keys: name it with --format (--keys-format for files given with --keys)",
            ),
            Self::NoKeys => f.write_str("has no key for TCP-AO"),
            Self::KeyChain(error) => error.fmt(f),
            Self::Configuration(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { position: Position { line, column }, field, problem } = self;
        write!(f, "line {line}, column {column}, {field}: {problem}")
    }
}

impl fmt::Display for TextProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expected(what) => write!(f, "expected {what}"),
            Self::Missing => f.write_str("is missing"),
            Self::Twice => f.write_str("is given twice"),
            Self::OutOfRange { max } => write!(f, "must be a number from 0 to {max}"),
            Self::Algorithm(error) => error.fmt(f),
            Self::LifetimeEmpty => f.write_str("must end after it begins"),
            Self::Refused(reason) => f.write_str(reason),
            Self::Unclosed => f.write_str("has no end"),
        }
    }
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part(number) => write!(
                f,
                "part {number} is none of send=, recv=, alg=, secret=, secret-hex=, secret-file=, secret-env=, \
                 secret-keyring=, mac=, options=, peer= (put a secret with a comma into secret-hex= or a file)"
            ),
            Self::Twice(field) => write!(f, "{field}= is given twice"),
            Self::Missing(field) => write!(f, "{field}= is missing"),
            Self::Value { field, problem } => write!(f, "{field}=: {problem}"),
            Self::Source { field, reason } => write!(f, "{field}=: {reason}"),
        }
    }
}

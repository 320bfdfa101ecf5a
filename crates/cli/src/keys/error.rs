//! What is wrong with a file of keys, or with a `--key`, and where. No error has a secret, nor what stands in its place.

use std::io;
use std::path::PathBuf;
use std::{error, fmt};

use wireseal_algorithms::ParseAlgorithmError;
use wireseal_tcp_ao::key_chain::{KeyChainError, Position, Problem};

/// Why keys cannot be used; nothing was taken from where they were.
#[derive(Debug)]
pub enum KeysError {
    /// The file cannot be read.
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file is no text in UTF-8.
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// Neither its name nor its content says which format a file has.
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// The file has no key for TCP-AO.
    NoKeys {
        /// The file.
        path: PathBuf,
    },
    /// A key chain in TOML or JSON is wrong.
    KeyChain {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        error: Box<KeyChainError>,
    },
    /// A router's configuration is wrong.
    Configuration {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        error: TextError,
    },
    /// A `--key` is wrong.
    Argument(ArgumentError),
    /// A key was read and cannot be an MKT.
    Unusable {
        /// The key, as reports call it.
        name: String,
        /// Where it is in its text.
        position: Option<Position>,
        /// What of it.
        field: &'static str,
        /// Why.
        problem: Problem,
    },
}

/// What is wrong in a router's configuration, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextError {
    /// Where.
    pub position: Position,
    /// The statement or the key's property, in the format's own word.
    pub field: &'static str,
    /// What is wrong.
    pub problem: TextProblem,
}

/// What can be wrong with a property of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TextProblem {
    /// Something else was expected here.
    Expected(&'static str),
    /// It is not there, and has no default.
    Missing,
    /// It is given twice.
    Twice,
    /// It is outside its range.
    OutOfRange {
        /// The largest number possible; the smallest is 0.
        max: u64,
    },
    /// The algorithm is unknown or refused.
    Algorithm(ParseAlgorithmError),
    /// A lifetime that ends as it begins, or before.
    LifetimeEmpty,
    /// It is refused, for this reason.
    Refused(&'static str),
    /// A quoted string, a comment or a block has no end.
    Unclosed,
}

/// What is wrong with a `--key`.
#[derive(Debug)]
pub enum ArgumentError {
    /// A part has no `=`, or its name is unknown; parts are counted from 1.
    Part(usize),
    /// A part's name stands twice.
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
    /// A secret that is elsewhere cannot be had.
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
            Self::File { path, error } => write!(f, "{}: {error}", path.display()),
            Self::NotText { path } => write!(f, "{}: not a text in UTF-8", path.display()),
            Self::UnknownFormat { path } => write!(
                f,
                "{}: neither the name nor the content says which format it has; say it with --format (or --keys-format behind --keys)",
                path.display()
            ),
            Self::NoKeys { path } => write!(f, "{}: has no key for TCP-AO", path.display()),
            Self::KeyChain { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Configuration { path, error } => write!(f, "{}: {error}", path.display()),
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

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { position: Position { line, column }, field, problem } = self;
        write!(f, "line {line}, column {column}, {field}: {problem}")
    }
}

impl error::Error for TextError {}

impl fmt::Display for TextProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expected(what) => write!(f, "expected {what}"),
            Self::Missing => f.write_str("is missing"),
            Self::Twice => f.write_str("is given twice"),
            Self::OutOfRange { max } => write!(f, "must be a number between 0 and {max}"),
            Self::Algorithm(error) => error.fmt(f),
            Self::LifetimeEmpty => f.write_str("ends before it begins, or as it begins"),
            Self::Refused(reason) => f.write_str(reason),
            Self::Unclosed => f.write_str("has no end"),
        }
    }
}

impl error::Error for TextProblem {}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part(number) => write!(
                f,
                "part {number} is none of send=, recv=, alg=, secret=, secret-hex=, secret-file=, secret-env=, \
                 secret-keyring=, mac=, options=, peer= (a secret with a comma goes into secret-hex= or a file)"
            ),
            Self::Twice(field) => write!(f, "{field}= is given twice"),
            Self::Missing(field) => write!(f, "{field}= is missing"),
            Self::Value { field, problem } => write!(f, "{field}=: {problem}"),
            Self::Source { field, reason } => write!(f, "{field}=: {reason}"),
        }
    }
}

impl error::Error for ArgumentError {}

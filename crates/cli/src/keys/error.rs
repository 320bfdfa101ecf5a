//! What is wrong with a file of keys or a `--key`, and where. Errors contain neither secrets nor what stands in their place.

use std::fmt;
use std::io;
use std::path::PathBuf;

use wireseal_algorithms::ParseAlgorithmError;
use wireseal_keys::{KeyChainError, Position, Problem};

/// Why keys cannot be used. Nothing was read from where they are.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// A file of keys cannot be used.
    #[error("{}: {problem}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: FileProblem,
    },
    /// A `--key` is wrong.
    #[error("--key: {0}")]
    Argument(#[from] ArgumentError),
    /// A key cannot be an MKT.
    #[error(fmt = unusable)]
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
#[derive(Debug, thiserror::Error)]
pub enum FileProblem {
    /// It cannot be read.
    #[error("{0}")]
    Read(io::Error),
    /// It is not UTF-8 text.
    #[error("not UTF-8 text")]
    NotText,
    /// Neither its name nor its content shows its format.
    #[error("unknown format of keys: name it with --format (--keys-format for files given with --keys)")]
    UnknownFormat,
    /// It has no key for TCP-AO.
    #[error("has no key for TCP-AO")]
    NoKeys,
    /// A key chain in TOML or JSON is wrong.
    #[error("{0}")]
    KeyChain(Box<KeyChainError>),
    /// A router configuration is wrong.
    #[error("{0}")]
    Configuration(TextError),
}

/// What is wrong in a router configuration, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {}, column {}, {field}: {problem}", .position.line, .position.column)]
pub struct TextError {
    /// Where.
    pub position: Position,
    /// The statement or the key's property, as the format calls it.
    pub field: &'static str,
    /// What is wrong.
    pub problem: TextProblem,
}

/// What can be wrong with a property of a key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TextProblem {
    /// Something else was expected here.
    #[error("expected {0}")]
    Expected(&'static str),
    /// It is missing and has no default.
    #[error("is missing")]
    Missing,
    /// It is given twice.
    #[error("is given twice")]
    Twice,
    /// It is out of range.
    #[error("must be a number from 0 to {max}")]
    OutOfRange {
        /// The largest allowed number; the smallest is 0.
        max: u64,
    },
    /// The algorithm is unknown or refused.
    #[error("{0}")]
    Algorithm(ParseAlgorithmError),
    /// A lifetime does not end after it begins.
    #[error("must end after it begins")]
    LifetimeEmpty,
    /// It is refused for this reason.
    #[error("{0}")]
    Refused(&'static str),
    /// A quoted string, a comment or a block has no end.
    #[error("has no end")]
    Unclosed,
}

/// What is wrong with a `--key`.
#[derive(Debug, thiserror::Error)]
pub enum ArgumentError {
    /// The part with this number, from 1, has no `=` or an unknown name.
    #[error(
        "part {0} is none of send=, recv=, alg=, secret=, secret-hex=, secret-file=, secret-env=, secret-keyring=, \
         mac=, options=, peer= (put a secret with a comma into secret-hex= or a file)"
    )]
    Part(usize),
    /// A part is given twice.
    #[error("{0}= is given twice")]
    Twice(&'static str),
    /// A part is missing.
    #[error("{0}= is missing")]
    Missing(&'static str),
    /// A value cannot be used.
    #[error("{field}=: {problem}{}", Given(given))]
    Value {
        /// The part's name.
        field: &'static str,
        /// What was given, unless it may be a secret in the wrong place.
        given: Option<String>,
        /// Why.
        problem: TextProblem,
    },
    /// A secret that is kept elsewhere cannot be read.
    #[error("{field}=: {reason}")]
    Source {
        /// The part's name, such as `secret-file`.
        field: &'static str,
        /// Why.
        reason: String,
    },
}

/// What was given, behind what is wrong with it.
struct Given<'a>(&'a Option<String>);

impl fmt::Display for Given<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |given| write!(f, "; {given:?} was given"))
    }
}

fn unusable(
    name: &str,
    position: &Option<Position>,
    field: &str,
    problem: &Problem,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(f, "key {name}")?;
    if let Some(Position { line, column }) = position {
        write!(f, " (line {line}, column {column})")?;
    }
    write!(f, ", {field}: {problem}")
}

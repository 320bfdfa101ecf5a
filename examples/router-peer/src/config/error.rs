//! What is wrong with a configuration, in one line that names the file and the field.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use wireseal_tcp_ao::key_chain::KeyChainError;

use crate::routes::RoutesError;

/// What is wrong.
#[derive(Debug)]
pub enum Problem {
    /// The file cannot be read.
    Read(io::Error),
    /// Group or others may read a file of secrets; the mode is given.
    ReadableByOthers(u32),
    /// The file is no TOML, or a value is of the wrong kind.
    Syntax(String),
    /// A needed value is not there.
    Missing,
    /// A name refers to nothing.
    Unknown(String),
    /// A name or address is used twice.
    Duplicate(String),
    /// A key chain cannot be used; chain, key and field are named.
    KeyChain(Box<KeyChainError>),
    /// A key chain has no key left to send with.
    Expired(String),
    /// A value is impossible, for the given reason.
    Invalid(String),
    /// The file that the field names.
    NamedFile {
        /// That file.
        file: PathBuf,
        /// What is wrong with it.
        problem: Box<Problem>,
    },
    /// The file of routes that the field names.
    Routes(RoutesError),
}

impl Problem {
    /// What is wrong with the file that a field names.
    pub(super) fn of_file(file: &Path, problem: Self) -> Self {
        Self::NamedFile { file: file.to_owned(), problem: Box::new(problem) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "cannot read: {error}"),
            Self::ReadableByOthers(mode) => {
                write!(f, "mode {mode:04o} lets others read these secrets, chmod it to 0600")
            }
            Self::Syntax(message) | Self::Invalid(message) => f.write_str(message),
            Self::KeyChain(error) => error.fmt(f),
            Self::Expired(name) => {
                write!(f, "key chain `{name}` has expired, nothing could be sent under it")
            }
            Self::Missing => f.write_str("missing"),
            Self::Unknown(name) => write!(f, "`{name}` is not defined"),
            Self::Duplicate(name) => write!(f, "`{name}` is used twice"),
            Self::NamedFile { file, problem } => write!(f, "{}: {problem}", file.display()),
            Self::Routes(error) => error.fmt(f),
        }
    }
}

/// A configuration that cannot be used; nothing has been started.
#[derive(Debug)]
pub enum ConfigError {
    /// A file as a whole.
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: Problem,
    },
    /// One field of a file.
    Field {
        /// The file.
        file: PathBuf,
        /// The field, with the tables that it is in.
        field: String,
        /// What is wrong with it.
        problem: Problem,
    },
}

impl ConfigError {
    pub(super) fn file(file: &Path, problem: Problem) -> Self {
        Self::File { file: file.to_owned(), problem }
    }

    pub(super) fn field(file: &Path, field: impl Into<String>, problem: Problem) -> Self {
        Self::Field { file: file.to_owned(), field: field.into(), problem }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, problem } => write!(f, "{}: {problem}", file.display()),
            Self::Field { file, field, problem } => write!(f, "{}: {field}: {problem}", file.display()),
        }
    }
}

impl std::error::Error for ConfigError {}

/// Reads TOML, with the place of what is wrong. Messages never quote values of the file beyond the one at fault.
pub(super) fn parse<T: DeserializeOwned>(file: &Path, text: &str) -> Result<T, ConfigError> {
    let syntax = |error: &toml::de::Error| {
        let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
        match line {
            Some(line) => format!("{} (line {line})", error.message()),
            None => error.message().to_owned(),
        }
    };
    let deserializer = toml::Deserializer::parse(text)
        .map_err(|error| ConfigError::file(file, Problem::Syntax(syntax(&error))))?;
    serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let field = error.path().to_string();
        let problem = Problem::Syntax(syntax(error.inner()));
        if field == "." { ConfigError::file(file, problem) } else { ConfigError::field(file, field, problem) }
    })
}

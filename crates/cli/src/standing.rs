//! What a capture or a connection comes to.

use serde::Serialize;

/// What a capture or a connection comes to; for a whole capture it decides the exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Everything verified.
    Good,
    /// Something failed.
    Failed,
    /// Nothing failed, but a connection did not open.
    NotOpen,
    /// None of that, but something could not be judged.
    NotJudged,
    /// There was nothing to judge.
    Empty,
}

impl Standing {
    /// Its name in `--json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Failed => "failed",
            Self::NotOpen => "not-open",
            Self::NotJudged => "not-judged",
            Self::Empty => "empty",
        }
    }
}

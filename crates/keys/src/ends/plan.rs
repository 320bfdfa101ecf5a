//! A plan for a new key at both ends, for people to read and edit and for scripts to read.

use serde::{Deserialize, Serialize};
use wireseal_algorithms::TcpAoAlgorithm;

use crate::{Lifetime, Timestamp};

/// A plan for a new key at both ends of some sessions. It contains no secret.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The version of this structure: 1.
    pub schema: u32,
    /// When it was made; the first steps may be taken from then on.
    pub made: Timestamp,
    /// When the ends begin to sign with the new key.
    pub at: Timestamp,
    /// For how many seconds after `at` the old keys may still be used.
    pub overlap_seconds: u32,
    /// By how many seconds the clocks of the two ends may differ.
    pub skew_seconds: u32,
    /// The new key's algorithm.
    pub algorithm: TcpAoAlgorithmName,
    /// The length of its MAC in octets.
    pub mac_length: usize,
    /// The two ends.
    pub ends: [PlannedEnd; 2],
}

/// An algorithm, as [`TcpAoAlgorithm::name`] spells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpAoAlgorithmName(pub TcpAoAlgorithm);

impl Serialize for TcpAoAlgorithmName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

impl<'de> Deserialize<'de> for TcpAoAlgorithmName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

/// One end of a plan.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedEnd {
    /// Its name in messages.
    pub name: String,
    /// Today's file.
    pub file: String,
    /// The SHA-256 digest of today's file, in hexadecimal.
    pub sha256: String,
    /// The name of the file's format.
    pub format: String,
    /// The name of the chain that gets the key.
    pub chain: String,
    /// The neighbors of the chain, if the file names them.
    pub neighbors: Vec<String>,
    /// The chain's tolerance from the first step on, in seconds.
    pub tolerance_seconds: u32,
    /// The keys to remove, with their lifetimes as the first step sets them.
    pub old: Vec<PlannedKey>,
    /// The key to add.
    pub new: PlannedKey,
    /// What to do, in order.
    pub steps: Vec<Step>,
}

/// A key of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedKey {
    /// Its number in its chain.
    pub key_id: u64,
    /// The KeyID in segments that this end sends.
    pub send_id: u8,
    /// The KeyID in segments that this end receives.
    pub recv_id: u8,
    /// When this end may sign with it.
    pub send: Span,
    /// When this end accepts it, before the chain's tolerance.
    pub accept: Span,
}

/// A lifetime in a plan; `null` means no start or no end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// Its first moment.
    pub from: Option<Timestamp>,
    /// The first moment after it.
    pub until: Option<Timestamp>,
}

impl From<Lifetime> for Span {
    fn from(lifetime: Lifetime) -> Self {
        Self { from: lifetime.from(), until: lifetime.until() }
    }
}

/// A step at one end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What to do.
    pub action: Action,
    /// The earliest time to do it.
    pub from: Timestamp,
    /// The deadline; `None` if it can wait.
    pub until: Option<Timestamp>,
}

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Adds the new key, and sets the end of the old ones.
    Add,
    /// Signs with the new key, where keys have ranks instead of lifetimes.
    Prefer,
    /// Removes the old keys.
    Remove,
}

impl Action {
    /// Its name in plans and file names.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Prefer => "prefer",
            Self::Remove => "remove",
        }
    }
}

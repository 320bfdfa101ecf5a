//! The fields of the input of a KDF or a MAC.

use std::fmt;

/// A field of an input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// What it is.
    pub name: String,
    /// Its octets.
    pub octets: Octets,
}

/// The octets of a field.
#[derive(Clone, PartialEq, Eq)]
pub enum Octets {
    /// Octets to show.
    Shown(Vec<u8>),
    /// The master key, which is not shown.
    MasterKey {
        /// How many octets it has.
        length: usize,
    },
}

impl fmt::Debug for Octets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shown(octets) => octets.fmt(f),
            Self::MasterKey { length } => write!(f, "MasterKey({length} octets)"),
        }
    }
}

impl Field {
    pub(super) fn new(octets: &[u8], name: impl Into<String>) -> Self {
        Self { name: name.into(), octets: Octets::Shown(octets.to_vec()) }
    }

    pub(super) fn master_key(length: usize) -> Self {
        Self { name: "master key".to_owned(), octets: Octets::MasterKey { length } }
    }
}

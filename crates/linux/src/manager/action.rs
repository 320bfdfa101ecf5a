//! The types that plans are made of: what a socket is, which keys it has, and how they are changed.

use std::fmt;

use wireseal_algorithms::TcpAoAlgorithm;

use crate::{KeyName, SocketKey};

/// The kind of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketKind {
    /// It listens. It has neither current nor rnext key; connections start with a copy of its keys.
    Listener,
    /// It is neither listening nor connected; it may be connecting.
    Closed,
    /// It is one end of a connection. The kernel never deletes the last key of one.
    Connection,
}

/// Where a key on a socket comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// It is the chain's key with this key id.
    Chain(u64),
    /// It is the manager's [placeholder](Action::AddPlaceholder).
    Placeholder,
    /// It is for the manager's peers, but is not one of these: the key has left the chain, or its secret has changed.
    Leftover,
    /// It is for other peers. The manager leaves it alone.
    Foreign,
}

/// A change to a socket's keys, without their secrets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Add a key of the chain.
    Add {
        /// Its key id in the chain.
        key_id: u64,
        /// Its name on the socket.
        key: KeyName,
        /// Make it the current key in the same call.
        set_current: bool,
        /// Make it the rnext key in the same call.
        set_rnext: bool,
    },
    /// Add a key with a random secret, so that the socket always has a key for the peers.
    AddPlaceholder {
        /// Its name on the socket, with ids that no other key has.
        key: KeyName,
    },
    /// Sign with this key although the peer has not asked for it.
    SetCurrent(KeyName),
    /// Ask the peer to sign with this key.
    SetRnext(KeyName),
    /// Delete a key.
    Delete {
        /// Its name.
        key: KeyName,
        /// Where it comes from.
        origin: Origin,
        /// The key that protects the connections instead. If the deleted one is in use, it takes over in the same call.
        successor: Option<KeyName>,
        /// Whether it is the current key: the peer was still asking for it.
        is_current: bool,
        /// Whether it is the rnext key.
        is_rnext: bool,
    },
}

impl Action {
    /// The key that changes.
    #[must_use]
    pub const fn key(&self) -> KeyName {
        match *self {
            Self::Add { key, .. }
            | Self::AddPlaceholder { key }
            | Self::SetCurrent(key)
            | Self::SetRnext(key)
            | Self::Delete { key, .. } => key,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { key, .. } => write!(f, "add the {key}"),
            Self::AddPlaceholder { key } => write!(f, "keep the peer out with the {key}"),
            Self::SetCurrent(key) => write!(f, "sign with the {key}"),
            Self::SetRnext(key) => write!(f, "ask the peer for the {key}"),
            Self::Delete { key, is_current: false, is_rnext: false, .. } => write!(f, "delete the {key}"),
            Self::Delete { key, .. } => write!(f, "delete the {key}, which is still in use"),
        }
    }
}

/// A call that changes a socket's keys: an [`Action`] with the key.
#[derive(Clone, Copy, Debug)]
pub enum Call<'a> {
    /// Add a key of the chain.
    Add {
        /// Its key id in the chain.
        key_id: u64,
        /// The key.
        key: SocketKey<'a>,
    },
    /// Add a key with a random secret and an algorithm of the chain; the kernel may lack others.
    AddPlaceholder {
        /// Its name on the socket.
        key: KeyName,
        /// Its algorithm.
        algorithm: TcpAoAlgorithm,
    },
    /// As [`Action::SetCurrent`].
    SetCurrent(KeyName),
    /// As [`Action::SetRnext`].
    SetRnext(KeyName),
    /// As [`Action::Delete`].
    Delete {
        /// The key's name.
        key: KeyName,
        /// Where it comes from.
        origin: Origin,
        /// The key that takes over if this one is in use.
        successor: Option<KeyName>,
        /// Whether it is the current key.
        is_current: bool,
        /// Whether it is the rnext key.
        is_rnext: bool,
    },
}

impl Call<'_> {
    /// The call as it is reported.
    pub(super) fn action(&self) -> Action {
        match *self {
            Self::Add { key_id, key } => {
                let SocketKey { set_current, set_rnext, .. } = key;
                Action::Add { key_id, key: key.name(), set_current, set_rnext }
            }
            Self::AddPlaceholder { key, .. } => Action::AddPlaceholder { key },
            Self::SetCurrent(key) => Action::SetCurrent(key),
            Self::SetRnext(key) => Action::SetRnext(key),
            Self::Delete { key, origin, successor, is_current, is_rnext } => {
                Action::Delete { key, origin, successor, is_current, is_rnext }
            }
        }
    }
}

/// A key on a socket as the kernel reports it, without its secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub(super) name: KeyName,
    pub(super) origin: Origin,
    /// Whether this end signs with it.
    pub(super) is_current: bool,
    /// Whether this end asks the peer to sign with it.
    pub(super) is_rnext: bool,
    /// Segments verified under it.
    pub(super) good: u64,
}

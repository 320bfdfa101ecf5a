//! What a manager does to the keys of a socket.

use std::fmt;

use crate::KeyName;

/// What a socket is to its manager.
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
    /// It is for the manager's peers but neither of these: the key has left the chain, or its secret has changed.
    Leftover,
    /// It is for other peers. The manager leaves it alone.
    Foreign,
}

/// A change to a socket's keys. It holds no secret: the chain has those.
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
    /// Add a key with a random secret, so that the socket is never without a key for the peers.
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
        /// The key that protects the connections instead. It takes over in the same call where this one is in use.
        successor: Option<KeyName>,
        /// It is the current key: the peer was still asking for it.
        is_current: bool,
        /// It is the rnext key.
        is_rnext: bool,
    },
}

impl Action {
    /// The key that is changed.
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

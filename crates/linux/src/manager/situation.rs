//! What a decision about a socket's keys is made from.

use cidr::IpCidr;
use wireseal_tcp_ao::Mkt;
use wireseal_tcp_ao::key_chain::{Key, KeyChain, Lifetime, Timestamp};

use crate::{InstalledKey, KeyName};

/// What a socket is, as far as its keys go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketKind {
    /// It listens. It has neither current nor rnext key; connections start with a copy of its keys.
    Listener,
    /// It is neither listening nor connected, though it may be connecting.
    Closed,
    /// It is one end of a connection. The kernel never lets the last key of one go.
    Connection,
}

/// Where a key on a socket comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// It is the chain's key with this key id.
    Chain(u64),
    /// It is the manager's [placeholder](Action::AddPlaceholder).
    Placeholder,
    /// It is for the manager's peers but neither: a key that has left the chain or had another secret.
    Leftover,
    /// It is for other peers. It stays as it is.
    Foreign,
}

/// A key that is on a socket, less its secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// What names it.
    pub name: KeyName,
    /// Where it comes from.
    pub origin: Origin,
    /// Whether this end signs with it.
    pub is_current: bool,
    /// Whether this end asks the peer to sign with it.
    pub is_rnext: bool,
    /// Segments verified under it.
    pub good: u64,
}

/// What is known of a socket besides what the kernel says, carried from one step to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// The key that the peer was asked to sign with and has not signed with since, and how many segments had been
    /// verified under it when it was asked.
    awaited: Option<(KeyName, u64)>,
    placeholder: Option<KeyName>,
}

impl Memory {
    /// Whether the peer has not signed yet with the key that it was asked to sign with.
    #[must_use]
    pub const fn is_peer_behind(&self) -> bool {
        self.awaited.is_some()
    }

    /// Takes note of what has arrived since.
    pub(super) fn observe(&mut self, found: &[Found]) {
        let has_switched = |(name, before): (KeyName, u64)| {
            found.iter().any(|key| key.name == name && key.is_rnext && key.good > before)
        };
        if self.awaited.is_some_and(has_switched) {
            self.awaited = None;
        }
    }

    /// Takes note of a key that could not be deleted where `found` was before: the kernel has made its heir the rnext key
    /// all the same.
    pub(super) fn note_in_use(&mut self, action: &Action, kind: SocketKind, found: &[Found]) {
        if let Action::Delete { heir: Some(heir), is_rnext: true, .. } = *action
            && kind == SocketKind::Connection
        {
            self.awaited = Some((heir, good_of(found, heir)));
        }
    }

    /// Takes note of an action that has been carried out where `found` was before.
    pub(super) fn note(&mut self, action: &Action, kind: SocketKind, found: &[Found]) {
        let asked_for = match *action {
            Action::Add { key, set_rnext, .. } => {
                self.placeholder = self.placeholder.filter(|placeholder| *placeholder != key);
                set_rnext.then_some((key, 0))
            }
            Action::SetRnext(key) => Some((key, good_of(found, key))),
            Action::Delete { key, heir, is_rnext, .. } => {
                if self.placeholder == Some(key) {
                    self.placeholder = None;
                }
                heir.filter(|_| is_rnext).map(|heir| (heir, good_of(found, heir)))
            }
            Action::AddPlaceholder { key } => {
                self.placeholder = Some(key);
                None
            }
            Action::SetCurrent(_) => None,
        };
        if kind == SocketKind::Connection {
            self.awaited = asked_for.or(self.awaited);
        }
    }
}

/// Segments verified under a key, 0 when it has been added since.
fn good_of(found: &[Found], name: KeyName) -> u64 {
    found.iter().find(|key| key.name == name).map_or(0, |key| key.good)
}

/// A change to a socket's keys. It carries no secret: the chain has those.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Add the chain's key with this key id.
    Add {
        /// Its key id.
        key_id: u64,
        /// Its name on the socket.
        key: KeyName,
        /// Make it the current key in the same call.
        set_current: bool,
        /// Make it the rnext key in the same call.
        set_rnext: bool,
    },
    /// Add a key with a random secret that nobody knows, so that the socket is not without a key for the peers.
    AddPlaceholder {
        /// Its name on the socket, with ids that no other key has.
        key: KeyName,
    },
    /// Sign with this key, although the peer has not asked for it.
    SetCurrent(KeyName),
    /// Ask the peer to sign with this key.
    SetRnext(KeyName),
    /// Delete this key.
    Delete {
        /// Its name.
        key: KeyName,
        /// Where it comes from.
        origin: Origin,
        /// What protects the connections in its place, and in the same call takes over where it is in use.
        heir: Option<KeyName>,
        /// The key is the current key: the peer was still asking for it.
        is_current: bool,
        /// The key is the rnext key.
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

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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

/// Everything about a socket that a decision depends on, but for the keys that are on it.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The keys that it is to have, and when.
    pub chain: &'a KeyChain,
    /// The peers that the chain is for; only keys for exactly these are touched. Not of IPv4-mapped addresses.
    pub remote: IpCidr,
    /// The VRF that the chain is for, as in [`SocketKey::vrf`](crate::SocketKey::vrf).
    pub vrf: Option<u32>,
    /// The time.
    pub now: Timestamp,
    /// What the socket is.
    pub kind: SocketKind,
}

impl Situation<'_> {
    /// A key as the kernel says it, with its origin.
    #[must_use]
    pub fn recognise(&self, memory: &Memory, key: &InstalledKey) -> Found {
        Found {
            name: key.name,
            origin: self.origin(memory, key.name, |mkt| key.is(mkt)),
            is_current: key.is_current,
            is_rnext: key.is_rnext,
            good: key.good,
        }
    }

    /// Where a key comes from that has this name, and is an MKT when `is` says so.
    #[must_use]
    pub fn origin(&self, memory: &Memory, name: KeyName, is: impl Fn(&Mkt) -> bool) -> Origin {
        if (name.remote, name.vrf) != (self.remote, self.vrf) {
            return Origin::Foreign;
        }
        // The same MKT may stand in a chain twice, for two times.
        let same = self.chain.keys().iter().filter(|key| is(key.mkt()));
        let best = same.min_by_key(|key| {
            let acceptance = self.acceptance(key);
            (!acceptance.contains(self.now), acceptance.is_over(self.now))
        });
        match best {
            Some(key) => Origin::Chain(key.key_id()),
            None if memory.placeholder == Some(name) => Origin::Placeholder,
            None => Origin::Leftover,
        }
    }

    /// When segments under a key are accepted: its accept lifetime with the chain's tolerance.
    pub(super) fn acceptance(&self, key: &Key) -> Lifetime {
        key.accept_lifetime().widened_by(self.chain.accept_tolerance())
    }

    /// What names a key of the chain on the socket.
    pub(super) fn name(&self, key: &Key) -> KeyName {
        let (send_id, recv_id) = (key.mkt().send_id(), key.mkt().recv_id());
        KeyName { remote: self.remote, vrf: self.vrf, send_id, recv_id }
    }

    /// The key of the chain with this key id.
    pub(super) fn key(&self, key_id: u64) -> Option<&Key> {
        self.chain.keys().iter().find(|key| key.key_id() == key_id)
    }
}

//! Which keys a socket should have.

use wireseal_keys::{Key, KeyChain, Lifetime, Timestamp};
use wireseal_tcp_ao::Mkt;

use crate::manager::action::{Origin, SocketKind};
use crate::manager::state::{Found, Memory, Reported};
use crate::{KeyName, PeerName};

/// All that decides which keys of one peer a socket should have.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) chain: &'a KeyChain,
    /// The peer that the chain is for, with a canonical network.
    pub(super) peer: PeerName,
    pub(super) now: Timestamp,
    /// A socket that only waits to listen counts as a listener: it needs neither current nor rnext key.
    pub(super) kind: SocketKind,
    /// The names that a placeholder must not be in the way of: of other peers' keys for some of the same connections.
    pub(super) near: &'a dyn Fn() -> Vec<KeyName>,
}

impl Target<'_> {
    /// Finds out where a key that the kernel reports comes from.
    pub(super) fn recognise(&self, memory: &Memory, key: &impl Reported) -> Found {
        Found {
            name: key.name(),
            origin: self.origin(memory, key),
            is_current: key.is_current(),
            is_rnext: key.is_rnext(),
            good: key.good(),
        }
    }

    fn origin(&self, memory: &Memory, key: &impl Reported) -> Origin {
        let name = key.name();
        if name.peer() != self.peer {
            // A connection has only its own peer's keys; those of others come from its listener.
            let is_connection = self.kind == SocketKind::Connection;
            return if is_connection { Origin::Leftover } else { Origin::Foreign };
        }
        // A chain may have the same MKT twice, at different times.
        let same = self.chain.keys().iter().filter(|of_chain| key.is(of_chain.mkt()));
        let best = same.min_by_key(|key| {
            let acceptance = self.acceptance(key);
            (!acceptance.contains(self.now), acceptance.is_over(self.now))
        });
        let is_in_the_way = || (self.near)().into_iter().any(|near| names_clash(near, name));
        match best {
            Some(key) => Origin::Chain(key.key_id()),
            None if memory.is_placeholder(name) && !is_in_the_way() => Origin::Placeholder,
            None => Origin::Leftover,
        }
    }

    /// When segments under a key are accepted.
    pub(super) fn acceptance(&self, key: &Key) -> Lifetime {
        acceptance(self.chain, key)
    }

    /// The name of a key of the chain on the socket.
    pub(super) fn name(&self, key: &Key) -> KeyName {
        self.peer.key(key.mkt())
    }

    /// The key of the chain with this key id.
    pub(super) fn key(&self, key_id: u64) -> Option<&Key> {
        key_of(self.chain, key_id)
    }
}

/// When segments under a key of a chain are accepted: its accept lifetime with the chain's tolerance.
pub(super) fn acceptance(chain: &KeyChain, key: &Key) -> Lifetime {
    key.accept_lifetime().widened_by(chain.accept_tolerance())
}

/// The key of a chain with this key id.
pub(super) fn key_of(chain: &KeyChain, key_id: u64) -> Option<&Key> {
    chain.keys().iter().find(|key| key.key_id() == key_id)
}

/// Whether two MKTs for the same connections exclude each other (RFC 5925 §3.1).
pub(super) fn clash(one: &Mkt, other: &Mkt) -> bool {
    one.send_id() == other.send_id() || one.recv_id() == other.recv_id()
}

/// Whether two keys on one socket, for the same connections, exclude each other.
pub(super) fn names_clash(one: KeyName, other: KeyName) -> bool {
    one.send_id == other.send_id || one.recv_id == other.recv_id
}

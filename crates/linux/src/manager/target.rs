//! Which keys a socket should have.

use cidr::IpCidr;
use wireseal_tcp_ao::Mkt;
use wireseal_tcp_ao::key_chain::{Key, KeyChain, Lifetime, Timestamp};

use crate::manager::action::{Origin, SocketKind};
use crate::manager::state::{Found, Memory};
use crate::{InstalledKey, KeyName};

/// All that decides which keys a socket should have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) chain: &'a KeyChain,
    /// The peers that the chain is for, not as IPv4-mapped addresses; only keys for exactly these are touched.
    pub(super) remote: IpCidr,
    /// As in [`SocketKey::vrf`](crate::SocketKey::vrf).
    pub(super) vrf: Option<u32>,
    pub(super) now: Timestamp,
    pub(super) kind: SocketKind,
}

impl Target<'_> {
    /// Finds out where a key that the kernel reports comes from.
    pub(super) fn recognise(&self, memory: &Memory, key: &InstalledKey) -> Found {
        Found {
            name: key.name,
            origin: self.origin(memory, key.name, |mkt| key.is(mkt)),
            is_current: key.is_current,
            is_rnext: key.is_rnext,
            good: key.good,
        }
    }

    /// Where a key with this name comes from; `is` says whether it is an MKT.
    pub(super) fn origin(&self, memory: &Memory, name: KeyName, is: impl Fn(&Mkt) -> bool) -> Origin {
        if (name.remote, name.vrf) != (self.remote, self.vrf) {
            return Origin::Foreign;
        }
        // A chain may have the same MKT twice, at different times.
        let same = self.chain.keys().iter().filter(|key| is(key.mkt()));
        let best = same.min_by_key(|key| {
            let acceptance = self.acceptance(key);
            (!acceptance.contains(self.now), acceptance.is_over(self.now))
        });
        match best {
            Some(key) => Origin::Chain(key.key_id()),
            None if memory.is_placeholder(name) => Origin::Placeholder,
            None => Origin::Leftover,
        }
    }

    /// When segments under a key are accepted: its accept lifetime with the chain's tolerance.
    pub(super) fn acceptance(&self, key: &Key) -> Lifetime {
        key.accept_lifetime().widened_by(self.chain.accept_tolerance())
    }

    /// The name of a key of the chain on the socket.
    pub(super) fn name(&self, key: &Key) -> KeyName {
        let (send_id, recv_id) = (key.mkt().send_id(), key.mkt().recv_id());
        KeyName { remote: self.remote, vrf: self.vrf, send_id, recv_id }
    }

    /// The key of the chain with this key id.
    pub(super) fn key(&self, key_id: u64) -> Option<&Key> {
        self.chain.keys().iter().find(|key| key.key_id() == key_id)
    }
}

//! The key manager on a simulated socket (feature `simulation`): it inspects, plans and makes calls as on the kernel's sockets, at times that
//! the caller chooses.

use std::sync::Arc;

use wireseal_keys::{KeyChain, Timestamp};

pub use crate::manager::apply::Calls;
use crate::manager::apply::Scope;
use crate::manager::memory::Memory;
use crate::manager::peers::{Configured, PeerTable};
pub use crate::manager::plan::Call;
use crate::manager::plan::SocketKind;
use crate::{Error, Generation, PeerName};

/// The key manager's memory of a simulated socket with the keys of one peer.
#[derive(Clone, Debug)]
pub struct SimulatedSocket {
    peer: PeerName,
    memories: PeerTable<Memory>,
}

/// The result of a [`step`](SimulatedSocket::step).
#[derive(Debug)]
pub struct SimulatedStep {
    /// No key of the chain is valid for sending; shut a connection down.
    pub expired: bool,
    /// When the next step is due if the chain does not change.
    pub next: Option<Timestamp>,
    /// The errors of the calls that the simulated kernel refused.
    pub failed: Vec<Error>,
}

impl SimulatedSocket {
    /// A socket for this peer, before its first step.
    #[must_use]
    pub fn new(peer: PeerName) -> Self {
        Self { peer, memories: PeerTable::new() }
    }

    /// Brings the keys in line with the peer's chain at `now`, as a step of a [`KeyManager`](crate::KeyManager) does for a socket of this
    /// kind.
    pub fn step(
        &mut self,
        chain: &Arc<KeyChain>,
        kind: SocketKind,
        now: Timestamp,
        keys: &mut impl Calls,
    ) -> SimulatedStep {
        let configured =
            Configured { chain: Arc::clone(chain), is_blocked: false, version: Generation::default() };
        let peers = PeerTable::from([(self.peer, configured)]);
        let only = (kind != SocketKind::Listener).then_some(self.peer);
        let scope = Scope { peers: &peers, only, families: [true; 2], device: None, now, kind };
        let outcome = scope.apply(&mut self.memories, keys);
        let is_connection = kind == SocketKind::Connection;
        let is_peer_behind = is_connection
            && !outcome.expired
            && self.memories.get(&self.peer).is_some_and(Memory::is_peer_behind);
        let next = outcome.next(is_peer_behind, now);
        let failed = outcome.failed.into_iter().map(|(_, error)| error).collect();
        SimulatedStep { expired: outcome.expired, next, failed }
    }
}

//! One MKT of a connection, with its keys.

use crate::kdf::{KdfContext, TrafficKey};
use crate::mkt::{MasterKey, Mkt, MktParameters};
use crate::types::{Isn, SocketPair};

/// An MKT in a connection.
pub(super) struct Slot {
    pub(super) parameters: MktParameters,
    pub(super) keys: Keys,
}

/// The master key until the ISNs are confirmed, the two traffic keys afterwards; never both.
#[expect(clippy::large_enum_variant, reason = "a heap is what this crate does without")]
pub(super) enum Keys {
    Master(MasterKey),
    Traffic { send: TrafficKey, receive: TrafficKey },
}

impl Slot {
    pub(super) fn with_master_key(mkt: &Mkt) -> Self {
        Self { parameters: *mkt.parameters(), keys: Keys::Master(mkt.master_key().clone()) }
    }

    /// Replaces the master key by the traffic keys, if that has not been done.
    pub(super) fn derive(&mut self, pair: SocketPair, local_isn: Isn, remote_isn: Isn) {
        if let Keys::Master(master_key) = &self.keys {
            let derive = |context| TrafficKey::derive(self.parameters.algorithm, master_key, &context);
            self.keys = Keys::Traffic {
                send: derive(KdfContext::send_other(pair, local_isn, remote_isn)),
                receive: derive(KdfContext::receive_other(pair, local_isn, remote_isn)),
            };
        }
    }
}

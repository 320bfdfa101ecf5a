//! One of the handshakes that a peer may mean before a connection is established.

use crate::connection::VerifiedSyn;
use crate::types::{Isn, KeyId};

/// One of the peer's SYNs, and an answer of this end's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handshake {
    pub(crate) remote_isn: Isn,
    /// The ISN of the SYN-ACK; `None` while there is none.
    pub(crate) local_isn: Option<Isn>,
    /// The RecvID of the MKT that signed the SYN, and the SendID of the one it asks for.
    pub(crate) signed_with: KeyId,
    pub(crate) asked_for: KeyId,
}

impl Handshake {
    /// That of a SYN of the peer's, not answered yet.
    pub(crate) fn of<const N: usize>(syn: &VerifiedSyn<'_, '_, N>) -> Self {
        Self {
            remote_isn: Isn(syn.segment().sequence().0),
            local_isn: None,
            signed_with: syn.mkt().recv_id(),
            asked_for: syn.asked_for().send_id(),
        }
    }
}

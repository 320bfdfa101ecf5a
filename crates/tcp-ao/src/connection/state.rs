//! The state of a live connection as plain values, to move it elsewhere.

use crate::connection::heard::Heard;
use crate::connection::{Connection, HeardKeys, Phase};
use crate::counters::Counters;
use crate::mkt::MktSet;
use crate::sne::SneTracker;
use crate::types::{Isn, KeyId, SeqNum, Sne, SocketPair};

/// The state of a connection without its MKTs. It contains no secret; move the MKTs separately.
///
/// It stands for the connection: it is not `Copy`, because two ends that continue from one state soon have different SNEs.
///
/// On Linux, `TCP_AO_REPAIR` has the ISNs and SNEs, `TCP_AO_INFO` the key ids and counters, and `TCP_REPAIR` the sequence
/// numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectionState {
    /// The two ends.
    pub pair: SocketPair,
    /// This end's ISN.
    pub local_isn: Isn,
    /// The peer's ISN.
    pub remote_isn: Isn,
    /// The SNE of `send_sequence`.
    pub send_sne: Sne,
    /// Any sequence number within 2^31 octets of `sent_end`, such as the first octet that is not acknowledged.
    pub send_sequence: SeqNum,
    /// The sequence number after the last octet sent. No acknowledgment beyond it is heard.
    pub sent_end: SeqNum,
    /// The SNE of `receive_sequence`.
    pub receive_sne: Sne,
    /// The highest sequence number received, or a lower one: what arrives next must be less than 2^31 octets from it.
    pub receive_sequence: SeqNum,
    /// The newest acknowledgment number received, or, if it is not known, the first octet that was not acknowledged.
    pub acknowledged: SeqNum,
    /// The SendID of the current key.
    pub current_key: KeyId,
    /// The RecvID of the rnext key.
    pub rnext_key: KeyId,
    /// The keys that the peer has asked for.
    pub heard: HeardKeys,
    /// The counters.
    pub counters: Counters,
}

/// Why a connection's state could not be exported or imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum StateError {
    /// The handshake is not complete.
    #[error("connection is not established")]
    NotEstablished,
    /// No MKT has the current key's SendID.
    #[error("no key has the current key's SendID {0}")]
    CurrentKeyMissing(KeyId),
    /// No MKT has the rnext key's RecvID.
    #[error("no key has the rnext key's RecvID {0}")]
    RnextKeyMissing(KeyId),
    /// The octets have a form that this version of the crate does not know.
    #[error("state of a connection in the unknown form {0}")]
    Version(u8),
    /// The octets are too few or too many.
    #[error("state of a connection in {got} octets instead of {expected}")]
    Length {
        /// How many octets the form has.
        expected: usize,
        /// How many octets came.
        got: usize,
    },
}

impl<const N: usize> Connection<N> {
    /// The state with which another place, holding the same MKTs, can continue this connection. The connection itself is gone, and
    /// its keys are wiped: if both went on, their SNEs would soon differ.
    ///
    /// # Errors
    /// [`StateError::NotEstablished`]; the connection is gone then, too. [`Self::is_established`] tells beforehand.
    pub fn export(self) -> Result<ConnectionState, StateError> {
        self.state()
    }

    pub(crate) fn state(&self) -> Result<ConnectionState, StateError> {
        let (Phase::Established, Some(local_isn)) = (self.phase, self.local_isn) else {
            return Err(StateError::NotEstablished);
        };
        let (send_sne, send_sequence) = self.send.highest();
        let (receive_sne, receive_sequence) = self.receive.highest();
        Ok(ConnectionState {
            pair: self.pair,
            local_isn,
            remote_isn: self.remote_isn,
            send_sne,
            send_sequence,
            sent_end: send_sequence,
            receive_sne,
            receive_sequence,
            acknowledged: self.newest_acknowledgment.unwrap_or(SeqNum(local_isn.0.wrapping_add(1))),
            current_key: self.current_key().send_id,
            rnext_key: self.rnext_key().recv_id,
            heard: self.heard.export(self.check_values()),
            counters: self.counters(),
        })
    }

    /// Continues a connection that was established elsewhere. Import a state once.
    ///
    /// # Errors
    /// [`StateError::CurrentKeyMissing`] and [`StateError::RnextKeyMissing`] if `mkts` lacks a key in use.
    pub fn import(state: &ConnectionState, mkts: &MktSet<N>) -> Result<Self, StateError> {
        let current = mkts.by_send_id(state.current_key);
        let current = current.ok_or(StateError::CurrentKeyMissing(state.current_key))?.send_id();
        let rnext = mkts.by_recv_id(state.rnext_key);
        let rnext = rnext.ok_or(StateError::RnextKeyMissing(state.rnext_key))?.send_id();
        let mut connection = Self::new(
            state.pair,
            Phase::SynReceived,
            Some(state.local_isn),
            state.remote_isn,
            mkts,
            current,
            rnext,
        );
        connection.send = SneTracker::resume(state.send_sne, state.send_sequence);
        connection.send.advance(state.sent_end);
        connection.receive = SneTracker::resume(state.receive_sne, state.receive_sequence);
        connection.newest_acknowledgment = Some(state.acknowledged);
        connection.good = state.counters.good;
        connection.refused = Counters { good: 0, ..state.counters };
        connection.establish(state.local_isn);
        connection.heard = Heard::import(&state.heard, connection.check_values());
        connection.heard.signs_with(connection.current);
        // The state does not say, and the peer may hold no other key.
        connection.heard.peer_uses_current = true;
        Ok(connection)
    }
}

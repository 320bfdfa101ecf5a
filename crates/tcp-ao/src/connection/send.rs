//! Signing what this end sends (RFC 5925 §7.4).

use crate::authenticate::{SignError, SignaturePlace};
use crate::connection::keys::Keys;
use crate::connection::{Connection, Phase};
use crate::kdf::{KdfContext, TrafficKey};
use crate::segment::Segment;
use crate::sne::SneTracker;
use crate::types::{Isn, Sne};

impl<const N: usize> Connection<N> {
    /// Signs a TCP segment, header and payload, in place with the current key.
    ///
    /// The header must hold an AO option of the current key's size, as [`append_ao`](crate::append_ao) puts it
    /// there; ids and MAC are filled in. The checksum is the caller's to compute afterwards. A retransmission is
    /// signed with the SNE of its own sequence number.
    ///
    /// # Errors
    /// [`SignError`]; segment and connection are unchanged.
    #[inline]
    pub fn sign(&mut self, tcp: &mut [u8]) -> Result<(), SignError> {
        let addresses = (self.pair.local.address(), self.pair.remote.address());
        let segment = Segment::from_tcp(addresses.0, addresses.1, tcp)?;
        // The addresses are the connection's own by construction.
        if (segment.source().port(), segment.destination().port())
            != (self.pair.local.port(), self.pair.remote.port())
        {
            return Err(SignError::OtherConnection);
        }
        let (sequence, flags) = (segment.sequence(), segment.flags());
        let rnext_key_id = self.rnext_key().recv_id;
        let slot = self.slot(self.current);
        match &slot.keys {
            Keys::Traffic { send, .. } => {
                if flags.syn() && !flags.ack() {
                    return Err(SignError::State);
                }
                let sne = self.send.sne_of(sequence);
                let place = SignaturePlace::find(&segment, &slot.parameters)?;
                place.fill(send, sne, addresses, tcp, &slot.parameters, rnext_key_id);
            }
            Keys::Master(master_key) => {
                let (context, sne) = self.send_context(&segment)?;
                let key = TrafficKey::derive(slot.parameters.algorithm, master_key, &context);
                let place = SignaturePlace::find(&segment, &slot.parameters)?;
                place.fill(&key, sne, addresses, tcp, &slot.parameters, rnext_key_id);
                if flags.syn() && self.local_isn.is_none() {
                    self.local_isn = Some(Isn(sequence.0));
                    self.send = SneTracker::new(Isn(sequence.0));
                }
            }
        }
        if self.local_isn.is_some() {
            self.send.advance(sequence);
        }
        Ok(())
    }

    /// The KDF context and the SNE of a segment that goes out during the handshake.
    fn send_context(&self, segment: &Segment<'_>) -> Result<(KdfContext, Sne), SignError> {
        let (sequence, flags) = (segment.sequence(), segment.flags());
        let (syn, ack) = (flags.syn(), flags.ack());
        let isn = Isn(sequence.0);
        let is_local_isn = self.local_isn.is_none_or(|local_isn| local_isn == isn);
        match (self.phase, self.local_isn) {
            (Phase::SynSent | Phase::SynReceived, Some(_)) if syn && !ack && is_local_isn => {
                Ok((KdfContext::syn(self.pair.local, self.pair.remote, isn), Sne(0)))
            }
            (Phase::SynReceived, _) if syn && ack && is_local_isn => {
                Ok((KdfContext::send_other(self.pair, isn, self.remote_isn), Sne(0)))
            }
            // A listener that refuses the SYN resets without an ISN of its own; the peer takes the reset's sequence
            // number for it.
            (Phase::SynReceived, None) if flags.rst() => {
                Ok((KdfContext::send_other(self.pair, isn, self.remote_isn), Sne(0)))
            }
            (Phase::SynReceived, Some(local_isn)) if !syn => {
                let sne = self.send.sne_of(sequence);
                Ok((KdfContext::send_other(self.pair, local_isn, self.remote_isn), sne))
            }
            _ => Err(SignError::State),
        }
    }
}

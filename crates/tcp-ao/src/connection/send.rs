//! Signing what this end sends (RFC 5925 §7.4).

use wireseal_mac::Mac;

use crate::authenticate::{SignError, SignaturePlace};
use crate::connection::batch::{Input, Signature};
use crate::connection::keys::Keys;
use crate::connection::{Connection, Phase};
use crate::kdf::{KdfContext, TrafficKey};
use crate::mac_input::{EMPTY_START, Start, mac_input};
use crate::sne::SneTracker;
use crate::tcp::Tcp;
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
        let Some(signature) = self.signature_to_send(tcp)? else { return self.sign_in_handshake(tcp) };
        let mut start = EMPTY_START;
        let Some((key, input)) = self.input_to_send(tcp, &signature, &mut start) else {
            return Err(SignError::State);
        };
        let mac = key.mac_key().mac(&input);
        self.finish_signature(tcp, &signature, &mac);
        Ok(())
    }

    /// The signature that this segment is to have once there are traffic keys; `None` while there are not.
    #[inline(always)]
    pub(crate) fn signature_to_send(&self, tcp: &[u8]) -> Result<Option<Signature>, SignError> {
        let slot = self.slot(self.current);
        let Keys::Traffic { .. } = &slot.keys else { return Ok(None) };
        let tcp = self.outgoing(tcp)?;
        if tcp.opens() {
            return Err(SignError::State);
        }
        let place = SignaturePlace::find(tcp, &slot.parameters)?;
        let key_ids = [slot.parameters.send_id, self.rnext_key().recv_id];
        let sequence = tcp.sequence();
        let sne = self.send.sne_of(sequence);
        Ok(Some(Signature { slot: self.current, sequence, sne, key_ids, place }))
    }

    /// The key and the MAC input of a segment that is to have this signature; always there where the signature is.
    #[inline(always)]
    pub(crate) fn input_to_send<'s>(
        &'s self,
        tcp: &'s [u8],
        signature: &Signature,
        start: &'s mut Start,
    ) -> Option<Input<'s>> {
        let slot = self.slot(signature.slot);
        let Keys::Traffic { send: key, .. } = &slot.keys else { return None };
        let addresses = (self.pair.local.address_in_place(), self.pair.remote.address_in_place());
        let Signature { sne, place, key_ids, .. } = *signature;
        Some((key, mac_input(start, sne, addresses, tcp, place, Some(key_ids), slot.parameters.options)))
    }

    /// Writes the signature into the segment, which has now been sent.
    #[inline(always)]
    pub(crate) fn finish_signature(&mut self, tcp: &mut [u8], signature: &Signature, mac: &Mac) {
        signature.place.write(tcp, signature.key_ids, mac);
        self.send.advance_to(signature.sne, signature.sequence);
    }

    /// Views a segment that this connection sends; its addresses are the connection's own by construction.
    #[inline(always)]
    fn outgoing<'s>(&self, tcp: &'s [u8]) -> Result<Tcp<'s>, SignError> {
        let tcp = Tcp::parse(self.pair.local.address_in_place(), tcp)?;
        if !tcp.is_between(&self.pair.local, &self.pair.remote) {
            return Err(SignError::OtherConnection);
        }
        Ok(tcp)
    }

    /// Signs while the ISNs are open, with a key derived for this segment.
    #[cold]
    fn sign_in_handshake(&mut self, tcp: &mut [u8]) -> Result<(), SignError> {
        let view = self.outgoing(tcp)?;
        let (sequence, is_syn) = (view.sequence(), view.flags().syn());
        let slot = self.slot(self.current);
        let Keys::Master(master_key) = &slot.keys else { return Err(SignError::State) };
        let (context, sne) = self.send_context(view)?;
        let place = SignaturePlace::find(view, &slot.parameters)?;
        let key_ids = [slot.parameters.send_id, self.rnext_key().recv_id];
        let key = TrafficKey::derive(slot.parameters.algorithm, master_key, &context);
        let addresses = (self.pair.local.address_in_place(), self.pair.remote.address_in_place());
        let mut start = EMPTY_START;
        let input = mac_input(&mut start, sne, addresses, tcp, place, Some(key_ids), slot.parameters.options);
        let mac = key.mac_key().mac(&input);
        place.write(tcp, key_ids, &mac);
        if is_syn && self.local_isn.is_none() {
            self.local_isn = Some(Isn(sequence.0));
            self.send = SneTracker::new(Isn(sequence.0));
        }
        if self.local_isn.is_some() {
            self.send.advance(sequence);
        }
        Ok(())
    }

    /// The KDF context and the SNE of a segment that goes out during the handshake.
    fn send_context(&self, tcp: Tcp<'_>) -> Result<(KdfContext, Sne), SignError> {
        let (sequence, flags) = (tcp.sequence(), tcp.flags());
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

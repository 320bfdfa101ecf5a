//! Verifying what the peer sends, and learning from it: ISNs, SNE, the key it asks for (RFC 5925 §7.5).

use wireseal_mac::Mac;

use crate::authenticate::{SignaturePlace, VerifyError, check_mac_length, verify_segment};
use crate::connection::batch::{Input, Signature};
use crate::connection::keys::Keys;
use crate::connection::{Connection, Phase};
use crate::kdf::{KdfContext, TrafficKey};
use crate::mac_input::{EMPTY_START, Start, mac_input};
use crate::segment::Segment;
use crate::tcp::Tcp;
use crate::types::{Isn, KeyId, SeqNum, Sne};

/// A segment whose MAC has verified. Only [`Connection::verify`] makes one.
#[derive(Clone, Copy, Debug)]
pub struct Verified<'a> {
    segment: Segment<'a>,
    key_id: KeyId,
    current_key_changed: bool,
}

impl<'a> Verified<'a> {
    /// The segment itself.
    #[must_use]
    pub const fn segment(&self) -> Segment<'a> {
        self.segment
    }

    /// The RecvID of the MKT it was signed with.
    #[must_use]
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// Whether this segment's RNextKeyID made the connection change its current key.
    #[must_use]
    pub const fn current_key_changed(&self) -> bool {
        self.current_key_changed
    }
}

impl<const N: usize> Connection<N> {
    /// Verifies a received segment. On success the connection has learned from it what there was to learn; it is
    /// TCP's to judge whether the segment is in its window.
    ///
    /// A replayed segment verifies like the first: TCP's sequence numbers tell it from a new one (RFC 5925 §11).
    ///
    /// # Errors
    /// [`VerifyError`]: the segment must be dropped. Nothing has changed but [`counters`](Self::counters).
    #[inline]
    pub fn verify<'a>(&mut self, segment: &Segment<'a>) -> Result<Verified<'a>, VerifyError> {
        let verdict = self.check(segment);
        self.conclude(segment, verdict)
    }

    /// Counts the verdict, and learns from a segment that is authentic.
    #[inline(always)]
    pub(super) fn conclude<'a>(
        &mut self,
        segment: &Segment<'a>,
        verdict: Result<[KeyId; 2], VerifyError>,
    ) -> Result<Verified<'a>, VerifyError> {
        self.counters.count(&verdict);
        Ok(self.learn(segment, verdict?))
    }

    /// The KeyID and the RNextKeyID of a segment that is authentic: reads everything, changes nothing.
    #[inline(always)]
    fn check(&self, segment: &Segment<'_>) -> Result<[KeyId; 2], VerifyError> {
        let Some(signature) = self.signature_received(segment)? else {
            return self.check_in_handshake(segment);
        };
        let mut start = EMPTY_START;
        let Some((key, input)) = self.input_received(segment, &signature, &mut start) else {
            return Err(VerifyError::State);
        };
        signature.verdict(segment, &key.mac_key().mac(&input))
    }

    /// The signature that a segment of this connection carries, if it is one to be compared with a MAC; `None` while there are
    /// no traffic keys to compute it with.
    #[inline(always)]
    pub(crate) fn signature_received(&self, segment: &Segment<'_>) -> Result<Option<Signature>, VerifyError> {
        if !segment.is_between(&self.pair.remote, &self.pair.local) {
            return Err(VerifyError::OtherConnection);
        }
        let tcp = segment.without_addresses();
        let ao = tcp.ao_option()?.ok_or(VerifyError::Unsigned)?;
        let index = self.index(|key| key.recv_id == ao.key_id).ok_or(VerifyError::UnknownKeyId(ao.key_id))?;
        let slot = self.slot(index);
        let Keys::Traffic { .. } = &slot.keys else { return Ok(None) };
        // A late copy of the SYN has a key of its own, gone with the master key; TCP has no use for it.
        if tcp.opens() {
            return Err(VerifyError::State);
        }
        check_mac_length(&ao, &slot.parameters)?;
        let (sequence, place, key_ids) =
            (tcp.sequence(), SignaturePlace::of(&ao), [ao.key_id, ao.rnext_key_id]);
        let sne = self.receive.sne_of(sequence);
        Ok(Some(Signature { slot: index, sequence, sne, key_ids, place }))
    }

    /// The key and the MAC input of a segment that carries this signature; always there where the signature is.
    #[inline(always)]
    pub(crate) fn input_received<'s>(
        &'s self,
        segment: &Segment<'s>,
        signature: &Signature,
        start: &'s mut Start,
    ) -> Option<Input<'s>> {
        let slot = self.slot(signature.slot);
        let Keys::Traffic { receive: key, .. } = &slot.keys else { return None };
        let addresses = (self.pair.remote.address_in_place(), self.pair.local.address_in_place());
        let Signature { sne, place, .. } = *signature;
        Some((key, mac_input(start, sne, addresses, segment.tcp(), place, None, slot.parameters.options)))
    }

    /// Checks while the ISNs are open, with a key derived for this segment.
    #[cold]
    fn check_in_handshake(&self, segment: &Segment<'_>) -> Result<[KeyId; 2], VerifyError> {
        let ao = segment.ao_option()?.ok_or(VerifyError::Unsigned)?;
        let index = self.index(|key| key.recv_id == ao.key_id).ok_or(VerifyError::UnknownKeyId(ao.key_id))?;
        let slot = self.slot(index);
        let Keys::Master(master_key) = &slot.keys else { return Err(VerifyError::State) };
        let (context, sne) = self.receive_context(segment)?;
        check_mac_length(&ao, &slot.parameters)?;
        let key = TrafficKey::derive(slot.parameters.algorithm, master_key, &context);
        verify_segment(&key, sne, segment, &ao, &slot.parameters)?;
        Ok([ao.key_id, ao.rnext_key_id])
    }

    /// The KDF context and the SNE of a segment that arrives during the handshake.
    fn receive_context(&self, segment: &Segment<'_>) -> Result<(KdfContext, Sne), VerifyError> {
        let (sequence, flags) = (segment.sequence(), segment.flags());
        let (syn, ack) = (flags.syn(), flags.ack());
        let is_remote_isn = Isn(sequence.0) == self.remote_isn;
        match (self.phase, self.local_isn) {
            // The peer's SYN, crossing ours or repeated.
            (Phase::SynSent, _) if syn && !ack => {}
            (Phase::SynReceived, _) if syn && !ack && is_remote_isn => {}
            // The SYN-ACK, or a listener's reset, which stands on no ISN and carries its own (RFC 9293 §3.10.7.2). A SYN-ACK
            // is also heard after a SYN with another ISN: its key has our ISN in it, so it is fresh, and that SYN was not.
            (Phase::SynSent, Some(local_isn)) if syn || flags.rst() => {
                let context = KdfContext::receive_other(self.pair, local_isn, Isn(sequence.0));
                return Ok((context, Sne(0)));
            }
            (Phase::SynReceived, Some(local_isn)) if syn && ack => {
                let context = KdfContext::receive_other(self.pair, local_isn, Isn(sequence.0));
                return Ok((context, Sne(0)));
            }
            (Phase::SynReceived, Some(local_isn)) if !syn => {
                let context = KdfContext::receive_other(self.pair, local_isn, self.remote_isn);
                return Ok((context, self.receive.sne_of(sequence)));
            }
            _ => return Err(VerifyError::State),
        }
        Ok((KdfContext::syn(self.pair.remote, self.pair.local, Isn(sequence.0)), Sne(0)))
    }

    #[inline(always)]
    fn learn<'a>(&mut self, segment: &Segment<'a>, [key_id, rnext_key_id]: [KeyId; 2]) -> Verified<'a> {
        if self.phase != Phase::Established {
            self.learn_in_handshake(segment);
        }
        let mut current_key_changed = false;
        if self.is_newest(segment.without_addresses())
            && self.current_key().send_id != rnext_key_id
            && let Some(index) = self.index(|key| key.send_id == rnext_key_id)
        {
            self.current = index;
            current_key_changed = true;
        }
        if self.phase == Phase::Established {
            self.receive.advance(segment.sequence());
        }
        Verified { segment: *segment, key_id, current_key_changed }
    }

    /// Whether nothing that has verified so far was sent after this segment, as far as its numbers tell.
    ///
    /// RFC 5925 §7.5 hears the RNextKeyID of any segment. An older one, late or replayed, would bring back a key that the
    /// peer has moved on from and may have removed; among segments without data the acknowledgment tells which is older.
    #[inline(always)]
    fn is_newest(&mut self, tcp: Tcp<'_>) -> bool {
        let (sequence, acknowledgment) = (tcp.sequence(), tcp.acknowledgment());
        // A keepalive has the number before the next (RFC 9293 §3.8.4), and is not older for that.
        let behind = sequence.offset_from(self.receive.highest().1);
        let has_ack = tcp.flags().ack();
        let is_older = |newest: SeqNum| has_ack && acknowledgment.before(newest);
        if behind < -1 || behind <= 0 && self.newest_acknowledgment.is_some_and(is_older) {
            return false;
        }
        if has_ack {
            self.newest_acknowledgment = Some(acknowledgment);
        }
        true
    }

    #[cold]
    fn learn_in_handshake(&mut self, segment: &Segment<'_>) {
        let flags = segment.flags();
        if flags.syn() && (self.phase == Phase::SynSent || flags.ack()) {
            self.remote_isn = Isn(segment.sequence().0);
            self.receive = crate::sne::SneTracker::new(self.remote_isn);
            self.phase = Phase::SynReceived;
        }
        // Whatever carries an acknowledgment under the "other" keys shows that the peer knows both ISNs.
        if self.phase == Phase::SynReceived
            && flags.ack()
            && let Some(local_isn) = self.local_isn
        {
            self.establish(local_isn);
        }
    }
}

impl Signature {
    /// The KeyID and the RNextKeyID of the segment that carries this signature, if the MAC is this one.
    #[inline(always)]
    pub(super) fn verdict(&self, segment: &Segment<'_>, mac: &Mac) -> Result<[KeyId; 2], VerifyError> {
        let received = self.place.mac_in(segment.tcp());
        mac.verify(received)
            .map(|()| self.key_ids)
            .map_err(|_| VerifyError::BadMac { key_id: self.key_ids[0] })
    }
}

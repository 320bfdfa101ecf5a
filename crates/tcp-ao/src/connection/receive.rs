//! Verifying what the peer sends, and learning from it: ISNs, SNE, the key it asks for (RFC 5925 §7.5).

use crate::authenticate::{VerifyError, check_mac_length, verify_segment};
use crate::connection::keys::Keys;
use crate::connection::{Connection, Phase};
use crate::kdf::{KdfContext, TrafficKey};
use crate::option::AoOption;
use crate::segment::Segment;
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
    #[inline]
    pub(super) fn conclude<'a>(
        &mut self,
        segment: &Segment<'a>,
        verdict: Result<AoOption<'a>, VerifyError>,
    ) -> Result<Verified<'a>, VerifyError> {
        self.counters.count(&verdict);
        let ao = verdict?;
        Ok(self.learn(segment, &ao))
    }

    /// The verdict alone: reads everything, changes nothing.
    #[inline]
    fn check<'a>(&self, segment: &Segment<'a>) -> Result<AoOption<'a>, VerifyError> {
        if segment.source() != self.pair.remote || segment.destination() != self.pair.local {
            return Err(VerifyError::OtherConnection);
        }
        let ao = segment.ao_option()?.ok_or(VerifyError::Unsigned)?;
        let index = self.index(|key| key.recv_id == ao.key_id).ok_or(VerifyError::UnknownKeyId(ao.key_id))?;
        let slot = self.slot(index);
        match &slot.keys {
            Keys::Traffic { receive, .. } => {
                let flags = segment.flags();
                // A late copy of the SYN has a key of its own, gone with the master key; TCP has no use for it.
                if flags.syn() && !flags.ack() {
                    return Err(VerifyError::State);
                }
                let sne = self.receive.sne_of(segment.sequence());
                verify_segment(receive, sne, segment, &ao, &slot.parameters)?;
            }
            Keys::Master(master_key) => {
                let (context, sne) = self.receive_context(segment)?;
                check_mac_length(&ao, &slot.parameters)?;
                let key = TrafficKey::derive(slot.parameters.algorithm, master_key, &context);
                verify_segment(&key, sne, segment, &ao, &slot.parameters)?;
            }
        }
        Ok(ao)
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

    #[inline]
    fn learn<'a>(&mut self, segment: &Segment<'a>, ao: &AoOption<'_>) -> Verified<'a> {
        if self.phase != Phase::Established {
            self.learn_in_handshake(segment);
        }
        let mut current_key_changed = false;
        if self.is_newest(segment)
            && self.current_key().send_id != ao.rnext_key_id
            && let Some(index) = self.index(|key| key.send_id == ao.rnext_key_id)
        {
            self.current = index;
            current_key_changed = true;
        }
        if self.phase == Phase::Established {
            self.receive.advance(segment.sequence());
        }
        Verified { segment: *segment, key_id: ao.key_id, current_key_changed }
    }

    /// Whether nothing that has verified so far was sent after this segment, as far as its numbers tell.
    ///
    /// RFC 5925 §7.5 hears the RNextKeyID of any segment. An older one, late or replayed, would bring back a key that the
    /// peer has moved on from and may have removed; among segments without data the acknowledgment tells which is older.
    #[inline]
    fn is_newest(&mut self, segment: &Segment<'_>) -> bool {
        let (sequence, acknowledgment) = (segment.sequence(), segment.acknowledgment());
        // A keepalive has the number before the next (RFC 9293 §3.8.4), and is not older for that.
        let behind = sequence.offset_from(self.receive.highest().1);
        let has_ack = segment.flags().ack();
        let is_older = |newest: SeqNum| has_ack && acknowledgment.before(newest);
        if behind < -1 || behind <= 0 && self.newest_acknowledgment.is_some_and(is_older) {
            return false;
        }
        if has_ack {
            self.newest_acknowledgment = Some(acknowledgment);
        }
        true
    }

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

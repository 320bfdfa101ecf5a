//! Verifying received segments, and learning from them: ISNs, SNE, the key the peer asks for (RFC 5925 §7.5).

use crate::authenticate::{check_mac_length, compare};
use crate::connection::slot::{Keys, Slot};
use crate::connection::{AnotherSyn, Connection, Phase};
use crate::error::VerifyError;
use crate::kdf::{KdfContext, TrafficKey};
use crate::mac_input::MacInput;
use crate::option::AoOption;
use crate::segment::Segment;
use crate::sne::SneTracker;
use crate::tcp::Tcp;
use crate::types::{Isn, KeyId, Sne};

/// A segment whose MAC has verified. Only [`Connection::verify`] makes one.
#[derive(Clone, Copy, Debug)]
pub struct Verified<'a> {
    segment: Segment<'a>,
    key_id: KeyId,
    current_key_changed: bool,
    makes_progress: bool,
}

impl<'a> Verified<'a> {
    /// The segment.
    #[must_use]
    pub const fn segment(&self) -> Segment<'a> {
        self.segment
    }

    /// The RecvID of the MKT that signed it.
    #[must_use]
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// Whether this segment's RNextKeyID changed the connection's current key.
    #[must_use]
    pub const fn current_key_changed(&self) -> bool {
        self.current_key_changed
    }

    /// Whether its sequence or acknowledgment number is higher than any before. No replay's is.
    #[must_use]
    pub const fn makes_progress(&self) -> bool {
        self.makes_progress
    }
}

/// What verifies a received segment: the MKT of its KeyID, its AO option, its SNE.
#[derive(Clone, Copy)]
pub(super) struct Found<'c, 'a> {
    pub(super) slot: &'c Slot,
    pub(super) ao: AoOption<'a>,
    pub(super) sne: Sne,
}

// `inline(always)` in this file, `send.rs` and `mac_input.rs`: a batch takes 71 ns for each segment with it, 85 ns without (Zen 3). On
// the small functions that they call, in `keys.rs`, `segment.rs`, `sne.rs` and `types.rs`, it saves 2 % of verifying a batch.
impl<const N: usize> Connection<N> {
    /// Verifies a received segment. On success it updates ISN, SNE and current key; window checks remain TCP's job.
    ///
    /// A replayed segment verifies again: TCP's sequence numbers tell it from a new one (RFC 5925 §11).
    ///
    /// # Errors
    /// [`VerifyError`]: drop the segment. Only [`counters`](Self::counters) changed.
    #[inline]
    pub fn verify<'a>(&mut self, segment: &Segment<'a>) -> Result<Verified<'a>, VerifyError> {
        let verdict = self.find(segment).and_then(|found| self.check(segment, &found));
        self.conclude(segment, verdict)
    }

    /// Counts the verdict. Learns from an authentic segment, whose AO option is in the verdict.
    #[inline(always)]
    pub(super) fn conclude<'a>(
        &mut self,
        segment: &Segment<'a>,
        verdict: Result<AoOption<'a>, VerifyError>,
    ) -> Result<Verified<'a>, VerifyError> {
        self.counters.count(&verdict);
        Ok(self.learn(segment, &verdict?))
    }

    /// Finds MKT, AO option and SNE of a segment, and refuses segments that need no MAC to be refused.
    #[inline(always)]
    pub(super) fn find<'a>(&self, segment: &Segment<'a>) -> Result<Found<'_, 'a>, VerifyError> {
        if !segment.is_between(&self.pair.remote, &self.pair.local) {
            return Err(VerifyError::OtherConnection);
        }
        let tcp = segment.without_addresses();
        let ao = tcp.ao_option()?.ok_or(VerifyError::Unsigned)?;
        let slot = self.slots.iter().flatten().find(|slot| slot.parameters.recv_id == ao.key_id);
        let slot = slot.ok_or(VerifyError::UnknownKeyId(ao.key_id))?;
        let is_established = self.phase == Phase::Established;
        // The key of a late copy of the SYN went with the master key, and TCP has no use for the copy.
        if is_established && tcp.opens() {
            return Err(VerifyError::State);
        }
        check_mac_length(&ao, &slot.parameters)?;
        // A SYN's sequence number is an ISN, whatever came before.
        let is_first = !is_established && tcp.flags().syn();
        let sne = if is_first { Sne(0) } else { self.receive.sne_of(tcp.sequence()) };
        Ok(Found { slot, ao, sne })
    }

    /// Computes the MAC of a segment and compares.
    #[inline]
    fn check<'a>(&self, segment: &Segment<'a>, found: &Found<'_, 'a>) -> Result<AoOption<'a>, VerifyError> {
        let algorithm = found.slot.parameters.algorithm;
        let derived;
        let key = match &found.slot.keys {
            Keys::Traffic { receive, .. } => receive,
            Keys::Master(master_key) => {
                derived = TrafficKey::derive(algorithm, master_key, &self.receive_context(segment)?);
                &derived
            }
        };
        compare(&found.ao, &self.input_received(segment, found).mac(key))?;
        Ok(found.ao)
    }

    #[inline(always)]
    pub(super) fn input_received<'a>(&self, segment: &Segment<'a>, found: &Found<'_, 'a>) -> MacInput<'a> {
        let addresses = (self.pair.remote.address_in_place(), self.pair.local.address_in_place());
        MacInput::new(found.sne, addresses, segment.tcp(), found.ao.place(), found.slot.parameters.options)
    }

    /// The KDF context of a segment received during the handshake.
    #[cold]
    fn receive_context(&self, segment: &Segment<'_>) -> Result<KdfContext, VerifyError> {
        let (isn, flags) = (Isn(segment.sequence().0), segment.flags());
        let (syn, ack) = (flags.syn(), flags.ack());
        match (self.phase, self.local_isn) {
            // The peer's SYN, crossing ours, repeated, or another.
            (Phase::SynSent | Phase::SynReceived, _) if syn && !ack => {}
            // The SYN-ACK, or a listener's reset, whose own sequence number stands for the ISN that the listener never had
            // (RFC 9293 §3.10.7.2). A SYN-ACK also counts after a SYN with another ISN: its key includes our ISN, so it is
            // fresh and that SYN was not.
            (Phase::SynSent, Some(local_isn)) if syn || flags.rst() => {
                return Ok(KdfContext::receive_other(self.pair, local_isn, isn));
            }
            (Phase::SynReceived, Some(local_isn)) if syn && ack => {
                return Ok(KdfContext::receive_other(self.pair, local_isn, isn));
            }
            (Phase::SynReceived, Some(local_isn)) if !syn => {
                return Ok(KdfContext::receive_other(self.pair, local_isn, self.remote_isn));
            }
            _ => return Err(VerifyError::State),
        }
        Ok(KdfContext::syn(self.pair.remote, self.pair.local, isn))
    }

    #[inline(always)]
    fn learn<'a>(&mut self, segment: &Segment<'a>, ao: &AoOption<'a>) -> Verified<'a> {
        if self.phase != Phase::Established && self.learn_in_handshake(segment, ao) {
            let (segment, key_id) = (*segment, ao.key_id);
            return Verified { segment, key_id, current_key_changed: false, makes_progress: false };
        }
        let before = (self.receive.highest().1, self.newest_acknowledgment);
        let ids = (ao.key_id, ao.rnext_key_id);
        let is_first = self.last_ids != Some(ids) && self.hear(ids);
        let mut current_key_changed = false;
        if self.is_newest(segment.without_addresses(), is_first)
            && self.current_key().send_id != ao.rnext_key_id
            && let Some(index) = self.index(|key| key.send_id == ao.rnext_key_id)
        {
            self.current = index;
            current_key_changed = true;
        }
        if self.phase == Phase::Established {
            self.receive.advance(segment.sequence());
        }
        let makes_progress = before != (self.receive.highest().1, self.newest_acknowledgment);
        Verified { segment: *segment, key_id: ao.key_id, current_key_changed, makes_progress }
    }

    /// Notes who signed a segment and what it asks for. Returns whether either is heard for the first time.
    #[cold]
    fn hear(&mut self, ids: (KeyId, KeyId)) -> bool {
        self.last_ids = Some(ids);
        let mut is_first = false;
        for slot in self.slots.iter_mut().flatten() {
            if slot.parameters.recv_id == ids.0 {
                is_first |= !core::mem::replace(&mut slot.has_signed, true);
            }
            if slot.parameters.send_id == ids.1 {
                is_first |= !core::mem::replace(&mut slot.was_asked_for, true);
            }
        }
        is_first
    }

    /// Whether to obey the RNextKeyID of a verified segment.
    ///
    /// RFC 5925 §7.5 obeys any. A late or replayed segment could bring back a key that the peer has left and may have removed.
    /// Acknowledgments never go back, so an older one proves that the segment is old, and a newer one that it is new, even if it
    /// is a retransmission. If the acknowledgment is the same, a segment is new when its sequence number is, or when it is the
    /// first under its MKT or the first to ask for one (`is_first`).
    #[inline(always)]
    fn is_newest(&mut self, tcp: Tcp<'_>, is_first: bool) -> bool {
        if tcp.flags().ack() {
            let acknowledgment = tcp.acknowledgment();
            if self.newest_acknowledgment != Some(acknowledgment) {
                if self.newest_acknowledgment.is_some_and(|newest| acknowledgment.before(newest)) {
                    return false;
                }
                self.newest_acknowledgment = Some(acknowledgment);
                return true;
            }
        }
        // A keepalive is one below the next sequence number (RFC 9293 §3.8.4), and not old.
        is_first || tcp.sequence().offset_from(self.receive.highest().1) >= -1
    }

    /// Returns whether the segment is another SYN of the peer's, whose wishes count only if this end's stack answers it.
    #[cold]
    fn learn_in_handshake(&mut self, segment: &Segment<'_>, ao: &AoOption<'_>) -> bool {
        let flags = segment.flags();
        let isn = Isn(segment.sequence().0);
        if self.phase == Phase::SynReceived && flags.syn() && !flags.ack() && isn != self.remote_isn {
            let signed_with = self.index(|key| key.recv_id == ao.key_id).unwrap_or(self.rnext);
            let asked_for = self.index(|key| key.send_id == ao.rnext_key_id).unwrap_or(signed_with);
            self.another_syn = Some(AnotherSyn { isn, signed_with, asked_for });
            return true;
        }
        if flags.syn() && (self.phase == Phase::SynSent || flags.ack()) {
            self.remote_isn = isn;
            self.receive = SneTracker::new(self.remote_isn);
            self.phase = Phase::SynReceived;
        }
        // An acknowledgment under the "other" keys proves that the peer knows both ISNs.
        if self.phase == Phase::SynReceived
            && flags.ack()
            && let Some(local_isn) = self.local_isn
        {
            self.establish(local_isn);
        }
        false
    }
}

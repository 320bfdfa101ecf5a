//! Verifying received segments, and learning from them: ISNs, SNE, the key the peer asks for (RFC 5925 §7.5).

use crate::connection::send::is_refusal;
use crate::connection::slots::{Secrets, Shown};
use crate::connection::{Connection, Phase};
use crate::error::VerifyError;
use crate::kdf::{KdfContext, TrafficKey};
use crate::mac_input::MacInput;
use crate::mkt::OptionCoverage;
use crate::option::AoOption;
use crate::segment::{Segment, check_mac, check_mac_length};
use crate::tcp::Tcp;
use crate::types::{Isn, KeyId, Sne, SneTracker};

/// A segment whose MAC has verified. Only [`Connection::verify`] makes one.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
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

    /// Whether this segment changed the connection's current key: it asked for another (RNextKeyID), or it showed that the peer has moved on
    /// from one that is [accept-only](crate::MktParameters::accept_only).
    #[must_use]
    pub const fn current_key_changed(&self) -> bool {
        self.current_key_changed
    }

    /// Whether its sequence or acknowledgment number is higher than any before. A replay of a received segment has neither.
    #[must_use]
    pub const fn makes_progress(&self) -> bool {
        self.makes_progress
    }
}

/// The age of a verified segment, by its acknowledgment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Age {
    /// A segment with a newer acknowledgment came before.
    Older,
    /// It has the acknowledgment of the newest segment, or none.
    Unknown,
    /// It was sent after all that have come before.
    Newest,
}

/// What is needed to verify a received segment: the slot of its KeyID's MKT, what that MKT's MACs cover, its AO option, its SNE.
#[derive(Clone, Copy)]
pub(super) struct Found<'a> {
    slot: u8,
    coverage: OptionCoverage,
    pub(super) ao: AoOption<'a>,
    pub(super) sne: Sne,
}

// `inline(always)` in this file, `send.rs` and `mac_input.rs`, and on the small functions that they call in `keys.rs`, `segment.rs` and
// `types.rs`, is measured: without it a batch is slower (the scoreboard's rows of segments).
impl<const N: usize> Connection<N> {
    /// Verifies a received segment. On success it updates ISN, SNE and current key; window checks remain TCP's job.
    ///
    /// A replayed segment verifies again: TCP's sequence numbers tell it from a new one (RFC 5925 §11).
    ///
    /// # Errors
    /// [`VerifyError`]: drop the segment. Only [`counters`](Self::counters) changed.
    #[inline]
    pub fn verify<'a>(&mut self, segment: &Segment<'a>) -> Result<Verified<'a>, VerifyError> {
        let verdict = self.find(segment).and_then(|found| self.check(segment, found).map(|()| found));
        self.conclude(segment, verdict)
    }

    /// Counts the verdict, and learns from an authentic segment.
    #[inline(always)]
    pub(super) fn conclude<'a>(
        &mut self,
        segment: &Segment<'a>,
        verdict: Result<Found<'a>, VerifyError>,
    ) -> Result<Verified<'a>, VerifyError> {
        match verdict {
            Ok(found) => {
                self.good = self.good.saturating_add(1);
                Ok(self.learn(segment, found))
            }
            Err(error) => {
                self.refused.count(&verdict);
                Err(error)
            }
        }
    }

    /// Finds MKT, AO option and SNE of a segment, and refuses what can be refused without a MAC.
    #[inline(always)]
    pub(super) fn find<'a>(&self, segment: &Segment<'a>) -> Result<Found<'a>, VerifyError> {
        if !segment.is_between(&self.pair.remote, &self.pair.local) {
            return Err(VerifyError::OtherConnection);
        }
        let tcp = segment.without_addresses();
        let ao = tcp.ao_option()?.ok_or(VerifyError::Unsigned)?;
        let found = self.find_key(|key| key.recv_id == ao.key_id);
        let (slot, parameters) = found.ok_or(VerifyError::UnknownKeyId(ao.key_id))?;
        let is_established = self.phase == Phase::Established;
        // A late copy of the SYN: its key was wiped with the master key, and TCP has no use for it.
        if is_established && tcp.opens() {
            return Err(VerifyError::State);
        }
        check_mac_length(&ao, parameters)?;
        let sne = if is_established { self.receive.sne_of(tcp.sequence()) } else { self.handshake_sne(tcp) };
        Ok(Found { slot, coverage: parameters.options, ao, sne })
    }

    /// Computes the MAC of a segment and compares.
    #[inline(always)]
    fn check(&self, segment: &Segment<'_>, found: Found<'_>) -> Result<(), VerifyError> {
        match self.ready_key(found) {
            Some(key) => check_mac(&found.ao, self.input_received(segment, found), key),
            None => self.check_with_new_key(segment, found),
        }
    }

    /// The traffic key for a segment, if it is ready.
    #[inline(always)]
    pub(super) fn ready_key(&self, found: Found<'_>) -> Option<&TrafficKey> {
        match &self.secrets {
            Secrets::Traffic(keys) if found.slot == self.verifies_with => Some(&keys.receive),
            _ => None,
        }
    }

    /// Checks the MAC under a traffic key made for this segment alone: in the handshake, or under a key that is not ready. Forged segments
    /// come here too, so nothing is kept.
    #[cold]
    #[inline(never)]
    fn check_with_new_key(&self, segment: &Segment<'_>, found: Found<'_>) -> Result<(), VerifyError> {
        let key = match &self.secrets {
            Secrets::Traffic(keys) => keys
                .octets
                .get(usize::from(found.slot))
                .zip(self.key_in(found.slot))
                .and_then(|(octets, key)| TrafficKey::expand(key.algorithm, &octets.receive)),
            Secrets::Master(_) => self.derive(found.slot, &self.receive_context(segment)?),
        };
        self.check_with(key.as_ref().ok_or(VerifyError::State)?, segment, found)
    }

    /// A separate function, to keep the stack small while a key is derived.
    #[inline(never)]
    fn check_with(
        &self,
        key: &TrafficKey,
        segment: &Segment<'_>,
        found: Found<'_>,
    ) -> Result<(), VerifyError> {
        check_mac(&found.ao, self.input_received(segment, found), key)
    }

    #[inline(always)]
    pub(super) fn input_received<'a>(&self, segment: &Segment<'a>, found: Found<'a>) -> MacInput<'a> {
        let addresses = (self.pair.remote.address_in_place(), self.pair.local.address_in_place());
        MacInput::new(found.sne, addresses, segment.tcp(), found.ao.place(), found.coverage)
    }

    /// Whether it is a listener's reset in answer to this end's SYN.
    fn is_refusal(&self, tcp: Tcp<'_>) -> bool {
        let acknowledges = self.local_isn.map(|isn| isn.0.wrapping_add(1));
        is_refusal(tcp.flags(), tcp.sequence(), Some(self.remote_isn))
            && Some(tcp.acknowledgment().0) == acknowledges
    }

    #[cold]
    fn handshake_sne(&self, tcp: Tcp<'_>) -> Sne {
        // A SYN's sequence number is an ISN, whatever came before.
        if tcp.flags().syn() || self.is_refusal(tcp) {
            return Sne(0);
        }
        self.receive.sne_of(tcp.sequence())
    }

    /// The KDF context of a segment received during the handshake.
    #[cold]
    fn receive_context(&self, segment: &Segment<'_>) -> Result<KdfContext, VerifyError> {
        let (isn, flags) = (Isn(segment.sequence().0), segment.flags());
        let (syn, ack) = (flags.syn(), flags.ack());
        let tcp = segment.without_addresses();
        match (self.phase, self.local_isn) {
            // The peer's SYN, crossing ours or repeated.
            _ if syn && !ack && (self.phase == Phase::SynSent || isn == self.remote_isn) => {
                Ok(KdfContext::syn(self.pair.remote, self.pair.local, isn))
            }
            // The SYN-ACK, or a listener's reset. A SYN-ACK also counts after a SYN with another ISN: its key includes our ISN, so
            // it is fresh and that SYN was not.
            (Phase::SynSent, Some(local_isn)) if syn || flags.rst() => {
                Ok(KdfContext::receive_other(self.pair, local_isn, isn))
            }
            (Phase::SynReceived, Some(local_isn)) if syn && ack || self.is_refusal(tcp) => {
                Ok(KdfContext::receive_other(self.pair, local_isn, isn))
            }
            (Phase::SynReceived, Some(local_isn)) if !syn => {
                Ok(KdfContext::receive_other(self.pair, local_isn, self.remote_isn))
            }
            _ => Err(VerifyError::State),
        }
    }

    #[inline(always)]
    fn learn<'a>(&mut self, segment: &Segment<'a>, Found { slot, ao, .. }: Found<'a>) -> Verified<'a> {
        if self.phase != Phase::Established {
            self.learn_in_handshake(segment);
        }
        let tcp = segment.without_addresses();
        let age = self.age(tcp);
        let asks_for_another = self.key_in(self.current).is_some_and(|key| key.send_id != ao.rnext_key_id);
        let current_key_changed = asks_for_another && self.obey(tcp, ao.rnext_key_id, slot, age);
        let is_ahead = self.is_ahead(tcp) && self.phase == Phase::Established;
        if is_ahead {
            self.receive.advance(tcp.sequence());
        }
        let makes_progress = is_ahead || age == Age::Newest;
        // A late or replayed segment does not show which key the peer asks for now, a replay not which it signs with.
        if current_key_changed || makes_progress && age != Age::Older {
            self.heard.asked(ao.rnext_key_id);
        }
        if makes_progress {
            if self.current == slot {
                self.heard.shown.set(Shown::USES_CURRENT, true);
            }
            if self.rnext == slot {
                self.heard.shown.set(Shown::USES_RNEXT, true);
            }
            if self.verifies_with != slot {
                self.verify_next_with(slot);
            }
        }
        let has_left = self.current != self.rnext && self.leave_current_key();
        let current_key_changed = current_key_changed || has_left;
        Verified { segment: *segment, key_id: ao.key_id, current_key_changed, makes_progress }
    }

    /// Whether the sequence number is higher than any before.
    #[inline(always)]
    fn is_ahead(&self, tcp: Tcp<'_>) -> bool {
        self.receive.highest().1.before(tcp.sequence())
    }

    /// Records the acknowledgment of a verified segment. It tells the age better than the sequence number: it never goes back, not even in
    /// retransmissions.
    #[inline(always)]
    fn age(&mut self, tcp: Tcp<'_>) -> Age {
        let acknowledgment = tcp.acknowledgment();
        if !tcp.flags().ack() || self.newest_acknowledgment == Some(acknowledgment) {
            return Age::Unknown;
        }
        let is_newer = self.newest_acknowledgment.is_none_or(|newest| newest.before(acknowledgment));
        // An acknowledgment of data that was never sent is a replay from 2^31 octets ago; a pure acknowledgment that old still verifies.
        if !is_newer || self.send.highest().1.before(acknowledgment) {
            return Age::Older;
        }
        self.newest_acknowledgment = Some(acknowledgment);
        Age::Newest
    }

    /// Signs with the key that a verified segment asks for, unless the request may be old. Returns whether it was obeyed.
    ///
    /// RFC 5925 §7.5 obeys any segment; a late or replayed one could then bring back a key that the peer has removed.
    #[cold]
    fn obey(&mut self, tcp: Tcp<'_>, asked_for: KeyId, signed_with: u8, age: Age) -> bool {
        let Some(slot) = self.index(|key| key.send_id == asked_for) else { return false };
        let signs_with_current = self.current == signed_with;
        let is_obeyed = match age {
            Age::Older => false,
            Age::Newest => true,
            Age::Unknown => self.is_ahead(tcp) || self.heard.obeys_unproven(slot, signs_with_current),
        };
        if is_obeyed {
            self.make_current(slot);
            self.heard.obeyed(slot, age == Age::Newest);
        }
        is_obeyed
    }

    #[cold]
    fn learn_in_handshake(&mut self, segment: &Segment<'_>) {
        let flags = segment.flags();
        if flags.syn() && (self.phase == Phase::SynSent || flags.ack()) {
            self.remote_isn = Isn(segment.sequence().0);
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
    }
}

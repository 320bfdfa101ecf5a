//! The sending half of a connection: it counts, seals, starts key updates and follows those of the peer.

use core::fmt;
use core::time::Duration;

use wireseal_algorithms::AeadAlgorithm;

use crate::error::SealError;
use crate::next_phase::{NextPhase, UpdateError};
use crate::one_rtt::now::Now;
use crate::one_rtt::phases::{KeyPhases, Word};
use crate::open::OpenError;
use crate::packet_key::HeaderOctets;
use crate::packet_number::{MAX_PACKET_NUMBER, NumberLength};
use crate::seal::{Outgoing, Sealer};

/// The half of a [`OneRtt`](crate::OneRtt) that seals, for a thread of its own ([`OneRtt::split`](crate::OneRtt::split)).
///
/// Key updates and acknowledgments are its business too, because what they depend on is what was sent. The receiving thread tells
/// it the [generation](crate::Opened::generation) and the largest number of each ACK frame, as it has to tell it about the ACK frame
/// itself. When [`ReceivingHalf::open`](crate::ReceivingHalf::open) has opened a packet that updates the keys, and this thread has been
/// told, whatever it seals uses the new ones.
pub struct SendingHalf {
    pub(super) sealer: Sealer,
    /// For [`export`](crate::OneRtt::export), like all secrets of a present or previous phase.
    pub(super) header_octets: HeaderOctets,
    pub(super) next: NextPhase,
    /// How many key updates there were. The lowest bit is the key phase bit.
    pub(super) generation: u64,
    /// The number of the first packet of this phase.
    pub(super) first: Option<u64>,
    /// Whether a packet of this phase is acknowledged.
    pub(super) acknowledged: bool,
    /// A packet was sealed after the first one of this phase was opened, so the peer may have an acknowledgment.
    pub(super) answered: bool,
    /// The largest number acknowledged, in any phase.
    pub(super) largest_acknowledged: Option<u64>,
    pub(super) confirmed: bool,
    /// No update before this time (RFC 9001 §6.5).
    pub(super) update_from: Duration,
}

impl SendingHalf {
    /// Seals a packet with a short header in place, in the present key phase, and returns its number.
    ///
    /// # Errors
    ///
    /// [`SealError`], with nothing written and no number used. [`SealError::NumberTooShort`] if `outgoing` leaves room for fewer
    /// octets of the number than the peer needs ([`NumberLength::needed`]). After [`SealError::ConfidentialityLimit`] update the keys. If
    /// that is not allowed, close the connection (RFC 9001 §6.6).
    #[inline]
    pub fn seal(&mut self, phases: &KeyPhases, outgoing: Outgoing<'_>) -> Result<u64, SealError> {
        let has_opened = self.enter(phases);
        if let Some(next) = self.next_number() {
            outgoing.number_length.check(next, self.largest_acknowledged)?;
        }
        let number = self.sealer.seal_in_phase(outgoing, self.key_phase())?;
        self.first.get_or_insert(number);
        self.prepare();
        if has_opened && !self.answered {
            self.answered = true;
            phases.set_sending(self.word());
        }
        Ok(number)
    }

    /// Enters the phase that the receiving half is in. Every call that borrows `phases` does this first. Call it by itself before you ask
    /// for [`remaining`](Self::remaining) or [`key_phase`](Self::key_phase).
    pub fn follow(&mut self, phases: &KeyPhases) {
        self.enter(phases);
    }

    /// Enters the phase that the receiving half is in. Returns whether that has opened a packet of this phase.
    #[inline]
    fn enter(&mut self, phases: &KeyPhases) -> bool {
        let receiving = phases.receiving();
        if receiving.is_after(self.generation) {
            self.advance();
            phases.set_sending(self.word());
        }
        receiving.has_flag_in(self.generation)
    }

    /// Enters the next phase. Its key is there since a packet was sealed in the present one, or is derived now.
    fn advance(&mut self) {
        (self.sealer.keys.packet_key, _) = self.next.take();
        self.sealer.sealed = 0;
        self.first = None;
        self.acknowledged = false;
        self.answered = false;
        self.generation += 1;
    }

    pub(super) const fn word(&self) -> Word {
        Word::new(self.generation, self.answered)
    }

    /// Derives the key of the next phase, unless it is there, like [`OneRtt::prepare`](crate::OneRtt::prepare).
    pub fn prepare(&mut self) {
        self.next.prepare();
    }

    /// For how many phases keys were derived in this direction, like [`OneRtt::derivations`](crate::OneRtt::derivations).
    #[must_use]
    pub const fn derivations(&self) -> u64 {
        1 + self.next.derivations
    }

    /// Call this when the handshake is confirmed (RFC 9001 §4.1.2). From then on keys may be updated.
    pub fn confirm_handshake(&mut self) {
        self.confirmed = true;
    }

    /// Updates the keys of both directions: the next packet is sealed in the new phase (RFC 9001 §6.1).
    ///
    /// # Errors
    ///
    /// [`UpdateError`]. An update by the peer is followed all the same; nothing else changes.
    pub fn initiate_update(&mut self, phases: &KeyPhases, time: Duration) -> Result<(), UpdateError> {
        self.enter(phases);
        if !self.confirmed {
            return Err(UpdateError::HandshakeNotConfirmed);
        }
        // An acknowledgment is in a packet of this phase, which the receiving half has opened. So neither half is more than one phase
        // ahead.
        let has_opened = phases.receiving().has_flag_in(self.generation);
        if self.generation > 0 && !(self.acknowledged && has_opened) {
            return Err(UpdateError::NotAcknowledged);
        }
        if time < self.update_from {
            return Err(UpdateError::TooSoon { from: self.update_from });
        }
        self.advance();
        phases.set_sending(self.word());
        Ok(())
    }

    /// Call this when a packet opened with the keys of `generation` ([`Opened::generation`](crate::Opened::generation)) acknowledges
    /// packets up to `largest`. The numbers sent from now on may be shorter ([`number_length`](Self::number_length)). If one of the
    /// packets is of the present phase, another update becomes possible three probe timeouts later (RFC 9001 §6.1 and §6.5).
    ///
    /// A number that was never sent changes nothing, nor does one that was [skipped](Self::skip_numbers). Close the connection
    /// with PROTOCOL_VIOLATION if an ACK frame has such a number, also below its largest (RFC 9000 §13.1). Numbers below the first of
    /// [`PacketNumberCounter::starting_at`](crate::PacketNumberCounter::starting_at) count as sent, and so do those that were skipped before
    /// the connection moved.
    ///
    /// # Errors
    ///
    /// [`OpenError::KeyUpdate`], with nothing changed, if a packet under old keys acknowledges one under new keys: the peer did not
    /// answer the update. Close the connection (RFC 9001 §6.2).
    pub fn acknowledged(
        &mut self,
        phases: &KeyPhases,
        largest: u64,
        generation: u64,
        now: Now,
    ) -> Result<(), OpenError> {
        self.enter(phases);
        // It could make the next numbers too short, and allow an update that the peer knows nothing of.
        if !self.sealer.counter.has_given(largest) {
            return Ok(());
        }
        let of_this_phase = self.first.is_some_and(|first| largest >= first);
        if of_this_phase && generation < self.generation {
            return Err(OpenError::KeyUpdate);
        }
        self.largest_acknowledged = self.largest_acknowledged.max(Some(largest));
        if of_this_phase && !self.acknowledged {
            self.acknowledged = true;
            // Before the first update there is no update that the peer could still be busy with.
            if self.generation > 0 {
                self.update_from = now.after_probe_timeouts();
            }
        }
        Ok(())
    }

    /// Whether half of the packets that the confidentiality limit allows are sealed: time to
    /// [update](Self::initiate_update) (RFC 9001 §6.6).
    #[must_use]
    pub fn update_due(&self) -> bool {
        let limit = self.algorithm().confidentiality_limit();
        limit.is_some_and(|limit| self.sealer.sealed >= limit / 2)
    }

    /// How many packets may still be sealed in this phase (RFC 9001 §6.6); `None` if there is no limit.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.sealer.remaining()
    }

    /// The number of the next packet, or `None` when all are used.
    #[must_use]
    pub const fn next_number(&self) -> Option<u64> {
        self.sealer.next_number()
    }

    /// How many octets of its number to send in the next packet, [as advised](NumberLength::advised) by what was
    /// [acknowledged](Self::acknowledged): the peer can decode it even if many later packets arrive before it (RFC 9000 §17.1). More are
    /// allowed, and fewer as long as the peer [needs](NumberLength::needed) no more.
    #[must_use]
    pub fn number_length(&self) -> NumberLength {
        let next = self.next_number().unwrap_or(MAX_PACKET_NUMBER);
        NumberLength::advised(next, self.largest_acknowledged)
    }

    /// Leaves out the next `count` numbers, like [`PacketNumberCounter::skip`](crate::PacketNumberCounter::skip).
    pub fn skip_numbers(&mut self, count: u64) {
        self.sealer.skip_numbers(count);
    }

    /// How many key updates there were, by either end, when this half was last called.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// The key phase bit of the packet sealed last, unless [`initiate_update`](Self::initiate_update) was called since.
    #[must_use]
    pub const fn key_phase(&self) -> bool {
        self.generation % 2 == 1
    }

    /// The AEAD.
    #[must_use]
    pub const fn algorithm(&self) -> AeadAlgorithm {
        self.sealer.keys.algorithm()
    }
}

impl fmt::Debug for SendingHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendingHalf")
            .field("sealer", &self.sealer)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

//! The receiving half of a connection: it chooses the key by phase and number, opens, and follows key updates of both ends.

use core::fmt;
use core::time::Duration;

use wireseal_algorithms::AeadAlgorithm;

use crate::codec::PacketType;
use crate::next_phase::NextPhase;
use crate::one_rtt::now::Now;
use crate::one_rtt::phases::{KeyPhases, Word};
use crate::open::{OpenError, Opened, Unmasked};
use crate::packet_key::{HeaderKey, HeaderOctets, PacketKey};
use crate::protected::Protected;
use crate::receive_space::{AuthenticationFailures, ReceiveSpace};
use crate::secret::TrafficSecret;
use crate::version::Version;

/// The half of a [`OneRtt`](crate::OneRtt) that opens, for a thread of its own ([`OneRtt::split`](crate::OneRtt::split)).
pub struct ReceivingHalf {
    pub(super) version: Version,
    pub(super) header_key: HeaderKey,
    pub(super) header_octets: HeaderOctets,
    pub(super) previous: Option<Previous>,
    pub(super) current: PacketKey,
    pub(super) next: NextPhase,
    /// How many key updates there were. The lowest bit is the key phase bit.
    pub(super) generation: u64,
    /// The lowest and the highest number that `current` has opened.
    pub(super) opened: Option<(u64, u64)>,
}

pub(super) struct Previous {
    pub(super) key: PacketKey,
    pub(super) secret: TrafficSecret,
    /// Known once the present key has opened a packet.
    pub(super) expires: Option<Duration>,
}

/// Which of the receive keys was tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Previous,
    Current,
    Next,
}

impl ReceivingHalf {
    /// Opens a packet with a short header: removes the mask, decodes the number, chooses the key by phase and number, decrypts,
    /// and then checks reserved bits, that there are frames, and duplicates, all in one step (RFC 9001 §5.5, §6.3 and §9.5). The fixed
    /// bit is [yours to check](Protected::fixed_bit).
    ///
    /// If the peer has updated its keys, so does this end: everything sealed after this call returns uses the new keys, including
    /// the acknowledgment of this packet (RFC 9001 §6.2).
    ///
    /// # Errors
    ///
    /// [`OpenError`], as for [`Keys::open`](crate::Keys::open), and [`OpenError::Undecryptable`] for a long header. The packet does not
    /// change the key phase. An update by the sending half is followed all the same, and a previous key is wiped if its time is over.
    #[inline]
    pub fn open<'a>(
        &mut self,
        phases: &KeyPhases,
        packet: Protected<'a>,
        now: Now,
        space: &mut ReceiveSpace,
        failures: &mut AuthenticationFailures,
    ) -> Result<Opened<'a>, OpenError> {
        self.expire(now.time);
        let sending = self.enter(phases);
        if sending.has_flag_in(self.generation) {
            // Nothing to do, if the caller prepares. It depends on what was opened before, not on this packet.
            self.prepare();
        }
        let expected = (PacketType::OneRtt, self.version);
        let unmasked = Unmasked::new(packet, expected, &self.header_key, space)?;
        let key_phase = unmasked.key_phase();
        let (phase, key) = self.choose(unmasked.number, key_phase, sending);
        let generation = match phase {
            Phase::Previous => self.generation.saturating_sub(1),
            Phase::Current => self.generation,
            Phase::Next => self.generation + 1,
        };
        let authentic = unmasked.open(key, generation, failures)?;
        let number = authentic.number;
        let out_of_order = match (phase, self.opened) {
            (Phase::Previous, Some((lowest, _))) => number >= lowest,
            (Phase::Next, Some((_, highest))) => number <= highest,
            // A peer that set the bit of the other phase on a packet of this one.
            (Phase::Current, _) => key_phase != self.key_phase(),
            _ => false,
        };
        if out_of_order {
            return Err(authentic.refuse(OpenError::KeyUpdate));
        }
        let opened = authentic.judge(space)?;
        if phase == Phase::Next {
            self.advance();
        }
        if phase != Phase::Previous {
            self.note_opened(number, now, phases);
        }
        Ok(opened)
    }

    /// The one key to try. The choice takes the same time whatever it is.
    fn choose(&self, number: u64, key_phase: bool, sending: Word) -> (Phase, &PacketKey) {
        let Self { previous, current, next, opened, .. } = self;
        if key_phase == self.key_phase() {
            return (Phase::Current, current);
        }
        let beyond = opened.is_some_and(|(_, highest)| number > highest);
        match (previous, next.key()) {
            // The peer has updated its keys, which it may do once it has an acknowledgment of this phase.
            (_, Some(next)) if beyond && sending.has_flag_in(self.generation) => (Phase::Next, next),
            (Some(previous), _) => (Phase::Previous, &previous.key),
            (None, Some(next)) if sending.is_in(self.generation) => (Phase::Next, next),
            // Nothing was sealed in this phase, so the peer cannot have updated its keys.
            (None, _) => (Phase::Current, current),
        }
    }

    /// Records what the present key has opened.
    fn note_opened(&mut self, number: u64, now: Now, phases: &KeyPhases) {
        match &mut self.opened {
            Some((lowest, highest)) => {
                *lowest = number.min(*lowest);
                *highest = number.max(*highest);
            }
            None => {
                self.opened = Some((number, number));
                if let Some(previous) = &mut self.previous {
                    previous.expires = Some(now.after_probe_timeouts());
                }
                phases.set_receiving(self.word());
            }
        }
    }

    /// Enters the phase that the sending half is in. Every call that borrows `phases` does this first. Call it by itself before you ask for
    /// [`expires`](Self::expires).
    pub fn follow(&mut self, phases: &KeyPhases) {
        self.enter(phases);
    }

    /// Enters the phase that the sending half is in. Returns what that says of itself.
    #[inline]
    fn enter(&mut self, phases: &KeyPhases) -> Word {
        let sending = phases.sending();
        if sending.is_after(self.generation) {
            self.advance();
        }
        sending
    }

    /// Enters the next phase. A peer's update was opened with its key; for one of this end it is derived now, unless it was prepared.
    fn advance(&mut self) {
        let (next, secret) = self.next.take();
        let key = core::mem::replace(&mut self.current, next);
        self.previous = Some(Previous { key, secret, expires: None });
        self.opened = None;
        self.generation += 1;
    }

    pub(super) const fn word(&self) -> Word {
        Word::new(self.generation, self.opened.is_some())
    }

    /// Derives the key of the next phase, unless it is there.
    ///
    /// Call this between packets, such as before each wait for the next. Without it, the first packet after this end has answered a key
    /// update has to wait for the derivation, whatever its own phase (RFC 9001 §9.5).
    pub fn prepare(&mut self) {
        self.next.prepare();
    }

    /// For how many phases keys were derived in this direction, like [`OneRtt::derivations`](crate::OneRtt::derivations).
    #[must_use]
    pub const fn derivations(&self) -> u64 {
        1 + self.next.derivations
    }

    /// Wipes the keys of the previous phase if their time is over (RFC 9001 §6.5). [`open`](Self::open) does this too.
    pub fn expire(&mut self, time: Duration) {
        if self.expires().is_some_and(|expires| expires <= time) {
            self.previous = None;
        }
    }

    /// When the keys of the previous phase are to be wiped; `None` if there are none, or no packet of this phase was received yet.
    #[must_use]
    pub fn expires(&self) -> Option<Duration> {
        self.previous.as_ref()?.expires
    }

    /// How many key updates there were, by either end, when this half was last called.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    const fn key_phase(&self) -> bool {
        self.generation % 2 == 1
    }

    /// The AEAD.
    #[must_use]
    pub const fn algorithm(&self) -> AeadAlgorithm {
        self.current.algorithm()
    }
}

impl fmt::Debug for ReceivingHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceivingHalf")
            .field("version", &self.version)
            .field("algorithm", &self.algorithm())
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

//! The 1-RTT keys of both directions, and key update (RFC 9001 §6).

mod sealer;

use core::fmt;
use core::time::Duration;

use wireseal_aead::Backend;
use wireseal_algorithms::AeadAlgorithm;

use crate::codec::PacketType;
use crate::error::{KeyError, OpenError, SealError};
use crate::keys::Keys;
use crate::open::{Opened, Unmasked};
use crate::packet_key::{HeaderKey, PacketKey};
use crate::packet_number::{MAX_PACKET_NUMBER, NumberLength, PacketNumberCounter};
use crate::protected::Protected;
use crate::receive_space::{AuthenticationFailures, ReceiveSpace};
use crate::seal::{Outgoing, Sealer};
use crate::secret::TrafficSecret;
use crate::version::Version;

pub use sealer::OneRttSealer;

/// The time and the probe timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The time since an instant that stays the same for the connection.
    pub time: Duration,
    /// The probe timeout (RFC 9002 §6.2.1).
    pub probe_timeout: Duration,
}

impl Now {
    /// When old keys are wiped, and when the next update is allowed. RFC 9001 §6.5: "An endpoint SHOULD retain old read keys for no more
    /// than three times the PTO after having received a packet protected using the new keys", and "SHOULD wait three times the PTO before
    /// initiating a key update after receiving an acknowledgment that confirms that the previous key update was received."
    fn after_three_probe_timeouts(self) -> Duration {
        self.time.saturating_add(self.probe_timeout.saturating_mul(3))
    }
}

/// The 1-RTT packet protection of a connection in both directions, with key update (RFC 9001 §6). Both directions are in one value because
/// an update by either end updates both.
///
/// [`OneRttSealer::complete_handshake`] creates it, because nothing may be opened earlier (RFC 9001 §5.7).
///
/// The keys of the next phase are derived before they are needed. Each packet is tried with exactly one key, and opening derives none, so a
/// forged key phase bit costs no more than any other forgery (RFC 9001 §9.5). The key phase bit and the packet number choose the key:
///
/// | key phase bit | packet number | key |
/// |---|---|---|
/// | of this phase | any | the current one |
/// | the other | above all that the current key has opened, and this end has answered in this phase | the next one: the peer has updated its keys |
/// | the other | any other, while the previous key is kept | the previous one |
/// | the other | any, once the previous key is wiped | the next one; the current one if the next is not derived, because nothing was sealed yet |
///
/// A late packet of the old phase is opened, and the phase stays. If it is more than three probe timeouts late, it counts as a failed
/// authentication, because it cannot be told from a forgery.
///
/// It takes at most 4,096 octets, with the feature `aws-lc-rs` 4,608, and no heap of its own. Not for multipath, where the packet numbers
/// of different paths are not comparable.
pub struct OneRtt {
    backend: Backend,
    /// Holds the keys for sending, and the counter.
    sealer: Sealer,
    /// For receiving. Key updates do not change header protection keys (RFC 9001 §6.1).
    header_key: HeaderKey,
    previous: Option<Previous>,
    current: PacketKey,
    next: Option<NextKeys>,
    /// The secrets of the latest phase with derived keys: for sending, then for receiving.
    secrets: [TrafficSecret; 2],
    /// How many key updates there were. The lowest bit is the key phase bit.
    generation: u64,
    /// The number of the first packet sealed in this phase.
    first: Option<u64>,
    /// Whether the peer has acknowledged a packet of this phase.
    acknowledged: bool,
    /// The lowest and the highest number that `current` has opened.
    opened: Option<(u64, u64)>,
    /// Whether a packet was sealed after the first one of this phase was opened. Until then the peer cannot have the acknowledgment that it
    /// needs for its next update (RFC 9001 §6.1).
    answered: bool,
    /// The largest number that the peer has acknowledged, in any phase.
    largest_acknowledged: Option<u64>,
    confirmed: bool,
    /// No update before this time.
    update_from: Duration,
}

// A server has one for each of thousands of connections. With aws-lc-rs it is larger: each header key is also expanded for decryption.
const _: () = assert!(size_of::<OneRtt>() <= if cfg!(feature = "aws-lc-rs") { 4608 } else { 4096 });

/// The receive key of the phase before.
struct Previous {
    key: PacketKey,
    /// Known once the current key has opened a packet.
    expires: Option<Duration>,
}

/// The keys of the next phase.
struct NextKeys {
    seal: PacketKey,
    open: PacketKey,
}

/// Which receive key is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Previous,
    Current,
    Next,
}

impl OneRtt {
    fn with_backend(
        backend: Backend,
        version: Version,
        secrets: [TrafficSecret; 2],
        counter: PacketNumberCounter,
    ) -> Self {
        let [seal, open] = secrets
            .each_ref()
            .map(|secret| Keys::derive(backend, version, PacketType::OneRtt, &secret.expander()));
        let mut one_rtt = Self {
            backend,
            sealer: Sealer::new(seal, counter),
            header_key: open.header_key,
            previous: None,
            current: open.packet_key,
            next: None,
            secrets,
            generation: 0,
            first: None,
            acknowledged: false,
            opened: None,
            answered: false,
            largest_acknowledged: None,
            confirmed: false,
            update_from: Duration::ZERO,
        };
        one_rtt.prepare();
        one_rtt
    }

    /// Seals a packet with a short header in place, in the current key phase, and returns its number.
    ///
    /// # Errors
    ///
    /// [`SealError`], with nothing written and no number used. [`SealError::NumberTooShort`] if `outgoing` leaves room for fewer octets of
    /// the number than the peer needs ([`NumberLength::needed`]). After [`SealError::ConfidentialityLimit`] update the keys. If that is not
    /// allowed, close the connection (RFC 9001 §6.6).
    #[inline]
    pub fn seal(&mut self, outgoing: Outgoing<'_>) -> Result<u64, SealError> {
        if let Some(next) = self.next_number() {
            outgoing.number_length.check(next, self.largest_acknowledged)?;
        }
        let number = self.sealer.seal_in_phase(outgoing, self.key_phase())?;
        self.first.get_or_insert(number);
        self.answered = self.opened.is_some();
        self.prepare();
        Ok(number)
    }

    /// Opens a packet with a short header in place: removes the mask, decodes the number, chooses the key, decrypts, and then checks key
    /// phase, reserved bits, that there are frames, and duplicates, all in one step (RFC 9001 §5.5, §6.3 and §9.5). The fixed bit is
    /// [yours to check](Protected::fixed_bit).
    ///
    /// If the peer has updated its keys, this end does too: everything sealed after this call uses the new keys, including
    /// the acknowledgment of this packet (RFC 9001 §6.2).
    ///
    /// # Errors
    ///
    /// [`OpenError`], as for [`Keys::open`], and [`OpenError::Undecryptable`] for a long header. The key phase is unchanged, but the
    /// previous key is wiped if its time is over.
    #[inline]
    pub fn open<'a>(
        &mut self,
        packet: Protected<'a>,
        now: Now,
        space: &mut ReceiveSpace,
        failures: &mut AuthenticationFailures,
    ) -> Result<Opened<'a>, OpenError> {
        self.expire(now.time);
        let expected = (PacketType::OneRtt, self.version());
        let unmasked = Unmasked::new(packet, expected, &self.header_key, space)?;
        let key_phase = unmasked.key_phase();
        let (phase, key) = self.choose(unmasked.number, key_phase);
        let generation = match phase {
            Phase::Previous => self.generation.saturating_sub(1),
            Phase::Current => self.generation,
            Phase::Next => self.generation + 1,
        };
        let authentic = unmasked.open(key, generation, failures)?;
        let number = authentic.number;
        // RFC 9001 §6.4: "Packets with higher packet numbers MUST be protected with either the same or newer packet protection keys than
        // packets with lower packet numbers." To break that is a KEY_UPDATE_ERROR, and so is a bit that does not fit the keys.
        let out_of_order = match (phase, self.opened) {
            (Phase::Previous, Some((lowest, _))) => number >= lowest,
            (Phase::Next, Some((_, highest))) => number <= highest,
            // The peer set the bit of the other phase on a packet of this one.
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
            self.note_opened(number, now);
        }
        Ok(opened)
    }

    /// The one key to try, by the table of [`OneRtt`]. RFC 9001 §6.3: "Endpoints responding to an apparent key update MUST NOT generate a
    /// timing side-channel signal that might indicate that the Key Phase bit was invalid". A packet, forged or not, decides only which stored
    /// key is tried: nothing is derived here.
    fn choose(&self, number: u64, key_phase: bool) -> (Phase, &PacketKey) {
        let is_beyond = self.opened.is_some_and(|(_, highest)| number > highest);
        if key_phase == self.key_phase() {
            (Phase::Current, &self.current)
        } else if let Some(next) = &self.next
            && is_beyond
            && self.answered
        {
            (Phase::Next, &next.open)
        } else if let Some(previous) = &self.previous {
            (Phase::Previous, &previous.key)
        } else if let Some(next) = &self.next {
            (Phase::Next, &next.open)
        } else {
            // Sealing derives the next key. If there is none, this end has sent nothing in this phase, so the peer cannot have updated.
            (Phase::Current, &self.current)
        }
    }

    /// Records that the current key has opened a packet.
    fn note_opened(&mut self, number: u64, now: Now) {
        if let Some((lowest, highest)) = &mut self.opened {
            *lowest = number.min(*lowest);
            *highest = number.max(*highest);
            return;
        }
        self.opened = Some((number, number));
        if let Some(previous) = &mut self.previous {
            previous.expires = Some(now.after_three_probe_timeouts());
        }
    }

    /// Enters the next phase, whose keys already exist: they opened the peer's update, or were derived when this end sealed a packet of the
    /// current phase, as it must before it initiates an update.
    fn advance(&mut self) {
        let next = self.next.take().unwrap_or_else(|| self.derive_next());
        self.sealer.keys.packet_key = next.seal;
        self.sealer.sealed = 0;
        let key = core::mem::replace(&mut self.current, next.open);
        self.previous = Some(Previous { key, expires: None });
        self.generation += 1;
        self.first = None;
        self.acknowledged = false;
        self.opened = None;
        self.answered = false;
    }

    /// Derives the keys of the phase after the latest one (RFC 9001 §6.1), and forgets the secrets of that one.
    fn derive_next(&mut self) -> NextKeys {
        let (backend, version) = (self.backend, self.version());
        let [seal, open] = self.secrets.each_mut().map(|secret| {
            *secret = secret.following(version);
            PacketKey::derive(backend, version, &secret.expander())
        });
        NextKeys { seal, open }
    }

    /// Derives the keys of the next phase in both directions, if they are not derived yet.
    ///
    /// Sealing the next packet does this too; call this when idle to spare that packet the delay. Opening a packet never derives keys,
    /// because that would show in its timing (RFC 9001 §9.5).
    pub fn prepare(&mut self) {
        if self.next.is_none() {
            self.next = Some(self.derive_next());
        }
    }

    /// Call this when the handshake is confirmed (RFC 9001 §4.1.2). From then on keys may be updated.
    pub fn confirm_handshake(&mut self) {
        self.confirmed = true;
    }

    /// Updates the keys of both directions: the next packet is sealed in the new phase (RFC 9001 §6.1).
    ///
    /// # Errors
    ///
    /// [`KeyError`], with nothing changed.
    pub fn initiate_update(&mut self, time: Duration) -> Result<(), KeyError> {
        // RFC 9001 §6.1: "An endpoint MUST NOT initiate a key update prior to having confirmed the handshake".
        if !self.confirmed {
            return Err(KeyError::HandshakeNotConfirmed);
        }
        // RFC 9001 §6.1: "MUST NOT initiate a subsequent key update unless it has received an acknowledgment for a packet that was sent
        // protected with keys from the current key phase." The acknowledgment is in a packet of this phase, so one was opened.
        if self.generation > 0 && !(self.acknowledged && self.opened.is_some()) {
            return Err(KeyError::NotAcknowledged);
        }
        if time < self.update_from {
            return Err(KeyError::TooSoon { from: self.update_from });
        }
        self.advance();
        Ok(())
    }

    /// Call this when a packet opened with the keys of `generation` ([`Opened::generation`]) acknowledges packets up to `largest`. The
    /// numbers sent from now on may be shorter ([`number_length`](Self::number_length)). If one of the packets is of the current phase,
    /// another update becomes possible three probe timeouts later (RFC 9001 §6.1 and §6.5).
    ///
    /// A number that was never sent changes nothing, nor does one that was [skipped](Self::skip_numbers). Close the connection
    /// with PROTOCOL_VIOLATION if an ACK frame has such a number, also below its largest (RFC 9000 §13.1). Numbers below the first of
    /// [`PacketNumberCounter::starting_at`] count as sent.
    ///
    /// # Errors
    ///
    /// [`OpenError::KeyUpdate`], with nothing changed, if a packet under old keys acknowledges one under new keys: the peer did not
    /// answer the update. Close the connection (RFC 9001 §6.2).
    pub fn acknowledged(&mut self, largest: u64, generation: u64, now: Now) -> Result<(), OpenError> {
        // A made-up number could make the next ones too short, and allow an update that the peer does not know of.
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
            // Before the first update, the peer cannot still be busy with an earlier one.
            if self.generation > 0 {
                self.update_from = now.after_three_probe_timeouts();
            }
        }
        Ok(())
    }

    /// Wipes the keys of the previous phase if their time is over (RFC 9001 §6.5). [`open`](Self::open) does this too.
    pub fn expire(&mut self, time: Duration) {
        if self.expires().is_some_and(|expires| expires <= time) {
            self.previous = None;
        }
    }

    /// When the keys of the previous phase will be wiped; `None` if there are none, or no packet of this phase was received yet.
    #[must_use]
    pub fn expires(&self) -> Option<Duration> {
        self.previous.as_ref()?.expires
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
    /// [acknowledged](Self::acknowledged): the peer can decode it even if many later packets arrive before it (RFC 9000 §17.1). You may
    /// send more, or fewer, down to what the peer [needs](NumberLength::needed).
    #[must_use]
    pub fn number_length(&self) -> NumberLength {
        let next = self.next_number().unwrap_or(MAX_PACKET_NUMBER);
        NumberLength::advised(next, self.largest_acknowledged)
    }

    /// Skips the next `count` numbers, like [`PacketNumberCounter::skip`].
    pub fn skip_numbers(&mut self, count: u64) {
        self.sealer.skip_numbers(count);
    }

    /// How many key updates there were, by either end.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// The key phase bit of packets sealed now.
    #[must_use]
    pub const fn key_phase(&self) -> bool {
        self.generation % 2 == 1
    }

    /// The AEAD.
    #[must_use]
    pub const fn algorithm(&self) -> AeadAlgorithm {
        self.sealer.keys.algorithm()
    }

    const fn version(&self) -> Version {
        self.sealer.keys.version
    }
}

/// Everything but keys, secrets and times.
impl fmt::Debug for OneRtt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneRtt")
            .field("version", &self.version())
            .field("sealer", &self.sealer)
            .field("generation", &self.generation)
            .field("first", &self.first)
            .field("acknowledged", &self.acknowledged)
            .field("opened", &self.opened)
            .field("answered", &self.answered)
            .field("largest_acknowledged", &self.largest_acknowledged)
            .field("confirmed", &self.confirmed)
            .field("has_previous_key", &self.previous.is_some())
            .field("has_next_keys", &self.next.is_some())
            .finish_non_exhaustive()
    }
}

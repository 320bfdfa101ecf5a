//! The 1-RTT keys of both directions, and key update (RFC 9001 §6).

mod sealer;
mod state;

use core::fmt;
use core::time::Duration;

use wireseal_algorithms::AeadAlgorithm;

use crate::backend::Backend;
use crate::codec::PacketType;
use crate::error::SealError;
use crate::keys::Keys;
use crate::next_phase::{NextPhase, UpdateError};
use crate::open::{OpenError, Opened, Unmasked};
use crate::packet_key::{HeaderKey, HeaderOctets, PacketKey};
use crate::packet_number::{MAX_PACKET_NUMBER, NumberLength, PacketNumberCounter};
use crate::protected::Protected;
use crate::receive_space::{AuthenticationFailures, ReceiveSpace};
use crate::seal::{Outgoing, Sealer};
use crate::secret::TrafficSecret;
use crate::version::Version;

pub use sealer::OneRttSealer;
pub use state::{OneRttState, StateError};

/// For how many probe timeouts old keys are kept, and the next update has to wait (RFC 9001 §6.5).
const PROBE_TIMEOUTS: u32 = 3;

/// The present time and probe timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The time since an instant that stays the same for the connection.
    pub time: Duration,
    /// The present probe timeout (RFC 9002 §6.2.1).
    pub probe_timeout: Duration,
}

impl Now {
    fn after_probe_timeouts(self) -> Duration {
        self.time.saturating_add(self.probe_timeout.saturating_mul(PROBE_TIMEOUTS))
    }
}

/// The 1-RTT packet protection of a connection in both directions, with key update (RFC 9001 §6). Both directions are in one
/// value because an update by either end updates both.
///
/// [`OneRttSealer::complete_handshake`] makes it, because nothing may be opened earlier (RFC 9001 §5.7); for a connection that was
/// started elsewhere, [`import`](Self::import) does.
///
/// The keys of the next phase are derived before they are needed. A packet with either key phase bit is tried with exactly one
/// key, and opening never derives one, so a forged key phase bit costs no more than any other forgery. The packet number chooses
/// the key:
///
/// | key phase bit | packet number | key |
/// |---|---|---|
/// | as now | any | the present one |
/// | the other | up to the highest that the present key has opened | the previous one |
/// | the other | beyond that, but this end has sealed nothing in this phase, so the peer cannot have gone on | the previous one |
/// | the other | beyond that | the next one: the peer has updated its keys |
/// | the other | any, and the previous key is wiped | the next one |
///
/// So a late packet of the old phase is opened and does not turn the phase back. If it is more than three probe timeouts late, it
/// counts as a failed authentication, because it cannot be told from a forgery.
///
/// It takes at most 4,096 octets, and no heap. Not for multipath, where the packet numbers of different paths are not comparable.
pub struct OneRtt {
    version: Version,
    backend: Backend,
    /// How many key updates there were. The lowest bit is the key phase bit.
    generation: u64,
    send: Sending,
    receive: Receiving,
    confirmed: bool,
    /// A packet was sealed after the first one of this phase was opened, so the peer may have an acknowledgment.
    answered: bool,
    /// No update before this time (RFC 9001 §6.5).
    update_from: Duration,
}

// A server with thousands of connections has one for each.
const _: () = assert!(size_of::<OneRtt>() <= 4096);

/// What all keys of one direction are derived from. The header protection key is that of the first secret (RFC 9001 §6.1), which is
/// not kept.
struct Direction {
    secret: TrafficSecret,
    header_octets: HeaderOctets,
}

struct Sending {
    sealer: Sealer,
    /// For [`export`](OneRtt::export), like all secrets of a present or previous phase.
    header_octets: HeaderOctets,
    next: NextPhase,
    /// The number of the first packet of this phase.
    first: Option<u64>,
    /// Whether a packet of this phase is acknowledged.
    acknowledged: bool,
    /// The largest number acknowledged, in any phase.
    largest_acknowledged: Option<u64>,
}

struct Receiving {
    header_key: HeaderKey,
    header_octets: HeaderOctets,
    previous: Option<Previous>,
    current: PacketKey,
    next: NextPhase,
    /// The lowest and the highest number that `current` has opened.
    opened: Option<(u64, u64)>,
}

struct Previous {
    key: PacketKey,
    secret: TrafficSecret,
    /// Known once the present key has opened a packet.
    expires: Option<Duration>,
}

/// Which of the receive keys was tried.
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
        local: TrafficSecret,
        remote: TrafficSecret,
        counter: PacketNumberCounter,
    ) -> Self {
        let directions = [local, remote].map(|secret| {
            let header_octets = HeaderKey::derive_octets(version, &secret.expander());
            Direction { secret, header_octets }
        });
        Self::from_directions(backend, version, 0, directions, counter)
    }

    /// With the secrets of generation `generation`: what is sent first, then what is received.
    fn from_directions(
        backend: Backend,
        version: Version,
        generation: u64,
        [local, remote]: [Direction; 2],
        counter: PacketNumberCounter,
    ) -> Self {
        let keys = |direction: &Direction| {
            let packet_key = PacketKey::derive(backend, version, &direction.secret.expander());
            let header_key =
                HeaderKey::from_octets(backend, packet_key.algorithm(), &direction.header_octets);
            Keys { packet_key, header_key, packet_type: PacketType::OneRtt, version }
        };
        let (send, receive) = (keys(&local), keys(&remote));
        let mut one_rtt = Self {
            version,
            backend,
            generation,
            send: Sending {
                sealer: Sealer::new(send, counter),
                header_octets: local.header_octets,
                next: NextPhase::after(local.secret, generation),
                first: None,
                acknowledged: false,
                largest_acknowledged: None,
            },
            receive: Receiving {
                header_key: receive.header_key,
                header_octets: remote.header_octets,
                previous: None,
                current: receive.packet_key,
                next: NextPhase::after(remote.secret, generation),
                opened: None,
            },
            confirmed: false,
            answered: false,
            update_from: Duration::ZERO,
        };
        one_rtt.prepare();
        one_rtt
    }

    /// Derives the keys of the next phase in both directions, unless they are there.
    ///
    /// An update leaves them to be derived, because deriving them while opening a packet would show in its timing (RFC 9001
    /// §9.5). Sealing the next packet derives them, which is early enough. Call this when idle to spare that packet the delay.
    pub fn prepare(&mut self) {
        self.send.next.prepare(self.backend, self.version);
        self.receive.next.prepare(self.backend, self.version);
    }

    /// Seals a packet with a short header in place, in the present key phase, and returns its number.
    ///
    /// # Errors
    ///
    /// [`SealError`], with nothing written and no number used. [`SealError::NumberTooShort`] if `outgoing` leaves room for fewer
    /// octets of the number than [`number_length`](Self::number_length). After [`SealError::ConfidentialityLimit`] update the keys. If that
    /// is not allowed, close the connection (RFC 9001 §6.6).
    #[inline]
    pub fn seal(&mut self, outgoing: Outgoing<'_>) -> Result<u64, SealError> {
        if let Some(next) = self.next_number() {
            outgoing.number_length.check(next, self.send.largest_acknowledged)?;
        }
        let number = self.send.sealer.seal_in_phase(outgoing, self.key_phase())?;
        self.send.first.get_or_insert(number);
        self.prepare();
        self.answered |= self.receive.opened.is_some();
        Ok(number)
    }

    /// Opens a packet with a short header: removes the mask, decodes the number, chooses the key by phase and number, decrypts,
    /// and then checks reserved bits and duplicates, all in one step (RFC 9001 §5.5, §6.3 and §9.5).
    ///
    /// If the peer has updated its keys, so does this end: everything sealed after this call returns uses the new keys, including
    /// the acknowledgment of this packet (RFC 9001 §6.2).
    ///
    /// # Errors
    ///
    /// [`OpenError`], as for [`Keys::open`](crate::Keys::open), and [`OpenError::Undecryptable`] for a long header. The key phase
    /// does not change, except that a previous key is wiped if its time is over.
    #[inline]
    pub fn open<'a>(
        &mut self,
        packet: Protected<'a>,
        now: Now,
        space: &mut ReceiveSpace,
        failures: &mut AuthenticationFailures,
    ) -> Result<Opened<'a>, OpenError> {
        self.expire(now.time);
        let expected = (PacketType::OneRtt, self.version);
        let unmasked = Unmasked::new(packet, expected, &self.receive.header_key, space)?;
        let key_phase = unmasked.key_phase();
        let (phase, key) = self.choose(unmasked.number, key_phase);
        let generation = match phase {
            Phase::Previous => self.generation.saturating_sub(1),
            Phase::Current => self.generation,
            Phase::Next => self.generation + 1,
        };
        let authentic = unmasked.open(key, generation, failures)?;
        let number = authentic.number;
        let out_of_order = match (phase, self.receive.opened) {
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
        match phase {
            Phase::Previous => {}
            Phase::Current => self.note_opened(number, now),
            Phase::Next => {
                self.update();
                self.note_opened(number, now);
            }
        }
        Ok(opened)
    }

    /// The one key to try. The choice takes the same time whatever it is.
    fn choose(&self, number: u64, key_phase: bool) -> (Phase, &PacketKey) {
        let Receiving { previous, current, next, opened, .. } = &self.receive;
        if key_phase == self.key_phase() {
            return (Phase::Current, current);
        }
        let beyond = opened.is_some_and(|(_, highest)| number > highest);
        match (previous, next.key()) {
            // The peer has updated its keys, which it may do once it has an acknowledgment of this phase.
            (_, Some(next)) if beyond && self.answered => (Phase::Next, next),
            (Some(previous), _) => (Phase::Previous, &previous.key),
            (None, Some(next)) => (Phase::Next, next),
            // Nothing was sealed in this phase, so the peer cannot have updated its keys.
            (None, None) => (Phase::Current, current),
        }
    }

    /// Records what the present key has opened.
    fn note_opened(&mut self, number: u64, now: Now) {
        let receive = &mut self.receive;
        match &mut receive.opened {
            Some((lowest, highest)) => {
                *lowest = number.min(*lowest);
                *highest = number.max(*highest);
            }
            None => {
                receive.opened = Some((number, number));
                if let Some(previous) = &mut receive.previous {
                    previous.expires = Some(now.after_probe_timeouts());
                }
            }
        }
    }

    /// Enters the next phase in both directions. Its keys have been derived: the peer's update was opened with them, and an
    /// update of this end comes after a packet was sealed in the present phase.
    fn update(&mut self) {
        (self.send.sealer.keys.packet_key, _) = self.send.next.take(self.backend, self.version);
        let (receive, secret) = self.receive.next.take(self.backend, self.version);
        self.send.sealer.sealed = 0;
        self.send.first = None;
        self.send.acknowledged = false;
        let key = core::mem::replace(&mut self.receive.current, receive);
        self.receive.previous = Some(Previous { key, secret, expires: None });
        self.receive.opened = None;
        self.answered = false;
        self.generation += 1;
    }

    /// Call this when the handshake is confirmed (RFC 9001 §4.1.2). From then on keys may be updated.
    pub fn confirm_handshake(&mut self) {
        self.confirmed = true;
    }

    /// Updates the keys of both directions: the next packet is sealed in the new phase (RFC 9001 §6.1).
    ///
    /// # Errors
    ///
    /// [`UpdateError`], with nothing changed.
    pub fn initiate_update(&mut self, time: Duration) -> Result<(), UpdateError> {
        if !self.confirmed {
            return Err(UpdateError::HandshakeNotConfirmed);
        }
        if self.generation > 0 && !self.send.acknowledged {
            return Err(UpdateError::NotAcknowledged);
        }
        if time < self.update_from {
            return Err(UpdateError::TooSoon { from: self.update_from });
        }
        self.update();
        Ok(())
    }

    /// Call this when a packet opened with the keys of `generation` ([`Opened::generation`]) acknowledges packets up to `largest`.
    /// The numbers sent from now on may be shorter ([`number_length`](Self::number_length)). If one of the packets is of the present
    /// phase, another update becomes possible three probe timeouts later (RFC 9001 §6.1 and §6.5).
    ///
    /// A number that was never sent changes nothing.
    ///
    /// # Errors
    ///
    /// [`OpenError::KeyUpdate`], with nothing changed, if a packet under old keys acknowledges one under new keys: the peer did not
    /// answer the update. Close the connection (RFC 9001 §6.2).
    pub fn acknowledged(&mut self, largest: u64, generation: u64, now: Now) -> Result<(), OpenError> {
        // A number that was never sent is for the stack to answer, with PROTOCOL_VIOLATION (RFC 9000 §13.1).
        if largest >= self.next_number().unwrap_or(MAX_PACKET_NUMBER + 1) {
            return Ok(());
        }
        let of_this_phase = self.send.first.is_some_and(|first| largest >= first);
        if of_this_phase && generation < self.generation {
            return Err(OpenError::KeyUpdate);
        }
        self.send.largest_acknowledged = self.send.largest_acknowledged.max(Some(largest));
        if of_this_phase && !self.send.acknowledged {
            self.send.acknowledged = true;
            // Before the first update there is no update that the peer could still be busy with.
            if self.generation > 0 {
                self.update_from = now.after_probe_timeouts();
            }
        }
        Ok(())
    }

    /// Wipes the keys of the previous phase if their time is over (RFC 9001 §6.5). [`open`](Self::open) does this too.
    pub fn expire(&mut self, time: Duration) {
        if self.expires().is_some_and(|expires| expires <= time) {
            self.receive.previous = None;
        }
    }

    /// When the keys of the previous phase are to be wiped; `None` if there are none, or no packet of this phase was received yet.
    #[must_use]
    pub fn expires(&self) -> Option<Duration> {
        self.receive.previous.as_ref()?.expires
    }

    /// Whether half of the packets that the confidentiality limit allows are sealed: time to
    /// [update](Self::initiate_update) (RFC 9001 §6.6).
    #[must_use]
    pub fn update_due(&self) -> bool {
        let limit = self.algorithm().confidentiality_limit();
        limit.is_some_and(|limit| self.send.sealer.sealed >= limit / 2)
    }

    /// How many packets may still be sealed in this phase (RFC 9001 §6.6); `None` if there is no limit.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.send.sealer.remaining()
    }

    /// The number of the next packet, or `None` when all are used.
    #[must_use]
    pub const fn next_number(&self) -> Option<u64> {
        self.send.sealer.next_number()
    }

    /// How many octets of its number the next packet needs at least, so that the peer can decode it (RFC 9000 §17.1 and §A.2): this
    /// depends on what was [acknowledged](Self::acknowledged). More are allowed, fewer are not sealed.
    #[must_use]
    pub fn number_length(&self) -> NumberLength {
        let next = self.next_number().unwrap_or(MAX_PACKET_NUMBER);
        NumberLength::needed(next, self.send.largest_acknowledged)
    }

    /// Leaves out the next `count` numbers (RFC 9000 §21.4).
    pub fn skip_numbers(&mut self, count: u64) {
        self.send.sealer.skip_numbers(count);
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

    /// For how many phases keys were derived, in the direction that is ahead: two at the start, the present one and the next. An
    /// update adds one when the next keys are [prepared](Self::prepare). Opening a packet never adds one.
    #[must_use]
    pub fn derivations(&self) -> u64 {
        1 + self.send.next.derivations.max(self.receive.next.derivations)
    }

    /// The AEAD.
    #[must_use]
    pub const fn algorithm(&self) -> AeadAlgorithm {
        self.send.sealer.keys.algorithm()
    }
}

impl fmt::Debug for OneRtt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneRtt")
            .field("version", &self.version)
            .field("algorithm", &self.algorithm())
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

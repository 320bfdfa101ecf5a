//! The 1-RTT keys of both directions, and how they are updated (RFC 9001, section 6).

use core::fmt;
use core::ops::Range;
use core::time::Duration;

use wireseal_algorithms::AeadAlgorithm;

use crate::backend::Backend;
use crate::header::LONG_FORM;
use crate::keys::{Keys, unmask_batch};
use crate::open::{AuthenticationFailures, OpenError, Opened, ReceiveSpace, Unmasked};
use crate::packet_key::{HeaderKey, PacketKey};
use crate::packet_number::PacketNumberCounter;
use crate::protected::{PacketType, Protected};
use crate::seal::{Outgoing, SealError, Sealing};
use crate::secret::{Expander, TrafficSecret};
use crate::version::Version;

/// How many probe timeouts old keys are kept, and an update waits after the last (RFC 9001, section 6.5).
const PROBE_TIMEOUTS: u32 = 3;

/// What the machine has to know of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The time since any instant that stays the same for the connection.
    pub time: Duration,
    /// The probe timeout as it is at present (RFC 9002, section 6.2.1).
    pub probe_timeout: Duration,
}

impl Now {
    fn after_probe_timeouts(self) -> Duration {
        self.time.saturating_add(self.probe_timeout.saturating_mul(PROBE_TIMEOUTS))
    }
}

/// The 1-RTT packet protection of a connection, both directions, with all of key update (RFC 9001, section 6).
///
/// The keys of the next phase are always there before they are needed: a packet with another key phase bit is tried with
/// exactly one key, like any other, and only if it is authentic are new keys derived. A packet with a forged key phase bit
/// thus costs what any forgery costs. Which key is tried follows from the packet number:
///
/// | key phase bit | packet number | key |
/// |---|---|---|
/// | as it is now | any | the present one |
/// | the other | before what the present key has opened so far | the previous one |
/// | the other | beyond that | the next one: the peer has updated its keys |
///
/// So a packet of the old phase that comes late is opened, and does not turn the phase back.
///
/// It has at most 4,096 octets, on the stack or wherever the caller puts it.
///
/// Not for multipath: there packet numbers of different paths say nothing about each other.
pub struct OneRtt {
    version: Version,
    backend: Backend,
    /// How many key updates there were; the key phase bit is its lowest bit.
    generation: u64,
    derivations: u64,
    send: Sending,
    receive: Receiving,
    confirmed: bool,
    /// A packet was sealed after the first one of this phase was opened, so that the peer may have had an acknowledgment.
    answered: bool,
    /// No update before this time (RFC 9001, section 6.5).
    update_from: Duration,
}

// A server with thousands of connections has one of these for each.
const _: () = assert!(size_of::<OneRtt>() <= 4096);

struct Sending {
    sealing: Sealing,
    upcoming: Upcoming,
    /// The number of the first packet of this phase.
    first: Option<u64>,
    acknowledged: bool,
}

struct Receiving {
    header_key: HeaderKey,
    previous: Option<Previous>,
    current: PacketKey,
    upcoming: Upcoming,
    /// The lowest and the highest number that `current` has opened.
    opened: Option<(u64, u64)>,
}

/// The keys of the next phase, and what those of the phase after it come from. No earlier secret is kept.
struct Upcoming {
    key: PacketKey,
    /// Of the phase after the key's.
    secret: TrafficSecret,
}

impl Upcoming {
    /// What follows the phase of `secret`.
    fn new(backend: Backend, version: Version, secret: &Expander) -> Self {
        let following = secret.next(version).expander();
        Self { key: PacketKey::derive(backend, version, &following), secret: following.next(version) }
    }

    /// The key of the next phase, with that of the one after it in its place.
    fn advance(&mut self, backend: Backend, version: Version) -> PacketKey {
        let secret = self.secret.expander();
        self.secret = secret.next(version);
        core::mem::replace(&mut self.key, PacketKey::derive(backend, version, &secret))
    }
}

struct Previous {
    key: PacketKey,
    /// Once the present key has opened a packet.
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
    /// The packet protection that the two application traffic secrets give, `local` for what this end sends; for the active
    /// backend. Derives the keys of this phase and of the next.
    ///
    /// `counter` is a new one, or that of 0-RTT, which shares its packet number space (RFC 9000, section 12.3).
    /// A server may seal as soon as it has the secrets, and must open nothing before the handshake is complete (RFC 9001,
    /// section 5.7).
    #[must_use]
    pub fn new(
        version: Version,
        local: TrafficSecret,
        remote: TrafficSecret,
        counter: PacketNumberCounter,
    ) -> Self {
        Self::with_backend(Backend::active(), version, local, remote, counter)
    }

    /// As [`new`](Self::new), for a backend of the caller's choice.
    #[must_use]
    pub fn with_backend(
        backend: Backend,
        version: Version,
        local: TrafficSecret,
        remote: TrafficSecret,
        counter: PacketNumberCounter,
    ) -> Self {
        let [send, receive] = [local, remote].map(|secret| {
            let secret = secret.expander();
            (Keys::derive(backend, version, &secret), Upcoming::new(backend, version, &secret))
        });
        Self {
            version,
            backend,
            generation: 0,
            derivations: 2,
            send: Sending {
                sealing: Sealing::new(send.0.packet_key, send.0.header_key, counter),
                upcoming: send.1,
                first: None,
                acknowledged: false,
            },
            receive: Receiving {
                header_key: receive.0.header_key,
                previous: None,
                current: receive.0.packet_key,
                upcoming: receive.1,
                opened: None,
            },
            confirmed: false,
            answered: false,
            update_from: Duration::ZERO,
        }
    }

    /// Seals a packet with a short header where it lies, with the present key phase, and returns its number.
    ///
    /// # Errors
    ///
    /// [`SealError`], with nothing written and no number used. After [`SealError::ConfidentialityLimit`] only a key update
    /// helps; where that is not allowed either, the connection has to be closed (RFC 9001, section 6.6).
    #[inline]
    pub fn seal(&mut self, outgoing: Outgoing<'_>) -> Result<u64, SealError> {
        short_header(&outgoing)?;
        let number = self.send.sealing.seal(outgoing, self.key_phase())?;
        self.note_sealed(number);
        Ok(number)
    }

    /// As [`seal`](Self::seal), with the payload gathered from `slices`, whose octets together fill the place between packet
    /// number and tag.
    ///
    /// # Errors
    ///
    /// As of [`seal`](Self::seal).
    pub fn seal_scattered(&mut self, outgoing: Outgoing<'_>, slices: &[&[u8]]) -> Result<u64, SealError> {
        short_header(&outgoing)?;
        let number = self.send.sealing.seal_scattered(outgoing, slices, self.key_phase())?;
        self.note_sealed(number);
        Ok(number)
    }

    /// Seals a train of packets with consecutive numbers, which are returned; header masks are made together.
    ///
    /// # Errors
    ///
    /// As of [`seal`](Self::seal), if any of them cannot be sealed.
    pub fn seal_batch(&mut self, batch: &mut [Outgoing<'_>]) -> Result<Range<u64>, SealError> {
        batch.iter().try_for_each(short_header)?;
        let numbers = self.send.sealing.seal_batch(batch, self.key_phase())?;
        if !numbers.is_empty() {
            self.note_sealed(numbers.start);
        }
        Ok(numbers)
    }

    fn note_sealed(&mut self, number: u64) {
        self.send.first.get_or_insert(number);
        self.answered |= self.receive.opened.is_some();
    }

    /// Opens a packet with a short header: removes the mask, decodes the number, picks the key by phase and number, decrypts,
    /// and judges reserved bits, duplicates and limits, in one step (RFC 9001, section 5.5, 6.3 and 9.5).
    ///
    /// If the peer has updated its keys, so does this end: from the return on, packets are sealed with the new keys, before
    /// the acknowledgment of this packet can go out (RFC 9001, section 6.2).
    ///
    /// # Errors
    ///
    /// [`OpenError`], as of [`Keys::open`](crate::Keys::open); nothing of the key phase has changed then.
    /// [`OpenError::Undecryptable`] for a long header.
    pub fn open<'a>(
        &mut self,
        packet: Protected<'a>,
        now: Now,
        space: &mut ReceiveSpace,
        failures: &mut AuthenticationFailures,
    ) -> Result<Opened<'a>, OpenError> {
        if packet.packet_type() != PacketType::OneRtt {
            return Err(OpenError::Undecryptable);
        }
        self.expire(now.time);
        let unmasked = Unmasked::new(packet, &self.receive.header_key, space)?;
        let phase = self.choose(unmasked.number, unmasked.key_phase());
        let (key, generation) = match (phase, &self.receive.previous) {
            (Phase::Previous, Some(previous)) => (&previous.key, self.generation - 1),
            (Phase::Next, _) => (&self.receive.upcoming.key, self.generation + 1),
            (Phase::Current | Phase::Previous, _) => (&self.receive.current, self.generation),
        };
        let authentic = unmasked.open(key, generation, failures)?;
        let number = authentic.number;
        let out_of_order = match (phase, self.receive.opened) {
            (Phase::Previous, Some((lowest, _))) => number >= lowest,
            (Phase::Next, Some((_, highest))) => number <= highest,
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

    /// The one key to try. It depends on nothing that takes time to find out.
    fn choose(&self, number: u64, key_phase: bool) -> Phase {
        if key_phase == self.key_phase() {
            return Phase::Current;
        }
        match (&self.receive.previous, self.receive.opened) {
            // What the present key has opened lies behind: the peer has updated, if it may have had our acknowledgment.
            (_, Some((_, highest))) if number > highest && self.answered => Phase::Next,
            (Some(_), _) => Phase::Previous,
            (None, _) => Phase::Next,
        }
    }

    /// The present key has opened a packet.
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

    /// Goes on to the next phase in both directions, and derives the keys of the one after it.
    fn update(&mut self) {
        let Sending { sealing, upcoming, first, acknowledged } = &mut self.send;
        sealing.packet_key = upcoming.advance(self.backend, self.version);
        sealing.sealed = 0;
        *first = None;
        *acknowledged = false;
        let Receiving { previous, current, upcoming, opened, .. } = &mut self.receive;
        let new = upcoming.advance(self.backend, self.version);
        *previous = Some(Previous { key: core::mem::replace(current, new), expires: None });
        *opened = None;
        self.answered = false;
        self.generation += 1;
        self.derivations += 1;
    }

    /// The handshake is confirmed (RFC 9001, section 4.1.2): keys may be updated from now on.
    pub fn confirm_handshake(&mut self) {
        self.confirmed = true;
    }

    /// Updates the keys of both directions: the next packet is sealed in the new phase (RFC 9001, section 6.1).
    ///
    /// # Errors
    ///
    /// [`UpdateError`], with nothing changed.
    pub fn initiate_update(&mut self, now: Duration) -> Result<(), UpdateError> {
        if !self.confirmed {
            return Err(UpdateError::HandshakeNotConfirmed);
        }
        if self.generation > 0 && !self.send.acknowledged {
            return Err(UpdateError::NotAcknowledged);
        }
        if now < self.update_from {
            return Err(UpdateError::TooSoon { from: self.update_from });
        }
        self.update();
        Ok(())
    }

    /// An acknowledgment of `largest` was read from a packet that was opened with the keys of `generation`
    /// ([`Opened::generation`]). If it acknowledges a packet of the present phase, another update becomes possible, three probe
    /// timeouts later (RFC 9001, section 6.1 and 6.5).
    ///
    /// # Errors
    ///
    /// [`OpenError::KeyUpdate`] if a packet under old keys acknowledges one under new keys: the peer did not answer the update,
    /// and the connection has to be closed (RFC 9001, section 6.2).
    pub fn acknowledged(&mut self, largest: u64, generation: u64, now: Now) -> Result<(), OpenError> {
        let of_this_phase = self.send.first.is_some_and(|first| {
            // What was never sent, the stack itself answers with PROTOCOL_VIOLATION (RFC 9000, section 13.1).
            largest >= first && self.send.sealing.counter.peek().is_none_or(|next| largest < next)
        });
        if !of_this_phase {
            return Ok(());
        }
        if generation < self.generation {
            return Err(OpenError::KeyUpdate);
        }
        if !self.send.acknowledged {
            self.send.acknowledged = true;
            // Before the first update there is none that the peer could still be busy with.
            if self.generation > 0 {
                self.update_from = now.after_probe_timeouts();
            }
        }
        Ok(())
    }

    /// Wipes the keys of the phase before this one, if their time is over (RFC 9001, section 6.5). [`open`](Self::open) does so
    /// by itself.
    pub fn expire(&mut self, now: Duration) {
        if self.expires().is_some_and(|expires| expires <= now) {
            self.receive.previous = None;
        }
    }

    /// When the keys of the phase before this one are to be wiped; `None` if there are none, or if no packet of this phase
    /// was received yet.
    #[must_use]
    pub fn expires(&self) -> Option<Duration> {
        self.receive.previous.as_ref()?.expires
    }

    /// Whether half of the packets that the confidentiality limit allows are sealed: time for
    /// [`initiate_update`](Self::initiate_update) (RFC 9001, section 6.6).
    #[must_use]
    pub fn update_due(&self) -> bool {
        let limit = self.algorithm().confidentiality_limit();
        limit.is_some_and(|limit| self.send.sealing.sealed >= limit / 2)
    }

    /// How many packets may still be sealed in this phase (RFC 9001, section 6.6); `None` without limit.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.send.sealing.remaining()
    }

    /// The number of the next packet, or `None` when all are used.
    #[must_use]
    pub const fn next_number(&self) -> Option<u64> {
        self.send.sealing.counter.peek()
    }

    /// Leaves out the next `count` numbers (RFC 9000, section 21.4).
    pub fn skip_numbers(&mut self, count: u64) {
        self.send.sealing.counter.skip(count);
    }

    /// How many key updates there were, by either end.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// The key phase bit of packets that are sealed now.
    #[must_use]
    pub const fn key_phase(&self) -> bool {
        self.generation % 2 == 1
    }

    /// How often keys of a phase were derived, both directions together: twice at the start, once with each update, and never
    /// for a packet that was not authentic.
    #[must_use]
    pub const fn derivations(&self) -> u64 {
        self.derivations
    }

    /// The AEAD.
    #[must_use]
    pub const fn algorithm(&self) -> AeadAlgorithm {
        self.send.sealing.packet_key.algorithm()
    }

    /// Makes the header masks of many packets together, for [`open`](Self::open) to use. Packets too short for a sample are
    /// passed over.
    pub fn unmask_batch(&self, packets: &mut [Protected<'_>]) {
        unmask_batch(&self.receive.header_key, packets);
    }
}

fn short_header(outgoing: &Outgoing<'_>) -> Result<(), SealError> {
    match outgoing.packet.first() {
        Some(first) if first & LONG_FORM != 0 => Err(SealError::LongHeader),
        _ => Ok(()),
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

/// Why keys were not updated. The caller is to blame or has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpdateError {
    /// Not before the handshake is confirmed (RFC 9001, section 6.1).
    HandshakeNotConfirmed,
    /// No packet of the present phase was acknowledged yet (RFC 9001, section 6.1).
    NotAcknowledged,
    /// The peer may still need its old keys (RFC 9001, section 6.5).
    TooSoon {
        /// When it will be possible.
        from: Duration,
    },
}

impl fmt::Display for UpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HandshakeNotConfirmed => f.write_str("the handshake is not confirmed"),
            Self::NotAcknowledged => f.write_str("no packet of this key phase was acknowledged"),
            Self::TooSoon { from } => {
                write!(
                    f,
                    "the next key update has to wait until {from:?}, three probe timeouts after the last"
                )
            }
        }
    }
}

impl core::error::Error for UpdateError {}

//! The 1-RTT keys of both directions, and how they are updated (RFC 9001, section 6).

use core::fmt;
use core::time::Duration;

use wireseal_algorithms::AeadAlgorithm;

use crate::backend::Backend;
use crate::keys::Keys;
use crate::open::{AuthenticationFailures, OpenError, Opened, ReceiveSpace, Unmasked};
use crate::packet_key::{HeaderKey, PacketKey};
use crate::packet_number::PacketNumberCounter;
use crate::protected::{PacketType, Protected};
use crate::seal::{Outgoing, SealError, Sealing};
use crate::secret::TrafficSecret;
use crate::upcoming::{Upcoming, UpdateError};
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
/// The keys of the next phase are there before they are needed: a packet with another key phase bit is tried with exactly one
/// key, like any other, and opening never derives one. A packet with a forged key phase bit thus costs what any forgery costs,
/// and one that begins a phase little more than any other packet: the keys move up. Which key is tried follows from the packet
/// number:
///
/// | key phase bit | packet number | key |
/// |---|---|---|
/// | as it is now | any | the present one |
/// | the other | up to the highest that the present key has opened | the previous one |
/// | the other | beyond that, but this end has sealed nothing since, so that the peer cannot have gone on | the previous one |
/// | the other | beyond that | the next one: the peer has updated its keys |
/// | the other | any, and the previous key is wiped | the next one |
///
/// So a packet of the old phase that comes late is opened, and does not turn the phase back. One that comes later than three
/// probe timeouts counts as a failed authentication, since nobody can tell it from a forgery any more.
///
/// Both directions are in one value, because an update by either end updates both.
///
/// It has at most 4,096 octets, on the stack or wherever the caller puts it.
///
/// Not for multipath: there packet numbers of different paths say nothing about each other.
pub struct OneRtt {
    version: Version,
    backend: Backend,
    /// How many key updates there were; the key phase bit is its lowest bit.
    generation: u64,
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
    /// The packet protection that the two application traffic secrets of one cipher suite give, `local` for what this end sends;
    /// for the active backend. Derives the keys of this phase and of the next.
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
        let keys =
            |secret: &TrafficSecret| Keys::derive(backend, version, PacketType::OneRtt, &secret.expander());
        let (send, receive) = (keys(&local), keys(&remote));
        let mut one_rtt = Self {
            version,
            backend,
            generation: 0,
            send: Sending {
                sealing: Sealing::new(send, counter),
                upcoming: Upcoming::after(local),
                first: None,
                acknowledged: false,
            },
            receive: Receiving {
                header_key: receive.header_key,
                previous: None,
                current: receive.packet_key,
                upcoming: Upcoming::after(remote),
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
    /// After an update they are not, since deriving them while a packet is opened would show in the time that this takes (RFC
    /// 9001, section 9.5). The next call that seals a packet derives them, before the peer can have reason to use them; whoever
    /// calls this when nothing waits keeps that packet from waiting as well.
    pub fn prepare(&mut self) {
        self.send.upcoming.prepare(self.backend, self.version);
        self.receive.upcoming.prepare(self.backend, self.version);
    }

    /// Seals a packet with a short header where it lies, with the present key phase, and returns its number.
    ///
    /// # Errors
    ///
    /// [`SealError`], with nothing written and no number used. After [`SealError::ConfidentialityLimit`] only a key update
    /// helps; where that is not allowed either, the connection has to be closed (RFC 9001, section 6.6).
    #[inline]
    pub fn seal(&mut self, outgoing: Outgoing<'_>) -> Result<u64, SealError> {
        let number = self.send.sealing.seal(outgoing, self.key_phase())?;
        self.note_sealed(number);
        Ok(number)
    }

    fn note_sealed(&mut self, number: u64) {
        self.send.first.get_or_insert(number);
        self.prepare();
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
    /// [`OpenError`], as of [`Keys::open`](crate::Keys::open); nothing of the key phase has changed then, but that a previous key
    /// whose time is over is wiped.
    /// [`OpenError::Undecryptable`] for a long header.
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
            // A peer that put the other phase's bit on a packet of this one.
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

    /// The one key to try. It depends on nothing that takes time to find out.
    fn choose(&self, number: u64, key_phase: bool) -> (Phase, &PacketKey) {
        let Receiving { previous, current, upcoming, opened, .. } = &self.receive;
        if key_phase == self.key_phase() {
            return (Phase::Current, current);
        }
        let beyond = opened.is_some_and(|(_, highest)| number > highest);
        match (previous, &upcoming.key) {
            // The peer has updated its keys, if it may have had an acknowledgment of this phase.
            (_, Some(next)) if beyond && self.answered => (Phase::Next, next),
            (Some(previous), _) => (Phase::Previous, &previous.key),
            (None, Some(next)) => (Phase::Next, next),
            // Nothing was sealed in this phase, so that the peer cannot have gone on to the next.
            (None, None) => (Phase::Current, current),
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

    /// Goes on to the next phase in both directions. Its keys are there: a peer is followed with them, and an update of our own
    /// comes after a packet was sealed in the present phase.
    fn update(&mut self) {
        let keys = (self.send.upcoming.key.take(), self.receive.upcoming.key.take());
        let (Some(send), Some(receive)) = keys else { return };
        self.send.sealing.keys.packet_key = send;
        self.send.sealing.sealed = 0;
        self.send.first = None;
        self.send.acknowledged = false;
        let key = core::mem::replace(&mut self.receive.current, receive);
        self.receive.previous = Some(Previous { key, expires: None });
        self.receive.opened = None;
        self.answered = false;
        self.generation += 1;
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
    pub fn expire(&mut self, time: Duration) {
        if self.expires().is_some_and(|expires| expires <= time) {
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

    /// How many phases keys were derived for, in the direction that is ahead: two at the start, the present one and the next. An
    /// update adds one as soon as the next keys are [prepared](Self::prepare), and opening a packet never does.
    #[must_use]
    pub fn derivations(&self) -> u64 {
        1 + self.send.upcoming.derivations.max(self.receive.upcoming.derivations)
    }

    /// The AEAD.
    #[must_use]
    pub const fn algorithm(&self) -> AeadAlgorithm {
        self.send.sealing.keys.algorithm()
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
